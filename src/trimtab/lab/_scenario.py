"""Scenarios drawn at random by a seed: a server, its application and its clients; shared by both batteries.

The simulated battery and the real one run the same draws. A draw is a pure function of its seed. Each field has a
random stream of its own, so that a field added later changes no other, and the simulated battery can ignore what only
a real server has (mpm, application, php). Times are those of the real world; a faster run divides them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from trimtab.workloads._distribution import Constant, Exponential
from trimtab.workloads._population import Arrivals, Closed, Poisson, Population, Step, Url

MIB = 2**20
BASE_BYTES = 40 * MIB
"""Memory of a server without workers: an Apache with PHP, its shared pages and the page cache that it needs."""
DEBIAN_WORKERS = 150
"""MaxRequestWorkers of Debian's prefork; its StartServers is 5, and it keeps 5 to 10 spare."""
RAMP_STEPS = 8

Draw = Callable[[Random], Any]


def _log_uniform(low: float, high: float) -> Draw:
    return lambda random: math.exp(random.uniform(math.log(low), math.log(high)))


def _uniform(low: float, high: float) -> Draw:
    return lambda random: random.uniform(low, high)


def _one_of(**weights: float) -> Draw:
    return lambda random: random.choices(tuple(weights), tuple(weights.values()))[0]


def _mostly(usual: float, share: float, other: Draw) -> Draw:
    return lambda random: usual if random.random() < share else other(random)


RANGES: dict[str, tuple[Draw, str]] = {
    "memory_limit_bytes": (
        _log_uniform(192 * MIB, 1024 * MIB),
        "192 MiB to 1 GiB: containers and small virtual machines, where memory is what a pool can exhaust",
    ),
    "worker_bytes": (
        _log_uniform(4 * MIB, 32 * MIB),
        "4 to 32 MiB of its own for a worker that has served: a small PHP script to a framework",
    ),
    "cold_ratio": (
        _uniform(0.0, 0.8),
        "share of it that requests hardly touch: from a script that fills it to one of many",
    ),
    "cpu_s": (
        _log_uniform(0.005, 0.2),
        "5 to 200 ms of CPU for a request: a template from a cache to a page made anew",
    ),
    "wait_s": (
        _mostly(0.0, 0.4, _log_uniform(0.005, 1.0)),
        "none in 40 %, else 5 ms to 1 s that a worker waits for a database or another server",
    ),
    "lock_ratio": (
        _mostly(0.0, 0.7, _uniform(0.05, 0.5)),
        "none in 70 %, else 5 to 50 % of a request under a lock that only one worker holds: a session file, a table",
    ),
    "keep_alive_s": (
        lambda random: random.choices((5.0, 0.0, 2.0, 15.0), (5, 1, 2, 2))[0],
        "Debian's 5 s in half, off, 2 s, and Apache's 15 s of old",
    ),
    "think_s": (_log_uniform(0.5, 10.0), "half a second to ten between pages: scripts to people who read"),
    "burst": (
        lambda random: round(_log_uniform(1.0, 10.0)(random)),
        "1 to 10 requests for a page, one after another on its connection",
    ),
    "session_pages": (_log_uniform(1.0, 20.0), "1 to 20 pages in the mean of a visit"),
    "load_ratio": (
        _log_uniform(0.2, 2.0),
        "peak of what is asked for, as a share of what the best setting can serve",
    ),
    "shape": (
        _one_of(steady=4, step=2, ramp=2, rush=2),
        "steady in 40 %; a step or a ramp up to the peak, or a rush at the peak and back, in 20 % each",
    ),
    "shape_ratio": (_log_uniform(1.3, 3.0), "peak over what is asked for beside it; less would be no change"),
    "pool": (
        _one_of(debian=6, full=4),
        "Debian's pool, which grows and shrinks, or one that starts whole, as many set it",
    ),
    "full_workers": (_log_uniform(8, 400), "8 to 400 workers in a full pool: too few to far too many"),
    "clients": (
        _one_of(open=6, closed=4),
        "visits that come whatever the server does, or a number of users who wait",
    ),
    "patience_s": (_log_uniform(5.0, 60.0), "5 to 60 s until a client gives a request up: people to proxies"),
    "mpm": (_one_of(prefork=6, worker=2, event=2), "Debian's prefork with mod_php, and the threaded two"),
    "application": (
        _one_of(page=6, dokuwiki=2, mediawiki=2),
        "the page that costs what was drawn, or a real application, which costs what it costs",
    ),
    "php": (_one_of(module=6, fpm=4), "PHP in the server or behind it; threaded servers have only the second"),
}
"""How each field of a scenario is drawn, and why from there."""


@dataclass(frozen=True)
class Scenario:
    """A server, its application and its clients; the ranges are in `RANGES`.

    Args:
        seed: seed that it was drawn from.
        memory_limit_bytes: memory that the server may use.
        worker_bytes: memory of a worker that has served.
        cold_ratio: share of it that requests hardly touch.
        cpu_s: CPU time of a request.
        wait_s: time that its worker waits for others.
        lock_ratio: share of both under a lock that one worker holds at a time.
        keep_alive_s: KeepAliveTimeout at the start; 0 for none.
        think_s: mean time between two pages of a user.
        burst: requests in a page.
        session_pages: mean pages in a visit.
        load_ratio: peak of what is asked for, as a share of `capacity_hz`.
        shape: `steady`, `step`, `ramp` or `rush`.
        shape_ratio: peak over what is asked for beside it.
        pool: `debian` or `full`.
        full_workers: MaxRequestWorkers of a full pool.
        clients: `open` or `closed`.
        patience_s: when a client gives a request up.
        mpm: `prefork`, `worker` or `event`.
        application: `page`, `dokuwiki` or `mediawiki`.
        php: `module` or `fpm`.
        rounds: how often that course of the demand comes, one after another; not drawn.
    """

    seed: int
    memory_limit_bytes: float
    worker_bytes: float
    cold_ratio: float
    cpu_s: float
    wait_s: float
    lock_ratio: float
    keep_alive_s: float
    think_s: float
    burst: int
    session_pages: float
    load_ratio: float
    shape: str
    shape_ratio: float
    pool: str
    full_workers: float
    clients: str
    patience_s: float
    mpm: str
    application: str
    php: str
    rounds: int = 1

    @property
    def max_request_workers(self) -> int:
        """MaxRequestWorkers at the start."""
        return DEBIAN_WORKERS if self.pool == "debian" else round(self.full_workers)

    @property
    def fitting_workers(self) -> float:
        """Workers whose hot memory fits, at least one."""
        hot_bytes = self.worker_bytes * (1 - self.cold_ratio)
        return max(1.0, (self.memory_limit_bytes - BASE_BYTES) / hot_bytes)

    @property
    def service_s(self) -> float:
        """Time of a request in a worker with nobody beside it."""
        return self.cpu_s + self.wait_s

    @property
    def capacity_hz(self) -> float:
        """Requests per second that the best setting can serve on one core: by CPU, lock or memory."""
        return 1 / max(self.cpu_s, self.lock_ratio * self.service_s, self.service_s / self.fitting_workers)

    def phases(self, duration_s: float) -> tuple[Step, ...]:
        """Demand as factors of the peak, each from a time on.

        Args:
            duration_s: length of the run.
        """
        round_s = duration_s / self.rounds
        steps = [(k * round_s, at, factor) for k in range(self.rounds) for at, factor in self._course()]
        return tuple(Step(begins_s + at * round_s, factor) for begins_s, at, factor in steps)

    def _course(self) -> tuple[tuple[float, float], ...]:
        """Demand in one round: factors of the peak, each from a share of its length on."""
        low = 1 / self.shape_ratio
        if self.shape == "step":
            return (0.0, low), (0.4, 1.0)
        if self.shape == "rush":
            return (0.0, low), (0.4, 1.0), (0.6, low)
        if self.shape == "ramp":
            rise = ((k, low + (1 - low) * k / RAMP_STEPS) for k in range(RAMP_STEPS + 1))
            return tuple((0.2 + 0.4 * k / RAMP_STEPS if k else 0.0, factor) for k, factor in rise)
        return ()

    def populations(self, duration_s: float, urls: tuple[Url, ...]) -> tuple[Population, ...]:
        """The clients.

        Args:
            duration_s: length of the run.
            urls: their URLs; with `cpu_s` for the simulator.
        """
        rate_hz = self.load_ratio * self.capacity_hz
        # An exponential number, rounded, and at least 1.
        pages = 1 + math.exp(-1.5 / self.session_pages) / (1 - math.exp(-1 / self.session_pages))
        arrivals: Arrivals = Poisson(rate_hz / (self.burst * pages))
        # Little's law for users who wait for replies, and think before each page of a visit but the first.
        users = rate_hz * (self.think_s * (1 - 1 / pages) / self.burst + self.service_s)
        if self.clients == "closed":
            arrivals = Closed(max(1, round(users)))
        return (
            Population(
                class_name=self.clients,
                arrivals=arrivals,
                session_pages=Exponential(self.session_pages),
                burst_requests=Constant(float(self.burst)),
                think_s=Exponential(self.think_s),
                pages=urls,
                timeout_s=self.patience_s,
                schedule=self.phases(duration_s),
            ),
        )


def draw(seed: int) -> Scenario:
    """The scenario of a seed: the same one always.

    Args:
        seed: 1 to 99 for development; what judges is drawn above 100, once.
    """
    drawn = {name: how(Random(f"{name}/{seed}")) for name, (how, _) in RANGES.items()}
    if drawn["mpm"] != "prefork":
        drawn["php"] = "fpm"
    return Scenario(seed, **drawn)
