"""What a search has been told: settings with their costs, as a record that can be stored."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.core import Objective, Window
from trimtab.core.objective import BROKEN


@dataclass(frozen=True)
class Told:
    """One trial.

    Args:
        values: of the knobs, in their order.
        cost: logarithm of the objective, less is better; infinite where it broke a limit, None where it failed.
    """

    values: tuple[int, ...]
    cost: float | None


def cost_of(window: Window, objective: Objective) -> float | None:
    """The logarithm of a window's cost: differences are ratios whatever the objective is.

    Args:
        window: what was seen.
        objective: what is made best.

    Returns:
        Less is better; infinite where a limit is broken; None where it was not measured, or a rate was 0.
    """
    value, cost = window.readings.get(objective.metric), objective.cost(window)
    if cost is None or value is None or value <= 0:
        return None
    if cost >= BROKEN:
        return math.inf
    return math.log(value) if objective.minimize else -math.log(value)


def finite(told: Sequence[Told]) -> list[tuple[tuple[int, ...], float]]:
    """The trials that can be compared."""
    return [(one.values, one.cost) for one in told if one.cost is not None and math.isfinite(one.cost)]


def means(told: Sequence[Told]) -> dict[tuple[int, ...], tuple[float, int]]:
    """Mean cost of each setting and how often it was measured; a setting that failed or broke a limit is left out."""
    bad = {one.values for one in told if one.cost is None or not math.isfinite(one.cost)}
    groups: dict[tuple[int, ...], list[float]] = {}
    for values, cost in finite(told):
        if values not in bad:
            groups.setdefault(values, []).append(cost)
    return {values: (statistics.fmean(costs), len(costs)) for values, costs in groups.items()}


def noise_of(told: Sequence[Told], prior: float, weight: int = 3) -> float:
    """Standard deviation of one trial's cost, from settings that were measured more than once.

    Args:
        told: the trials.
        prior: what it is taken to be before anything was repeated.
        weight: how many degrees of freedom that is worth.
    """
    groups: dict[tuple[int, ...], list[float]] = {}
    for values, cost in finite(told):
        groups.setdefault(values, []).append(cost)
    squares = sum(statistics.variance(g) * (len(g) - 1) for g in groups.values() if len(g) > 1)
    freedom = sum(len(g) - 1 for g in groups.values())
    return math.sqrt((weight * prior**2 + squares) / (weight + freedom))
