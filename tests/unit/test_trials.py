"""A search by trials around any method: its end, its budget, what stays in force and what is said of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from tests._memory_plant import TIMEOUT, WORKERS, MemoryPlant
from tests.unit.test_loop import Run
from trimtab import codec
from trimtab.cli._summary import summary
from trimtab.core import Knob, Move, MoveState, Objective, Trial, Verdict
from trimtab.decision import Decider, Oversight
from trimtab.errors import ApplyRefused, OperatorEdit
from trimtab.events import NoteKind, Status
from trimtab.guard.largest_step import LargestStep
from trimtab.referee.turns import Claim
from trimtab.replay import Past, replayed
from trimtab.report.track import tracks
from trimtab.trials import EXTRA, MEASURE, Search, Searching, SearchState, harm

OBJECTIVE = Objective()
START = 10
"""Workers in force before each run: a response time of 1 s; 40 are best."""


@dataclasses.dataclass(frozen=True)
class Place:
    """How many of a list were tried."""

    done: int = 0


@dataclasses.dataclass(frozen=True)
class Listed:
    """Tries these numbers of workers, one after the other, and then the last one again."""

    values: tuple[int, ...]
    objective: Objective = OBJECTIVE
    ends: bool = False

    def start(self, knobs: tuple[Knob, ...], seed: int) -> Place:
        return Place()

    def step(self, state: Place, trial: Trial) -> tuple[Place, Move]:
        if self.ends and state.done >= len(self.values):
            return state, Move.end({"workers": self.values[-1]}, "nothing more is to be had")
        now = self.values[min(state.done, len(self.values) - 1)]
        return Place(state.done + 1), Move({"workers": now}, "the next one")


@dataclasses.dataclass(frozen=True)
class Guess:
    """Ends at once with a configuration that it has never seen."""

    def start(self, knobs: tuple[Knob, ...], seed: int) -> Place:
        return Place()

    def step(self, state: Place, trial: Trial) -> tuple[Place, Move]:
        return state, Move.end({"workers": 90}, "it must be good")


class Noisy(MemoryPlant):
    """The plant with a response time that differs a little from window to window."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def readings(self) -> dict[str, float]:
        self.count += 1
        factor = 1 + 0.01 * (self.count % 3)
        return {name: value * factor for name, value in super().readings().items()}


def search(
    values: tuple[int, ...], plant: MemoryPlant | None = None, ends: bool = False, **fields: Any
) -> tuple[Run, MemoryPlant]:
    """A run whose method tries these numbers of workers."""
    plant = plant or Noisy()
    how = Search(**{"trials": len(values) + 1, "remeasure": 3, "budget": None, "trial_s": 10.0} | fields)
    method = Searching(OBJECTIVE, Listed(values, ends=ends), how)
    return Run(plant, controller=method, duration_s=1e9, extras={EXTRA: codec.builtins(how)}), plant


def workers(run: Run) -> list[int]:
    return [window.configuration["workers"] for window in run.windows]


def state_of(run: Run) -> SearchState[Any]:
    past = run.store.past(run.recorder.run_id)
    assert past is not None
    return codec.convert(past[0].standing.state, SearchState[Any])


def test_after_its_trials_the_best_is_measured_in_turn_with_the_start_and_stays() -> None:
    run, plant = search((20, 40, 30))
    outcome = run.go()
    assert workers(run) == [10, 20, 40, 30, 10, 40, 40, 10, 10, 40]
    assert (outcome.status, outcome.restored) == (Status.DONE, False)
    assert plant.values["workers"] == 40
    claim = state_of(run).claim
    assert claim is not None and claim.verdict is Verdict.BETTER
    assert claim.gain == pytest.approx(10.0, rel=0.05)
    assert "Response time: measured again in 3 turns, the winner is" in summary(tracks(run.store, [1])[0])[3]


def test_the_claim_is_of_the_turns_and_never_of_the_best_trial() -> None:
    class Lucky(Noisy):
        lucky = 0

        def readings(self) -> dict[str, float]:
            found = super().readings()
            self.lucky += self.values["workers"] == 11
            return {"response_time_s": 0.2} if self.lucky == 1 else found

    run, _ = search((11, 10), Lucky())
    run.go()
    claim = state_of(run).claim
    assert state_of(run).winner == {"workers": 11}
    assert claim is not None and claim.gain is not None and claim.gain < 1.2


def test_without_improvement_that_is_said_and_the_start_comes_back_to_the_byte() -> None:
    run, plant = search((9, 10))
    outcome = run.go()
    assert outcome.restored and plant.restored == 1
    assert "no improvement: nothing did better than the start configuration" in outcome.detail
    assert not any(move.move.phase == MEASURE for move in run.store.moves(1)), "nothing is to be measured again"
    assert summary(tracks(run.store, [1])[0])[2].startswith("so:    No improvement: ")


def test_a_method_that_ends_by_itself_names_the_winner() -> None:
    run, plant = search((20, 30), ends=True, trials=50)
    outcome = run.go()
    assert workers(run)[:3] == [10, 20, 30]
    assert state_of(run).winner == {"workers": 30}
    assert plant.values["workers"] == 30
    assert "nothing more is to be had" in state_of(run).ended
    assert outcome.status is Status.DONE


def test_when_the_budget_of_harm_is_spent_the_search_ends_with_its_incumbent() -> None:
    run, plant = search((20, 1, 1, 1, 1, 1), budget=0.1)
    run.go()
    tried = state_of(run)
    # Workers 1 answer in 1.621 s where 10 do in 1 s: a loss of 0.38 of the start's work; 0.1 of 7 trials may be lost.
    assert [one.configuration["workers"] for one in tried.trials] == [10, 20, 1, 1]
    assert tried.ended.startswith("the budget of harm is spent: ")
    assert tried.winner == {"workers": 20} and plant.values["workers"] == 20


def test_losses_are_not_paid_for_by_gains_and_what_is_not_measured_is_lost_whole() -> None:
    run, _ = search((20, 1))
    run.go()
    tried = state_of(run)
    lost_s, gained_s = harm(tried, OBJECTIVE)
    assert lost_s == pytest.approx(10 * (1 - 1 / 1.621), rel=0.1)
    assert gained_s == pytest.approx(10 * (1 / 0.5 - 1), rel=0.1)
    silent = dataclasses.replace(tried.trials[-1], value=None)
    unmeasured = dataclasses.replace(tried, trials=(*tried.trials[:-1], silent))
    assert harm(unmeasured, OBJECTIVE)[0] == pytest.approx(10.0)
    broken = dataclasses.replace(
        tried, trials=(*tried.trials[:-1], dataclasses.replace(tried.trials[1], broken=True))
    )
    assert harm(broken, OBJECTIVE)[0] == pytest.approx(10.0)


def test_who_stops_it_before_the_winner_is_proven_has_the_start_back() -> None:
    run, plant = search((40, 40, 40, 40))
    plant.fake_clock.at.append((25.0, lambda: setattr(run.stop, "reason", "SIGINT")))
    outcome = run.go()
    assert (outcome.status, outcome.restored, plant.restored) == (Status.STOPPED, True, 1)
    assert "the search ended before its winner was measured again" in summary(tracks(run.store, [1])[0])[-1].lower()


def test_the_turns_reach_both_configurations_though_a_guard_bounds_each_step() -> None:
    method = Searching(OBJECTIVE, Listed((13, 20, 40)), Search(4, 2, None, 10.0))
    run = Run(Noisy(), controller=method, guards=(LargestStep(1.5),), duration_s=1e9)
    run.go()
    assert workers(run) == [10, 13, 19, 28, 28, 10, 10, 28]


def test_what_was_no_worse_than_the_start_is_measured_again_and_nothing_near_it() -> None:
    method = Searching(OBJECTIVE, Listed((13, 20, 40, 10, 28)), Search(6, 0, None, 10.0))
    run = Run(Noisy(), controller=method, guards=(LargestStep(1.5),), duration_s=1e9)
    run.go()
    assert workers(run)[:6] == [10, 13, 19, 28, 10, 28]


def test_a_winner_that_no_trial_had_passes_the_guards_and_is_not_claimed_before_it_was_there() -> None:
    method = Searching(OBJECTIVE, Guess(), Search(9, 2, None, 10.0))
    run = Run(Noisy(), controller=method, guards=(LargestStep(1.5),), duration_s=1e9)
    run.go()
    assert workers(run) == [10, 15, 22, 33, 10], "three windows on the way, and then it is given up"
    assert state_of(run).claim is not None and run.plant.restored == 1


def test_a_winner_that_cannot_be_brought_into_force_again_is_not_claimed() -> None:
    class Refusing(Noisy):
        def prepare(self, changes: Mapping[str, int]) -> Any:
            if len(self.applied) > 3 and changes.get("workers") == 40:
                raise ApplyRefused("40 are too many now")
            return super().prepare(changes)

    run, plant = search((40, 30), Refusing(), remeasure=2)
    outcome = run.go()
    assert "no improvement" in outcome.detail or outcome.status is Status.FAILED
    assert plant.restored == 1


def test_a_run_is_replayed_and_goes_on_in_the_middle_of_its_turns() -> None:
    run, _ = search((20, 40))
    run.go()
    controller = Searching(OBJECTIVE, Listed((20, 40)), Search(3, 3, None, 10.0))
    decider = Decider(controller, Oversight(()), 0)
    events = run.store.events(1)
    found = replayed(decider, Past(decider.start((WORKERS,))), events)
    assert isinstance(found, Past)
    half = replayed(decider, Past(decider.start((WORKERS,))), events[:11])
    assert isinstance(half, Past) and 0 < len(half.standing.state.turns) < 6
    stored = codec.decode(codec.encode(half), Past)
    restored = decider.restored(stored.standing)
    assert restored == half.standing
    again = replayed(decider, dataclasses.replace(stored, standing=restored), events[11:])
    assert isinstance(again, Past) and again.standing == found.standing


def test_a_knob_that_the_operator_takes_leaves_the_search_to_the_others_with_what_is_spent() -> None:
    plant = Noisy()
    method = Searching(OBJECTIVE, Listed((20, 1, 40, 40, 40)), Search(6, 2, None, 10.0))
    run = Run(plant, (WORKERS, TIMEOUT), controller=method, duration_s=1e9)

    edit = OperatorEdit("timeout", "is 7 now")
    plant.fake_clock.at.append((25.0, lambda: setattr(plant, "configuration_error", edit)))
    original = plant.configuration

    def once() -> Mapping[str, int]:
        try:
            return original()
        except OperatorEdit:
            plant.configuration_error = None
            raise

    plant.configuration = once  # type: ignore[method-assign]
    run.go()
    assert [note.knob for note in run.notes(NoteKind.STAND_DOWN)] == ["timeout"]
    tried = state_of(run)
    assert tried.forgotten > 0 and tried.made >= 6
    assert tried.start == {"workers": START}
    assert all("timeout" not in one.configuration for one in tried.trials)


def test_the_states_of_the_moves_say_which_window_is_measured_again() -> None:
    run, _ = search((40,), remeasure=2)
    run.go()
    moves = run.store.moves(1)
    assert sum(move.move.phase == MEASURE for move in moves) == 4
    assert moves[-1].state is MoveState.HELD


def test_a_claim_is_stored_as_it_was() -> None:
    claim = Claim(Verdict.BETTER, "why", 1.2, 1.1, 1.3, 5)
    assert codec.decode(codec.encode(claim), Claim) == claim
