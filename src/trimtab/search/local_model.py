"""Model of the cost over the knobs: a Gaussian process with noise and drift, fitted to a search's trials.

    y_i = m + f(x_i) + w(t_i) + e_i,   e ~ N(0, s^2)                                                     (G1)
    cov f(x), f(x') = a^2 exp(-1/2 sum_k d_k(x, x') / l_k^2)                                           (G2)
    cov w(t), w(t') = g^2 min(t, t')                                                                  (G3)

with d_k the squared difference of the coordinates of a number, and for a choice 1 where its names differ. One length
l_k for each knob: one without effect gets a long one. A load that wanders is a random walk w beside the surface, so
trials made late are not believed to be better only because the shop was quieter. The noise s comes from repeats.

The other parameters are the most likely ones under broad lognormal priors, one step of a factor at a time from those
of the trial before. The medians of the priors say what is usual before anything is known: a = 0.5, that is, somewhere
in the space the cost is about 1.6 times another; l = 0.7 sqrt(knobs), so that surfaces of many knobs are no rougher
than of few, and half of that for what a server runs out of: workers, pooled connections, caches; g = 0.002, a wander
of 2 % in a hundred trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from trimtab.core import Knob, Role

Array = npt.NDArray[np.float64]
_FACTOR = 1.6
_ROUNDS = 3
_SPREADS = (1.0, 0.7, 0.7)
"""Standard deviations of the logarithms of l, a and g under their priors."""
_JITTER = 1e-10
_LEAST_NOISE = 1e-3
USUAL_NOISE = 0.03
"""Standard deviation of a trial before anything is known."""
_SHORTER = dict.fromkeys((Role.WORKER_LIMIT, Role.POOL_LIMIT, Role.CACHE), 0.5)
"""Length of a knob by its role, to the usual one."""
MOST = 80
"""Trials that it looks at, the latest; its cost grows with their cube."""


@dataclass(frozen=True)
class Scales:
    """The parameters.

    Args:
        lengths: l, one for each knob.
        amplitude: a.
        drift: g.
    """

    lengths: tuple[float, ...]
    amplitude: float = 0.5
    drift: float = 0.002

    @staticmethod
    def usual(knobs: Sequence[Knob]) -> Scales:
        """The medians of the priors."""
        length = 0.7 * math.sqrt(len(knobs))
        return Scales(tuple(length * _SHORTER.get(knob.role, 1.0) for knob in knobs))


def noise_of(groups: Sequence[Sequence[float]]) -> float:
    """The standard deviation of the noise, pooled over repeats; one of 3 % counts as one degree of freedom.

    Args:
        groups: the costs of the trials of each configuration.
    """
    squares, freedom = USUAL_NOISE**2, 1
    for group in groups:
        mean = math.fsum(group) / len(group)
        squares += math.fsum((y - mean) ** 2 for y in group)
        freedom += len(group) - 1
    return max(_LEAST_NOISE, math.sqrt(squares / freedom))


class LocalModel:
    """The process, given trials.

    Args:
        x: coordinates, one row for each trial.
        y: their costs.
        knobs: those of the coordinates.
        noise: s.
        scales: parameters to begin with; `scales` has the most likely ones near them.
    """

    def __init__(self, x: Array, y: Array, knobs: Sequence[Knob], noise: float, scales: Scales) -> None:
        self._x, self._noise, self._usual = x[-MOST:], noise, Scales.usual(knobs)
        self._choices = np.array([bool(knob.domain.choices) for knob in knobs])
        self._y = y[-MOST:]
        times = np.arange(len(self._y), dtype=float)
        self._walk = np.minimum(times[:, None], times[None, :])
        self._apart = self._differences(self._x, self._x)
        self.scales = scales
        for _ in range(_ROUNDS):
            tried = [self.scales, *_steps(self.scales)]
            best = int(np.argmax(self._evidence(tried)))
            if best == 0:
                break
            self.scales = tried[best]
        self._factor = np.linalg.cholesky(self._covariances([self.scales])[0])
        ones = self._solve(np.ones(len(self._y)))
        self._mean = float(ones @ self._y / ones.sum())
        self._weights = self._solve(self._y - self._mean)

    def against(self, points: Array, centre: Array) -> tuple[Array, Array]:
        """How much more than a centre points cost, without noise.

        Args:
            points: coordinates, one row for each.
            centre: coordinates of the centre.

        Returns:
            (means, standard deviations), by point.
        """
        both = np.vstack([points, centre[None, :]])
        cross = self._kernel(self._differences(both, self._x))
        differing = cross[:-1] - cross[-1]
        means = differing @ self._weights
        apart = self._kernel(self._differences(points, centre[None, :]))[:, 0]
        prior = 2 * (self.scales.amplitude**2 - apart)
        explained = np.linalg.solve(self._factor, differing.T)
        variances = np.maximum(0.0, prior - np.einsum("ij,ij->j", explained, explained))
        return means, np.sqrt(variances)

    def _differences(self, left: Array, right: Array) -> Array:
        """d_k of Eq. (G2), shape (left, right, knobs)."""
        apart: Array = left[:, None, :] - right[None, :, :]
        others = np.abs(apart[..., self._choices]) > 1e-9
        apart **= 2
        apart[..., self._choices] = others
        return apart

    def _kernel(self, apart: Array) -> Array:
        lengths = np.array(self.scales.lengths)
        found: Array = self.scales.amplitude**2 * np.exp(-0.5 * (apart @ lengths**-2.0))  # Eq. (G2)
        return found

    def _covariances(self, tried: Sequence[Scales]) -> Array:
        """The covariance of the trials under each of several parameters."""
        inverse = np.array([scales.lengths for scales in tried]) ** -2.0
        shape = np.exp(-0.5 * np.moveaxis(self._apart @ inverse.T, -1, 0))
        amplitudes = np.array([scales.amplitude for scales in tried])[:, None, None]
        drifts = np.array([scales.drift for scales in tried])[:, None, None]
        own = (self._noise**2 + _JITTER) * np.eye(len(self._y))
        found: Array = amplitudes**2 * shape + drifts**2 * self._walk + own  # Eq. (G1) to (G3)
        return found

    def _evidence(self, tried: Sequence[Scales]) -> Array:
        """The logarithm of the posterior of each of several parameters, but for a constant."""
        factors = np.linalg.cholesky(self._covariances(tried))
        right = np.stack([np.ones(len(self._y)), self._y], axis=1)
        whitened = np.linalg.solve(factors, np.broadcast_to(right, (len(tried), *right.shape)))
        ones, values = whitened[..., 0], whitened[..., 1]
        means = (ones * values).sum(axis=1) / (ones * ones).sum(axis=1)
        residuals = values - means[:, None] * ones
        volumes = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        found: Array = (
            -0.5 * (residuals**2).sum(axis=1) - volumes + np.array([_prior(scales, self._usual) for scales in tried])
        )
        return found

    def _solve(self, right: Array) -> Array:
        found: Array = np.linalg.solve(self._factor.T, np.linalg.solve(self._factor, right))
        return found


def _steps(scales: Scales) -> list[Scales]:
    """The parameters with one of them a factor larger or smaller."""
    found = []
    for factor in (_FACTOR, 1 / _FACTOR):
        for k, length in enumerate(scales.lengths):
            lengths = (*scales.lengths[:k], length * factor, *scales.lengths[k + 1 :])
            found.append(replace(scales, lengths=lengths))
        found.append(replace(scales, amplitude=scales.amplitude * factor))
        found.append(replace(scales, drift=scales.drift * factor))
    return found


def _prior(scales: Scales, usual: Scales) -> float:
    """The logarithm of the prior, but for a constant."""
    length, amplitude, drift = _SPREADS
    far = [math.log(one / own) / length for one, own in zip(scales.lengths, usual.lengths, strict=True)]
    far += [math.log(scales.amplitude / usual.amplitude) / amplitude, math.log(scales.drift / usual.drift) / drift]
    return -0.5 * math.fsum(one * one for one in far)
