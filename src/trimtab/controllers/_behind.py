"""Whether more workers would complete more, or only wait for what is behind them, as the last windows tell it.

    X ~ n ** e    with n workers at work, those that wait for a connection or the CPU left out            (T3)

A database that is full, a lock, another server: there requests queue as they do before the workers, and who is let
in earlier waits there instead. It is seen in windows of the same run: twice as many at work complete hardly more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.controllers._trim_causes import waits_for_memory
from trimtab.core import Window
from trimtab.referee.estimate import MOST_UTILISATION
from trimtab.referee.measure import ALL_BUSY

TOLD = 25.0
"""Completed requests whose number tells a rate, to a fifth of it."""


@dataclass(frozen=True)
class Work:
    """What workers did in a window.

    Args:
        worker_s: time that workers were at work on requests and did not wait for the CPU, in sum.
        replies: requests that they completed.
        duration_s: length of the window.
        free: whether they waited for neither memory nor the CPU as far as that counts.
        limit: the worker limit in force; 0 where it does not matter.
    """

    worker_s: float
    replies: float
    duration_s: float
    free: bool = True
    limit: int = 0

    @property
    def at_work(self) -> float:
        """Workers at work, in the mean."""
        return self.worker_s / self.duration_s


def work(window: Window, keeps: bool, worthwhile: float, limit: int = 0) -> Work | None:
    """What workers did in a window; None where that cannot be told.

    On a CPU that is shared evenly, and used for a share rho of the time, rho / (1 - rho) are inside in the mean:
    these wait for nothing else.

    Args:
        window: the window.
        keeps: whether workers may be held by idle connections.
        worthwhile: share of the time from which waits for memory count.
        limit: the worker limit in force.
    """
    r = window.readings
    if "busy_workers" not in r or "request_rate_hz" not in r or (keeps and "idle_held_workers" not in r):
        return None
    cpu = r.get("cpu_ratio", 1.0)
    free = waits_for_memory(r) < worthwhile and cpu < ALL_BUSY
    rho = min(MOST_UTILISATION, cpu)
    on_cpu = r.get("cpu_cores", 1.0) * rho / (1 - rho)
    at_work = max(0.0, r["busy_workers"] - r.get("idle_held_workers", 0.0) - on_cpu)
    replies = r["request_rate_hz"] * window.duration_s
    return Work(at_work * window.duration_s, replies, window.duration_s, free, limit)


def elasticity(windows: Sequence[Work], lately: int, limit: int = 0) -> float:
    """By which power of the workers at work more is completed, from 0 to 1, Eq. (T3); 1 where nothing tells.

    Args:
        windows: the last windows, oldest first.
        lately: how many of them are now; they are compared with those before them in which at most half as many
            were at work, and with those in which twice as many were, if these were free.
        limit: the worker limit in force. Windows of another say nothing of now, as while the status page is silent.
    """
    now, before = (
        _sum([one for one in windows[-lately:] if one.limit == limit]),
        [one for one in windows[:-lately] if one.free],
    )
    fewer = _sum([one for one in before if 2 * one.at_work <= now.at_work])
    more = _sum([one for one in before if one.at_work >= 2 * now.at_work])
    pairs = (fewer, now), (now, more)
    told = [(one, other) for one, other in pairs if one.at_work >= 1 and min(one.replies, other.replies) >= TOLD]
    return min(1.0, max(0.0, min((_power(*pair) for pair in told), default=1.0)))


def _power(fewer: Work, more: Work) -> float:
    """By which power of the workers at work more is completed."""
    grown = (more.replies / more.duration_s) / (fewer.replies / fewer.duration_s)
    return math.log(grown) / math.log(more.at_work / fewer.at_work)


def _sum(windows: Sequence[Work]) -> Work:
    """All of these windows as one."""
    return Work(
        math.fsum(one.worker_s for one in windows),
        math.fsum(one.replies for one in windows),
        math.fsum(one.duration_s for one in windows) or 1.0,
    )
