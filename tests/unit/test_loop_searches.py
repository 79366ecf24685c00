"""How a search ends, and what it makes of refusals and of knobs that stand down, in the loop on a plant in memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar

import pytest

from tests._loop_run import Run
from tests._memory_plant import TIMEOUT, WORKERS, Bounded, Climber, MemoryPlant
from tests.unit.test_loop import Sceptic
from trimtab.cli._summary import summary
from trimtab.core import Controller, Judgement, Knob, Move, MoveState, Objective, Prepared, Trial, Verdict, Window
from trimtab.decision import Oversight
from trimtab.errors import ApplyFailed, ApplyLater, ApplyRefused, OperatorEdit, UsageError
from trimtab.events import NoteKind, Status
from trimtab.guard.largest_step import LargestStep
from trimtab.loop import Loop
from trimtab.observer import Stop
from trimtab.referee.afterwards import AfterwardsState
from trimtab.report.track import tracks
from trimtab.settings import Mode
from trimtab.trials import Search as Trials
from trimtab.trials import Searching


@dataclasses.dataclass(frozen=True)
class Told:
    """Proposes one worker more after each move that was not applied."""

    def start(self, knobs: tuple[Knob, ...], seed: int) -> int:
        return 20

    def step(self, state: int, trial: Trial) -> tuple[int, Move]:
        state += trial.fate is not None and trial.fate.state is not MoveState.APPLIED
        return state, Move({"workers": state}, "more")


@dataclasses.dataclass(frozen=True)
class Search:
    """Tries 20 and 30 workers, and stands behind 20."""

    def start(self, knobs: tuple[Knob, ...], seed: int) -> int:
        return 0

    def step(self, state: int, trial: Trial) -> tuple[int, Move]:
        if state < 2:
            return state + 1, Move({"workers": (20, 30)[state]}, "a trial", incumbent={"workers": 10})
        return state + 1, Move.end({"workers": 20}, "30 was no better")


@dataclasses.dataclass(frozen=True)
class Withdrawing:
    """Moves the first knob that it still has by ten, and counts its steps."""

    def start(self, knobs: tuple[Knob, ...], seed: int) -> tuple[int, tuple[str, ...]]:
        return 0, tuple(knob.name for knob in knobs)

    def withdraw(self, state: tuple[int, tuple[str, ...]], knob: str) -> tuple[int, tuple[str, ...]]:
        return state[0], tuple(name for name in state[1] if name != knob)

    def step(self, state: tuple[int, tuple[str, ...]], trial: Trial) -> tuple[tuple[int, tuple[str, ...]], Move]:
        count, names = state
        value = trial.window.configuration[names[0]] + 10
        return (count + 1, names), Move({names[0]: value}, f"step {count}")


class OnTrial(Sceptic):
    """A judge that has the change of window 2 on trial for some windows."""

    windows = 3

    def judge(self, state: AfterwardsState, window: Window) -> tuple[AfterwardsState, Mapping[str, int]]:
        final = window.index >= 3 + self.windows
        judgement = Judgement(Verdict.BETTER if final else Verdict.OPEN, {}, None, None, 0, "", final)
        return dataclasses.replace(state, judgement=judgement), {}


def test_a_refused_change_does_not_count_when_the_controller_then_proposes_another() -> None:
    plant = MemoryPlant()
    run = Run(plant, controller=Told(), duration_s=60.0)
    plant.apply_error = ApplyRefused("no")
    assert run.go().status is Status.DONE
    assert run.states == [MoveState.REFUSED] * 6
    changes = [move.move.changes["workers"] for move in run.store.moves(run.recorder.run_id)]
    assert changes == [20, 21, 22, 23, 24, 25]


def test_failed_changes_end_the_run_whatever_was_proposed() -> None:
    plant = MemoryPlant()
    run = Run(plant, controller=Told(), duration_s=60.0)
    plant.apply_error = ApplyFailed("no")
    assert run.go().detail == "3 changes in a row failed, the last because no"


def test_a_search_that_has_finished_brings_its_incumbent_into_force_and_ends_the_run() -> None:
    run = Run(MemoryPlant(), controller=Search(), duration_s=600.0)
    outcome = run.go()
    assert (outcome.status, outcome.windows, outcome.restored) == (Status.DONE, 4, False)
    assert outcome.detail == "the search has finished with workers 20: 30 was no better"
    assert run.plant.values["workers"] == 20
    moves = run.store.moves(run.recorder.run_id)
    assert [(move.move.changes, move.move.finished) for move in moves[2:]] == [({"workers": 20}, True), ({}, True)]
    assert moves[0].move.incumbent == {"workers": 10}
    assert "the search has finished with workers 20" in summary(tracks(run.store, [run.recorder.run_id])[0])[0]


def test_an_incumbent_that_the_guards_cut_is_reached_in_several_steps() -> None:
    class Search100(Search):
        def step(self, state: int, trial: Trial) -> tuple[int, Move]:
            return state, Move.end({"workers": 100}, "the model says so")

    run = Run(MemoryPlant(), controller=Search100(), guards=(LargestStep(2.0),), duration_s=600.0)
    assert run.go().detail == "the search has finished with workers 100: the model says so"
    assert [w.configuration["workers"] for w in run.windows] == [10, 20, 40, 80, 100]


def test_a_search_whose_incumbent_was_refused_goes_on() -> None:
    plant = MemoryPlant()
    run = Run(plant, controller=Search(), duration_s=600.0)
    plant.fake_clock.at.append((25.0, lambda: setattr(plant, "apply_error", ApplyFailed("no"))))
    plant.fake_clock.at.append((35.0, lambda: setattr(plant, "apply_error", None)))
    assert run.go().windows == 5
    assert run.states == [*[MoveState.APPLIED] * 2, MoveState.FAILED, MoveState.APPLIED, MoveState.HELD]


def test_a_search_that_may_only_advise_ends_with_its_advice() -> None:
    run = Run(MemoryPlant(), controller=Search(), mode=Mode.ADVISE, duration_s=600.0)
    assert run.go().detail == "the search has finished with workers 20, which was advised: 30 was no better"
    assert run.plant.applied == []


def test_a_judge_s_trial_is_over_before_the_search_ends() -> None:
    """What is on trial is not left in force because the controller is done."""
    judge = OnTrial({})
    run = Run(MemoryPlant(), controller=Search(), judge=judge, duration_s=600.0)
    assert run.go().windows == 4 + judge.windows


def test_a_knob_that_stands_down_does_not_restart_a_controller_that_can_do_without() -> None:
    plant = MemoryPlant()
    run = Run(plant, (WORKERS, TIMEOUT), controller=Withdrawing(), duration_s=50.0)
    plant.fake_clock.at.append((15.0, lambda: setattr(plant, "apply_error", OperatorEdit("workers", "by hand"))))
    plant.fake_clock.at.append((25.0, lambda: setattr(plant, "apply_error", None)))
    run.go()
    (note,) = run.notes(NoteKind.STAND_DOWN)
    assert note.text == "workers stands down: by hand"
    reasons = [move.move.reason for move in run.store.moves(run.recorder.run_id)]
    assert reasons == [f"step {step}" for step in range(5)]
    run.assert_replayed(WORKERS, TIMEOUT)


def by_trials(inner: Controller, trials: int = 30) -> Searching:
    """A search by trials that believes its method."""
    return Searching(Objective(), inner, Trials(trials, 0, None, 10.0))


def test_a_search_whose_last_knob_the_operator_takes_ends() -> None:
    plant = MemoryPlant()
    run = Run(plant, (WORKERS,), controller=by_trials(Withdrawing()), duration_s=math.inf)
    plant.fake_clock.at.append((15.0, lambda: setattr(plant, "apply_error", OperatorEdit("workers", "by hand"))))
    outcome = run.go()
    assert (outcome.status, outcome.detail) == (Status.DONE, "no knob is left to search with")
    assert len(run.windows) == 2


class Inseparable(Withdrawing):
    """Cannot go on without a knob."""

    def withdraw(self, state: tuple[int, tuple[str, ...]], knob: str) -> tuple[int, tuple[str, ...]]:
        raise UsageError("it needs both")


def test_a_search_that_cannot_go_on_without_a_knob_puts_back_the_others() -> None:
    plant = MemoryPlant()
    run = Run(plant, (TIMEOUT, WORKERS), controller=by_trials(Inseparable()), duration_s=math.inf)

    plant.fake_clock.at.append((25.0, lambda: setattr(plant, "apply_error", OperatorEdit("workers", "by hand"))))
    outcome = run.go()
    assert (outcome.status, outcome.restored, plant.restored) == (Status.DONE, True, 1)
    assert plant.applied == [{"timeout": 110}, {"timeout": 120}]
    assert "only observing from here: it needs both" in [note.text for note in run.notes(NoteKind.STAND_DOWN)]


def test_a_run_that_goes_on_puts_back_what_it_had_changed_before_it_was_killed() -> None:
    run = Run(MemoryPlant(), duration_s=20.0)
    run.go()
    found = run.store.past(run.recorder.run_id)
    assert found is not None
    plan, past = run.store.run(run.recorder.run_id).plan, found[0]
    settings = dataclasses.replace(plan.settings, duration_s=30.0, restore=True, mode=Mode.ADVISE)
    writer = run.store.resume(run.recorder.run_id)
    again = Loop(run.plant, (WORKERS,), Climber(Objective()), Oversight(()), writer, settings, Stop(), past=past)
    outcome = again.run()
    assert (outcome.restored, run.plant.restored) == (True, 1)


def test_one_that_cannot_starts_again_and_says_so() -> None:
    plant = MemoryPlant()
    run = Run(plant, (WORKERS, TIMEOUT), duration_s=20.0)
    plant.fake_clock.at.append((5.0, lambda: setattr(plant, "apply_error", OperatorEdit("workers", "by hand"))))
    run.go()
    (note, *_) = run.notes(NoteKind.STAND_DOWN)
    assert note.text == "workers stands down: by hand; the search starts again with the others"


@dataclasses.dataclass(frozen=True)
class Searcher(Search):
    """The same, as one that counts on rules among knobs."""

    searches: ClassVar[bool] = True


def test_a_search_goes_as_far_as_a_rule_among_knobs_lets_it_and_says_so() -> None:
    run = Run(Bounded(), controller=Searcher(), duration_s=600.0)
    assert run.go().status is Status.DONE
    assert [window.configuration["workers"] for window in run.windows] == [10, 20, 24, 20]
    moves = run.store.moves(run.recorder.run_id)
    assert (moves[1].move.changes, moves[1].state) == ({"workers": 30}, MoveState.APPLIED)
    assert moves[1].detail == "there is room for 24 workers: as far as that allows, workers 24; took effect"
    run.assert_replayed()


def test_other_methods_get_their_change_or_none() -> None:
    run = Run(Bounded(), controller=Search(), duration_s=600.0)
    run.go()
    assert run.states[:2] == [MoveState.APPLIED, MoveState.REFUSED]
    assert [window.configuration["workers"] for window in run.windows] == [10, 20, 20]


@dataclasses.dataclass(frozen=True)
class Stubborn:
    """Proposes the same change in every window, as its last move or before it."""

    searches: bool
    last: bool = False

    def start(self, knobs: tuple[Knob, ...], seed: int) -> int:
        return 0

    def step(self, state: int, trial: Trial) -> tuple[int, Move]:
        wanted = {"workers": 20}
        return state + 1, Move.end(wanted, "the best") if self.last else Move(wanted, "a trial")


def refused(controller: Stubborn, error: ApplyRefused | None = None) -> Run:
    """A run of six windows on a plant that refuses every change."""
    plant = MemoryPlant()
    run = Run(plant, controller=controller, duration_s=60.0)
    plant.apply_error = error or ApplyRefused("no")
    run.go()
    return run


def test_what_may_be_made_later_ends_no_run_however_often_it_is_refused_now() -> None:
    run = refused(Stubborn(searches=False), ApplyLater("not while a download lasts"))
    assert run.states == [MoveState.PUT_OFF] * 6
    assert run.store.run(1).status is Status.DONE


class Busy(MemoryPlant):
    """A plant that puts off a change to 30 workers so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        if changes["workers"] == 30 and self.times:
            self.times -= 1
            raise ApplyLater("not while a download lasts")
        return super().prepare(changes)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_trial_that_is_put_off_is_made_later_with_the_incumbent_in_force_and_no_trial_meanwhile(times: int) -> None:
    plant = Busy(times)
    run = Run(plant, controller=by_trials(Searcher()), duration_s=600.0)
    assert run.go().status is Status.DONE
    assert [window.configuration["workers"] for window in run.windows] == [10, 20, 20, *[10] * times, 30, 20]
    put_off = [MoveState.PUT_OFF, MoveState.APPLIED, *[MoveState.PUT_OFF] * (times - 1)]
    assert run.states == [MoveState.APPLIED, *put_off, *[MoveState.APPLIED] * 2, MoveState.HELD]
    moves = run.store.moves(run.recorder.run_id)
    assert [move.move.evidence["trial"] for move in moves[-3:-1]] == [2, 3], "no window that waited"
    assert moves[2].move.reason.startswith("the incumbent is in force while this is put off: trial 2 of 30")
    run.assert_replayed()


@pytest.mark.parametrize("times", [1, 3])
def test_while_nobody_answers_the_incumbent_is_in_force_and_not_the_last_trial(times: int) -> None:
    asked = list[int]()

    def approve(move: Move) -> bool | None:
        asked.append(move.changes["workers"])
        return None if asked.count(30) in range(1, times + 1) and asked[-1] == 30 else True

    run = Run(MemoryPlant(), controller=by_trials(Searcher()), approve=approve, mode=Mode.APPROVE, duration_s=600.0)
    assert run.go().status is Status.DONE
    assert [window.configuration["workers"] for window in run.windows] == [10, 20, 20, *[10] * times, 30, 20]
    put_off = [MoveState.PUT_OFF, MoveState.APPLIED, *[MoveState.PUT_OFF] * (times - 1)]
    assert run.states == [MoveState.APPLIED, *put_off, *[MoveState.APPLIED] * 2, MoveState.HELD]
    assert asked == [20, *[30] * (times + 1), 20], "to go back asks nobody"
    assert run.store.moves(run.recorder.run_id)[1].detail == "nobody has answered yet"
    run.assert_replayed()


def test_a_search_whose_trials_are_put_off_without_end_has_one() -> None:
    run = Run(Busy(10_000), controller=by_trials(Searcher()), duration_s=10_000.0)
    outcome = run.go()
    assert outcome.status is Status.DONE
    assert 60 < run.states.count(MoveState.PUT_OFF) < 200
    past = run.store.past(run.recorder.run_id)
    assert past is not None and past[0].standing.waits is None


def test_a_trial_that_was_put_off_and_is_refused_then_is_one_that_failed() -> None:
    plant = Busy(2)
    run = Run(plant, controller=Searcher(), duration_s=600.0)
    plant.fake_clock.at.append((35.0, lambda: setattr(plant, "apply_error", ApplyRefused("no"))))
    plant.fake_clock.at.append((55.0, lambda: setattr(plant, "apply_error", None)))
    run.go()
    assert run.states[1:5] == [MoveState.PUT_OFF, MoveState.APPLIED, MoveState.PUT_OFF, MoveState.REFUSED]
    assert run.store.run(1).status is Status.DONE


def test_to_a_search_a_refusal_is_one_more_failed_trial_and_no_end() -> None:
    run = refused(Stubborn(searches=True))
    assert run.states == [MoveState.REFUSED] * 6
    assert run.store.run(1).status is Status.DONE


@pytest.mark.parametrize("controller", [Stubborn(searches=False), Stubborn(searches=True, last=True)], ids=repr)
def test_the_same_refusal_three_times_ends_other_methods_and_a_search_at_its_last_move(controller: Stubborn) -> None:
    run = refused(controller)
    assert run.states == [MoveState.REFUSED] * 3
    assert run.store.run(1).detail == "3 changes in a row failed, the last because no"
