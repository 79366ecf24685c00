"""A noisy synthetic server for tests of controllers: a formula, not a model of any real one.

Response time is concave upward in the worker limit: it falls as 1/m^2 where workers are short, is flat from about 10
to 25 and climbs as m^5 past the memory. At the shipped default of 150 it is about 1000 times the best.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

from trimtab.core import Controller, Domain, How, Knob, Move, Readings, Role, Trial, Window

NAME = "max_request_workers"
MIB = 2.0**20


def worker_knob(minimum: int = 1, maximum: int = 256, step: int = 1, default: int = 150) -> Knob:
    """The worker limit with a domain of choice."""
    domain = Domain(minimum, maximum, step, "ServerLimit")
    return Knob(
        NAME,
        "MaxRequestWorkers",
        "workers",
        domain,
        default,
        How.RELOAD,
        "a reload",
        "worker limit",
        Role.WORKER_LIMIT,
    )


def window_of(limit: int, readings: Readings, index: int = 0, samples: int | None = 200, aborted: str = "") -> Window:
    """A window with this worker limit in force and these readings."""
    return Window(index, float(index), 1.0, {NAME: limit}, readings, samples, aborted=aborted)


def seen(limit: int, index: int = 0, **readings: float) -> Window:
    """A full window of 200 requests with this worker limit in force and these readings."""
    return window_of(limit, readings, index)


@dataclass(frozen=True)
class Curve:
    """Response time against worker limit.

    Args:
        least_s: scale of the response time.
        short: number of workers below which they are short.
        cliff: number of workers at which memory runs out.
        cv: coefficient of variation of the lognormal noise on each window's mean.
    """

    least_s: float = 0.05
    short: float = 6.0
    cliff: float = 36.0
    cv: float = 0.3

    def response_time_s(self, limit: int) -> float:
        """Response time without noise."""
        return self.least_s * (1 + (self.short / limit) ** 2) * (1 + (limit / self.cliff) ** 5)

    def best_s(self) -> float:
        """The least response time there is."""
        return min(self.response_time_s(limit) for limit in range(1, 257))

    def window(self, index: int, limit: int, seed: int) -> Window:
        """One window at a limit that binds: every worker is busy."""
        sigma = math.sqrt(math.log1p(self.cv**2))
        noise = math.exp(random.Random(f"{seed} {index}").gauss(-sigma * sigma / 2, sigma))
        response_s = self.response_time_s(limit) * noise
        worker = 12 * MIB
        return seen(
            limit,
            index,
            response_time_s=response_s,
            service_time_s=response_s / 2,
            accept_queue_delay_s=response_s / 2,
            accept_queue_length=3.0,
            busy_workers=float(limit),
            idle_workers=0.0,
            cpu_ratio=min(1.0, limit / 20),
            memory_pressure_ratio=1 - 1 / (1 + (limit / self.cliff) ** 5),
            memory_ratio=limit / 27,
            memory_bytes=limit * worker,
            memory_limit_bytes=27 * worker,
            worker_memory_bytes=worker,
            request_rate_hz=200.0,
        )


@dataclass
class Drive:
    """A controller's run on a curve, without guards.

    Args:
        controller: what decides.
        curve: what answers.
        knob: what is moved.
        seed: of the noise and of the controller.
    """

    controller: Controller
    curve: Curve
    knob: Knob = field(default_factory=worker_knob)
    seed: int = 0
    limits: list[int] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)

    def run(self, windows: int, start: int = 150) -> Drive:
        """Plays that many windows from a start and keeps what happened."""
        state: Any = self.controller.start((self.knob,), self.seed)
        limit = start
        for index in range(windows):
            window = self.curve.window(index, limit, self.seed)
            state, move = self.controller.step(state, Trial(window))
            self.limits.append(limit)
            self.windows.append(window)
            self.moves.append(move)
            limit = move.changes.get(self.knob.name, limit)
        return self

    def final_ratio(self, last: int = 10) -> float:
        """Mean noise-free response time of the last windows, as a ratio of the best."""
        times = [self.curve.response_time_s(limit) for limit in self.limits[-last:]]
        return sum(times) / len(times) / self.curve.best_s()
