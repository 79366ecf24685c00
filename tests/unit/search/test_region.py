"""The region of a search: what lies in it, and that the best of it is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from trimtab.core import Domain, How, Knob, Role
from trimtab.search.local_model import Array, Scales
from trimtab.search.region import Region
from trimtab.search.space import Values, point_of


def knob(name: str, role: Role = Role.OTHER) -> Knob:
    return Knob(name, name, "things", Domain(0, 1000, 20), 500, How.LIVE, "nothing", "A knob.", role)


KNOBS = tuple(knob(f"k{index}") for index in range(12))
CENTRE = (500,) * 12
RADIUS = 0.1


def region(
    knobs: Sequence[Knob] = KNOBS, centre: Values = CENTRE, within: Sequence[tuple[int, int]] | None = None
) -> Region:
    everywhere = [(one.domain.minimum, one.domain.maximum) for one in knobs]
    return Region(knobs, centre, RADIUS, Scales.usual(knobs), within or everywhere)


def test_candidates_are_members_of_the_domains_near_the_centre_and_not_the_centre() -> None:
    found = region().candidates(np.random.default_rng(1))
    assert len(found) == len(set(found)) > 100
    assert CENTRE not in found
    assert all(value in one.domain for values in found for one, value in zip(KNOBS, values, strict=True))
    assert max(abs(x - 0.5) for values in found for x in point_of(KNOBS, values)) <= RADIUS + 0.01


def test_a_bound_is_approached_by_halves() -> None:
    at = (840, *CENTRE[1:])
    found = region(centre=at).candidates(np.random.default_rng(1))
    assert max(values[0] for values in found) <= 920


@pytest.mark.parametrize("role", [Role.WORKER_LIMIT, Role.POOL_LIMIT, Role.CACHE])
def test_a_step_of_what_limits_or_holds_is_longer(role: Role) -> None:
    knobs = (replace(KNOBS[0], role=role), *KNOBS[1:])
    found = region(knobs).candidates(np.random.default_rng(1))
    first, second = (max(abs(values[k] - 500) for values in found) for k in (0, 1))
    assert first > 1.5 * second


def test_what_is_near_the_best_candidates_is_found_with_no_more_knobs_moved_together() -> None:
    slopes = np.linspace(-1.0, 1.0, 12)

    def score(asked: Sequence[Values]) -> Array:
        return np.array(asked) @ slopes

    drawn = region().candidates(np.random.default_rng(1))
    found = region().improved(drawn, score)
    assert set(drawn) <= set(found)
    assert len(found) == len(set(found))
    assert min(score(found)) < min(score(drawn))
    moved = [sum(value != 500 for value in values) for values in found]
    assert min(moved) >= 1
    assert max(moved) == max(sum(value != 500 for value in values) for values in drawn)


def test_nothing_leaves_the_bounds_not_even_by_a_step() -> None:
    within = [(500, 500), (480, 500), (500, 520), *[(0, 1000)] * 9]
    bounded = region(within=within)
    found = bounded.candidates(np.random.default_rng(1))
    found = bounded.improved(found, lambda asked: np.array([abs(500.0 - values[1]) - values[0] for values in asked]))
    for k, ends in enumerate(within[:3]):
        assert {values[k] for values in found} == set(ends)
    assert len({values[3] for values in found}) > 3
