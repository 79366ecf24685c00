"""The space of a search: knobs as coordinates between 0 and 1.

A number that spans two decades of its own step, or whose domain says so, is walked by ratios: equal steps of its
coordinate are equal factors. A choice is the index of its name. What is asked for is always a member of the domain.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from trimtab.core import Domain, Knob, Move
from trimtab.errors import UsageError

Values = tuple[int, ...]
"""A configuration of the knobs, in their order."""
Point = tuple[float, ...]
"""Values as coordinates."""
_DECADES = 100


def of_many(knobs: Sequence[Knob], method: str) -> tuple[Knob, ...]:
    """The knobs that a search moves.

    Raises:
        UsageError: there is none.
    """
    if not knobs:
        raise UsageError(f"no knob to move: {method} needs at least one")
    return tuple(knobs)


def coordinate(domain: Domain, value: int) -> float:
    """Coordinate of a value: 0 at the least of its domain, 1 at the greatest."""
    above, span = value - domain.minimum, domain.maximum - domain.minimum
    if span == 0:
        return 0.0
    unit, whole = _scale(domain)
    return min(1.0, max(0.0, (math.log1p(max(0, above) / unit) if unit else above) / whole))


def value_at(domain: Domain, x: float) -> int:
    """The member of the domain that is nearest to a coordinate; outside of 0 to 1 the nearest bound."""
    x = min(1.0, max(0.0, x))
    unit, whole = _scale(domain)
    return domain.clip(domain.minimum + (unit * math.expm1(x * whole) if unit else x * whole))


def member_above(domain: Domain, value: float) -> int:
    """The least member of a domain that is not below a value, or the greatest of all."""
    nearest = domain.clip(value)
    return nearest if nearest >= value else domain.clip(nearest + domain.step)


def member_below(domain: Domain, value: float) -> int:
    """The greatest member of a domain that is not above a value, or the least of all."""
    nearest = domain.clip(value)
    return nearest if nearest <= value else domain.clip(nearest - domain.step)


def point_of(knobs: Sequence[Knob], values: Sequence[int]) -> Point:
    """The coordinates of a configuration."""
    return tuple(coordinate(knob.domain, value) for knob, value in zip(knobs, values, strict=True))


def points_of(knobs: Sequence[Knob], many: Sequence[Values]) -> npt.NDArray[np.float64]:
    """The coordinates of many configurations, one row for each: `point_of` at once."""
    unit, whole = np.array([_scale(knob.domain) for knob in knobs]).T
    least = np.array([knob.domain.minimum for knob in knobs], dtype=float)
    above = np.maximum(0.0, np.array(many, dtype=float) - least)
    apart = np.where(unit > 0, np.log1p(above / np.where(unit > 0, unit, 1.0)), above)
    return np.minimum(1.0, np.where(whole > 0, apart / np.where(whole > 0, whole, 1.0), 0.0))


def values_at(knobs: Sequence[Knob], point: Sequence[float]) -> Values:
    """The configuration that is nearest to coordinates."""
    return tuple(value_at(knob.domain, x) for knob, x in zip(knobs, point, strict=True))


def named(knobs: Sequence[Knob], values: Sequence[int]) -> dict[str, int]:
    """A configuration by the names of its knobs."""
    return {knob.name: value for knob, value in zip(knobs, values, strict=True)}


def dropped(values: Values, index: int) -> Values:
    """A configuration without the knob at an index."""
    return (*values[:index], *values[index + 1 :])


def index_of(knobs: Sequence[Knob], name: str) -> int:
    """The index of a knob among others."""
    return next(index for index, knob in enumerate(knobs) if knob.name == name)


def in_force(knobs: Sequence[Knob], configuration: Mapping[str, int]) -> Values | None:
    """The values of the knobs in a configuration; None where one is not known."""
    if any(knob.name not in configuration for knob in knobs):
        return None
    return tuple(configuration[knob.name] for knob in knobs)


def restart(knobs: Sequence[Knob], first: Values, method: str) -> Move:
    """Asks once for the configuration from which a search starts again; then any that is in force will do."""
    changes = named(knobs, first)
    return Move(changes, f"{method}: it starts again from here", phase="trial", incumbent=changes)


@functools.lru_cache(maxsize=1024)
def _scale(domain: Domain) -> tuple[float, float]:
    """Unit of ratios (the minimum if above a step, else a step; 0 where steps are equal), and the width in it."""
    span = domain.maximum - domain.minimum
    wide = domain.logarithmic or span >= _DECADES * max(domain.step, domain.minimum)
    if not wide or domain.choices:
        return 0.0, float(span)
    unit = float(max(domain.step, domain.minimum))
    return unit, math.log1p(span / unit)
