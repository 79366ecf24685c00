"""Causes of lost time that trim finds in one window: the loss, the gain a change can bring at most, and the setting.

Pure functions of readings; the equations and their symbols are in `trimtab.controllers.trim`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trimtab.core import Knob, Readings, Window
from trimtab.referee.estimate import MOST_UTILISATION
from trimtab.referee.measure import ALL_BUSY, ending

SEEK_S = 0.01
"""A read from a rotating disk, seek and half a turn; swap on anything else is faster."""
LEAST_WAITING = 1.0
"""Connections that wait on average before more workers are asked for: less is the chance of arrivals."""
MOSTLY = 0.5
"""Share from which something is the main thing: idle connections among busy workers, stalls in a request's time."""
STAFFING = 2.0
"""Square roots of what is at work, beyond which workers are idle in nearly all of the time although arrivals vary."""
LEAP = 4.0
"""Most by which a computed target may differ; the guard of the pace allows no more."""
ROUND_TRIPS = 3.0
"""A connection is kept for at least so many times what a client waits to connect, a round trip and with TLS two: the
next request of a page comes a round trip after the reply, and what the client does with that comes on top. With less
no connection is used twice, and each holds a worker as before."""


@dataclass(frozen=True)
class Cause:
    """A cause of lost time, and a setting that would save some of it.

    Args:
        knob: the knob to set.
        target: its value.
        why: the loss, with figures.
        lost: share of the time of requests that is lost to it now.
        capacity: how many times more work would be completed, where the server is short of capacity.
        spare: whether the setting takes only what nobody uses now, and might miss later.
        also: values of other knobs that belong to it.
        rho: utilisation of what others wait for because of it; 0 where they wait for nothing else.
    """

    knob: Knob
    target: int
    why: str
    lost: float
    capacity: float = 1.0
    spare: bool = False
    also: Mapping[str, int] = field(default_factory=dict)
    rho: float = 0.0

    @property
    def gain(self) -> float:
        """Share of the cost that the setting can save at most; Eq. (T1)."""
        return min(0.99, self.lost / (1 - self.rho * (1 - self.lost)))

    def direction(self, now: int) -> int:
        """1 for more than now, -1 for less."""
        return 1 if self.target > now else -1


def shorter(now: int, knob: Knob, away_s: float) -> int | None:
    """A quarter of the keep-alive time; None where that may be no shorter by a good part.

    Args:
        now: the time in force, in ms.
        knob: the keep-alive time.
        away_s: what a client waits for a connection, in seconds; 0 where that is not known.
    """
    found = knob.domain.clip(max(now / LEAP, 1e3 * ROUND_TRIPS * away_s))
    return found if 2 * found <= now else None


def held_idle(
    r: Readings, m: int, now: int, knob: Knob, to: int | None, fewer: Cause | None, power: float
) -> Cause | None:
    """A shorter keep-alive time, where idle connections hold most of the busy workers and something is lost by it.

    Where that is memory, workers who are let go save none as long as they stay: then fewer of them belong to it, and
    where no fewer can be, it is no cause.

    Args:
        r: the window's readings.
        m: the worker limit in force.
        now: the keep-alive time in force.
        knob: the keep-alive time.
        to: the shorter one; None for none.
        fewer: fewer workers, where those there are wait for memory.
    """
    busy, held = r.get("busy_workers", 0.0), r.get("idle_held_workers", 0.0)
    waiting = r.get("accept_queue_length", 0.0)
    short = busy >= ALL_BUSY * m and waiting >= LEAST_WAITING and r.get("cpu_ratio", 1.0) < ALL_BUSY
    share = power * queue_share(r) if short else 0.0
    lost = min(0.99, share if fewer is None else max(share, fewer.lost))
    if to is None or lost <= 0 or busy <= 0 or held < MOSTLY * busy:
        return None
    why = f"idle connections hold {held:.0f} of {busy:.0f} busy workers, which loses {lost:.0%} of the response time"
    also = {} if fewer is None or share >= lost else {fewer.knob.name: fewer.target}
    capacity = (1 / (1 - held / busy * (1 - to / now))) ** power
    return Cause(knob, to, why, lost, capacity, also=also)


def with_time(fewer: Cause, r: Readings, knob: Knob, to: int | None) -> Cause:
    """Fewer workers, and a shorter keep-alive time where idle connections would hold most of those that remain.

    Args:
        fewer: fewer workers.
        r: the window's readings.
        knob: the keep-alive time.
        to: the shorter one; None for none.
    """
    if to is None or r.get("idle_held_workers", 0.0) < MOSTLY * fewer.target:
        return fewer
    return replace(fewer, also={knob.name: to})


def unused(r: Readings, m: int, fit: int | None, knob: Knob, most: float) -> Cause | None:
    """Fewer workers, where some wait for memory and most do nothing: nobody misses those.

    All that fit may stay, and twice as many as were ever needed.

    Args:
        r: the window's readings.
        m: the worker limit in force.
        fit: how many workers fit into memory; None when that cannot be told.
        knob: the worker limit.
        most: the most workers that were needed in a window so far.
    """
    busy, idle = r.get("busy_workers", float(m)), r.get("idle_workers", 0.0)
    lost = 0.0 if ending(r, m) else lost_to_memory(r)
    target = knob.domain.clip(max(m / LEAP if fit is None else fit, 2 * most))
    if lost <= 0 or target >= busy + idle or idle <= busy:
        return None
    why = f"{_waits(r, busy + idle)}, and {idle:.0f} are idle"
    return Cause(knob, target, why, lost, 1 / (1 - lost), spare=True, rho=_rho(r))


def needed(r: Readings, m: int) -> float:
    """Workers that do something: those who are busy are so for longer because they wait for memory.

    Args:
        r: the window's readings.
        m: the worker limit in force.
    """
    return r.get("busy_workers", float(m)) * (1 - waits_for_memory(r))


def too_many(r: Readings, m: int, fit: int | None, knob: Knob, ratio: float) -> Cause | None:
    """Fewer workers, where those there are wait for memory, but no fewer than idle connections hold.

    Nor fewer than would be busy without the stalls, where connections wait and the CPU has time for more. Where none
    wait none is to wait afterwards: that takes as many and `STAFFING` square roots of it, by the rule of staffing for
    servers to which strangers come.

    A limit that is not reached says little of what is there: where most of the time is lost, what is there counts.

    Args:
        r: the window's readings.
        m: the worker limit in force.
        fit: how many workers fit into memory; None when that cannot be told.
        knob: the worker limit.
        ratio: factor of a step whose length the readings do not tell.
    """
    there = r.get("busy_workers", float(m)) + r.get("idle_workers", 0.0)
    lost = 0.0 if ending(r, m) else lost_to_memory(r)
    most = min(m, there) if waits_for_memory(r) >= MOSTLY else m
    least, waiting, busy = r.get("idle_held_workers", 0.0), r.get("accept_queue_length"), needed(r, m)
    if waiting is not None and waiting < LEAST_WAITING:
        least = max(least, busy + STAFFING * math.sqrt(busy))
    elif waiting is not None and r.get("cpu_ratio", 1.0) < ALL_BUSY:
        least = max(least, busy)  # who is left does no more than before
    target = knob.domain.clip(max(least, m / ratio if fit is None or fit >= m else max(fit, most / LEAP)))
    if lost <= 0 or target >= there:  # a limit above what exists ends nobody
        return None
    return Cause(knob, target, _waits(r, there), lost, 1 / (1 - lost), rho=_rho(r))


def too_few(
    r: Readings, m: int, fit: int | None, knob: Knob, ratio: float, share: float, power: float
) -> Cause | None:
    """More workers, where all are busy and connections wait: to where CPU or memory saturates.

    They come to the CPU as strangers do, so that it would be idle now and then with as many as it has time for.

    What fits is counted with memory that workers hold and hardly touch. So where waits for memory take less than half
    of what the queue does, and there is swap for the case that it is touched, one step may go beyond it.

    Args:
        r: the window's readings.
        m: the worker limit in force.
        fit: how many workers fit into memory; None when that cannot be told.
        knob: the worker limit.
        ratio: factor of a step whose length the readings do not tell.
        share: share of the response time that the queue has, in the mean of the last windows: in one it is chance.
        power: by which power of the workers at work more is completed, Eq. (T3).
    """
    cpu, waiting = r.get("cpu_ratio"), r.get("accept_queue_length", 0.0)
    if cpu is None or not queued(r, m):
        return None
    full = m / max(cpu, 0.05)  # step 2 of the heuristic: enough if they came to the CPU one after the other
    grown = min(full + STAFFING * math.sqrt(full), LEAP * m)  # no blind leap
    step = min(grown, ratio * m)
    swappable = (step - m) * r.get("worker_memory_bytes", math.inf) < r.get("swap_free_bytes", 0.0)
    most = math.inf if fit is None else max(fit, step if swappable and stalls(r) < share / 2 else 0)
    target = knob.domain.clip(min(grown, most))
    if target <= m:  # beyond what fits the kernel may end workers, and requests with them
        return None
    saved = "" if power == 1 else f", of which more at work can save {power:.0%}"
    lost = f"{waiting:.0f} connections wait ({share:.0%} of the response time of late{saved})"
    why = f"all {m} workers are busy, {lost}, CPU is at {cpu:.0%}"
    return Cause(knob, target, why, power * share, min((target / m) ** power, 1 / max(cpu, 0.05)))


def queued(r: Readings, m: int) -> float:
    """Share of the response time that the queue has, where all workers are busy and the CPU is not; else 0.

    Args:
        r: the window's readings.
        m: the worker limit in force.
    """
    return queue_share(r) if r.get("cpu_ratio", 0.0) < ALL_BUSY and _short(r, m) else 0.0


def _short(r: Readings, m: int) -> bool:
    """Whether all workers are busy and connections wait."""
    waiting = r.get("accept_queue_length", 0.0)
    busy = r.get("busy_workers", float(m) if waiting > LEAST_WAITING else 0.0)
    all_busy = min(ALL_BUSY * m, m - 1.0)  # a status page does not count the worker that serves it
    return busy >= all_busy and waiting >= LEAST_WAITING


def missed(r: Readings, m: int, spared: int, knob: Knob) -> Cause | None:
    """The limit of before, where idle workers were taken away and more have come since than those who are left serve.

    Args:
        r: the window's readings.
        m: the worker limit in force.
        spared: the limit before idle workers were taken away; 0 where none were.
        knob: the worker limit.
    """
    waiting, busy = r.get("accept_queue_length", 0.0), r.get("busy_workers", float(m))
    if spared <= m or waiting < LEAST_WAITING or busy < min(ALL_BUSY * m, m - 1.0):
        return None
    why = f"all {m} workers are busy, {waiting:.0f} connections wait, and the limit was {spared} before"
    return Cause(knob, spared, why, queue_share(r), spared / m)


def stalls(r: Readings) -> float:
    """Share of the time in which some worker waits for memory, as far as it can be this server's.

    Where the kernel counts the pressure of the machine alone, other processes are in it. Each wait of the server is
    one of its major faults, and none takes longer than a seek of a disk.
    """
    pressure = r.get("memory_pressure_ratio", 0.0)
    faults_hz = r.get("swap_in_rate_hz")
    return pressure if faults_hz is None else min(pressure, faults_hz * SEEK_S)


def waits_for_memory(r: Readings) -> float:
    """Share of the time of requests that is waits for memory, at most; Eq. (T1).

    Where a request is under way half of the time, what stalls a fifth of the time is two fifths of its own. How many
    are under way is by Little's law at least what a status page, which is read a few times, says.
    """
    return min(0.99, stalls(r) / _under_way(r))


def lost_to_memory(r: Readings) -> float:
    """Share of the time of requests that would not be there without the waits for memory, at most; Eq. (T1).

    While the CPU works for requests, in user mode, nothing is lost, however many workers wait: of ten workers on a
    full CPU one nearly always waits for memory, for which the kernel makes room between two turns on the CPU.
    """
    return min(waits_for_memory(r), max(0.0, 1 - r.get("cpu_user_ratio", 0.0)) / _under_way(r))


def _under_way(r: Readings) -> float:
    """Share of the time in which a request is under way, at least."""
    time_s = r.get("request_time_s", r.get("service_time_s", 0.0))
    return min(1.0, max(r.get("busy_workers", 0.0), r.get("request_rate_hz", 0.0) * time_s) or 1.0)


def _rho(r: Readings) -> float:
    """Utilisation of the CPU, on which compressed swap works too."""
    return min(MOST_UTILISATION, r.get("cpu_ratio", 0.0))


def _waits(r: Readings, workers: float) -> str:
    """What was seen of the waits for memory, and what a request may lose by them."""
    seen, lost = f"{stalls(r):.0%}", f"{lost_to_memory(r):.0%}"
    more = "" if lost == seen else f" (up to {lost} of a request's time)"
    return f"some of {workers:.0f} workers wait for memory {seen} of the time{more}"


def queue_share(r: Readings) -> float:
    """AQT / RT, the largest share of the response time that more workers can save; by Eq. (1)."""
    if "accept_queue_delay_s" in r and r.get("response_time_s", 0.0) > 0:
        return min(1.0, r["accept_queue_delay_s"] / r["response_time_s"])
    return 0.99 if r.get("accept_queue_length", 0.0) >= LEAST_WAITING else 0.0


def nothing(r: Readings, m: int, power: float) -> str:
    """Reason where no cause was found, with the known figures; where all wait for something, for what.

    Args:
        r: the window's readings.
        m: the worker limit in force.
        power: by which power of the workers at work more is completed, Eq. (T3).
    """
    known = (
        ("busy_workers", "{:.0f} busy"),
        ("accept_queue_length", "{:.1f} waiting"),
    )
    said = ", ".join(text.format(r[name]) for name, text in known if math.isfinite(r.get(name, math.nan)))
    said += f"{', ' if said else ''}{stalls(r):.0%} stalls"
    text, cpu = f"no cause to move the limit of {m} ({said})", r.get("cpu_ratio", 0.0)
    if not _short(r, m):
        return text
    if cpu >= ALL_BUSY:
        return f"{text}: the CPU is at {cpu:.0%}, and more workers would only share it"
    return f"{text}: twice as many at work completed only {2**power:.2g} times as much" if power < 1 else text


def evidence(window: Window) -> dict[str, float]:
    """The readings behind a move."""
    names = (
        "response_time_s",
        "accept_queue_delay_s",
        "accept_queue_length",
        "cpu_ratio",
        "cpu_user_ratio",
        "memory_pressure_ratio",
        "busy_workers",
        "idle_held_workers",
    )
    return {n: window.readings[n] for n in names if n in window.readings}
