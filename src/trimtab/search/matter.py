"""Which knobs matter: a pure function of the evidence of a search, for its report.

    y_i = b_0 + sum_k (b_k u_ik + c_k (u_ik^2 - mean)) + e_i,   u the coordinates, standardised            (K1)

fitted by least squares to the mean of each configuration, since repeats share what the model leaves out and would
count as new evidence; for each knob an F test of its terms against all the others, so a placebo that only went along
with the incumbent as others moved is not taken for a cause. What the model leaves out, interactions above all, counts
as noise and makes the test more careful. Of many knobs some look important by chance: Holm's correction keeps the
probability of naming any knob without an effect at `LEVEL` in a whole report, were the trials independent of each
other's outcome. A search chooses them by what it has seen, so the rate on placebos is measured in the contest too.

Where there are too few trials for squares there are none; where too few for lines, nothing is told apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from trimtab.core import Knob
from trimtab.search.era import Era
from trimtab.search.evidence import Told
from trimtab.search.local_model import Array
from trimtab.search.space import Values, point_of

LEVEL = 0.05
"""Probability of naming any knob without an effect, in one report."""
_SPARE = 4
"""Degrees of freedom that have to be left for the noise."""


@dataclass(frozen=True)
class Matter:
    """Effect of one knob on the cost.

    Args:
        knob: its name.
        matters: whether an effect was told apart.
        effect: logarithm of the cost's ratio between the ends of the range tried, by the linear term; None where
            too few trials tell.
        error: its standard error; None likewise.
    """

    knob: str
    matters: bool
    effect: float | None = None
    error: float | None = None

    @property
    def said(self) -> str:
        """The effect as text."""
        if self.effect is None or self.error is None:
            return f"{self.knob}: too few trials to tell"
        if not self.matters:
            return f"{self.knob}: no effect told apart ({self.effect:+.1%} +- {2 * self.error:.1%})"
        return f"{self.knob}: {self.effect:+.1%} +- {2 * self.error:.1%} over what was tried"


def which_matter(knobs: Sequence[Knob], told: Sequence[Told]) -> tuple[Matter, ...]:
    """Effects of all knobs, those that matter first.

    Args:
        knobs: those that were moved, in the order of the values.
        told: the trials.
    """
    known: dict[Values, list[float]] = {}
    for one in Era(told).trials:
        if one.y is not None:
            known.setdefault(one.values, []).append(one.y)
    if not known:
        return tuple(Matter(knob.name, False) for knob in knobs)
    x = np.array([point_of(knobs, values) for values in known])
    y: Array = np.array([math.fsum(ys) / len(ys) for ys in known.values()])
    moved = [k for k in range(len(knobs)) if np.ptp(x[:, k]) > 0]
    squared = len(known) - 1 - 2 * len(moved) >= max(_SPARE, len(moved))
    if not moved or len(known) - 1 - len(moved) < _SPARE:
        return tuple(Matter(knob.name, False) for knob in knobs)
    terms: dict[int, Array] = {}
    for k in moved:
        u = (x[:, k] - x[:, k].mean()) / x[:, k].std()
        square = u * u - np.mean(u * u)
        curved = squared and len(np.unique(x[:, k])) > 2
        terms[k] = np.stack([u, square], axis=1) if curved else u[:, None]
    found = _tested(terms, y)
    ordered = sorted(found, key=lambda k: found[k][2])
    matters, corrected, open_ = {}, 0.0, True
    for rank, k in enumerate(ordered):
        effect, error, chance = found[k]
        corrected = max(corrected, min(1.0, chance * (len(ordered) - rank)))
        open_ = open_ and corrected < LEVEL
        range_ = float(np.ptp(x[:, k]) / x[:, k].std())
        matters[k] = Matter(knobs[k].name, open_, effect * range_, error * range_)
    still = [Matter(knob.name, False) for k, knob in enumerate(knobs) if k not in matters]
    return (*(matters[k] for k in ordered), *still)


def _tested(terms: dict[int, Array], y: Array) -> dict[int, tuple[float, float, float]]:
    """Knob to its linear term, the error of that, and the probability of its F by chance."""
    ones = np.ones((len(y), 1))
    whole = np.hstack([ones, *terms.values()])
    freedom = len(y) - int(np.linalg.matrix_rank(whole))
    if freedom < 1:
        return {}
    coefficients, left = _fitted(whole, y)
    variance = max(left / freedom, 1e-18)
    covariance = np.linalg.pinv(whole.T @ whole) * variance
    found, column = {}, 1
    for k, own in terms.items():
        rest = np.hstack([ones, *(other for one, other in terms.items() if one != k)])
        more = int(np.linalg.matrix_rank(whole)) - int(np.linalg.matrix_rank(rest))
        f = max(0.0, _fitted(rest, y)[1] - left) / max(1, more) / variance
        chance = float(stats.f.sf(f, more, freedom)) if more else 1.0
        error = math.sqrt(max(0.0, float(covariance[column, column])))
        found[k] = (float(coefficients[column]), error, chance)
        column += own.shape[1]
    return found


def _fitted(columns: Array, y: Array) -> tuple[Array, float]:
    """Least squares: coefficients, and the sum of squares that is left."""
    coefficients: Array = np.asarray(np.linalg.lstsq(columns, y, rcond=None)[0], dtype=float)
    return coefficients, float(np.sum((y - columns @ coefficients) ** 2))
