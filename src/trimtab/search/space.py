"""The space of a search: knobs as coordinates between 0 and 1.

A number that spans two decades of its own step, or whose domain says so, is walked by ratios: equal steps of its
coordinate are equal factors. A choice is the index of its name. What is asked for is always a member of the domain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

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
    unit = _unit(domain)
    whole = math.log1p(span / unit) if unit else float(span)
    return min(1.0, max(0.0, (math.log1p(max(0, above) / unit) if unit else above) / whole))


def value_at(domain: Domain, x: float) -> int:
    """The member of the domain that is nearest to a coordinate; outside of 0 to 1 the nearest bound."""
    x, span = min(1.0, max(0.0, x)), domain.maximum - domain.minimum
    unit = _unit(domain)
    return domain.clip(domain.minimum + (unit * math.expm1(x * math.log1p(span / unit)) if unit else x * span))


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


def _unit(domain: Domain) -> float:
    """Unit of ratios: the minimum where it is above a step, else a step; 0 where steps are equal."""
    span = domain.maximum - domain.minimum
    wide = domain.logarithmic or span >= _DECADES * max(domain.step, domain.minimum)
    return float(max(domain.step, domain.minimum)) if wide and not domain.choices else 0.0
