"""Limits in the referee: whether a change has broken one that was kept, or mended one that was broken.

A window keeps all limits or breaks one. A setting keeps them when most of its windows do; where the one before a
change does not, windows are compared by how far they are beyond the limits, and not by the objective
(`Experiment.on_limits`). With B of n windows broken before a change, each one after it breaks a limit with the chance

    q = (B + 1/2) / (n + 1)                                                                        (L1)

if the change makes no difference (the mean of Jeffreys' posterior). After m windows of which K are broken

    broken:  most were kept before, K >= 2 and P(at least K of m by chance q) < 0.025              (L2)
    mended:  most were broken before, most are kept now, m >= 2 and P(at most K by chance q) < 0.025 (L3)
    doubted: most were kept before, and P(at least K of m by chance q) < 0.16: not yet better      (L4)

0.025 and 0.16 are the chances beyond two standard errors and beyond one, on one side. Two windows, because in one
alone a short event outside the server does the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from trimtab.referee.measure import Measured

CHANCE = 0.025
DOUBT = 0.16


def mostly_broken(windows: Sequence[Measured]) -> bool:
    """Whether a limit is broken in more than half of the windows that can tell."""
    broken, count = _broken(windows)
    return 2 * broken > count


def newly_broken(before: Sequence[Measured], after: Sequence[Measured]) -> bool:
    """Whether a change broke a limit that was kept before it, Eq. (L2)."""
    return _broken(after)[0] >= 2 and _by_chance(before, after) < CHANCE


def doubted(before: Sequence[Measured], after: Sequence[Measured]) -> bool:
    """Whether a change may have broken a limit that was kept before it, Eq. (L4)."""
    return _by_chance(before, after) < DOUBT


def mended(before: Sequence[Measured], after: Sequence[Measured]) -> bool:
    """Whether a change mended a limit that was broken before it, Eq. (L3)."""
    broken, count = _broken(after)
    if count < 2 or not mostly_broken(before) or 2 * broken > count:
        return False
    return 1 - _tail(broken + 1, count, _chance(before)) < CHANCE


def names(windows: Sequence[Measured]) -> str:
    """The limits that are broken in any of these windows, each once."""
    return " and ".join(dict.fromkeys(name for one in windows for name in one.broken))


def _broken(windows: Sequence[Measured]) -> tuple[int, int]:
    """Windows that break a limit, and windows that can tell."""
    known = [one for one in windows if one.excess is not None]
    return sum(bool(one.broken) for one in known), len(known)


def _by_chance(before: Sequence[Measured], after: Sequence[Measured]) -> float:
    """Probability of so many broken windows if the change makes no difference; 1 where most were broken before."""
    return 1.0 if mostly_broken(before) else _tail(*_broken(after), _chance(before))


def _chance(before: Sequence[Measured]) -> float:
    broken, count = _broken(before)
    return (broken + 0.5) / (count + 1)  # Eq. (L1)


def _tail(least: int, count: int, chance: float) -> float:
    """Probability of at least so many of `count` draws."""
    return math.fsum(math.comb(count, k) * chance**k * (1 - chance) ** (count - k) for k in range(least, count + 1))
