"""A model of the cost around a setting: what each knob does, and how sure that is.

Bayesian linear regression on a knob's displacement and its square, without interactions:

    y = b + sum_j (u_j d_j + q_j d_j^2) + e,   d = x - centre,   e ~ N(0, s^2 + (L |d|^2)^2)            (M1)
    b ~ flat,   u_j ~ N(0, a_j^2),   q_j ~ N(0, (a_j / S)^2)                                           (M2)
    a_j^2 <- (mean of u_j^2 + var u_j + S^2 (q_j^2 + var q_j)) / 2, some rounds                        (M3)

Eq. (M3) is the expectation step of automatic relevance determination (Tipping 2001): the scale of a knob without
effect goes towards nothing, so that it is left where it is. Trials far from the centre count less, because there
the square has no longer to be enough.

| here      | meaning                                                                                       |
|-----------|-----------------------------------------------------------------------------------------------|
| y         | logarithm of the cost                                                                         |
| x, d      | a point of the unit cube, and its displacement from the centre                                |
| s         | noise of one trial                                                                            |
| L         | `LACK`: what the square may miss at a distance of 1                                           |
| a_j, S    | scale of knob j's effect; `SPAN`, the displacement at which square and slope may be alike     |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LACK = 2.0
SPAN = 0.3
SCALE = 0.5
"""Scale of an effect before anything is known: the whole range of a knob may make a factor of 1.6 either way."""
_LEAST = 0.02
_ROUNDS = 8
_FLAT = 1e3

Array = NDArray[np.float64]
Floats = Sequence[float] | Array


@dataclass(frozen=True)
class Local:
    """The model around a centre.

    Args:
        centre: the point, of d coordinates.
        mean: of b, u_1..u_d, q_1..q_d.
        covariance: of the same.
    """

    centre: Array
    mean: Array
    covariance: Array

    def cost(self, point: Floats) -> tuple[float, float]:
        """Mean and standard deviation of the cost at a point, without the noise of a trial."""
        row = _row(np.asarray(point, float) - self.centre)
        return float(row @ self.mean), math.sqrt(max(0.0, float(row @ self.covariance @ row)))

    def gain(self, point: Floats) -> tuple[float, float]:
        """Mean and standard deviation of what a point costs less than the centre; both know the same trials."""
        row = _row(np.asarray(point, float) - self.centre)
        row[0] = 0.0
        return -float(row @ self.mean), math.sqrt(max(0.0, float(row @ self.covariance @ row)))

    def drawn(self, chance: np.random.Generator) -> Local:
        """The model with coefficients drawn from what is known of them."""
        one = chance.multivariate_normal(self.mean, self.covariance, method="eigh")
        return Local(self.centre, one, self.covariance)

    def lowest(self, low: Floats, high: Floats) -> Array:
        """The point of least cost within a box: each coordinate by itself, as nothing interacts.

        Args:
            low: smallest coordinates.
            high: largest coordinates.
        """
        size = len(self.centre)
        slope, square = self.mean[1 : size + 1], self.mean[size + 1 :]
        ends = np.stack([np.asarray(low, float), np.asarray(high, float)]) - self.centre
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.where(square > 1e-12, -slope / (2 * square), 0.0)
        bottom, top = np.sort(ends, axis=0)
        tried = np.vstack([ends, np.clip(inner, bottom, top), np.clip(np.zeros(size), bottom, top)])
        costs = slope * tried + square * tried**2
        found: Array = self.centre + tried[np.argmin(costs, axis=0), np.arange(size)]
        return found


def fitted(centre: Floats, points: Sequence[Floats], costs: Sequence[float], noise: float) -> Local:
    """The model that trials leave.

    Args:
        centre: the point that it is of.
        points: of the trials; n of them, of d coordinates.
        costs: their costs.
        noise: standard deviation of one trial's cost.
    """
    middle = np.asarray(centre, float)
    size = len(middle)
    if not len(points):
        prior = np.concatenate([[_FLAT], np.full(size, SCALE), np.full(size, SCALE / SPAN)])
        return Local(middle, np.zeros(2 * size + 1), np.diag(prior**2))
    moved = np.asarray(points, float) - middle
    rows = np.stack([_row(one) for one in moved])
    weight = 1.0 / (noise**2 + (LACK * np.sum(moved**2, axis=1)) ** 2)
    y = np.asarray(costs, float)
    offset = float(np.average(y, weights=weight))
    scale = np.full(size, SCALE)
    for _ in range(_ROUNDS):
        precision = np.concatenate([[_FLAT**-2], scale**-2.0, (scale / SPAN) ** -2.0])
        covariance = np.linalg.inv((rows.T * weight) @ rows + np.diag(precision))
        mean = covariance @ ((rows.T * weight) @ (y - offset))
        second = mean**2 + np.diag(covariance)
        scale = np.sqrt((second[1 : size + 1] + SPAN**2 * second[size + 1 :]) / 2)  # Eq. (M3)
        scale = np.clip(scale, _LEAST, 2 * SCALE)
    mean[0] += offset
    return Local(middle, mean, covariance)


def _row(moved: Array) -> Array:
    """The features of a displacement: 1, d, d squared."""
    found: Array = np.concatenate([[1.0], moved, moved**2])
    return found
