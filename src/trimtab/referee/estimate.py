"""Effect of a change on the cost, told apart from that of the load and from noise.

A window i before the change (A) or after it (B) has a log cost y, an offered utilisation rho and n requests.

    y_i = a + delta B_i + b (x_i - mean x of A) + u_i,    x = -ln(1 - min(0.95, rho))            (R1)
    cov u = sigma^2 Phi + diag(v / n),    Phi_ij = phi^|i-j|                                     (R2)
    cov theta = (X' W X + P)^-1,  theta = cov theta (X' W y + P theta0),  W = (cov u)^-1         (R3)
    sigma^2 = (3 sigma0^2 + r' C^-1 r) / (3 + m - 2),  C = Phi + diag(v / (n sigma^2)), thrice   (R4)

b = 1 is the queue's R = S / (1 - rho); where the load differs between A and B, the error of delta grows, and the
verdict is "not told apart", not wrong. The noise before anything was seen is that of a queue's windows:

    sigma0^2 = ln(1 + min(1 / rho, (1 + v/2) (1 + rho) d / (rho (1 - rho)^2 T)))                 (R5)
    phi0 = exp(-T (1 - sqrt rho)^2 / d), within 0.3 .. 0.8                                       (R6)

and what the windows show of their correlation counts more the more there are of them:

    phi = (6 phi0 + p r1) / (6 + p), within 0 .. 0.8;   r1 = mean r_i r_i+1 / mean r_i^2         (R9)

with r the residuals, and p how many pairs of neighbours there are. With phi0 alone, a server near saturation was
taken for one on which 36 windows tell nothing, where its windows hardly followed one another. The 6 was chosen on
draws of the simulated battery: 12 brought less, 3 as much. It costs false verdicts on the planted effects below: 17 %
in place of 14.

| symbol | here         | unit | meaning                                                                         |
|--------|--------------|------|---------------------------------------------------------------------------------|
| y      | log_cost     | 1    | natural logarithm of the objective, less is better                              |
| rho    | utilisation  | 1    | arrivals x demand of a request at the bottleneck; 0 where it is not known       |
| n      | requests     | 1    | requests that the window's mean is of                                           |
| v      | VARIATION    | 1    | squared coefficient of variation of request times; 2 where nothing is known     |
| d      | demand_s     | s    | seconds of the whole bottleneck that a request takes                            |
| T      | window_s     | s    | length of a window                                                              |
| delta  | effect       | 1    | logarithm of the cost's ratio at equal load                                     |

Priors: delta ~ N(0, 0.7^2), as a factor of two either way is usual for a change of a setting; b ~ N(1, 0.5^2), which
holds the flatter curve of several cores too; a is flat.

    worse:   effect - 0.95 error > ln 1.25
    better:  effect + 0.95 error < -ln 1.25; after 12 windows also effect + 2 error < 0 and effect < -ln 1.1
    same:    |effect| + 2 error < ln 1.25

Of many looks at no effect most that go wrong see a small one, told closely; those at twice the cost a large one, told
roughly. So a margin and few errors beyond it find harm as soon with half of the false verdicts. The margin is what is
called the same. What leans to better for longer than that may be smaller, told closely: less than a tenth is worth no
change. What each constant was checked against is in
tests/unit/referee/test_estimate.py: effects planted in autocorrelated series.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from trimtab.core import Verdict

VARIATION = 2.0
MOST_UTILISATION = 0.95
MARGIN, ERRORS = math.log(1.25), 0.95
SMALL_GAIN, SURE_ERRORS = math.log(1.1), 2.0
UNDECIDED = 12
"""Windows in which a large effect shows; what has not by then is small, or none."""
_PRIOR_MEAN = (0.0, 0.0, 1.0)
_PRIOR_PRECISION = (0.0, 1 / 0.7**2, 1 / 0.5**2)
_PRIOR_WINDOWS = 3.0
_PRIOR_PAIRS = 6.0
_MOST_PHI = 0.8
_ROUNDS = 3

Row = Sequence[float]


@dataclass(frozen=True)
class Seen:
    """One window.

    Args:
        index: its place in time, in windows.
        log_cost: natural logarithm of the objective.
        utilisation: offered utilisation of the bottleneck.
        requests: how many requests it is the mean of; infinite where that is not known.
    """

    index: int
    log_cost: float
    utilisation: float
    requests: float


@dataclass(frozen=True)
class Noise:
    """Noise between windows at one setting and one load.

    Args:
        sigma: standard deviation of the log cost.
        phi: correlation of neighbouring windows.
    """

    sigma: float = 0.3
    phi: float = 0.6


@dataclass(frozen=True)
class Effect:
    """Effect of a change on the cost.

    Args:
        size: logarithm of the cost's ratio, after to before, at equal load.
        error: its standard error.
        sigma: standard deviation of a window's log cost, as estimated.
    """

    size: float
    error: float
    sigma: float


def verdict_of(found: Effect, windows: int) -> Verdict | None:
    """The verdict on a change by its effect; None while it is none.

    Args:
        found: the effect.
        windows: windows with the change in force.
    """
    if found.size - ERRORS * found.error > MARGIN:
        return Verdict.WORSE
    small = windows > UNDECIDED and found.size < -SMALL_GAIN and found.size + SURE_ERRORS * found.error < 0
    if small or found.size + ERRORS * found.error < -MARGIN:
        return Verdict.BETTER
    return Verdict.SAME if abs(found.size) + SURE_ERRORS * found.error < MARGIN else None


def queue_noise(utilisation: float, demand_s: float, window_s: float) -> Noise:
    """The noise of a queue's windows, Eq. (R5) and (R6); the usual one where the demand is not known.

    Args:
        utilisation: utilisation of the bottleneck, before the change.
        demand_s: a request's demand on it, in seconds of the whole bottleneck; 0 where it is not known.
        window_s: length of a window, in seconds.
    """
    if demand_s <= 0 or utilisation <= 0:
        return Noise()
    rho = min(MOST_UTILISATION, utilisation)
    spread = (1 + VARIATION / 2) * (1 + rho) * demand_s / (rho * (1 - rho) ** 2 * window_s)
    phi = math.exp(-window_s * (1 - math.sqrt(rho)) ** 2 / demand_s)
    return Noise(math.sqrt(math.log1p(min(1 / rho, spread))), min(_MOST_PHI, max(0.3, phi)))


def effect(windows: Sequence[Seen], changed: Sequence[bool], noise: Noise) -> Effect:
    """Estimates a change's effect on the log cost, Eq. (R1) to (R4).

    Args:
        windows: m windows before, under and, where there are some, after the change, in order.
        changed: for each whether the change was in force.
        noise: prior noise of a window.

    Raises:
        ValueError: all windows are of one kind.
    """
    if not 0 < sum(changed) < len(windows):
        raise ValueError("an effect needs windows with the change and without it")
    rows, found = _fitted(windows, changed, noise)
    theta, covariance = _solved(_whitened(windows, rows, found))
    return Effect(theta[1], math.sqrt(covariance[1][1]), found.sigma)


def noise_of(windows: Sequence[Seen], noise: Noise) -> Noise:
    """The noise of windows at one setting, by what they show and what was known before, Eq. (R4) and (R9).

    Args:
        windows: the windows; with one or none all that is known is the prior.
        noise: prior noise of a window.
    """
    if len(windows) < 2:
        return noise
    return _fitted(windows, [False] * len(windows), noise)[1]


def windows_needed(size: float, noise: Noise) -> float:
    """Windows on each side after which an effect of this size is two standard errors from none.

    Args:
        size: the effect, as a logarithm; 0 is never told apart.
        noise: noise of a window.
    """
    if size == 0:
        return math.inf
    return 2 * (2 * noise.sigma / size) ** 2 * (1 + noise.phi) / (1 - noise.phi)


def _fitted(windows: Sequence[Seen], changed: Sequence[bool], noise: Noise) -> tuple[list[Row], Noise]:
    """Rows of Eq. (R1) with the log cost last, and the noise by Eq. (R4) and (R9)."""
    x = [-math.log1p(-min(MOST_UTILISATION, max(0.0, one.utilisation))) for one in windows]
    usual = math.fsum(value for value, after in zip(x, changed, strict=True) if not after) / changed.count(False)
    rows: list[Row] = [
        (1.0, float(after), value - usual, one.log_cost)
        for one, after, value in zip(windows, changed, x, strict=True)
    ]
    found = noise
    for _ in range(_ROUNDS):
        theta, _ = _solved(_whitened(windows, rows, found))
        left = [(y - math.fsum(c * t for c, t in zip(row, theta, strict=True)),) for *row, y in rows]
        found = replace(found, phi=_correlation(windows, [one for (one,) in left], noise.phi))
        whitened = found.sigma**2 * math.fsum(one**2 for (one,) in _whitened(windows, left, found))
        variance = (_PRIOR_WINDOWS * noise.sigma**2 + whitened) / (_PRIOR_WINDOWS + len(windows) - 2)
        found = replace(found, sigma=math.sqrt(variance))
    return rows, found


def _correlation(windows: Sequence[Seen], left: Sequence[float], prior: float) -> float:
    """Correlation of neighbouring windows by their residuals and the prior, Eq. (R9)."""
    pairs = [
        a * b for (one, a), (other, b) in pairwise(zip(windows, left, strict=True)) if other.index == one.index + 1
    ]
    square = math.fsum(one**2 for one in left) / len(left)
    seen = math.fsum(pairs) / square if square > 0 else len(pairs) * prior
    return min(_MOST_PHI, max(0.0, (_PRIOR_PAIRS * prior + seen) / (_PRIOR_PAIRS + len(pairs))))


def _whitened(windows: Sequence[Seen], rows: Sequence[Row], noise: Noise) -> list[list[float]]:
    """Rows times the inverse Cholesky factor of Eq. (R2)'s covariance.

    A Kalman filter finds it in one pass, because u is an autoregressive part seen through independent errors.
    """
    found, variance = [], noise.sigma**2
    spread, state, before = variance, [0.0] * len(rows[0]), windows[0].index
    for one, row in zip(windows, rows, strict=True):
        carried = noise.phi ** abs(one.index - before)
        spread = carried**2 * spread + variance * (1 - carried**2)
        state = [carried * value for value in state]
        total = spread + VARIATION / max(1.0, one.requests)
        errors = [value - expected for value, expected in zip(row, state, strict=True)]
        gain = spread / total
        state = [expected + gain * error for expected, error in zip(state, errors, strict=True)]
        spread *= 1 - gain
        found.append([error / math.sqrt(total) for error in errors])
        before = one.index
    return found


def _solved(rows: Sequence[Row]) -> tuple[list[float], list[list[float]]]:
    """Coefficients and their covariance from whitened rows, the last column being y: Eq. (R3)."""
    size = len(_PRIOR_MEAN)
    system = [
        [math.fsum(row[i] * row[j] for row in rows) + (_PRIOR_PRECISION[i] if i == j else 0.0) for j in range(size)]
        + [float(i == j) for j in range(size)]
        for i in range(size)
    ]
    for i in range(size):  # Gauss-Jordan; positive definite, so that no pivot is 0
        system[i] = [value / system[i][i] for value in system[i]]
        for k in range(size):
            if k != i:
                system[k] = [a - system[k][i] * b for a, b in zip(system[k], system[i], strict=True)]
    covariance = [row[size:] for row in system]
    right = [
        math.fsum(row[i] * row[size] for row in rows) + _PRIOR_PRECISION[i] * _PRIOR_MEAN[i] for i in range(size)
    ]
    return [math.fsum(c * r for c, r in zip(row, right, strict=True)) for row in covariance], covariance
