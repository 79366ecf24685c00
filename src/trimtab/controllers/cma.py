"""CMA-ES over windows: each window is a trial, by the package cmaes. A peer for the lab; it promises nothing.

Equations (Hansen 2016, as in cmaes.CMA): points are drawn from N(m, s^2 C), begun at the running configuration with
`sigma`; after each generation m moves to the weighted mean of the better half, C and s follow the path of m.

Departures: points go to the nearest member of the domain; a failed trial costs a tenth more than the worst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.controllers._knob import require
from trimtab.errors import UsageError
from trimtab.search.ask_and_tell import AskAndTell, AskState, seed_of, worst
from trimtab.search.evidence import Told
from trimtab.search.space import Point, point_of


@dataclass(frozen=True)
class Cma(AskAndTell):
    """The search.

    Args:
        sigma: first standard deviation of a coordinate.
    """

    sigma: float = 0.2
    method: ClassVar[str] = "cma"

    def require(self) -> None:
        """Refuses to start without the package, or with no step to begin with.

        Raises:
            UsageError: cmaes is not installed, or `sigma` is not above 0 and at most 1, the whole of a coordinate.
        """
        require(0 < self.sigma <= 1, "sigma", self.sigma, "more than 0 and at most 1")
        try:
            import cmaes  # noqa: F401
        except ImportError:
            raise UsageError("cma needs the package cmaes, which is not installed") from None

    def next_point(self, state: AskState, told: Sequence[Told]) -> Point:
        """The next point of the generation under way; every generation is built anew from the evidence."""
        from cmaes import CMA

        knobs = state.knobs
        dimensions = max(2, len(knobs))  # cmaes asks for two at least: the second of one knob is left out
        middle = np.full(dimensions, 0.5)
        middle[: len(knobs)] = point_of(knobs, told[0].values)
        bounds = np.tile([0.0, 1.0], (dimensions, 1))
        search = CMA(mean=middle, sigma=self.sigma, bounds=bounds, seed=seed_of(state.seed))
        generation: list[tuple[np.ndarray, float]] = []
        for one in told[1:]:
            x = search.ask()
            x[: len(knobs)] = point_of(knobs, one.values)
            generation.append((x, worst(told) if one.y is None else one.y))
            if len(generation) == search.population_size:
                search.tell(generation)
                generation = []
        return tuple(search.ask()[: len(knobs)].tolist())


CONTROLLER = Cma
