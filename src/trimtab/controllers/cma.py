"""CMA-ES (Hansen and Ostermeier 2001) by the package cmaes: a normal distribution that learns where costs fall.

Each generation of 4 + 3 ln d points is drawn from N(m, s^2 C); then mean, step and covariance move towards its better
half.

| symbol | here | unit | shape |
|---|---|---|---|
| m, s, C | mean, step (at first `sigma`) and covariance of the points | 1 | d, scalar, d x d |

Departures: the first point is what is in force, told as if it had been drawn; a trial that failed costs as much as
the worst of its generation. The library's state is rebuilt from the trials at each step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from trimtab.controllers._ask import AskAndTell, AskState
from trimtab.errors import UsageError
from trimtab.search.space import point_of, values_at


@dataclass(frozen=True)
class Cma(AskAndTell):
    """The search.

    Args:
        sigma: the first step, in widths of the unit cube.
    """

    sigma: float = 0.15

    def require(self) -> None:
        """Finds the package.

        Raises:
            UsageError: it is not installed.
        """
        try:
            import cmaes  # noqa: F401
        except ImportError:
            raise UsageError("cma needs the package cmaes, which is not installed") from None

    def asked(self, state: AskState) -> dict[str, int]:
        """The next point of the generation."""
        from cmaes import CMA

        size = len(state.knobs)
        first = dict(zip((k.name for k in state.knobs), state.told[0].values, strict=True))
        mean = np.asarray(point_of(state.knobs, first))
        if size == 1:  # the package needs two dimensions: the second does nothing
            mean = np.append(mean, 0.5)
        method: Any = CMA(mean, self.sigma, bounds=np.array([[0.0, 1.0]] * len(mean)), seed=state.seed)
        generation: list[tuple[Any, float | None]] = [(mean, state.told[0].cost)]
        for one in state.told[1:]:
            generation = _told(method, generation)
            generation.append((method.ask(), one.cost))
        _told(method, generation)
        return values_at(state.knobs, method.ask()[:size])


def _told(method: Any, generation: list[tuple[Any, float | None]]) -> list[tuple[Any, float | None]]:
    """Tells a generation that is whole, and begins the next."""
    if len(generation) < method.population_size:
        return generation
    known = [cost for _, cost in generation if cost is not None and math.isfinite(cost)]
    worst = max(known, default=0.0)
    method.tell([(x, cost if cost is not None and math.isfinite(cost) else worst) for x, cost in generation])
    return []


CONTROLLER = Cma
