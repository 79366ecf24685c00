"""Measures one window at a time: begins, samples and reads every sensor of a plant.

A part of the loop: together they are the only code that waits. The samples of different sensors have due times of
their own; each period is drawn within 5 % of its length, so that sampling does not beat with a periodic load. To wake
costs more than to sample, so a sensor that is nearly due is sampled with the others. Nothing is allocated per
sample.

`Window.measured` holds every reading of every source and node. `Window.readings`, by which decisions go, holds one
value for each metric: of the plant's own node, that of the sensor of the greatest precedence that measured it in this
window, and where none did, what the plant derives from the others. Readings of other nodes are in `measured` alone.
Each part of a stack derives from its own sensors, and the first part that derives a metric is the one that counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random

from trimtab.core import Configuration, Plant, Reading, Readings, Sensor, Window
from trimtab.errors import NotMeasured, TrimtabError

LONGEST_SLEEP_S = 0.5
"""A request to stop is heeded after this time at the latest."""

_LARGEST = 1e15
"""More than any quantity that is measured, while a server may say what it likes and the store holds 64 bits."""
_UNMEASURED = (NotMeasured, OSError)
"""What costs a sensor its window: a machine may be short of descriptors, sockets or memory just where it matters."""
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


class _Source:
    """A sensor or a plant as a source of readings.

    Args:
        name: source of its readings.
        owner: the sensor, or the plant with what it derives.
        chosen: names of the metrics for which decisions may go by it.
    """

    __slots__ = ("chosen", "declared", "name", "node")

    def __init__(self, name: str, owner: Sensor | Plant, chosen: Iterable[str]) -> None:
        self.name = name
        self.node = owner.node
        self.declared = {one.name: one.per_class for one in owner.metrics}
        self.chosen = frozenset(chosen)


class _Due:
    """A sensor in the window under way."""

    __slots__ = ("next_s", "period_s", "problem", "sensor", "slack_s", "source")

    def __init__(self, sensor: Sensor, chosen: Iterable[str]) -> None:
        self.sensor = sensor
        self.source = _Source(sensor.source, sensor, chosen)
        self.period_s = sensor.sampling_period_s
        self.slack_s = min(_NEARLY * self.period_s, _NEARLY_S)
        self.next_s = math.inf
        self.problem = ""


class _Deriving:
    """A plant, or a part of one, that derives readings from those of its own sensors and of those that no part has.

    Args:
        part: the part.
        plant: the whole.
    """

    __slots__ = ("heard", "part", "source")

    def __init__(self, part: Plant, plant: Plant) -> None:
        self.part = part
        self.source = _Source(
            part.tier or part.name, part, (one.name for one in part.metrics if part.node == plant.node)
        )
        others = {sensor for leaf in _leaves(plant) if leaf is not part for sensor in leaf.sensors()}
        shared = [sensor for sensor in plant.sensors() if sensor not in others and sensor.node == part.node]
        self.heard = {(one.node, one.source): {metric.name for metric in one.metrics} for one in shared}
        self.heard |= {(one.node, one.source): metrics for one, metrics in _ranked(part)}


class Observer:
    """Measures the windows of one run.

    Args:
        plant: what to observe; its clock is the only one used.
        stop: ends a wait.
        seed: source of the jitter of the sampling times.
        elapsed_s: the run's clock now, in seconds.

    Raises:
        TrimtabError: two sensors have one name, or one precedence for a metric and the plant names none.
    """

    def __init__(self, plant: Plant, stop: Stop, seed: int, elapsed_s: float = 0.0) -> None:
        self._clock = plant.clock
        self._stop = stop
        self._random = Random(seed)
        self._sensors = [_Due(sensor, chosen) for sensor, chosen in _ranked(plant)]
        self._deriving = [_Deriving(part, plant) for part in _leaves(plant)]
        self._origin_s = plant.clock.now_s() - elapsed_s

    def now_s(self) -> float:
        """Seconds since the run began."""
        return self._clock.now_s() - self._origin_s

    def wait(self, until_s: float, sampled: Iterable[_Due] = ()) -> None:
        """Returns at `until_s` of the run's clock, or when the run is to stop; takes samples meanwhile."""
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
            configuration: the configuration in force.
            early: share of the duration after which the cheap sensors are read and `abort` is asked; 0 for never.
            abort: why the window should be cut short, or an empty string.
        """
        self._begin()
        start_s = self.now_s()
        sampled = [due for due in self._sensors if due.next_s < math.inf]
        for due in sampled:
            due.period_s = max(due.sensor.sampling_period_s, duration_s / due.sensor.most_samples)
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
            except _UNMEASURED as error:
                due.problem = f"{due.source.name}: {error}"
                continue
            if due.period_s > 0:
                due.next_s = self._clock.now_s()

    def _sample(self, due: _Due) -> None:
        """Takes one sample and sets the time of the next; a sensor that cannot sits out the rest of this window."""
        now_s = self._clock.now_s()
        due.next_s = now_s + due.period_s * (1 + _JITTER * (2 * self._random.random() - 1))
        try:
            due.sensor.sample()
        except _UNMEASURED as error:
            due.problem = f"{due.source.name}: {error}"
            due.next_s = math.inf

    def _assemble(
        self, index: int, start_s: float, configuration: Configuration, sensors: list[_Due], aborted: str = ""
    ) -> Window:
        """The window from its start until now, out of the given sensors."""
        duration_s = self.now_s() - start_s
        seen = _Seen()
        for due in sensors:
            if not due.problem:
                try:
                    seen.add(due.sensor.read(), due.source)
                    continue
                except _UNMEASURED as error:
                    seen.problems.append(f"{due.source.name}: {error}")
            else:
                seen.problems.append(due.problem)
        for one in self._deriving:
            seen.add(one.part.derive(seen.of(one.heard)), one.source)
        rate_hz = seen.readings.get("request_rate_hz")
        samples = None if rate_hz is None else round(min(rate_hz * duration_s, _LARGEST))
        problems, measured = tuple(seen.problems), tuple(seen.measured)
        return Window(index, start_s, duration_s, configuration, seen.readings, samples, problems, aborted, measured)


class _Seen:
    """Readings of one window gathered so far, sources of the greatest precedence first."""

    __slots__ = ("measured", "problems", "readings")

    def __init__(self) -> None:
        self.readings: dict[str, float] = {}
        self.measured: list[Reading] = []
        self.problems: list[str] = []

    def add(self, new: Readings, source: _Source) -> None:
        """Adds the readings of one source, of which decisions go by those that are chosen and not there yet."""
        for name, value in new.items():
            base, at, _ = name.partition("@")
            if source.declared.get(base) is not bool(at):
                self.problems.append(f"{source.name} gave {name}, which it does not declare")
            elif not abs(value) <= _LARGEST:  # NaN is not, either
                self.problems.append(f"{source.name}: discarded {name} = {value}")
            else:
                self.measured.append(Reading(name, value, source.name, source.node))
                if base in source.chosen:
                    self.readings.setdefault(name, value)

    def of(self, heard: Mapping[tuple[str, str], Collection[str]]) -> dict[str, float]:
        """The readings by which a part goes.

        Args:
            heard: for each sensor of it, by node and source, the names of the metrics for which it counts.
        """
        found: dict[str, float] = {}
        for one in self.measured:
            if one.metric.partition("@")[0] in heard.get((one.node, one.source), ()):
                found.setdefault(one.metric, one.value)
        return found


def _leaves(plant: Plant) -> list[Plant]:
    """The plants that a plant is made of in the end; itself where it is one."""
    return [leaf for part in plant.parts for leaf in _leaves(part)] or [plant]


def _ranked(plant: Plant) -> list[tuple[Sensor, set[str]]]:
    """The sensors of a plant with the metrics for which decisions may go by each, the greatest precedence first.

    Raises:
        TrimtabError: two sensors have one name, or one precedence for a metric and the plant names none.
    """
    ranked = sorted(plant.sensors(), key=lambda sensor: -sensor.precedence)
    names = [(sensor.node, sensor.source) for sensor in ranked]
    if twice := next((source for node, source in names if names.count((node, source)) > 1), None):
        raise TrimtabError(f"two sensors of {plant.name} are called {twice}")
    equal: dict[tuple[int, str], list[Sensor]] = {}
    for sensor in ranked:
        for metric in sensor.metrics if sensor.node == plant.node else ():
            equal.setdefault((sensor.precedence, metric.name), []).append(sensor)
    chosen: dict[Sensor, set[str]] = {sensor: set() for sensor in ranked}
    for (_, name), sensors in equal.items():
        decisive = sensors[0] if len(sensors) == 1 else plant.decisive(name, sensors)
        if decisive is None:
            raise TrimtabError(
                f"{' and '.join(one.source for one in sensors)} measure {name} with the same precedence: "
                f"{plant.name} has to say which of them decides"
            )
        chosen[decisive].add(name)
    return list(chosen.items())
