from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests._curve import NAME, seen, worker_knob
from trimtab.core import Move, Window
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


def test_from_a_limit_that_swaps_one_may_go_at_once_to_what_fits_and_no_further() -> None:
    """150 * 0.9 / 10 = 13.5, where a factor of four would end at 38."""
    assert reviewed(seen(150, memory_ratio=10.0), 14).changes == {NAME: 14}
    assert reviewed(seen(150, memory_ratio=10.0), 5).changes == {NAME: 14}


def test_memory_within_its_limit_allows_no_more_than_the_factor() -> None:
    assert reviewed(seen(150, memory_ratio=0.9), 5).changes == {NAME: 38}


@given(st.integers(1, 256), st.integers(1, 256), st.floats(0, 1))
def test_without_swapping_no_step_exceeds_the_factor_or_one(now: int, wanted: int, ratio: float) -> None:
    passed = reviewed(seen(now, memory_ratio=ratio), wanted).changes[NAME]
    assert abs(passed - now) <= 1 or (now / 4 <= passed <= now * 4)
    assert min(now, wanted) <= passed <= max(now, wanted)
