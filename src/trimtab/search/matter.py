"""Which knobs matter: a pure function of the evidence of a search, for its report.

For each knob k, with the others of unknown effect beside it (a linear mixed model):

    y_i = b_0 + u_ik b_k + sum_{j != k} (u_ij c_j + q_ij d_j) + e_i                                        (K1)
    c_j, d_j ~ N(0, h s^2),   e_i ~ N(0, s^2 (1 + 1/n_i) / 2)

| symbol | here | unit | shape |
|---|---|---|---|
| y_i | mean logarithm of the cost of a configuration, over its n_i trials | 1 | one for each configuration |
| u_ik | its coordinate, less the mean of all | 1 | likewise, for each knob |
| q_ik | the square of that, less the mean of all, where a knob had more than two values | 1 | likewise |
| b_k | effect of knob k; with many trials of its square too | 1 | scalar |
| h | how large the effects of knobs are to the noise | 1 | scalar |

fitted by generalised least squares for each h of a grid, and averaged by the restricted likelihood of each, since no
single h is known. So there may be fewer trials than knobs: what cannot be told from the effects of others has a wide
interval, and a placebo that only went along with the incumbent as others moved is not taken for a cause. Nor is one
that went along with a single knob of great effect: what seems to matter is tested once more with each of the others
fitted beside it, and the weakest of these tests counts. Nor is what only one configuration says an effect of a knob:
where a cliff of one was met, all that was moved as far there and nowhere else seems to have caused it; so it has to
be seen with any one of them left out. Half of the noise is shared by repeats: that is what the model leaves out,
interactions above all. Of many knobs some look important by chance: Holm's correction of the F tests keeps the
probability of naming any knob without an effect at `LEVEL` in a whole report, were the trials independent of each
other's outcome. A search chooses them by what it has seen, so the rate on placebos is measured in the contest too.

Of a knob that was not moved, or of any where configurations do not outnumber what is fitted by four, nothing is told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import fdtrc, stdtrit

from trimtab.core import Knob
from trimtab.search.era import Era
from trimtab.search.evidence import Told
from trimtab.search.local_model import Array
from trimtab.search.space import Values, points_of

LEVEL = 0.005
"""Probability of naming any knob without an effect, in one report: of twenty none does so, nine times of ten."""
_STILL = 0.05
"""Chance below which an effect has to stay with any one of the configurations left out."""
_SPARE = 4
"""Degrees of freedom that have to be left for the noise."""
_APART = 1e-3
"""Least singular value of columns of length 1 that are not the same."""
_MOST = 700.0
"""Largest logarithm of a number that can be shown."""
_SIZES = np.logspace(-1.0, 3.5, 10)
"""h of Eq. (K1): from effects of a knob's whole range that are a third of the noise to some fifty times as large."""


@dataclass(frozen=True)
class Matter:
    """Effect of one knob on the cost.

    Args:
        knob: its name.
        matters: whether an effect was told apart.
        effect: logarithm of the cost's ratio between the ends of the range tried, by the linear term; None where
            it was not moved, or too few trials tell.
        error: its standard error; None likewise.
        like: the knob whose effect it may as well be; empty for none.
        moved: whether it was moved.
        freedom: degrees of freedom of the error.
    """

    knob: str
    matters: bool
    effect: float | None = None
    error: float | None = None
    like: str = ""
    moved: bool = True
    freedom: int = 1

    @property
    def said(self) -> str:
        """The effect as text, with its 95 % interval: the cost at the greatest value tried, to that at the least."""
        if self.effect is None or self.error is None:
            return "too few trials to tell" if self.moved else "not moved"
        if self.like:
            return f"not told from what {self.like} did"
        if not math.isfinite(self.error):
            return "too few trials to tell"
        half = float(stdtrit(self.freedom, 0.975)) * self.error
        size, least, most = (math.exp(min(_MOST, self.effect + apart)) for apart in (0.0, -half, half))
        return f"{size:.3g} times the cost ({least:.3g} to {most:.3g})"


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
        return tuple(Matter(knob.name, False, moved=False) for knob in knobs)
    x = points_of(knobs, list(known))
    y: Array = np.array([math.fsum(ys) / len(ys) for ys in known.values()])
    noise: Array = np.array([(1.0 + 1.0 / len(ys)) / 2.0 for ys in known.values()])
    moved = [k for k in range(len(knobs)) if np.ptp(x[:, k]) > 0]
    squared = len(known) - 1 - 2 * len(moved) >= max(_SPARE, len(moved))
    terms = {k: _terms(x[:, k]) for k in moved}
    found = {
        k: _beside_rivals(k, terms, squared, y, noise) for k in moved if len(y) >= 2 * (1 + squared) + 1 + _SPARE
    }
    ordered = sorted(found, key=lambda k: found[k].chance)
    matters, corrected, open_ = {}, 0.0, True
    for rank, k in enumerate(ordered):
        corrected = max(corrected, min(1.0, found[k].chance * (len(ordered) - rank)))
        open_ = open_ and corrected < LEVEL
        lasting = open_ and _without_any(k, x, y, noise, squared) < _STILL
        range_, rival = float(np.ptp(x[:, k])), found[k].rival
        like = "" if rival is None else knobs[rival].name
        effect, error = found[k].effect * range_, found[k].error * range_
        matters[k] = Matter(knobs[k].name, lasting, effect, error, like, freedom=found[k].freedom)
    still = [Matter(knob.name, False, moved=k in moved) for k, knob in enumerate(knobs) if k not in matters]
    return (*(matters[k] for k in ordered), *still)


def _without_any(knob: int, x: Array, y: Array, noise: Array, squared: bool) -> float:
    """The most that a knob's chance is with any one of the configurations left out."""
    chances = []
    for k in range(len(y)):
        kept = np.arange(len(y)) != k
        terms = {j: _terms(x[kept, j]) for j in range(x.shape[1]) if np.ptp(x[kept, j]) > 0}
        chances.append(_beside((knob,), terms, squared, y[kept], noise[kept]).chance if knob in terms else 1.0)
    return max(chances)


def _terms(column: Array) -> Array:
    """A knob's u and, where it had more than two values, q of Eq. (K1); one row for each configuration."""
    u = column - column.mean()
    square = u * u - np.mean(u * u)
    return np.stack([u, square], axis=1) if len(np.unique(column)) > 2 else u[:, None]


class _Found(NamedTuple):
    """A knob's linear term, its standard error and degrees of freedom, the chance of its F, and for which rival."""

    effect: float
    error: float
    chance: float
    freedom: int
    rival: int | None = None


def _beside_rivals(knob: int, terms: Mapping[int, Array], squared: bool, y: Array, noise: Array) -> _Found:
    """What a knob did, beside the other that explains the most of it."""
    alone = _beside((knob,), terms, squared, y, noise)
    if alone.chance >= LEVEL or len(terms) == 1:
        return alone
    beside = [
        _beside((knob, other), terms, squared, y, noise)._replace(rival=other) for other in terms if other != knob
    ]
    most = max(beside, key=lambda one: one.chance)
    return most if most.chance >= LEVEL else alone._replace(chance=max(alone.chance, most.chance))


def _beside(fixed: Sequence[int], terms: Mapping[int, Array], squared: bool, y: Array, noise: Array) -> _Found:
    """What the first of some knobs did, the others of these fitted beside it, and all else random."""
    own, *rest = (terms[k] if squared else terms[k][:, :1] for k in fixed)
    others = np.hstack([np.zeros((len(y), 0)), *(found for k, found in terms.items() if k not in fixed)])
    return _tested(own, np.hstack([np.ones((len(y), 1)), *rest]), others, y, noise)


def _tested(own: Array, beside: Array, others: Array, y: Array, noise: Array) -> _Found:
    """A knob's linear term, the error of that, and the probability of its F by chance.

    Args:
        own: its columns in Eq. (K1).
        beside: those of what is fitted beside it.
        others: those of what is random.
        y: the costs.
        noise: their variances, to s^2.
    """
    whole = np.hstack([own, beside])
    more, freedom = own.shape[1], len(y) - whole.shape[1]
    if np.linalg.matrix_rank(whole / np.linalg.norm(whole, axis=0), tol=_APART) < whole.shape[1]:
        return _Found(0.0, math.inf, 1.0, max(1, freedom))
    likely, found = [], []
    for size in _SIZES:
        factor = np.linalg.cholesky(np.diag(noise) + size * others @ others.T)
        white: Array = np.asarray(np.linalg.solve(factor, whole), dtype=float)
        seen: Array = np.asarray(np.linalg.solve(factor, y), dtype=float)
        coefficients, left = _fitted(white, seen)
        _, triangle = np.linalg.qr(white)
        inverse = np.linalg.inv(triangle)
        variance = max(left / freedom, 1e-18)
        f = max(0.0, _fitted(white[:, more:], seen)[1] - left) / more / variance
        found.append((coefficients[0], variance * float(np.sum(inverse[0] ** 2)), float(fdtrc(more, freedom, f))))
        determinant = 2 * (np.log(np.diag(factor)).sum() + np.log(np.abs(np.diag(triangle))).sum())
        likely.append(-(determinant + freedom * math.log(variance)) / 2)
    weights = np.exp(np.array(likely) - max(likely))
    weights /= weights.sum()
    effects, variances, chances = np.array(found).T
    effect = float(weights @ effects)
    error = math.sqrt(float(weights @ (variances + (effects - effect) ** 2)))
    return _Found(effect, error, float(weights @ chances), freedom)


def _fitted(columns: Array, y: Array) -> tuple[Array, float]:
    """Least squares: coefficients, and the sum of squares that is left."""
    coefficients: Array = np.asarray(np.linalg.lstsq(columns, y, rcond=None)[0], dtype=float)
    return coefficients, float(np.sum((y - columns @ coefficients) ** 2))
