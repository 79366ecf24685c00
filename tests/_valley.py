"""A closed-form server whose readings agree with each other, for tests of what trim concludes from them.

Pages arrive at a rate whatever the response time is; a worker holds a connection for KeepAliveTimeout and the page's
requests. Waiting is Sakasegawa's approximation of M/M/m, bounded by a backlog; service time is that of a shared
processor; past the memory limit it grows with what does not fit. A formula, not a model of any real server.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests._curve import MIB, NAME, window_of, worker_knob
from trimtab.core import Controller, Knob, Move, Objective, Window
from trimtab.decision import Decider, Oversight


@dataclass(frozen=True)
class Valley:
    """The server and its workload.

    Args:
        page_rate_hz: pages that arrive per second.
        cpu_s: CPU time of a request, in seconds.
        worker_mib: memory of a worker.
        burst: requests per page.
        held_s: what a worker waits for the next request of a connection, in seconds.
        limit_mib: memory limit.
        base_mib: memory without workers.
        backlog: connections that can wait.
        cv: coefficient of variation of the lognormal noise on the times of each window.
    """

    page_rate_hz: float = 40.0
    cpu_s: float = 0.004
    worker_mib: float = 4.0
    burst: float = 4.0
    held_s: float = 0.25
    limit_mib: float = 200.0
    base_mib: float = 20.0
    backlog: float = 64.0
    cv: float = 0.0

    def readings(self, m: int) -> dict[str, float]:
        """What is measured at a worker limit, without noise."""
        memory_mib = self.base_mib + self.worker_mib * m
        ratio = memory_mib / self.limit_mib
        asked = self.page_rate_hz * self.burst * self.cpu_s
        swapping = 1 + 50 * max(0.0, ratio - 1)
        service_s = self.cpu_s / (1 - min(0.97, asked)) * swapping
        held_s = self.held_s + self.burst * service_s
        load = self.page_rate_hz * held_s / m
        full_s = self.backlog * held_s / m
        erlang_s = held_s / m * load ** (math.sqrt(2 * (m + 1)) - 1) / (1 - load) if load < 1 else math.inf
        waiting_s = min(full_s, erlang_s)
        served_hz = min(self.page_rate_hz, m / held_s)
        return {
            "response_time_s": waiting_s + self.burst * service_s,
            "accept_queue_delay_s": waiting_s,
            "accept_queue_length": waiting_s * served_hz,
            "service_time_s": service_s,
            "burst_length": self.burst,
            "busy_workers": min(float(m), served_hz * held_s),
            "idle_workers": m - min(float(m), served_hz * held_s),
            "cpu_ratio": min(1.0, served_hz * self.burst * self.cpu_s),
            "request_rate_hz": served_hz * self.burst,
            "memory_pressure_ratio": 1 - 1 / swapping,
            "connection_rate_hz": served_hz,
            "request_time_s": waiting_s / self.burst + service_s,
            "memory_ratio": ratio,
            "memory_bytes": memory_mib * MIB,
            "memory_limit_bytes": self.limit_mib * MIB,
            "worker_memory_bytes": self.worker_mib * MIB,
        }

    def response_time_s(self, m: int) -> float:
        """Response time without noise."""
        return self.readings(m)["response_time_s"]

    def best_s(self) -> float:
        """The least response time there is."""
        return min(self.response_time_s(m) for m in range(1, 1001))

    def window(self, index: int, m: int, seed: int) -> Window:
        """One window, with the same noise on all times, so that they still agree."""
        sigma = math.sqrt(math.log1p(self.cv**2))
        noise = math.exp(random.Random(f"{seed} {index}").gauss(-sigma * sigma / 2, sigma))
        times = ("response_time_s", "request_time_s", "accept_queue_delay_s", "service_time_s")
        readings = {n: v * noise if n in times else v for n, v in self.readings(m).items()}
        return replace(
            window_of(m, readings, index, round(readings["request_rate_hz"] * 2)), start_s=2.0 * index, duration_s=2.0
        )


DYNAMIC = Valley()
STATIC = Valley(page_rate_hz=400.0, cpu_s=0.0005, worker_mib=0.6)


@dataclass
class Course:
    """A controller's run on a server, with the referee and the guards that it would have.

    Args:
        controller: what decides.
        server: what answers.
        seed: of the noise.
        limit: the worker limit in force.
        edited: what becomes of a window before the controller sees it.
    """

    controller: Controller
    server: Valley
    seed: int = 0
    limit: int = 150
    edited: Callable[[Window], Window] = lambda window: window
    knob: Knob = field(default_factory=lambda: worker_knob(maximum=1000))
    limits: list[int] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.oversight = Oversight.of(self.controller, Objective(), (self.knob,))
        self.decider = Decider(self.controller, self.oversight, self.seed)
        self.standing = self.decider.start((self.knob,))

    def run(self, windows: int, server: Valley | None = None) -> Course:
        """Plays that many windows, from here on with another server or workload where one is given."""
        self.server = server or self.server
        for _ in range(windows):
            window = self.edited(self.server.window(len(self.limits), self.limit, self.seed))
            made = self.decider.decide(self.standing, window)
            self.standing = made.standing
            self.limits.append(self.limit)
            self.moves.append(made.move)
            self.limit = made.move.changes.get(NAME, self.limit)
        return self

    @property
    def final(self) -> int:
        """The limit that the run would end with."""
        judge = self.oversight.judge
        return self.limit if judge is None else judge.final(self.standing.judge_state).get(NAME, self.limit)

    def changes(self, since: int = 0) -> int:
        """Windows from `since` on after which the limit was changed."""
        after = [*self.limits[1:], self.limit]
        return sum(a != b for a, b in zip(self.limits[since:], after[since:], strict=True))

    def ratio(self, last: int = 5) -> float:
        """Mean noise-free response time of the last windows, as a ratio of the best."""
        times = [self.server.response_time_s(m) for m in self.limits[-last:]]
        return sum(times) / len(times) / self.server.best_s()


def without(*names: str) -> Callable[[Window], Window]:
    """An edit that takes readings out of a window."""
    return lambda w: replace(w, readings={n: v for n, v in w.readings.items() if n not in names})
