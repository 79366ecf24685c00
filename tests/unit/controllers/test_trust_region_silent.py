"""The trust region in windows in which nothing is measured: it goes back to its incumbent, and waits there."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.controllers.test_trust_region import OBJECTIVE, USUAL, walk
from trimtab.controllers.trust_region import TrustRegion
from trimtab.core import Move, Trial
from trimtab.search.space import Values, in_force, named
from trimtab.search.trust_region_state import TrustRegionState

START = named(USUAL.knobs, USUAL.start)
SEARCH = TrustRegion(OBJECTIVE)


def silent(state: TrustRegionState, index: int, values: Values) -> tuple[TrustRegionState, Move]:
    """The step after a window in which nothing was measured."""
    return SEARCH.step(state, Trial(replace(USUAL.window(index, values), readings={})))


def tried() -> tuple[TrustRegionState, Values]:
    """A search, and the first new configuration that it asks for."""
    state, moves, _ = walk(USUAL, 3, SEARCH)
    asked = in_force(USUAL.knobs, {**START, **moves[-1].changes})
    assert asked not in (None, USUAL.start)
    return state, asked or ()


def test_a_trial_with_nothing_measured_is_held_once_and_then_the_incumbent_comes_back() -> None:
    state, asked = tried()
    state, move = silent(state, 3, asked)
    assert (move.changes, move.phase) == ({}, "hold")
    state, move = silent(state, 4, asked)
    assert move.changes == START
    assert (state.told[-1].values, state.told[-1].y) == (asked, None)


def test_nothing_new_is_tried_before_the_incumbent_was_measured_again_and_then_that_trial_was_to_blame() -> None:
    state, asked = tried()
    for index in (3, 4):
        state, move = silent(state, index, asked)
    state, move = SEARCH.step(state, Trial(USUAL.window(5, USUAL.start)))
    assert in_force(USUAL.knobs, {**START, **move.changes}) not in (asked, USUAL.start)
    assert [one.values for one in state.told[3:]] == [asked, USUAL.start]


def test_where_nothing_is_measured_at_the_incumbent_either_the_trial_was_not_to_blame() -> None:
    state, asked = tried()
    for index in (3, 4):
        state, move = silent(state, index, asked)
    for index in range(5, 25):
        state, move = silent(state, index, USUAL.start)
        assert (move.changes, move.phase) == ({}, "hold")
    state, _ = SEARCH.step(state, Trial(USUAL.window(25, USUAL.start)))
    assert [one.values for one in state.told[3:]] == [USUAL.start]
    assert asked not in state.rejected


def test_the_start_is_waited_for_too_before_anything_of_it_is_known() -> None:
    state = SEARCH.start(USUAL.knobs, 1)
    for index in range(10):
        state, move = silent(state, index, USUAL.start)
        assert (move.changes, move.phase) == ({}, "hold")
    assert not state.told
    state, _ = SEARCH.step(state, Trial(USUAL.window(10, USUAL.start)))
    assert state.incumbent == USUAL.start


def test_every_move_names_what_would_be_measured_again_also_one_that_waits() -> None:
    """A search by trials may end with any of them."""
    state, moves, _ = walk(USUAL, 5, SEARCH)
    assert [move.recommended for move in moves] == [START] * 5
    other = tuple(value + 1 for value in USUAL.start)
    _, move = silent(replace(state, recommended=other), 5, USUAL.start)
    assert (move.changes, move.incumbent, move.recommended) == ({}, START, named(USUAL.knobs, other))
