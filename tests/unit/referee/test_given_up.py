"""Trials that the operator ends by taking a knob: what was on trial beside it goes back, and that is said."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.referee.test_rule import IDLE, START, WORKERS, Bench, ready
from trimtab import codec
from trimtab.core import Verdict
from trimtab.events import Note, NoteKind, WindowDone
from trimtab.referee import Course
from trimtab.referee.rule import LEAST_REFERENCE
from trimtab.referee.state import RefereeState


def taken(bench: Bench, **values: int) -> Bench:
    """The operator has set the keep-alive time, and the referee goes on with the workers."""
    bench.state = bench.judge.withdraw(bench.state, (WORKERS,))
    return bench.change(k=60, **values)


@pytest.mark.parametrize("windows", [0, 2], ids=["no window has seen the change", "it is being judged"])
@pytest.mark.parametrize("change", [{"w": 140}, {"w": 140, "k": 4000}], ids=["workers", "both"])
def test_workers_on_trial_go_back_when_the_operator_takes_another_knob(change: dict[str, int], windows: int) -> None:
    bench = taken(ready().change(**change).see(windows)).see()
    assert bench.backs == [{"w": 150}]
    judgement = bench.state.judgement
    assert (judgement.verdict, judgement.final) == (Verdict.OPEN, True)
    assert "the operator has set another knob during the trial" in judgement.why
    assert bench.see(LEAST_REFERENCE + 1).backs == [{"w": 150}]
    assert (bench.state.incumbent, bench.state.owed, bench.state.judgement) == ({"w": 150}, {}, None)
    assert len(bench.state.reference) == LEAST_REFERENCE, "the first window pays for the change"


def test_workers_that_were_not_on_trial_stay_as_they_are_when_the_operator_takes_another_knob() -> None:
    for bench in (ready(), ready().change(w=40).see(8, 0.002), ready().change(w=40).see(3, 0.06).see()):
        workers, backs = bench.values["w"], list(bench.backs)
        assert taken(bench).see(3).backs == backs
        assert bench.state.incumbent == {"w": workers}


def test_what_could_not_be_put_back_is_asked_for_again_and_told_once() -> None:
    bench = taken(ready().change(w=140).see(2)).see().change(w=140)
    before = bench.state.judgement
    assert bench.see().backs == [{"w": 150}] * 2
    assert bench.state.judgement is before


def test_what_is_owed_stays_owed_when_a_second_knob_is_taken() -> None:
    bench = ready().change(w=140).see(2)
    for _ in range(2):
        bench.state = bench.judge.withdraw(bench.state, (WORKERS,))
    assert bench.change(k=60).see().backs == [{"w": 150}]


def test_a_run_that_ends_before_what_is_owed_is_back_ends_with_it() -> None:
    bench = taken(ready().change(w=140).see(2))
    assert bench.judge.final(bench.state) == {"w": 150}
    bench.see()
    assert bench.judge.final(bench.state) == {"w": 150}


def test_a_run_that_ends_before_a_window_has_seen_its_change_ends_without_it() -> None:
    """Whatever the referee has seen of a change, what it stands behind is what it knew before."""
    bench = ready().change(w=140)
    assert bench.judge.final(bench.state) == START


def test_a_state_from_before_there_was_anything_owed_is_read_as_owing_nothing() -> None:
    stored: dict[str, Any] = codec.builtins(ready().state)
    del stored["owed"]
    assert codec.convert(stored, RefereeState).owed == {}


def test_the_course_of_a_run_tells_once_of_a_trial_that_the_operator_ended_and_not_of_the_way_back() -> None:
    bench = ready()
    course = Course(bench.judge, (WORKERS, IDLE))
    course._state = bench.state

    def see(windows: int) -> None:
        for _ in range(windows):
            course.tell(WindowDone(bench.see().last))

    bench.change(w=140)
    see(2)
    taken(bench)
    course.tell(Note(0.0, NoteKind.STAND_DOWN, "the operator", "k"))
    see(20)
    assert bench.values["w"] == 150
    assert [one.judgement.verdict for one in course.trials] == [Verdict.OPEN]
    assert course.judgement is None and course.cost_s == bench.state.spent_s
