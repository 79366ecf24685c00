"""Where a search may look next: members of the domains near the incumbent, never a bound at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress

import numpy as np

from trimtab.core import Knob, Role
from trimtab.search.local_model import Array, Scales
from trimtab.search.space import Values, point_of, value_at, values_at

COUNT = 240
_NEXT_TO = 0.1
"""Part of a coordinate from which its bound may be reached; farther off it is approached by halves."""
_AT_ONCE = 3.0
"""Knobs that are moved together in the mean, where there are more."""
_CHOICE = 0.25
"""Probability with which a choice that is moved takes another of its names."""
_REACH = dict.fromkeys((Role.WORKER_LIMIT, Role.POOL_LIMIT, Role.CACHE), 2.0)
"""How much wider the region is for what limits or holds: a small step tells nothing where it does not bind."""
_BEST, _ROUNDS = 3, 3
"""Candidates that are improved knob by knob, and how often."""


class Region:
    """The region around an incumbent.

    Sides are in proportion to how much longer the model's lengths have become than they were at first, at most twice
    and at least half of the usual one.

    Args:
        knobs: those that are moved.
        centre: the incumbent.
        radius: half of the usual side.
        scales: the model's.
        within: the least and the greatest value that each knob may be given; the centre's is within.
    """

    def __init__(
        self,
        knobs: Sequence[Knob],
        centre: Values,
        radius: float,
        scales: Scales,
        within: Sequence[tuple[int, int]],
    ) -> None:
        self._knobs, self._centre, self._within = knobs, centre, within
        self._at = np.array(point_of(knobs, centre))
        grown = np.log(np.array(scales.lengths) / np.array(Scales.usual(knobs).lengths))
        sides = radius * np.clip(np.exp(grown - np.mean(grown)), 0.5, 2.0)
        sides *= [_REACH.get(knob.role, 1.0) for knob in knobs]
        up, down = (np.where(room > _NEXT_TO, np.minimum(sides, room / 2), room) for room in (1 - self._at, self._at))
        least, most = (np.array(point_of(knobs, ends)) for ends in zip(*within, strict=True))
        self._up = np.minimum(np.minimum(up, sides), most - self._at)
        self._down = np.minimum(np.minimum(down, sides), self._at - least)

    def candidates(self, rng: np.random.Generator) -> list[Values]:
        """Configurations within the region, each once, the centre left out.

        A part of them are corners, which tell most of a slope; the others lie within, with some knobs left alone.

        Args:
            rng: source of randomness.
        """
        knobs, at, count = self._knobs, self._at, len(self._knobs)
        signs = rng.uniform(-1.0, 1.0, (COUNT, count))
        signs[::2] = np.sign(signs[::2])
        moved = rng.random((COUNT, count)) < min(1.0, _AT_ONCE / count)
        moved[1::4] &= rng.random((len(moved[1::4]), count)) < 0.5
        single = rng.integers(0, count, len(moved[3::4]))
        moved[3::4] = np.arange(count)[None, :] == single[:, None]
        points = at + np.where(moved, np.where(signs > 0, signs * self._up, signs * self._down), 0.0)
        still = [
            self._bound(k, self._centre[k] if knob.domain.choices else value)
            for k, (knob, value) in enumerate(zip(knobs, values_at(knobs, at.tolist()), strict=True))
        ]
        found: dict[Values, None] = {}
        for row, which in zip(points.tolist(), moved.tolist(), strict=True):
            values = list(still)
            for k in compress(range(count), which):
                domain, value = knobs[k].domain, self._centre[k]
                if domain.choices:
                    value = int(rng.integers(0, len(domain.choices))) if rng.random() < _CHOICE else value
                elif (near := value_at(domain, row[k])) != value:
                    value = near
                else:
                    value = domain.clip(value + (domain.step if row[k] > at[k] else -domain.step))
                values[k] = self._bound(k, value)
            if tuple(values) != self._centre:
                found[tuple(values)] = None
        return list(found)

    def improved(self, found: Sequence[Values], score: Callable[[Sequence[Values]], Array]) -> list[Values]:
        """The candidates, and what is near the best of them: one knob left alone, or at a side of the region.

        No more knobs are moved together than in any of the candidates.

        Args:
            found: candidates, one or more.
            score: of configurations, the less the better.
        """
        ends = [
            tuple(map(self._bound, range(len(self._knobs)), values_at(self._knobs, (self._at + side).tolist())))
            for side in (self._up, -self._down)
        ]
        places = [
            {self._centre[k], *(() if knob.domain.choices else (end[k] for end in ends))}
            for k, knob in enumerate(self._knobs)
        ]
        most = max(map(self._moved, found))
        known = dict(zip(found, score(found).tolist(), strict=True))
        for best in sorted(known, key=lambda one: (known[one], one))[:_BEST]:
            for _ in range(_ROUNDS):
                near = [
                    (*best[:k], value, *best[k + 1 :]) for k, values in enumerate(places) for value in sorted(values)
                ]
                fresh = [one for one in near if one not in known and 0 < self._moved(one) <= most]
                known.update(zip(fresh, score(fresh).tolist() if fresh else (), strict=True))
                better = min((one for one in near if one in known), key=lambda one: (known[one], one), default=best)
                if known[better] >= known[best]:
                    break
                best = better
        return list(known)

    def _bound(self, index: int, value: int) -> int:
        """A value of a knob, or the nearest that it may be given."""
        least, most = self._within[index]
        return min(most, max(least, value))

    def _moved(self, values: Values) -> int:
        """How many knobs differ from the centre's."""
        return sum(one != other for one, other in zip(values, self._centre, strict=True))
