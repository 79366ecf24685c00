"""Where a search may look next: members of the domains near the incumbent, never a bound at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trimtab.core import Knob
from trimtab.search.local_model import Scales
from trimtab.search.space import Values, point_of, values_at

COUNT = 240
_NEXT_TO = 0.1
"""Part of a coordinate from which its bound may be reached; farther off it is approached by halves."""
_AT_ONCE = 12.0
"""Knobs that are moved together in the mean, where there are more."""
_CHOICE = 0.25
"""Probability with which a choice that is moved takes another of its names."""


def candidates(
    knobs: Sequence[Knob], centre: Values, radius: float, scales: Scales, rng: np.random.Generator
) -> list[Values]:
    """Configurations within the region, each once, the centre left out.

    Sides are in proportion to the lengths of the model, at most twice and at least half of the usual one. A part of
    the candidates are corners, which tell most of a slope; the others lie within, with some knobs left alone.

    Args:
        knobs: those that are moved.
        centre: the incumbent.
        radius: half of the usual side.
        scales: the model's.
        rng: source of randomness.
    """
    at = np.array(point_of(knobs, centre))
    lengths = np.array(scales.lengths)
    sides = radius * np.clip(lengths / math.exp(float(np.mean(np.log(lengths)))), 0.5, 2.0)
    up, down = (np.where(room > _NEXT_TO, np.minimum(sides, room / 2), room) for room in (1 - at, at))
    up, down = np.minimum(up, sides), np.minimum(down, sides)
    count = len(knobs)
    signs = rng.uniform(-1.0, 1.0, (COUNT, count))
    signs[::2] = np.sign(signs[::2])
    moved = rng.random((COUNT, count)) < min(1.0, _AT_ONCE / count)
    moved[1::4] &= rng.random((len(moved[1::4]), count)) < 0.5
    single = rng.integers(0, count, len(moved[3::4]))
    moved[3::4] = np.arange(count)[None, :] == single[:, None]
    points = at + np.where(moved, np.where(signs > 0, signs * up, signs * down), 0.0)
    found: dict[Values, None] = {}
    for row, which in zip(points, moved, strict=True):
        values = list(values_at(knobs, row.tolist()))
        for k, knob in enumerate(knobs):
            if knob.domain.choices:
                other = which[k] and rng.random() < _CHOICE
                values[k] = int(rng.integers(0, len(knob.domain.choices))) if other else centre[k]
            elif which[k] and values[k] == centre[k]:
                step = knob.domain.step if row[k] > at[k] else -knob.domain.step
                values[k] = knob.domain.clip(centre[k] + step)
        if tuple(values) != centre:
            found[tuple(values)] = None
    return list(found)
