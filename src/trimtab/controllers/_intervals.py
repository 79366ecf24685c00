"""Idle periods of connections as the methods on the keep-alive time see them: counts by bins, with a memory.

An idle period ends by a request (its length is a request interval), by the client, or because the server ended it;
then all that is known is that it was longer. The logarithmic bins are those of the shim's mapped file: exact below
8 ns, then eight to the octave.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.core import Knob, Readings, Role, of_role
from trimtab.errors import UsageError

BINS = 512
LINEAR_S = 0.05
"""Width of the linear bins."""


def keep_alive_knob(knobs: tuple[Knob, ...], method: str) -> Knob:
    """The keep-alive time among the knobs.

    Args:
        knobs: the knobs that may be moved.
        method: the method's name, for the message.

    Raises:
        UsageError: it is not there.
    """
    knob = of_role(knobs, Role.KEEP_ALIVE)
    if knob is not None:
        return knob
    there = ", ".join(knob.name for knob in knobs) or "none"
    raise UsageError(f"no knob to move: {method} moves the keep-alive time, and was given {there}")


def floor_s(index: int) -> float:
    """Least duration, in seconds, that falls into a logarithmic bin; that of the next bin is its end."""
    if index < 8:
        return index * 1e-9
    return float((8 + index % 8) << (index // 8 - 1)) * 1e-9


EDGES_S = tuple(floor_s(index) for index in range(BINS + 1))
"""Where the logarithmic bins begin, in seconds, and where the last one ends."""


def counted(readings: Readings, name: str, bins: int = BINS) -> dict[int, float]:
    """Counts of a histogram's bins in one window.

    Args:
        readings: the window's.
        name: the histogram, such as `intervals`; its counts are `intervals@I`.
        bins: how many bins it has; what a reading claims for another is left out.

    Returns:
        Index of a bin to its count, where that is above 0, in the order of the indices.
    """
    found: dict[int, float] = {}
    for key, count in readings.items():
        base, _, index = key.partition("@")
        if base == name and index.isascii() and index.isdecimal() and count > 0 and int(index) < bins:
            found[int(index)] = count
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Tally:
    """Idle periods by how and when they ended, the older ones counted for less.

    Args:
        asked: periods that a request ended, by logarithmic bins.
        left: periods that the client ended.
        ended: periods that the server ended, or that were ended for it.
        missed: those in `ended`, each by the share of its bin that it could not reach.
    """

    asked: tuple[float, ...] = (0.0,) * BINS
    left: tuple[float, ...] = (0.0,) * BINS
    ended: tuple[float, ...] = (0.0,) * BINS
    missed: tuple[float, ...] = (0.0,) * BINS

    @property
    def total(self) -> float:
        """Idle periods in it, by their weights."""
        return sum(self.asked) + sum(self.left) + sum(self.ended)

    def seen(self, readings: Readings, time_s: float, memory: float, most: float) -> Tally:
        """This tally with one more window.

        What is older is forgotten by what is new, not by the clock: a quiet server remembers longer. One window
        counts for a share at most, so that a crowd which comes at once is not taken for all there is.

        Where in its bin a period was ended is known of those ended at the time in force, which are nearly all; of
        the others the middle is as good as any.

        Args:
            readings: the window's.
            time_s: the keep-alive time in force, in seconds.
            memory: idle periods that are remembered at most.
            most: share of the memory that one window may take.
        """
        new = [counted(readings, name) for name in ("intervals", "intervals_left", "intervals_ended")]
        weight = sum(sum(counts.values()) for counts in new)
        if weight <= 0:
            return self
        scale = min(1.0, most * memory / weight)
        kept = min(1.0, max(0.0, memory - scale * weight) / max(self.total, 1e-9))
        at = bisect_right(EDGES_S, time_s) - 1
        new.append({b: count * (_rest(time_s, b) if b == at else 0.5) for b, count in new[2].items()})
        old = (self.asked, self.left, self.ended, self.missed)
        return Tally(*(_added(one, kept, counts, scale) for one, counts in zip(old, new, strict=True)))

    def faded(self, kept: float) -> Tally:
        """This tally with each count at that share of itself."""
        old = (self.asked, self.left, self.ended, self.missed)
        return Tally(*(_added(one, kept, {}, 1.0) for one in old))


def _rest(time_s: float, index: int) -> float:
    """The share of a bin that lies after a time in it."""
    return (EDGES_S[index + 1] - time_s) / (EDGES_S[index + 1] - EDGES_S[index])


def _added(old: tuple[float, ...], kept: float, new: Mapping[int, float], scale: float) -> tuple[float, ...]:
    """The old counts, faded, and the new ones, scaled."""
    added = [kept * value for value in old]
    for index, count in new.items():
        added[index] += scale * count
    return tuple(added)
