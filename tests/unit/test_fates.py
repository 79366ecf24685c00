"""What a controller is told of its own moves, in the loop on a plant in memory and again when the run is replayed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import pytest

from tests._loop_run import Run
from tests._memory_plant import TIMEOUT, WORKERS, Bounded, MemoryPlant
from tests.unit.test_loop import Cap, Sceptic
from trimtab.core import Applied, Fate, Guard, Judgement, Knob, Move, MoveState, Prepared, Trial, Verdict, Window
from trimtab.errors import ApplyFailed, ApplyRefused, OperatorEdit, TrimtabError
from trimtab.referee import Judge
from trimtab.referee.afterwards import AfterwardsState
from trimtab.settings import Mode

BOTH = (WORKERS, TIMEOUT)
FIRST = Fate(MoveState.APPLIED, {"workers": 20}, "took effect")


@dataclasses.dataclass(frozen=True)
class Heard:
    """The fates that were told so far, one for each step."""

    fates: tuple[Fate | None, ...] = ()


@dataclasses.dataclass(frozen=True)
class Script:
    """Proposes these changes, one after the other, and nothing after them."""

    moves: tuple[Mapping[str, int], ...]

    def start(self, knobs: tuple[Knob, ...], seed: int) -> Heard:
        return Heard()

    def withdraw(self, state: Heard, knob: str) -> Heard:
        return state

    def step(self, state: Heard, trial: Trial) -> tuple[Heard, Move]:
        index = len(state.fates)
        changes = self.moves[index] if index < len(self.moves) else {}
        return Heard((*state.fates, trial.fate)), Move(changes, "as the script says")


class Searcher(Script):
    """The same, as a search, whose changes go as far as rules let them."""

    searches: ClassVar[bool] = True


class Clipping(MemoryPlant):
    """A plant that sets half of what it is asked for, and says so when it is read back."""

    def commit(self, prepared: Prepared) -> Applied:
        halves = {name: (self.values[name] + value) // 2 for name, value in prepared.changes.items()}
        return super().commit(dataclasses.replace(prepared, changes=halves))


class Returning(Sceptic):
    """A judge that puts 10 workers back after window 1."""

    def judge(self, state: AfterwardsState, window: Window) -> tuple[AfterwardsState, Mapping[str, int]]:
        back = {"workers": 10} if window.index == 1 else {}
        judgement = Judgement(Verdict.WORSE, {}, None, None, 1, "it is slower", True) if back else None
        return dataclasses.replace(state, judgement=judgement), back


class Instead:
    """A guard that puts other changes in place of a move to more than 20 workers."""

    def __init__(self, changes: Mapping[str, int]) -> None:
        self._changes = changes

    def start(self, knobs: tuple[Knob, ...]) -> int:
        return 0

    def review(self, state: int, window: Window, move: Move) -> tuple[int, Move]:
        if move.changes.get("workers", 0) > 20:
            return state, move.amended(self._changes, "it does not fit")
        return state, move

    def abort(self, state: int, partial: Window) -> str:
        return ""


def told(
    *moves: Mapping[str, int],
    plant: MemoryPlant | None = None,
    guards: tuple[Guard, ...] = (),
    judge: Judge | None = None,
    mode: Mode = Mode.AUTONOMOUS,
    error: TrimtabError | None = None,
    kind: type[Script] = Script,
) -> list[Fate | None]:
    """The fates told in each step; the error meets the second move, and the replay has to tell the same."""
    plant = plant or MemoryPlant()
    run = Run(plant, BOTH, controller=kind(moves), guards=guards, judge=judge, mode=mode, duration_s=40.0)
    if error is not None:
        plant.fake_clock.at.append((15.0, lambda: setattr(plant, "apply_error", error)))
        plant.fake_clock.at.append((25.0, lambda: setattr(plant, "apply_error", None)))
    run.go()
    run.assert_replayed(*BOTH)
    return list(run.loop._standing.state.fates)


def test_a_move_that_a_guard_held_is_told_as_held_and_not_as_the_one_before() -> None:
    held = Fate(MoveState.HELD, {"workers": 40}, "guard: it does not fit")
    assert told({"workers": 20}, {"workers": 40}, guards=(Instead({}),)) == [None, FIRST, held, held]


def test_a_move_that_a_guard_cut_is_told_with_what_was_reached_and_why() -> None:
    cut = Fate(MoveState.APPLIED, {"workers": 15}, "guard: at most 15; took effect")
    assert told({"workers": 40}, guards=(Cap(15),))[1] == cut


def test_of_several_knobs_those_that_a_guard_took_away_are_not_told_as_reached() -> None:
    rest = Fate(MoveState.APPLIED, {"timeout": 200}, "guard: it does not fit; took effect")
    assert told({"workers": 40, "timeout": 200}, guards=(Instead({"timeout": 200}),))[1] == rest


def test_a_guard_s_change_the_other_way_is_not_the_controller_s() -> None:
    held = Fate(MoveState.HELD, {"workers": 40}, "guard: it does not fit")
    assert told({"workers": 20}, {"workers": 40}, guards=(Instead({"workers": 5}),))[2] == held


def test_a_knob_that_a_guard_moved_beside_is_not_told_as_the_controller_s() -> None:
    own = Fate(MoveState.APPLIED, {"workers": 30}, "guard: it does not fit; took effect")
    assert told({"workers": 40}, guards=(Instead({"workers": 30, "timeout": 50}),))[1] == own


def test_a_move_in_whose_place_the_referee_returned_is_told_as_held_with_the_referee_s_reason() -> None:
    held = Fate(MoveState.HELD, {"workers": 40}, "it is slower: back to workers 10")
    assert told({"workers": 20}, {"workers": 40}, judge=Returning({}))[2] == held


def test_a_referee_s_return_is_not_told_as_a_controller_s_move() -> None:
    assert told({"workers": 20}, judge=Returning({})) == [None, FIRST, FIRST, FIRST]


def test_what_is_in_force_already_is_no_move_and_leaves_the_fate() -> None:
    assert told({"workers": 20}, {"workers": 20}, {}) == [None, FIRST, FIRST, FIRST]


def test_a_search_that_rules_cut_short_is_told_what_was_reached() -> None:
    why = "there is room for 24 workers: as far as that allows, workers 24; took effect"
    reached = Fate(MoveState.APPLIED, {"workers": 24}, why)
    assert told({"workers": 30}, plant=Bounded(), kind=Searcher)[1] == reached


def test_what_a_plant_did_not_set_is_not_told_as_reached() -> None:
    assert told({"workers": 20}, plant=Clipping())[1] == Fate(MoveState.APPLIED, {"workers": 15}, "took effect")


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ApplyRefused("no"), MoveState.REFUSED),
        (ApplyFailed("no"), MoveState.FAILED),
        (OperatorEdit("timeout", "no"), MoveState.STOOD_DOWN),
    ],
)
def test_a_move_that_the_plant_did_not_make_is_told_with_what_was_left_of_it(
    error: TrimtabError, state: MoveState
) -> None:
    whole = Fate(state, {"workers": 40}, "no")
    assert told({"workers": 20}, {"workers": 40}, error=error)[2] == whole
    cut = Fate(state, {"workers": 30}, "guard: it does not fit; no")
    assert told({"workers": 20}, {"workers": 40}, error=error, guards=(Instead({"workers": 30}),))[2] == cut


@pytest.mark.parametrize(("mode", "state"), [(Mode.ADVISE, MoveState.ADVISED), (Mode.APPROVE, MoveState.DECLINED)])
def test_a_move_that_was_not_to_be_made_is_told_so_each_time(mode: Mode, state: MoveState) -> None:
    moves = [None, Fate(state, {"workers": 20}), Fate(state, {"workers": 30}), Fate(state, {"workers": 30})]
    assert told({"workers": 20}, {"workers": 30}, mode=mode) == moves
