"""Which knobs matter, from the evidence of a search: effects with intervals, corrected for how many were asked about.

Least squares on the trials' log costs without a prior, so that nothing is pulled towards none or some:

    y = b + sum_j u_j (x_j - mean x_j) + e                                                         (K1)

over knobs that were moved at all. The effect of a knob is u_j times the range over which it was tried, as a ratio;
its interval is Student's, widened for the number of knobs (Bonferroni), so that in 95 searches of 100 no knob
without an effect is called one with. Where there are fewer trials than twice the knobs, nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.core import Knob
from trimtab.search.evidence import Told, finite
from trimtab.search.space import point_of

FALSE = 0.05


@dataclass(frozen=True)
class Relevance:
    """The effect of a knob.

    Args:
        knob: its name.
        least: the smallest value that was tried.
        most: the largest.
        ratio: of the cost at the largest value to that at the smallest.
        low: lower end of the interval.
        high: upper end.
    """

    knob: str
    least: int
    most: int
    ratio: float
    low: float
    high: float

    @property
    def found(self) -> bool:
        """Whether an effect is told apart from none."""
        return not self.low <= 1 <= self.high


def relevance(knobs: Sequence[Knob], told: Sequence[Told]) -> tuple[Relevance, ...]:
    """What each knob that was moved does, the greatest effect first; nothing where there are too few trials.

    Args:
        knobs: those that were searched.
        told: the trials.
    """
    from scipy.stats import t

    trials = finite(told)
    if not trials:
        return ()
    values = np.array([v for v, _ in trials])
    points = np.array([point_of(knobs, {k.name: x for k, x in zip(knobs, v, strict=True)}) for v, _ in trials])
    moved = [j for j in range(len(knobs)) if np.ptp(points[:, j]) > 0]
    freedom = len(trials) - len(moved) - 1
    if not moved or freedom < len(moved) + 1:
        return ()
    x = points[:, moved] - points[:, moved].mean(axis=0)
    rows = np.column_stack([np.ones(len(trials)), x])
    y = np.array([cost for _, cost in trials])
    mean, *_ = np.linalg.lstsq(rows, y, rcond=None)
    left = float(np.sum((y - rows @ mean) ** 2)) / freedom
    spread = np.sqrt(np.maximum(0.0, np.diag(np.linalg.pinv(rows.T @ rows)) * left))
    most = float(t.isf(FALSE / 2 / len(moved), freedom))
    found = []
    for place, j in enumerate(moved, 1):
        span = float(np.ptp(points[:, j]))
        size, half = mean[place] * span, most * spread[place] * span
        found.append(
            Relevance(
                knobs[j].name,
                int(values[:, j].min()),
                int(values[:, j].max()),
                *(math.exp(max(-50.0, min(50.0, one))) for one in (size, size - half, size + half)),
            )
        )
    return tuple(sorted(found, key=lambda one: -abs(math.log(one.ratio))))
