"""What one window tells trim without any climbing: the two causes, what a move could gain, and what work costs.

Pure functions of readings; the equations and their symbols are in `trimtab.controllers.trim`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trimtab.core import Domain, Readings, Window

CPU_FULL = 0.95
"""CPU utilisation from which more workers cannot use more of it."""

MEMORY_EDGE = 0.93
"""Memory demand, of its limit, from which a limit of a tenth more workers than fit is one too many."""
MEMORY_TIGHT = 0.95
"""Memory demand, of its limit, from which workers that do nothing cost something: they push out file pages."""
CPU_IDLE = 0.5
"""CPU utilisation below which a crowded server is not short of CPU."""


@dataclass(frozen=True)
class Cause:
    """A setting that one window asks for, and why."""

    target: int
    why: str


def too_many(r: Readings, m: int, fit: int | None, worker_bytes: float, margin: float) -> Cause | None:
    """The number of workers that fits into memory, when m do not.

    A limit far beyond what fits is taken down before the cliff, a nearer one at its edge, the nearest only past it.

    Args:
        r: the window's readings.
        m: the worker limit in force.
        fit: how many workers fit; None when that cannot be told.
        worker_bytes: memory per worker behind `fit`.
        margin: share of the memory limit that workers may fill.
    """
    ratio = r.get("memory_ratio", 0.0)
    if fit is None or fit >= m:
        return None
    over = m / max(1, fit)
    if ratio <= (margin if over >= 1.25 else MEMORY_EDGE if over >= 1.1 else 1.0):
        return None
    return Cause(
        fit,
        f"memory demand is {ratio:.0%} of its limit: {fit} workers of {worker_bytes / 2**20:.1f} MiB "
        f"fit into {r['memory_limit_bytes'] / 2**20:.0f} MiB",
    )


def too_few(r: Readings, m: int, fit: int | None, domain: Domain, worthwhile: float) -> Cause | None:
    """The number of workers at which a resource saturates, when all m are busy and connections wait.

    Args:
        r: the window's readings.
        m: the worker limit in force.
        fit: how many workers fit into memory; None when that cannot be told.
        domain: the values that the limit may take.
        worthwhile: smallest relative change that is worth a reload.
    """
    cpu = r.get("cpu_ratio")
    waiting = r.get("accept_queue_length", 0.0)
    busy = r.get("busy_workers", float(m) if waiting > 1.0 else 0.0)
    if cpu is None or busy < 0.85 * m or queue_share(r) < 0.3 or waiting < 1.0:
        return None
    grown = min(m / max(cpu, 0.05), 4.0 * m)  # step 2 of the heuristic, and no blind leap
    target = domain.clip(min(grown, math.inf if fit is None else fit))
    if target < m * (1 + worthwhile):
        return None
    bound = "memory" if fit is not None and fit < grown else "CPU"
    return Cause(
        target,
        f"all {m} workers are busy and {waiting:.0f} connections wait with CPU at {cpu:.0%}: "
        f"{bound} saturates near {target}",
    )


def stale_memory(r: Readings, m: int, fit: int | None, domain: Domain) -> Cause | None:
    """The next lower limit, when only memory that past work has left in the workers forbids a higher one.

    Args:
        r: the window's readings.
        m: the worker limit in force.
        fit: how many workers fit into memory; None when that cannot be told.
        domain: the values that the limit may take.
    """
    cpu, waiting = r.get("cpu_ratio", 1.0), r.get("accept_queue_length", 0.0)
    starved = r.get("busy_workers", 0.0) >= 0.85 * m and waiting >= 1.0 and queue_share(r) >= 0.3
    if not starved or cpu >= CPU_IDLE or fit is None or fit > 1.1 * m or m <= domain.minimum:
        return None
    return Cause(
        domain.clip(m - domain.step),
        f"all {m} workers are busy and {waiting:.0f} connections wait with CPU at {cpu:.0%}, and no more fit into "
        f"memory as it is: a reload shows what the present work needs",
    )


def queue_share(r: Readings) -> float:
    """AQT / RT, the largest share of the response time that more workers can save; by Eq. (1)."""
    if "accept_queue_delay_s" in r and r.get("response_time_s", 0.0) > 0:
        return min(1.0, r["accept_queue_delay_s"] / r["response_time_s"])
    return 1.0 if r.get("accept_queue_length", 0.0) >= 1.0 else 0.0


def unbound(r: Readings, m: int) -> bool:
    """True when the limit is not what holds anything up."""
    return r.get("busy_workers", m) < m / 2 and r.get("accept_queue_length", 1.0) < 0.5


def possible_gain(r: Readings, m: int, target: int) -> tuple[float, str]:
    """The most that going from m to target could gain, as a share of the response time, and why."""
    if unbound(r, m) and (target > m or r.get("memory_ratio", 0.0) < MEMORY_TIGHT):
        return 0.0, "the limit does not bind"
    if target > m:
        share = queue_share(r)
        return share, f"{share:.0%} of the response time is waiting for a worker"
    if max(r.get("cpu_ratio", 1.0), r.get("memory_ratio", 0.0)) < 0.8:
        return 0.0, "no resource is pressed"
    if r.get("busy_workers", 0.0) > target and r.get("cpu_ratio", 1.0) < CPU_FULL:
        return 0.0, "the workers are needed"
    total, rate = r.get("response_time_s", 0.0), r.get("request_rate_hz", 0.0)
    if total <= 0 or rate <= 0 or not {"service_time_s", "burst_length", "cpu_ratio"} <= r.keys():
        return 1.0, "a resource is nearly saturated"
    contention = r["service_time_s"] - r["cpu_ratio"] / rate  # ST - D; exact on one core, generous on more
    share = max(0.0, min(1.0, r["burst_length"] * contention / total))
    return share, f"{share:.0%} of the response time is contention among workers"


def signature(r: Readings) -> tuple[float, ...]:
    """What the work costs, whatever its rate: CPU per request and memory per worker; empty when not measured."""
    rate = r.get("request_rate_hz", 0.0)
    if rate <= 0 or "cpu_ratio" not in r:
        return ()
    return (r["cpu_ratio"] / rate, r.get("worker_memory_bytes", 0.0))


def drifted(reference: tuple[float, ...], now: tuple[float, ...]) -> bool:
    """True when the work costs something else than it did: a factor of 1.5 either way."""
    pairs = zip(reference, now, strict=False)
    return any(a > 0 and b > 0 and abs(math.log(b / a)) > math.log(1.5) for a, b in pairs)


def evidence(window: Window) -> dict[str, float]:
    """The readings behind a move."""
    names = ("response_time_s", "accept_queue_delay_s", "cpu_ratio", "memory_ratio", "busy_workers")
    return {n: window.readings[n] for n in names if n in window.readings}
