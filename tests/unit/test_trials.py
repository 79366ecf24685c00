"""A search by trials around any method: its end, its budget, what stays in force and what is said of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from tests._loop_run import Run
from tests._memory_plant import TIMEOUT, WORKERS, MemoryPlant
from trimtab import codec
from trimtab.cli._summary import summary
from trimtab.controllers.random_search import RandomSearch
from trimtab.controllers.simplex import Simplex
from trimtab.controllers.trust_region import TrustRegion
from trimtab.core import Knob, Move, MoveState, Objective, Trial, Verdict, Window
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


class Wavering(MemoryPlant):
    """Forty workers are a little better than ten, beside noise of twice the size that the windows bring in turn."""

    factors = (1.0, 1.04, 0.97, 1.05, 0.96, 1.02, 1.0, 0.99, 1.03, 0.98, 1.01, 0.97, 1.02, 1.0, 0.98, 1.0, 1.03, 0.99)

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def readings(self) -> dict[str, float]:
        self.count += 1
        usual = 0.98 if self.values["workers"] == 40 else 1.0
        return {"response_time_s": usual * self.factors[self.count % len(self.factors)]}


def test_turns_that_leave_open_what_may_be_a_gain_are_taken_once_more() -> None:
    run, _ = search((40,), Wavering(), remeasure=4, rounds=2)
    run.go()
    moves = [move.move.reason for move in run.store.moves(1)]
    (said,) = [reason for reason in moves if "as often again, since that may be a gain" in reason]
    found = state_of(run)
    assert "9 of 16" in said and found.rounds == 2 and len(found.turns) == 16
    assert found.claim is not None and found.claim.turns == 8
    run.assert_replayed()


class Refusing(Noisy):
    """The plant, which refuses connections where many workers are in force, and answers the others the sooner."""

    def readings(self) -> dict[str, float]:
        return {**super().readings(), "failed_connection_rate_hz": 30.0 * (self.values["workers"] == 40)}


def test_a_winner_with_which_connections_are_refused_goes_back() -> None:
    run, plant = search((20, 40), Refusing())
    run.go()
    claim = state_of(run).claim
    assert claim is not None and claim.verdict is Verdict.WORSE
    assert (
        "no improvement" in claim.why and "more failed with it: failed_connection_rate_hz 30 in place of" in claim.why
    )
    assert plant.values["workers"] == START


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


@dataclasses.dataclass(frozen=True)
class ListedSearch(Listed):
    """The same, as a search that counts on rules among knobs."""

    searches: ClassVar[bool] = True


class Bounded(Noisy):
    """A plant with room for so many workers."""

    room = 24

    def objection(self, configuration: Mapping[str, int]) -> str:
        return f"there is room for {self.room} workers" if configuration["workers"] > self.room else ""


def test_a_search_by_trials_goes_as_far_as_a_rule_lets_it_and_any_other_method_is_refused() -> None:
    run = Run(Bounded(), controller=Searching(OBJECTIVE, ListedSearch((20, 40)), Search(3, 0, None, 10.0)))
    run.go()
    assert workers(run)[:3] == [10, 20, 24]
    other, _ = search((20, 40), Bounded())
    other.go()
    assert workers(other)[:3] == [10, 20, 20]


def test_a_winner_that_a_rule_refuses_by_now_is_measured_as_far_as_the_rule_lets_it() -> None:
    plant, how = Bounded(), Search(3, 2, None, 10.0)
    run = Run(plant, controller=Searching(OBJECTIVE, ListedSearch((20, 24)), how), duration_s=1e9)
    plant.fake_clock.at.append((35.0, lambda: setattr(plant, "room", 22)))
    outcome = run.go()
    state = state_of(run)
    assert run.states.count(MoveState.REFUSED) == 1 and state.winner == {"workers": 22}
    assert [one.configuration["workers"] for one in state.turns] == [22, 10, 10, 22]
    assert "it is what rules leave by now of the one that was found" in outcome.detail


def test_where_a_rule_tightens_in_the_middle_the_turns_begin_again_with_what_it_leaves_once() -> None:
    plant, how = Bounded(), Search(3, 3, None, 10.0)
    run = Run(plant, controller=Searching(OBJECTIVE, ListedSearch((20, 24)), how), duration_s=1e9)
    plant.fake_clock.at += [(65.0, lambda: setattr(plant, "room", 22)), (135.0, lambda: setattr(plant, "room", 21))]
    assert run.go().restored
    state = state_of(run)
    assert state.winner == {"workers": 22} and 21 not in workers(run)
    assert state.claim is not None and state.claim.verdict is Verdict.UNMEASURED


def test_what_was_no_worse_than_the_start_is_measured_again_and_nothing_near_it() -> None:
    method = Searching(OBJECTIVE, Listed((13, 20, 40, 10, 28)), Search(6, 0, None, 10.0))
    run = Run(Noisy(), controller=method, guards=(LargestStep(1.5),), duration_s=1e9)
    run.go()
    assert workers(run)[:6] == [10, 13, 19, 28, 10, 28]


def test_from_a_bad_trial_the_next_goes_to_where_the_best_one_is_and_nowhere_between() -> None:
    method = Searching(OBJECTIVE, Listed((40, 100, 12)), Search(4, 0, None, 10.0))
    run = Run(Noisy(), controller=method, guards=(LargestStep(),), duration_s=1e9)
    run.go()
    assert workers(run)[:4] == [10, 40, 100, 12]


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
    assert outcome.status is Status.DONE and plant.restored == 1
    assert "no improvement: the winner could not be brought into force" in outcome.detail
    assert "40 are too many now" in outcome.detail


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
    assert (tried.forgotten, tried.made) == (0, 6), "it had this value in all trials"
    assert tried.start == {"workers": START}
    assert all(one.configuration.keys() == {"workers"} and one.beside == {"timeout": 100} for one in tried.trials)
    (note,) = run.notes(NoteKind.STAND_DOWN)
    assert note.text == "timeout stands down: is 7 now; the search starts again with the others", "its method cannot"


@dataclasses.dataclass(frozen=True)
class Going(Listed):
    """The same, which goes on where it was once a knob is taken."""

    def withdraw(self, state: Place, knob: str) -> Place:
        return state


def seen(index: int, workers: int, timeout: int) -> Trial:
    """A window with a response time of its own for each number of workers, at any timeout."""
    readings = {"response_time_s": {1: 1.3, 10: 1.0, 20: 0.5, 30: 0.25, 40: 0.2}[workers], "request_rate_hz": 20.0}
    return Trial(Window(index, 10.0 * index, 10.0, {"workers": workers, "timeout": timeout}, readings, 200))


def walked(
    searching: Searching, tried: list[tuple[int, int]], state: SearchState[Any] | None = None
) -> tuple[SearchState[Any], Move]:
    """The state and the move after windows of so many workers at these timeouts."""
    state, move = state or searching.start((WORKERS, TIMEOUT), 0), Move({}, "")
    for index, (workers, timeout) in enumerate(tried):
        state, move = searching.step(state, seen(index, workers, timeout))
    return state, move


TEN = Searching(OBJECTIVE, Going((20, 1, 30, 40)), Search(10, 2, None, 10.0))


def test_trials_at_another_value_than_the_operator_s_are_counted_and_not_believed() -> None:
    before, _ = walked(TEN, [(10, 100), (1, 100), (20, 200), (30, 300)])
    lost_s, gained_s = harm(before, OBJECTIVE)
    assert lost_s > 0 and gained_s > 0
    after, move = walked(TEN, [(20, 200)], TEN.withdraw(before, "timeout"))
    assert (after.forgotten, after.made) == (3, 5)
    assert [one.configuration for one in after.trials] == [{"workers": 20}] * 2
    now_s = harm(after, OBJECTIVE)
    assert now_s[0] == pytest.approx(lost_s), "20 workers lose nothing"
    assert now_s[1] == pytest.approx(gained_s + 10 * 1.0), "by what the start was before"
    assert move.evidence["lost_s"] == pytest.approx(lost_s)


def test_losses_are_counted_on_where_the_start_was_not_measured_at_the_operator_s_value() -> None:
    before, _ = walked(TEN, [(10, 100), (20, 100)])
    after, _ = walked(TEN, [(1, 7)], TEN.withdraw(before, "timeout"))
    assert harm(after, OBJECTIVE)[0] == pytest.approx(10 * (1 - 1 / 1.3))
    again, _ = walked(TEN, [(10, 7), (1, 7)], after)
    assert harm(again, OBJECTIVE)[0] == pytest.approx(20 * (1 - 1 / 1.3)), "no trial is counted twice"


def test_the_trials_that_were_made_end_the_search_though_a_knob_was_taken() -> None:
    before, _ = walked(TEN, [(10, 100)] * 6)
    state, _ = walked(TEN, [(40, 7)] * 3, TEN.withdraw(before, "timeout"))
    assert not state.ended
    assert walked(TEN, [(40, 7)], state)[0].ended == "all 10 trials are made"


def test_a_re_measurement_begins_again_once_a_knob_is_taken() -> None:
    ending = Searching(OBJECTIVE, Going((40,), ends=True), Search(10, 2, None, 10.0))
    before, _ = walked(ending, [(10, 100), (40, 100), (40, 100), (10, 100)])
    assert before.winner["workers"] == 40 and len(before.turns) == 2
    taken = ending.withdraw(before, "timeout")
    assert (taken.turns, taken.winner, taken.ended) == ((), {"workers": 40}, before.ended)
    state, _ = walked(ending, [(40, 7), (10, 7)], taken)
    assert len(state.turns) == 2
    again, _ = walked(ending, [(40, 8)], state)
    assert [one.beside for one in again.turns] == [{"timeout": 8}], "the operator has set it once more"
    proven, move = walked(ending, [(10, 8), (10, 8), (40, 8)], again)
    assert proven.claim is not None and proven.claim.verdict is Verdict.BETTER and move.finished


def test_a_winner_that_differed_in_the_taken_knob_alone_is_no_improvement() -> None:
    ending = Searching(OBJECTIVE, Going((40,), ends=True), Search(10, 2, None, 10.0))
    before = dataclasses.replace(
        walked(ending, [(10, 100)])[0], ended="it has ended", winner={"workers": 10, "timeout": 200}
    )
    state, move = walked(ending, [(10, 7)], ending.withdraw(before, "timeout"))
    assert move.finished and move.incumbent == {"workers": 10}
    assert move.reason == "no improvement: the winner differed from the start in timeout alone"
    assert ending.final(state) == {"workers": 10}


def test_the_states_of_the_moves_say_which_window_is_measured_again() -> None:
    run, _ = search((40,), remeasure=2)
    run.go()
    moves = run.store.moves(1)
    assert sum(move.move.phase == MEASURE for move in moves) == 4
    assert moves[-1].state is MoveState.HELD


def test_a_claim_is_stored_as_it_was() -> None:
    claim = Claim(Verdict.BETTER, "why", 1.2, 1.1, 1.3, 5)
    assert codec.decode(codec.encode(claim), Claim) == claim


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (TrustRegion(OBJECTIVE), ""),
        (RandomSearch(OBJECTIVE), ""),
        (Simplex(OBJECTIVE), "; the search starts again from the best that it knows, with the others"),
    ],
)
def test_an_operator_takes_a_knob_in_the_middle_of_a_search_and_a_replay_goes_the_same_way(
    method: Any, said: str
) -> None:
    plant = Noisy()
    run = Run(
        plant, (WORKERS, TIMEOUT), controller=Searching(OBJECTIVE, method, Search(16, 2, None, 10.0)), duration_s=1e9
    )
    original = plant.configuration

    def edit() -> None:
        plant.values["timeout"] = 7

        def once() -> Mapping[str, int]:
            plant.configuration = original  # type: ignore[method-assign]
            raise OperatorEdit("timeout", "Timeout is 7, set by hand")

        plant.configuration = once  # type: ignore[method-assign]

    plant.fake_clock.at.append((85.0, edit))
    outcome = run.go()
    (note,) = run.notes(NoteKind.STAND_DOWN)
    assert note.text == f"timeout stands down: Timeout is 7, set by hand{said}"
    moves = [move for move in run.store.moves(1) if move.sequence > note.stamp.sequence]
    assert moves and not any("timeout" in move.proposed.changes for move in moves)
    assert outcome.status is Status.DONE and plant.values["timeout"] == 7
    assert state_of(run).made <= 16
    run.assert_replayed(WORKERS, TIMEOUT)
