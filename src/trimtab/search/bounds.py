"""How far a search may move each knob from its incumbent, whatever its model expects.

What a cache holds does not tell below which size it no longer holds enough, and nothing is slower until then: this
is a cliff, which no model of what was measured on this side of it foresees. So what keeps less is tried by halves, as
seen from the incumbent, and never less than half of what the search began with. Likewise with the sizes of what is
let into a cache.

A trial that cost half as much again, or failed, is no mishap to be repeated. Which of the knobs that it moved did it
is not known, so each of them goes at most half as far as it was then, until a trial that did no harm has been there.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.core import Domain, Knob, Role
from trimtab.search.era import Era
from trimtab.search.space import Values, coordinate, member_above, member_below, value_at

_HALVES = 2
_KEEPS_LESS_BELOW = (Role.CACHE, Role.MOST_KEPT)


def bounds(knobs: Sequence[Knob], centre: Values, start: Values, era: Era) -> tuple[tuple[int, int], ...]:
    """The least and the greatest value that each knob may be given.

    Args:
        knobs: those that are moved.
        centre: the incumbent.
        start: the configuration that the search began with.
        era: the trials that are believed.
    """
    found = [_kept(knob, *own) for knob, *own in zip(knobs, centre, start, strict=True)]
    for values in era.disasters(centre):
        for k, knob in enumerate(knobs):
            least, most = found[k]
            if values[k] == centre[k] or era.exonerated(k, values[k], centre):
                continue
            if knob.domain.choices:
                found[k] = centre[k], centre[k]
                continue
            short = _halfway(knob.domain, centre[k], values[k])
            found[k] = (least, min(most, short)) if values[k] > centre[k] else (max(least, short), most)
    return tuple(found)


def _halfway(domain: Domain, now: int, there: int) -> int:
    """A value half of the way to another, or short of it."""
    middle = value_at(domain, (coordinate(domain, now) + coordinate(domain, there)) / 2)
    return middle if middle != there else now


def _kept(knob: Knob, now: int, start: int) -> tuple[int, int]:
    """The bounds of one knob by what it keeps in a cache."""
    domain = knob.domain
    if knob.role in _KEEPS_LESS_BELOW:
        return min(now, member_above(domain, max(now, start) / _HALVES)), domain.maximum
    if knob.role is Role.LEAST_KEPT:
        return domain.minimum, max(now, member_below(domain, max(min(now, start) * _HALVES, domain.step)))
    return domain.minimum, domain.maximum
