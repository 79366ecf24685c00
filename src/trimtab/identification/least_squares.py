"""The recursive least squares estimator of lu2001, Section 5.2.3.

Promises that after every equation the parameters minimise the sum of squared prediction errors, together with the
distance from where they began, weighted by 1/10.

    gamma(m) = (q(m)^T R(m-1) q(m) + 1)^-1                                                  Eq. (3)
    theta(m) = theta(m-1) + R(m-1) q(m) gamma(m) (V(m) - q(m)^T theta(m-1))                 Eq. (4)
    R(m)     = R(m-1) (I - q(m) gamma(m) q(m)^T R(m-1))                                     Eq. (5)

| paper    | here             | unit                 | shape   |
|----------|------------------|----------------------|---------|
| theta(m) | Estimate.theta   | V per V, V per U     | 2n      |
| q(m)     | regressor        | n outputs, n inputs  | 2n      |
| R(m)     | Estimate.spread  | of 1/q^2             | 2n x 2n |
| gamma(m) | gamma            | -                    | scalar  |
| V(m)     | output           | of the output        | scalar  |

Eq. (5) is consistent: q gamma q^T is 2n x 2n, and R(m) = R - (R q) gamma (R q)^T is symmetric when R is. It is
computed in that form, so that rounding cannot make it asymmetric.

Departures from the paper
- `forgetting`, below 1, weighs an equation that is j equations old by forgetting^j: Eq. (3) has it in place of 1 and
  Eq. (5) is divided by it. It is what follows a system that changes; at 1 the equations are the paper's.
- Forgetting without new information lets R grow without bound. While the trace of R would pass that of the paper's
  start, or what is given, nothing is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

INITIAL_PARAMETER = 1.0
INITIAL_SPREAD = 10.0
"""The paper's initial values: every parameter is 1, and R is diagonal with this."""


@dataclass(frozen=True)
class Estimate:
    """Estimate of the parameters after some equations.

    Args:
        theta: the 2n parameters, those of the outputs before those of the inputs.
        spread: R, the rows of a symmetric 2n x 2n matrix.
        equations: number of equations used.
        squared_error: sum over the equations of the squared error of the prediction made before each was used.
    """

    theta: tuple[float, ...]
    spread: tuple[tuple[float, ...], ...]
    equations: int = 0
    squared_error: float = 0.0

    @property
    def order(self) -> int:
        """n."""
        return len(self.theta) // 2

    def predicted(self, regressor: Sequence[float]) -> float:
        """V^p(m), the output that these parameters predict.

        Args:
            regressor: q(m), 2n values.
        """
        return float(np.dot(self.theta, regressor))


def initial(order: int) -> Estimate:
    """The paper's initial values.

    Args:
        order: n, at least 1.
    """
    size = 2 * order
    rows = tuple(tuple(INITIAL_SPREAD if i == j else 0.0 for j in range(size)) for i in range(size))
    return Estimate((INITIAL_PARAMETER,) * size, rows)


def updated(
    estimate: Estimate, regressor: Sequence[float], output: float, forgetting: float = 1.0, most: float = 0.0
) -> Estimate:
    """The estimate after one more equation.

    Args:
        estimate: the estimate before.
        regressor: q(m), 2n values.
        output: V(m).
        forgetting: weight of an equation relative to the next one; above 0, at most 1.
        most: trace of R up to which it forgets; the paper's start where that is more.
    """
    q, spread = np.asarray(regressor, float), np.asarray(estimate.spread)
    gained = spread @ q
    error = output - estimate.predicted(regressor)
    for weight in (forgetting, 1.0):
        gamma = 1.0 / (q @ gained + weight)  # Eq. (3)
        theta = np.asarray(estimate.theta) + gained * gamma * error  # Eq. (4)
        after = (spread - gamma * np.outer(gained, gained)) / weight  # Eq. (5)
        if np.trace(after) <= max(INITIAL_SPREAD * len(q), most):
            break
    rows = tuple(tuple(float(value) for value in row) for row in after)
    squared_error = estimate.squared_error + error * error
    return Estimate(tuple(float(value) for value in theta), rows, estimate.equations + 1, squared_error)
