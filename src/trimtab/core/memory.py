"""Memory that servers need: what a configuration can fill, and how many workers fit; pure arithmetic.

A plant says what its configuration can fill as far as it knows that by itself (`Need`): caches, pools, buffers. Needs
under one limit, also of several plants, have to fit into it together, beside what all else demands there:

    left = limit_bytes - max(0, demand_bytes - sum of min(held_bytes, size_bytes))         (M0)

What a server holds beyond its need counts as all else does: no need tells of it. What workers take is measured: a
line in their number.

    base = max(0, memory_bytes - worker_memory_bytes * workers)                            (M1)
    fit  = (margin_ratio * memory_limit_bytes - base) / worker_memory_bytes                (M2)

where workers are those that exist, busy and idle, not those that the limit allows. While workers come or go, memory
(read at the window's end) and their number (its average) do not belong together, and the difference of two large
figures would be a base of any size. So the base is taken from windows in which the number was steady: near the
limit, or near that of the window before. Until there was one it is 0, which the margin has to cover.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from trimtab.core.knob import Domain
from trimtab.core.window import Readings

MARGIN_RATIO = 0.9
"""Share of a memory limit that may be planned for; the rest is for what grows under load."""
MIB = 2**20
STEADY_RATIO = 0.1
"""The number of workers is steady when it differs by at most this share."""


def foreseen(most: int) -> int:
    """How many connections to plan memory for where there were so many at once so far: the next power of two.

    With what was seen itself a configuration that fitted would be refused as soon as one more has come.

    Args:
        most: the most there were.
    """
    return 1 << (most - 1).bit_length() if most > 0 else 0


@dataclass(frozen=True)
class MemoryLine:
    """State of the fitted line.

    Args:
        base_bytes: memory of the server without workers, from the last window that could tell.
        workers: how many existed in the window before; None when not measured.
    """

    base_bytes: float = 0.0
    workers: float | None = None

    def learned(self, readings: Readings, limit: int | None) -> MemoryLine:
        """The line after one more window.

        Args:
            readings: the window's.
            limit: the worker limit in force; None when not known.
        """
        if "busy_workers" not in readings or "idle_workers" not in readings:
            return MemoryLine(self.base_bytes)
        workers = readings["busy_workers"] + readings["idle_workers"]
        steady = any(
            other is not None and abs(workers - other) <= STEADY_RATIO * other for other in (limit, self.workers)
        )
        if not steady or not {"memory_bytes", "worker_memory_bytes"} <= readings.keys():
            return MemoryLine(self.base_bytes, workers)
        base_bytes = readings["memory_bytes"] - readings["worker_memory_bytes"] * workers  # Eq. (M1)
        return MemoryLine(max(0.0, base_bytes), workers)

    def fitting(self, worker_bytes: float, limit_bytes: float, margin_ratio: float) -> int:
        """How many workers fit; below 1 when the base alone fills the memory.

        Args:
            worker_bytes: memory that one worker takes; less than a byte counts as one.
            limit_bytes: memory that the server may use.
            margin_ratio: share of it that may be planned for.
        """
        return math.floor((margin_ratio * limit_bytes - self.base_bytes) / max(1.0, worker_bytes))  # Eq. (M2)


class Room(NamedTuple):
    """Memory under one limit, at one moment.

    Args:
        where: what limits it: the machine, or a control group.
        limit_bytes: how much there is.
        demand_bytes: what all that is under this limit demands, the server too.
        held_bytes: what the server itself holds of it.
    """

    where: str
    limit_bytes: int
    demand_bytes: int = 0
    held_bytes: int = 0


@dataclass(frozen=True)
class Need:
    """Memory that a configuration can fill.

    Args:
        what: such as "the memory cache".
        size_bytes: how much.
        where: what limits it: the machine, or a control group.
        limit_bytes: how much there is.
        demand_bytes: what all that is there demands now; 0 where nothing else is.
        held_bytes: what the server already holds of what it needs.
    """

    what: str
    size_bytes: int
    where: str
    limit_bytes: int
    demand_bytes: int = 0
    held_bytes: int = 0


def under(what: str, size_bytes: int, rooms: Iterable[Room]) -> tuple[Need, ...]:
    """A need under each of the limits that bind a server."""
    return tuple(Need(what, size_bytes, *room) for room in rooms)


def overfull(needs: Iterable[Need], before: Iterable[Need]) -> str:
    """Why needs do not fit into the memory under their limits; empty when they do.

    Args:
        needs: those of a configuration.
        before: those of the configuration at the start: what the operator has chosen is no reason.
    """
    of: dict[str, list[Need]] = {}
    for one in needs:
        of.setdefault(one.where, []).append(one)
    earlier = list(before)
    for where, there in of.items():
        total, limit = sum(one.size_bytes for one in there), min(one.limit_bytes for one in there)
        held = sum(min(one.held_bytes, one.size_bytes) for one in there)
        others = max(0, max(one.demand_bytes for one in there) - held)
        left = max(0, limit - others)  # Eq. (M0)
        if total > max(MARGIN_RATIO * left, sum(one.size_bytes for one in earlier if one.where == where)):
            parts = " and ".join(f"{one.what} ({one.size_bytes / MIB:.0f} MiB)" for one in there)
            together = "together " if len(there) > 1 else ""
            less = f" less the {others / MIB:.0f} MiB that all else there needs" if others else ""
            return f"{parts}: {together}more than {MARGIN_RATIO:.0%} of the {limit / MIB:.0f} MiB of {where}{less}"
    return ""


def not_above(domain: Domain, value: int) -> int:
    """The greatest member of the domain that is at most `value`; its least where there is none."""
    return domain.clip(value - (value - domain.minimum) % domain.step)
