"""Measures one window at a time: begins, samples and reads every sensor of a plant.

A part of the loop: together they are the only code that waits. The samples of different sensors have due times of
their own; each period is drawn within 5 % of its length, so that sampling does not beat with a periodic load. To wake
costs more than to sample, so a sensor that is nearly due is sampled with the others. Nothing is allocated per
sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from random import Random

from trimtab.core.metric import metric
from trimtab.core.plant import Plant, Sensor
from trimtab.core.window import Configuration, Readings, Window
from trimtab.errors import NotMeasured, TrimtabError, UsageError

LONGEST_SLEEP_S = 0.5
"""A request to stop is heeded after this time at the latest."""

_JITTER = 0.05
_NEARLY, _NEARLY_S = 0.25, 0.005
"""A sensor may be sampled this share of its period, at most this time, before it is due, to share a wake-up."""


class Stop:
    """A request to end the run, set by a signal handler and heeded where the loop waits, never inside an apply."""

    __slots__ = ("reason",)

    def __init__(self) -> None:
        self.reason = ""

    def __bool__(self) -> bool:
        return self.reason != ""


class _Due:
    """A sensor in the window under way."""

    __slots__ = ("next_s", "period_s", "problem", "sensor", "slack_s")

    def __init__(self, sensor: Sensor) -> None:
        self.sensor = sensor
        self.period_s = sensor.sampling_period_s
        self.slack_s = min(_NEARLY * self.period_s, _NEARLY_S)
        self.next_s = math.inf
        self.problem = ""


class Observer:
    """Measures the windows of one run.

    Args:
        plant: what to observe; its clock is the only one used.
        stop: ends a wait.
        seed: source of the jitter of the sampling times.
        elapsed_s: what the run's clock shows now, in seconds.
    """

    def __init__(self, plant: Plant, stop: Stop, seed: int, elapsed_s: float = 0.0) -> None:
        self._clock = plant.clock
        self._plant = plant
        self._stop = stop
        self._random = Random(seed)
        self._sensors = [_Due(sensor) for sensor in plant.sensors()]
        self._origin_s = plant.clock.now_s() - elapsed_s

    def now_s(self) -> float:
        """Seconds since the run began."""
        return self._clock.now_s() - self._origin_s

    def wait(self, until_s: float, sampled: Iterable[_Due] = ()) -> None:
        """Returns at `until_s` of the run's clock, or when the run is to stop; samples what is due meanwhile."""
        clock, stop = self._clock, self._stop
        until_s += self._origin_s
        while not stop:
            now_s = clock.now_s()
            if now_s >= until_s:
                return
            next_s = min(until_s, now_s + LONGEST_SLEEP_S)
            for due in sampled:
                if due.next_s <= now_s + due.slack_s:
                    self._sample(due)
                if due.next_s < next_s:
                    next_s = due.next_s
            clock.sleep(max(0.0, next_s - clock.now_s()))

    def window(
        self,
        index: int,
        duration_s: float,
        configuration: Configuration,
        early: float,
        abort: Callable[[Window], str],
    ) -> Window | None:
        """One window, or None when the run is to stop.

        Args:
            index: its index.
            duration_s: how long it is to last, in seconds.
            configuration: what is in force.
            early: share of the duration after which the cheap sensors are read and `abort` is asked; 0 for never.
            abort: why the window should be cut short, or an empty string.
        """
        self._begin()
        start_s = self.now_s()
        sampled = [due for due in self._sensors if due.next_s < math.inf]
        aborted = ""
        if early > 0:
            self.wait(start_s + early * duration_s, sampled)
            if not self._stop:
                cheap = [due for due in self._sensors if due.sensor.cheap]
                aborted = abort(self._assemble(index, start_s, configuration, cheap))
        if not aborted:
            self.wait(start_s + duration_s, sampled)
        return None if self._stop else self._assemble(index, start_s, configuration, self._sensors, aborted)

    def _begin(self) -> None:
        """Begins every sensor; one that cannot be read sits this window out."""
        for due in self._sensors:
            due.problem, due.next_s = "", math.inf
            try:
                due.sensor.begin()
            except NotMeasured as error:
                due.problem = f"{due.sensor.name}: {error}"
                continue
            if due.period_s > 0:
                due.next_s = self._clock.now_s()

    def _sample(self, due: _Due) -> None:
        """Takes one sample and sets the time of the next; a sensor that cannot sits out the rest of this window."""
        now_s = self._clock.now_s()
        due.next_s = now_s + due.period_s * (1 + _JITTER * (2 * self._random.random() - 1))
        try:
            due.sensor.sample()
        except NotMeasured as error:
            due.problem = f"{due.sensor.name}: {error}"
            due.next_s = math.inf

    def _assemble(
        self, index: int, start_s: float, configuration: Configuration, sensors: list[_Due], aborted: str = ""
    ) -> Window:
        """The window from its start until now, out of the given sensors."""
        duration_s = self.now_s() - start_s
        readings: dict[str, float] = {}
        problems: list[str] = []
        for due in sensors:
            if not due.problem:
                try:
                    _merge(readings, due.sensor.read(), due.sensor.name, problems)
                    continue
                except NotMeasured as error:
                    problems.append(f"{due.sensor.name}: {error}")
            else:
                problems.append(due.problem)
        _merge(readings, self._plant.derive(readings), self._plant.name, problems)
        rate_hz = readings.get("request_rate_hz")
        samples = None if rate_hz is None else round(rate_hz * duration_s)
        return Window(index, start_s, duration_s, configuration, readings, samples, tuple(problems), aborted)


def _merge(readings: dict[str, float], new: Readings, source: str, problems: list[str]) -> None:
    """Adds `new` to `readings`.

    Raises:
        TrimtabError: a reading's name is not a metric.
    """
    for name, value in new.items():
        try:
            metric(name)
        except UsageError as error:
            raise TrimtabError(f"{source} gave a reading that is no metric of trimtab: {error}") from None
        if math.isfinite(value):
            readings[name] = value
        else:
            problems.append(f"{source}: {name} came out as {value}")
