from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests._curve import NAME, seen, worker_knob
from trimtab.core import Domain, Move, Window
from trimtab.guard.largest_step import LargestStep


def reviewed(window: Window, wanted: int, maximum: int = 256) -> Move:
    guard = LargestStep()
    return guard.review(guard.start((worker_knob(1, maximum),)), window, Move({NAME: wanted}, "why"))[1]


@pytest.mark.parametrize(("now", "wanted", "allowed"), [(20, 80, 80), (20, 81, 80), (100, 25, 25), (100, 3, 25)])
def test_a_step_is_cut_to_a_factor_of_four(now: int, wanted: int, allowed: int) -> None:
    move = reviewed(seen(now), wanted)
    assert move.changes == {NAME: allowed}
    assert ("factor of 4" in move.reason) is (wanted != allowed)


def test_one_step_of_the_domain_is_always_allowed() -> None:
    guard = LargestStep(factor=1.1)
    state = guard.start((worker_knob(0, 16),))
    for now, wanted in [(0, 1), (1, 2), (2, 1)]:
        assert guard.review(state, seen(now), Move({NAME: wanted}, "why"))[1].changes == {NAME: wanted}


def test_a_knob_at_0_may_go_anywhere_because_no_factor_is_defined_there() -> None:
    guard = LargestStep()
    state = guard.start((worker_knob(0, 16),))
    assert guard.review(state, seen(0), Move({NAME: 9}, "why"))[1].changes == {NAME: 9}


@pytest.mark.parametrize(("now", "wanted", "allowed"), [(-4, -8, -8), (0, -20, -9), (-1, 19, 8), (5, -3, -3)])
def test_levels_around_0_move_within_a_part_of_their_range(now: int, wanted: int, allowed: int) -> None:
    nice, guard = replace(worker_knob(), domain=Domain(-20, 19)), LargestStep()
    move = guard.review(guard.start((nice,)), seen(now), Move({NAME: wanted}, "why"))[1]
    assert move.changes == {NAME: allowed}
    assert ("1/4 of its range" in move.reason) is (wanted != allowed)


def test_a_limit_of_workers_that_is_not_reached_is_stepped_down_from_what_is_there() -> None:
    def there(limit: int) -> Window:
        return seen(limit, busy_workers=36.5, idle_workers=2.0)

    assert reviewed(there(150), 5).changes == {NAME: 10}
    assert reviewed(there(150), 700, maximum=1000).changes == {NAME: 600}
    assert reviewed(there(20), 3).changes == {NAME: 5}, "the others are finishing"


@pytest.mark.parametrize(
    ("now", "wanted", "allowed"),
    [(58, 2, 2), (58, 1, 1), (200, 1, 1), (200, 20, 20), (10, 60, 40), (40, 200, 160), (1, 9, 8), (1, 90, 8)],
)
def test_a_step_may_lead_back_to_the_incumbent_and_a_factor_of_four_from_it(
    now: int, wanted: int, allowed: int
) -> None:
    guard, knob = LargestStep(), worker_knob()
    state, first = guard.review(guard.start((knob,)), seen(2), Move({NAME: 200}, "why", incumbent={NAME: 2}))
    assert first.changes == {NAME: 8}, "from the incumbent itself a step is bounded"
    move = Move({NAME: wanted}, "why", incumbent={NAME: 2})
    assert guard.review(state, seen(now), move)[1].changes == {NAME: allowed}


def test_an_incumbent_that_was_never_in_force_is_no_place_to_step_from() -> None:
    guard = LargestStep()
    state = guard.review(guard.start((worker_knob(),)), seen(50), Move({}, "why", incumbent={NAME: 2}))[0]
    assert guard.review(state, seen(58), Move({NAME: 2}, "why", incumbent={NAME: 2}))[1].changes == {NAME: 15}


def test_what_nobody_uses_may_be_taken_at_once() -> None:
    guard = LargestStep()
    move = Move({NAME: 5}, "345 are idle", spare=True)
    assert guard.review(guard.start((worker_knob(1, 500),)), seen(350), move)[1] == move


def test_memory_over_its_limit_is_no_reason_for_a_longer_step() -> None:
    assert reviewed(seen(150, memory_ratio=10.0), 5).changes == {NAME: 38}


@given(st.integers(1, 256), st.integers(1, 256))
def test_no_step_exceeds_the_factor_or_one(now: int, wanted: int) -> None:
    passed = reviewed(seen(now), wanted).changes[NAME]
    assert abs(passed - now) <= 1 or (now / 4 <= passed <= now * 4)
    assert min(now, wanted) <= passed <= max(now, wanted)
