"""How far a search goes: no farther down a cache than half, nowhere near what went badly wrong."""

from __future__ import annotations

import math

import pytest

from trimtab.core import Domain, How, Knob, Role
from trimtab.search.bounds import bounds
from trimtab.search.era import Era
from trimtab.search.evidence import Told
from trimtab.search.space import Values


def knob(name: str, domain: Domain, role: Role = Role.OTHER) -> Knob:
    return Knob(name, name, "things", domain, domain.minimum, How.LIVE, "nothing", "A knob.", role)


KNOBS = (
    knob("cache", Domain(8, 1024, 8, logarithmic=True), Role.CACHE),
    knob("least", Domain(0, 1 << 20, 2), Role.LEAST_KEPT),
    knob("most", Domain(2, 1 << 20, 2, logarithmic=True), Role.MOST_KEPT),
    knob("threads", Domain(0, 1000, 20)),
    knob("policy", Domain.choice("a", "b", "c")),
)
START = (128, 0, 512, 500, 1)
EVERYWHERE = ((64, 1024), (0, 2), (256, 1 << 20), (0, 1000), (0, 2))


def era(*tried: tuple[Values, float | None]) -> Era:
    """Trials and how many times the start's cost each had; None where it failed."""
    repeats = [Told(START, y) for y in (-0.01, 0.0, 0.01)]
    return Era((*repeats, *(Told(values, None if cost is None else math.log(cost)) for values, cost in tried)))


def test_what_keeps_less_is_tried_by_halves_and_the_rest_everywhere() -> None:
    assert bounds(KNOBS, START, START, era()) == EVERYWHERE


@pytest.mark.parametrize(
    ("centre", "expected"),
    [
        ((64, 2, 256, 500, 1), ((64, 1024), (0, 2), (256, 1 << 20))),
        ((1024, 0, 4096, 500, 1), ((512, 1024), (0, 2), (2048, 1 << 20))),
    ],
)
def test_never_less_than_half_of_the_start_however_often_the_incumbent_moves(
    centre: Values, expected: tuple[tuple[int, int], ...]
) -> None:
    assert bounds(KNOBS, centre, START, era((centre, 0.9), (centre, 0.9)))[:3] == expected


def test_a_threshold_that_lets_nothing_small_in_is_at_most_doubled() -> None:
    start = (128, 50, 512, 500, 1)
    assert bounds(KNOBS, start, start, Era([Told(start, 0.0)]))[1] == (0, 100)
    lower = (128, 10, 512, 500, 1)
    assert bounds(KNOBS, lower, start, Era([Told(lower, 0.0)]))[1] == (0, 20)


@pytest.mark.parametrize("cost", [1.7, 40.0, None])
def test_half_of_the_way_to_what_went_badly_wrong_and_no_farther(cost: float | None) -> None:
    found = bounds(KNOBS, START, START, era(((128, 0, 512, 900, 2), cost)))
    assert found == (*EVERYWHERE[:3], (0, 700), (1, 1))
    found = bounds(KNOBS, START, START, era(((64, 0, 512, 100, 1), cost)))
    assert found[0][0] > 80
    assert found[3:] == ((300, 1000), (0, 2))


def test_a_tenth_more_or_what_noise_explains_closes_nothing() -> None:
    assert bounds(KNOBS, START, START, era(((128, 0, 512, 900, 1), 1.4))) == EVERYWHERE
    noisy = Era([*(Told(START, y) for y in (-0.4, 0.0, 0.4)), Told((128, 0, 512, 900, 1), math.log(1.7))])
    assert bounds(KNOBS, START, START, noisy) == EVERYWHERE


def test_what_was_as_far_in_a_trial_without_harm_is_not_what_did_it() -> None:
    wrong = (128, 0, 512, 900, 2)
    found = bounds(KNOBS, START, START, era(((128, 0, 512, 960, 1), 1.05), (wrong, 3.0)))
    assert found == (*EVERYWHERE[:4], (1, 1))
    found = bounds(KNOBS, START, START, era(((128, 0, 512, 840, 2), 0.9), (wrong, 3.0)))
    assert found == (*EVERYWHERE[:3], (0, 700), (0, 2))


def test_a_neighbour_that_went_wrong_leaves_the_knob_where_it_is() -> None:
    assert bounds(KNOBS, START, START, era(((128, 0, 512, 520, 1), 5.0)))[3] == (0, 500)


def test_beside_an_incumbent_that_failed_itself_nothing_is_told_to_be_worse() -> None:
    failed = Era([Told(START, None), Told(START, None), Told((128, 0, 512, 900, 2), 0.0)])
    assert bounds(KNOBS, START, START, failed) == EVERYWHERE
