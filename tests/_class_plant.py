"""A queueing system with classes and process budgets in pure Python: clients who think, wait, and hold a worker.

The scheduling of lu2001, section 4.1: whenever a worker is free, the highest class with a queue and fewer connections
in service than its budget gets it. Time passes when somebody sleeps.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Mapping
from random import Random

from tests._classes import budget_knobs
from tests._memory_plant import FakeClock, FakeSensor
from trimtab.core import Applied, Clock, Configuration, Knob, Plant, Prepared, Sensor, of_class


class ClassPlant(Plant):
    """A server of `workers` processes and a fixed number of clients of each class, the highest priority first."""

    name = "classy"
    lasting = False

    def __init__(
        self,
        users: Mapping[str, int],
        workers: int = 32,
        hold_s: float = 2.0,
        think_s: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.workers, self.hold_s, self.think_s = workers, hold_s, think_s
        self.names = tuple(users)
        share = workers // len(users)
        self.budgets = {of_class("process_budget", name): share for name in users}
        self._first = dict(self.budgets)
        self._random = Random(seed)
        self._queues: dict[str, deque[float]] = {name: deque() for name in users}
        self._held = dict.fromkeys(users, 0)
        self._events: list[tuple[float, int, str, str]] = []
        self._order = itertools.count()
        self._now = 0.0
        self.clock: Clock = _Clock(self)
        self._zero()
        for name, count in users.items():
            self.add(name, count)

    def add(self, name: str, count: int) -> None:
        """More clients of a class, from now on."""
        for _ in range(count):
            self._later("arrive", name, self._random.expovariate(1 / self.think_s))

    def knobs(self) -> tuple[Knob, ...]:
        return budget_knobs(self.names, self.workers)

    def sensors(self) -> tuple[Sensor, ...]:
        return (self._sensor,)

    def configuration(self) -> Configuration:
        return {"max_request_workers": self.workers, **self.budgets}

    def commit(self, prepared: Prepared) -> Applied:
        self.budgets |= prepared.changes
        self._dispatch()
        return Applied(self.configuration())

    def restore(self) -> None:
        self.budgets = dict(self._first)

    def undo_script(self) -> str:
        return "#!/bin/sh\n"

    def advance(self, duration_s: float) -> None:
        """Lets time pass."""
        end = self._now + duration_s
        while self._events and self._events[0][0] <= end:
            at, _, kind, name = heapq.heappop(self._events)
            self._integrate(at)
            if kind == "arrive":
                self._queues[name].append(at)
                self._seen[name]["arrivals"] += 1
            else:
                self._held[name] -= 1
                self._later("arrive", name, self._random.expovariate(1 / self.think_s))
            self._dispatch()
        self._integrate(end)

    def _later(self, kind: str, name: str, after_s: float) -> None:
        heapq.heappush(self._events, (self._now + after_s, next(self._order), kind, name))

    def _dispatch(self) -> None:
        while sum(self._held.values()) < self.workers:
            able = (n for n in self.names if self._queues[n] and self._held[n] < self.budgets[f"process_budget@{n}"])
            name = next(able, None)
            if name is None:
                return
            self._seen[name]["delay_s"] += self._now - self._queues[name].popleft()
            self._seen[name]["dispatched"] += 1
            self._held[name] += 1
            self._later("leave", name, self._random.expovariate(1 / self.hold_s))

    def _integrate(self, until_s: float) -> None:
        for name in self.names:
            self._seen[name]["queued"] += len(self._queues[name]) * (until_s - self._now)
            self._seen[name]["held"] += self._held[name] * (until_s - self._now)
        self._now = until_s

    def _zero(self) -> None:
        self._seen = {
            name: dict.fromkeys(("arrivals", "dispatched", "delay_s", "queued", "held"), 0.0) for name in self.names
        }
        self._since = self._now
        self._sensor = _Sensor(self)

    def read(self) -> dict[str, float]:
        """The readings since the last `begin`."""
        span_s, found = self._now - self._since, {}
        for name in self.names:
            seen = self._seen[name]
            if seen["dispatched"]:
                found[of_class("connection_delay_s", name)] = seen["delay_s"] / seen["dispatched"]
            found[of_class("oldest_wait_s", name)] = self._now - self._queues[name][0] if self._queues[name] else 0.0
            for metric, key in (
                ("queue_length", "queued"),
                ("in_service", "held"),
                ("arrival_rate_hz", "arrivals"),
                ("dispatch_rate_hz", "dispatched"),
            ):
                found[of_class(metric, name)] = seen[key] / span_s
        return found

    def begin(self) -> None:
        """Counts from here."""
        sensor = self._sensor
        self._zero()
        self._sensor = sensor


class _Sensor(FakeSensor):
    """Reads the plant since `begin`."""

    def __init__(self, plant: ClassPlant) -> None:
        super().__init__(plant.read, "classy")
        self._plant = plant

    def begin(self) -> None:
        super().begin()
        self._plant.begin()


class _Clock(FakeClock):
    """The plant's clock."""

    def __init__(self, plant: ClassPlant) -> None:
        super().__init__()
        self._plant = plant

    def sleep(self, duration_s: float) -> None:
        self._plant.advance(duration_s)
        super().sleep(duration_s)
