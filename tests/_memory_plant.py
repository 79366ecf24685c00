"""A plant in memory with a clock of its own: no server, no process, no waiting."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from trimtab.core import (
    Applied,
    Clock,
    Configuration,
    Domain,
    How,
    Knob,
    Move,
    Objective,
    Plant,
    Precedence,
    Prepared,
    Readings,
    Role,
    Sensor,
    Trial,
)
from trimtab.errors import NotMeasured, TrimtabError
from trimtab.metrics import known, metric
from trimtab.sensors._metrics import BURST_LENGTH

_LIMIT = ("workers", "Workers", "workers", Domain(1, 100), 10)
WORKERS = Knob(*_LIMIT, How.LIVE, "nothing", "Workers of the plant.", Role.WORKER_LIMIT)
TIMEOUT = Knob("timeout", "Timeout", "ms", Domain(0, 5000), 100, How.LIVE, "nothing", "Timeout of the plant.")


class FakeClock:
    """Time that passes when somebody sleeps; calls what is due on the way."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sleeps = 0
        self.at: list[tuple[float, Callable[[], None]]] = []

    def now_s(self) -> float:
        return self.now

    def sleep(self, duration_s: float) -> None:
        assert duration_s >= 0
        self.now += duration_s
        self.sleeps += 1
        for due in [due for due in self.at if due[0] <= self.now - 100.0]:
            self.at.remove(due)
            due[1]()


class StillClock:
    """Time that only the test moves, for what does not wait."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def now_s(self) -> float:
        return self.seconds

    def sleep(self, duration_s: float) -> None:
        raise AssertionError("a sensor does not wait")


class FakeSensor(Sensor):
    """Reads what a function gives, and counts its samples; it declares these metrics, or all that there are."""

    def __init__(
        self,
        read: Callable[[], Readings],
        name: str = "fake",
        period_s: float = 0.0,
        cheap: bool = True,
        gives: str | None = None,
        precedence: Precedence = Precedence.COUNTED,
        node: str = "",
    ) -> None:
        self.name, self.sampling_period_s, self.cheap = name, period_s, cheap
        self.precedence, self.node = precedence, node
        self.metrics = tuple(known().values()) if gives is None else tuple(map(metric, gives.split()))
        self._read = read
        self.samples = self.reads = self.begun = 0
        self.refuses_to_begin = ""

    def begin(self) -> None:
        self.begun += 1
        self.samples = 0
        if self.refuses_to_begin:
            raise NotMeasured(self.refuses_to_begin)

    def sample(self) -> None:
        self.samples += 1

    def read(self) -> Readings:
        self.reads += 1
        return self._read()

    def close(self) -> None:
        pass


class MemoryPlant(Plant):
    """Response time is (workers - 40)^2 / 1000 + 0.1 s; every error can be put in its way."""

    name = "memory"
    metrics = (BURST_LENGTH,)

    def __init__(self, *sensors: FakeSensor) -> None:
        self.fake_clock = FakeClock()
        self.clock: Clock = self.fake_clock
        self.values = {"workers": 10, "timeout": 100}
        self.applied: list[dict[str, int]] = []
        self.restored = 0
        self.apply_error: TrimtabError | None = None
        self.configuration_error: TrimtabError | None = None
        self.restore_error: Exception | None = None
        self._sensors = sensors or (FakeSensor(self.readings),)

    def readings(self) -> Readings:
        return {"response_time_s": (self.values["workers"] - 40) ** 2 / 1000 + 0.1, "request_rate_hz": 20.0}

    def knobs(self) -> tuple[Knob, ...]:
        return (WORKERS, TIMEOUT)

    def configuration(self) -> Configuration:
        if self.configuration_error is not None:
            raise self.configuration_error
        return dict(self.values)

    def derive(self, readings: Readings) -> Readings:
        return {"burst_length": 2.0} if "response_time_s" in readings else {}

    def commit(self, prepared: Prepared) -> Applied:
        if self.apply_error is not None:
            raise self.apply_error
        self.values.update(prepared.changes)
        self.applied.append(dict(prepared.changes))
        return Applied(dict(self.values), 0.01, ("took effect",))

    def restore(self) -> None:
        if self.restore_error is not None:
            raise self.restore_error
        self.restored += 1

    def close(self) -> None:
        pass

    def undo_script(self) -> str:
        return "#!/bin/sh\ntrue\n"


class Bounded(MemoryPlant):
    """A plant that has room for 24 workers."""

    def objection(self, configuration: Mapping[str, int]) -> str:
        return "there is room for 24 workers" if configuration["workers"] > 24 else ""


@dataclasses.dataclass(frozen=True)
class Climber:
    """A controller that adds ten to its first knob in each window."""

    objective: Objective
    stride: int = 10

    def start(self, knobs: tuple[Knob, ...], seed: int) -> str:
        return knobs[0].name

    def step(self, state: str, trial: Trial) -> tuple[str, Move]:
        window = trial.window
        value = window.configuration[state]
        return state, Move({state: value + self.stride}, f"{state} was {value}")
