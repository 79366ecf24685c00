"""Chosen settings, measured in turn."""

from __future__ import annotations

import dataclasses

import pytest

from tests._curve import NAME, Curve, Drive, window_of, worker_knob
from trimtab.controllers.alternate import Alternate
from trimtab.core import Fate, MoveState, Objective, Trial
from trimtab.errors import UsageError


def test_it_goes_round_forwards_and_backwards_from_what_was_found() -> None:
    run = Drive(Alternate(Objective(), settings=f"{NAME}=50;{NAME}=100"), Curve()).run(12, start=150)
    assert [window.configuration[NAME] for window in run.windows] == [150, 50, 100, 100, 50, 150] * 2


def test_what_was_found_comes_back_at_the_end() -> None:
    controller = Alternate(Objective(), settings=f"{NAME}=50")
    state = controller.start((worker_knob(),), 0)
    assert controller.final(state) == {}
    state, _ = controller.step(state, Trial(Curve().window(0, 150, 0)))
    assert controller.final(state) == {NAME: 150}


def test_a_window_that_shows_nothing_is_no_turn() -> None:
    controller = Alternate(Objective(), settings=f"{NAME}=50")
    state = controller.start((worker_knob(),), 0)
    state, move = controller.step(state, Trial(window_of(150, {}, 0, samples=0)))
    assert not move.changes
    _, move = controller.step(state, Trial(Curve().window(1, 150, 0)))
    assert move.changes == {NAME: 50}


def test_a_setting_that_guards_do_not_reach_is_left_out_and_what_was_in_force_passes_them() -> None:
    controller = Alternate(Objective(), settings=f"{NAME}=50;{NAME}=100")
    state, known, wanted = controller.start((worker_knob(),), 0), [], []
    for limit in (150, 75, 75, 75, 100, 100, 75, 75, 75, 150):
        state, move = controller.step(state, Trial(Curve().window(0, limit, 0)))
        wanted.append(move.changes.get(NAME, limit))
        known.append(move.known)
    assert wanted == [50, 50, 50, 100, 100, 50, 50, 50, 150, 150]
    assert known == [False, False, False, False, True, False, False, False, True, True]


def test_a_setting_that_the_plant_refuses_is_left_out_of_the_round_and_asked_for_in_the_next() -> None:
    controller = Alternate(Objective(), settings=f"{NAME}=50;{NAME}=100")
    state, move = controller.step(controller.start((worker_knob(),), 0), Trial(Curve().window(0, 150, 0)))
    assert move.changes == {NAME: 50}
    refused = Fate(MoveState.REFUSED, move.changes, "no memory for it")
    state, move = controller.step(state, Trial(Curve().window(1, 150, 0), refused))
    assert move.changes == {NAME: 100}
    applied = Fate(MoveState.APPLIED, move.changes)
    wanted = []
    for index in (2, 3):
        state, move = controller.step(state, Trial(Curve().window(index, 100, 0), applied))
        wanted.append(move.changes)
    assert wanted == [{}, {NAME: 50}]


def test_a_knob_that_an_operator_takes_stays_out_and_what_was_found_is_not_forgotten() -> None:
    other = dataclasses.replace(worker_knob(), name="other")
    controller = Alternate(Objective(), settings=f"{NAME}=50,other=20")
    state = controller.start((worker_knob(), other), 0)
    both = dataclasses.replace(Curve().window(0, 150, 0), configuration={NAME: 150, "other": 30})
    state, move = controller.step(state, Trial(both))
    assert move.changes == {NAME: 50, "other": 20}
    state = controller.withdraw(state, "other")
    state, move = controller.step(state, Trial(Curve().window(1, 50, 0)))
    assert set(move.changes) <= {NAME}
    assert controller.final(state) == {NAME: 150}


@pytest.mark.parametrize(
    ("settings", "said"), [("a", "'a' is not such as"), ("other=1", "no knob 'other'"), (f"{NAME}=0", "is outside")]
)
def test_a_setting_that_cannot_be_is_refused(settings: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Alternate(Objective(), settings=settings).start((worker_knob(),), 0)


def test_a_number_beyond_all_bounds_is_refused_like_any_other() -> None:
    with pytest.raises(UsageError, match="is outside") as refused:
        Alternate(Objective(), settings=f"{NAME}={'9' * 400}").start((worker_knob(),), 0)
    assert len(str(refused.value)) < 200
