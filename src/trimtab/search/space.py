"""Settings of several knobs as points of the unit cube, and back.

A choice and a number of few values lie at equal distances. A number whose largest value is many times its smallest is
a size: equal distances are equal factors, so that a search walks from 64 to 128 as it walks from 1024 to 2048.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from trimtab.core import Domain, Knob

Point = tuple[float, ...]
SIZE = 16
"""Ratio of the largest value to the smallest from which a number is a size."""


def point_of(knobs: Sequence[Knob], values: Mapping[str, int]) -> Point:
    """The point at which settings lie.

    Args:
        knobs: one for each coordinate.
        values: knob name to value, for all of them.
    """
    return tuple(_share(knob.domain, values[knob.name]) for knob in knobs)


def values_at(knobs: Sequence[Knob], point: Iterable[float]) -> dict[str, int]:
    """The settings nearest to a point.

    Args:
        knobs: one for each coordinate.
        point: coordinates; outside of 0 to 1 the nearest edge.
    """
    return {knob.name: _value(knob.domain, min(1.0, max(0.0, x))) for knob, x in zip(knobs, point, strict=True)}


def _is_size(domain: Domain) -> bool:
    return not domain.choices and (domain.logarithmic or domain.maximum >= SIZE * max(domain.minimum, domain.step, 1))


def _share(domain: Domain, value: int) -> float:
    span = domain.maximum - domain.minimum
    if span == 0:
        return 0.0
    above = min(span, max(0, value - domain.minimum))
    if not _is_size(domain):
        return above / span
    low = _origin(domain)
    return math.log((above + low) / low) / math.log((span + low) / low)


def _value(domain: Domain, share: float) -> int:
    span = domain.maximum - domain.minimum
    if not _is_size(domain):
        return domain.clip(domain.minimum + share * span)
    low = _origin(domain)
    return domain.clip(domain.minimum + low * math.expm1(share * math.log((span + low) / low)))


def _origin(domain: Domain) -> int:
    """The distance below the smallest value at which factors are counted from: the value itself, a step at least."""
    return max(domain.minimum, domain.step)
