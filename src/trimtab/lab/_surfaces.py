"""Synthetic surfaces for the contest of searches: formulas with a known optimum, models of no server.

    f(x) = q(x) + cliff(x),   q(x) = (x - x*)' A (x - x*),   cost = f_0 exp(f(x) + drift(t) + 1.8 z_t + e_t)   (C1)
    z_t = 0.8 z_(t-1) + 0.6 pace n_t                                                                  (C2)

with x the coordinates of `trimtab.search.space`, A positive definite with interactions, scaled so that the start
costs `gain` more than the best, in logarithms. A placebo has neither row nor column in A. A cliff stands where the
sum of two coordinates passes what both may have together, as where pools outgrow memory. On a plateau the start is
the best. A machine's pace wanders by z (n are standard normal), and is read to within 2 %, as on the machine where
the private shop was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trimtab.core import Domain, How, Knob, Objective, Window
from trimtab.search.pace import PACE
from trimtab.search.space import Values, point_of, values_at

METRIC = "response_time_s"
_USUAL_S, _USUAL_COMPUTE_S = 0.2, 75e-6
_FOLLOWS, _STAYS, _READ = 1.8, 0.8, 0.02


@dataclass(frozen=True)
class Kind:
    """A kind of surface.

    Args:
        active: knobs with an effect.
        placebos: knobs without.
        noise: standard deviation of e.
        drift: how much the load drifts in all trials together, as a logarithm.
        pace: standard deviation of z.
        switched: whether the optimum moves in mid-run.
        cliff: height of the cliff, as a logarithm; 0 for none.
        flat: whether the start is the best.
    """

    active: int = 8
    placebos: int = 0
    noise: float = 0.03
    drift: float = 0.0
    pace: float = 0.0
    switched: bool = False
    cliff: float = 0.0
    flat: bool = False


KINDS = {
    "quiet": (Kind(noise=0.01), "interactions, noise of 1 %"),
    "usual": (Kind(noise=0.03), "interactions, noise of 3 %"),
    "loud": (Kind(noise=0.10), "interactions, noise of 10 %"),
    "drift": (Kind(drift=0.3), "a load that drifts by a third"),
    "pace": (Kind(pace=0.05), "a machine that computes faster and slower, by a tenth of the cost"),
    "switch": (Kind(switched=True), "another optimum from the middle on"),
    "placebo": (Kind(active=5, placebos=15), "15 of 20 knobs without an effect"),
    "cliff": (Kind(cliff=1.5), "a cliff where two knobs together are too large"),
    "plateau": (Kind(flat=True), "nothing to be had"),
}
"""Name to the kind and what it shows."""


@dataclass(frozen=True, eq=False)
class Surface:
    """One surface drawn from a seed: a bed.

    Args:
        kind: what was drawn.
        seed: where it was drawn from.
        trials: how many there will be.
        knobs: its knobs, those with an effect first.
        start: the configuration at first.
        matrix: A.
        optima: x* in each half of the run.
    """

    kind: Kind
    seed: int
    trials: int
    knobs: tuple[Knob, ...]
    start: Values
    matrix: np.ndarray
    optima: tuple[np.ndarray, np.ndarray]

    @property
    def active(self) -> frozenset[str]:
        """Names of the knobs with an effect."""
        return frozenset(knob.name for knob in self.knobs[: self.kind.active])

    @property
    def objective(self) -> Objective:
        """The time, to be made least."""
        return Objective(METRIC)

    def objection(self, values: Values) -> str:
        """Nothing: a formula takes every configuration."""
        del values
        return ""

    def window(self, index: int, values: Values) -> Window:
        """A trial with its noise, which depends on seed and trial only: all methods meet the same."""
        noise = self.kind.noise * float(np.random.default_rng((self.seed, 7, index)).standard_normal())
        drift = self.kind.drift * math.sin(math.pi * index / self.trials)
        slower, read = self._paces[index] if self.kind.pace else (0.0, 0.0)
        cost_s = _USUAL_S * math.exp(self.truth(index, values) + drift + _FOLLOWS * slower + noise)
        configuration = {knob.name: value for knob, value in zip(self.knobs, values, strict=True)}
        pace = {PACE: _USUAL_COMPUTE_S * math.exp(read)} if self.kind.pace else {}
        return Window(index, float(index), 1.0, configuration, {METRIC: cost_s, **pace}, 200)

    def truth(self, index: int, values: Values) -> float:
        """f(x), Eq. (C1)."""
        x = np.array(point_of(self.knobs, values))[: self.kind.active]
        apart = x - self._optimum(index)
        far = float(apart @ self.matrix @ apart)
        start = point_of(self.knobs, self.start)
        edge = max(start[0] + start[1], float(sum(self._optimum(index)[:2]))) + 0.15
        return far + (self.kind.cliff if x[0] + x[1] > edge else 0.0)

    def best(self, index: int) -> float:
        """f at the optimum, as near as the domains allow."""
        whole = np.full(len(self.knobs), 0.5)
        whole[: self.kind.active] = self._optimum(index)
        return min(self.truth(index, values_at(self.knobs, whole.tolist())), self.truth(index, self.start))

    @cached_property
    def _paces(self) -> list[tuple[float, float]]:
        """z of each trial by Eq. (C2), and as it is read."""
        rng, z, found = np.random.default_rng((self.seed, 9)), 0.0, []
        for _ in range(self.trials):
            z = _STAYS * z + math.sqrt(1 - _STAYS**2) * self.kind.pace * float(rng.standard_normal())
            found.append((z, z + _READ * float(rng.standard_normal())))
        return found

    def _optimum(self, index: int) -> np.ndarray:
        return self.optima[self.kind.switched and 2 * index >= self.trials]


def surface(kind: Kind, seed: int, trials: int) -> Surface:
    """Draws a surface.

    Args:
        kind: what to draw.
        seed: source of all randomness.
        trials: how many there will be.
    """
    rng = np.random.default_rng((seed, 5))
    knobs = tuple(_knob(k, rng) for k in range(kind.active + kind.placebos))
    whole = rng.uniform(0.1, 0.9, len(knobs))
    start = values_at(knobs, whole.tolist())
    at = np.array(point_of(knobs, start))[: kind.active]
    root = rng.standard_normal((kind.active, kind.active)) * 0.35 + np.eye(kind.active)
    weights = np.exp(rng.normal(0.0, 0.7, kind.active))
    matrix = (root * weights).T @ (root * weights)
    optima = [at if kind.flat else rng.uniform(0.15, 0.85, kind.active) for _ in range(2)]
    gain = rng.uniform(0.2, 0.6)
    apart = at - optima[0]
    matrix *= gain / float(apart @ matrix @ apart) if not kind.flat else 0.1
    return Surface(kind, seed, trials, knobs, start, matrix, (optima[0], optima[1]))


def _knob(index: int, rng: np.random.Generator) -> Knob:
    """A knob of one of the shapes that servers have: a count, a size, a coarse grid."""
    domains: tuple[Callable[[], Domain], ...] = (
        lambda: Domain(1, 500),
        lambda: Domain(0, 100, 5),
        lambda: Domain(4096, 4096 * 2**12, 1, logarithmic=True),
        lambda: Domain(1, 64),
    )
    domain = domains[int(rng.integers(0, len(domains)))]()
    name = f"k{index:02d}"
    return Knob(name, name, "", domain, domain.minimum, How.LIVE, "nothing", "a knob of a formula")
