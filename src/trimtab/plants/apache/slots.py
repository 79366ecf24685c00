"""Who stands in which slot of a prefork's scoreboard, as far as it can be told: pure.

The parent starts a process in the lowest free slot, and starts some before it notices which ones have ended since it
last looked. So where all slots that are taken are known, that of a new process is the lowest other one; and where
not, it is below the limit at least when fewer than so many may be.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

APART_S = 0.6
"""Processes that are started further apart were started at two looks of the parent, which looks once a second."""
FRESH_S = 0.05
"""So long after its start a worker counts as idle."""


class Slots:
    """The slots of a parent's children.

    Args:
        limit: number of slots that remain.
        known: process id to slot, as far as it is known.
        there: the children that there are, or have ended and are not yet noticed.

    Attributes:
        known: the same, with those that were seen to start.
        born: children that were seen to start.
    """

    def __init__(self, limit: int, known: Mapping[int, int], there: AbstractSet[int]) -> None:
        self.known, self.born = dict(known), set[int]()
        self._limit, self._there, self._surely = limit, set(there), set[int]()
        self._waves, self._wave_s, self._last_s = 0, 0.0, -APART_S

    def start(self, child: int, now_s: float) -> None:
        """A child that was not there at the last look."""
        if now_s - self._last_s > APART_S:
            self._waves, self._wave_s = self._waves + 1, now_s
        self._last_s = now_s
        if self._there <= self.known.keys():
            taken = {self.known[one] for one in self._there}
            self.known[child] = next(slot for slot in range(len(taken) + 1) if slot not in taken)
        elif sum(1 for one in self._there if self.known.get(one, 0) < self._limit) < self._limit:
            self._surely.add(child)
        self.born.add(child)
        self._there.add(child)

    def look(self, there: AbstractSet[int]) -> None:
        """The children that are there now, or have ended and are not yet noticed."""
        self._there = set(there)

    def within(self, children: Collection[int]) -> set[int]:
        """Those of some children that are surely below the limit."""
        return {one for one in children if one in self._surely or self.known.get(one, self._limit) < self._limit}

    def only_fresh(self, seen_s: Collection[float], now_s: float) -> bool:
        """Whether the parent has started some twice, just now, and none of others is older.

        Args:
            seen_s: when each of the others was first seen.
            now_s: now.
        """
        just_now = self._waves > 1 and now_s - self._last_s < FRESH_S
        return just_now and all(one >= self._wave_s for one in seen_s)
