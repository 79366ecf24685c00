"""What a search compares with: a start that is warm, at the pace of its trials, and what changes themselves cost."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests._loop_run import Run
from tests._memory_plant import TIMEOUT, WORKERS, MemoryPlant
from tests.unit.test_trials import OBJECTIVE, Listed, Place, search, state_of, workers
from trimtab import codec
from trimtab.cli._summary import summary
from trimtab.core import Knob, Move, Objective, Trial, Verdict
from trimtab.referee.turns import Claim, Seen
from trimtab.report.search import tables
from trimtab.report.track import tracks
from trimtab.trials import EXTRA, Search, Searching, SearchState, against_start, harm


class Cold(MemoryPlant):
    """It answers a tenth faster from window to window, for some windows."""

    def __init__(self, cold: int) -> None:
        super().__init__()
        self.cold = cold

    def readings(self) -> dict[str, float]:
        left = max(0, self.cold - int(self.clock.now_s() - 100) // 10)
        return {name: value * 1.1**left for name, value in super().readings().items()}


def test_a_start_that_gets_better_by_itself_is_waited_for_and_is_no_gain_of_what_is_tried_then() -> None:
    run, _ = search((10, 10, 10, 9, 9), Cold(6))
    run.go()
    found = state_of(run)
    assert found.warming == 6
    assert workers(run)[:12] == [10] * 6 + [10, 10, 10, 10, 9, 9]
    assert [one.configuration["workers"] for one in found.trials] == [10, 10, 10, 10, 9, 9]
    lost_s, gained_s = harm(found, OBJECTIVE)
    assert lost_s > 0 and gained_s == 0, "9 are worse than 10, though faster than 10 were at first"
    reasons = [move.move.reason for move in run.store.moves(1)]
    assert sum("still gets better by itself" in reason for reason in reasons[:8]) == 5
    (users,) = [table for table in tables(tracks(run.store, [1])[0]) if table.title.startswith("What users")]
    assert ("before them", "6 windows until the start was warm and read") in users.rows
    run.assert_replayed()


def test_one_that_always_gets_better_is_not_waited_for_without_end() -> None:
    run, _ = search((11,), Cold(50))
    run.go()
    assert state_of(run).warming <= 12
    assert state_of(run).made == 2


def test_once_it_was_warm_nothing_is_forgotten_any_more() -> None:
    class Late(MemoryPlant):
        def readings(self) -> dict[str, float]:
            return {"response_time_s": 1.0 if self.clock.now_s() < 145 else 0.5}

    run, _ = search((10, 10, 10, 10, 10, 11), Late())
    run.go()
    assert state_of(run).warming == 0
    assert len(state_of(run).trials) == 7


class Unused(MemoryPlant):
    """Nobody asks it for anything before this time."""

    def __init__(self, until_s: float) -> None:
        super().__init__()
        self.until_s = until_s

    def readings(self) -> dict[str, float]:
        return {} if self.clock.now_s() < self.until_s else dict(super().readings())


def test_nothing_is_tried_before_the_start_was_measured() -> None:
    run, _ = search((20, 40, 40), Unused(145))
    run.go()
    assert workers(run)[:7] == [10] * 5 + [20, 40], "four windows of nothing and one of the start"
    assert (state_of(run).warming, state_of(run).made) == (4, 4)
    said = [move.move.reason for move in run.store.moves(1)]
    assert sum("nothing to compare with: response_time_s not measured" in reason for reason in said) == 4
    run.assert_replayed()


def test_a_search_on_a_server_that_nobody_uses_ends_and_has_tried_nothing() -> None:
    run, plant = search((20, 40) * 20, Unused(1e9))
    run.go()
    assert workers(run) == [10] * 12
    assert plant.applied == []
    claim = state_of(run).claim
    assert claim is not None and claim.verdict is Verdict.UNMEASURED
    assert "no improvement: nothing was measured" in " ".join(summary(tracks(run.store, [1])[0]))


def test_where_no_request_completed_that_is_said_and_not_that_the_objective_was_at_0() -> None:
    class Silent(Unused):
        def readings(self) -> dict[str, float]:
            return super().readings() or {"response_time_s": 0.7, "request_rate_hz": 0.0}

    run, _ = search((20, 40), Silent(125))
    run.go()
    assert workers(run)[:4] == [10, 10, 10, 20]
    assert "nothing to compare with: no request completed at the start" in run.store.moves(1)[0].move.reason


def test_a_rate_of_nothing_is_no_start_to_compare_with() -> None:
    class Sells(Unused):
        def readings(self) -> dict[str, float]:
            return {"request_rate_hz": 0.0 if self.clock.now_s() < self.until_s else 5.0}

    objective = Objective("request_rate_hz", minimize=False)
    how = Search(3, 3, None, 10.0)
    method = Searching(objective, Listed((20, 20), objective), how)
    run = Run(Sells(125), controller=method, objective=objective, duration_s=1e9, extras={EXTRA: codec.builtins(how)})
    run.go()
    assert workers(run)[:4] == [10, 10, 10, 20]


@dataclasses.dataclass(frozen=True)
class Recommends(Listed):
    """Stands behind the start, and recommends what it has tried last."""

    def step(self, state: Place, trial: Trial) -> tuple[Place, Move]:
        state, move = super().step(state, trial)
        last = {"workers": trial.window.configuration["workers"]}
        return state, dataclasses.replace(move, incumbent={"workers": 10}, recommended=last)


def recommending(plant: MemoryPlant, last: int) -> SearchState[Any]:
    """The end of a search whose method tries 20 and this number of workers, and recommends the second."""
    how = Search(3, 3, None, 10.0)
    method = Searching(OBJECTIVE, Recommends((20, last)), how)
    run = Run(plant, controller=method, duration_s=1e9, extras={EXTRA: codec.builtins(how)})
    run.go()
    return state_of(run)


@pytest.mark.parametrize(("last", "better"), [(40, True), (5, False)])
def test_what_a_method_recommends_goes_to_the_turns_and_what_is_not_better_in_them_goes_back(
    last: int, better: bool
) -> None:
    plant = MemoryPlant()
    found = recommending(plant, last)
    assert found.winner == {"workers": last}
    assert {one.configuration["workers"] for one in found.turns} == {10, last}
    assert found.claim is not None
    assert (found.claim.verdict is Verdict.BETTER) == better
    assert plant.values["workers"] == (last if better else 10)


def test_a_winner_whose_trials_were_made_under_a_heavier_load_than_the_start_s_is_not_thrown_away() -> None:
    """In the mean of all trials the start is better: it was measured before the load grew."""

    class Loaded(MemoryPlant):
        def readings(self) -> dict[str, float]:
            grown = 30.0 if self.clock.now_s() > 115 else 1.0
            return {name: value * grown for name, value in super().readings().items()}

    plant = Loaded()
    found = recommending(plant, 40)
    values = {one.configuration["workers"]: one.value for one in found.trials}
    assert (values[40] or 0) > (values[10] or 0) > 0
    assert found.winner == {"workers": 40}
    assert found.claim is not None and found.claim.verdict is Verdict.BETTER
    assert plant.values["workers"] == 40


def test_what_is_only_recommended_is_not_believed_where_nothing_is_measured_again() -> None:
    plant, how = MemoryPlant(), Search(3, 0, None, 10.0)
    method = Searching(OBJECTIVE, Recommends((20, 40)), how)
    run = Run(plant, controller=method, duration_s=1e9, extras={EXTRA: codec.builtins(how)})
    run.go()
    assert state_of(run).winner == {"workers": 10}
    assert plant.values["workers"] == 10


def seen(value: float, workers: int = 10, **fields: Any) -> Seen:
    return Seen({"workers": workers}, value, False, 10.0, **fields)


def state(*trials: Seen, turns: tuple[Seen, ...] = ()) -> SearchState[Any]:
    return SearchState[Any]((), 1, None, {"workers": 10}, trials, turns=turns)


def test_what_was_lost_and_gained_is_told_by_all_windows_of_the_start_also_those_at_the_end() -> None:
    trials = seen(1.0), seen(0.8, 20)
    assert harm(state(*trials), OBJECTIVE)[1] == pytest.approx(10 * 0.25)
    later = state(*trials, turns=(seen(0.6), seen(0.8, 20)))
    assert harm(later, OBJECTIVE) == (0.0, 0.0)
    assert against_start(later, OBJECTIVE) == pytest.approx([1.0, 1.0])


def test_a_machine_that_is_slower_meanwhile_is_no_loss() -> None:
    trials = [seen(2.0**z, pace=z * 0.69314718) for z in (0.0, 1.0, 0.0, 1.0)] + [seen(2.0, 20, pace=0.69314718)]
    assert harm(state(*trials), OBJECTIVE)[0] < 0.2
    raw = [dataclasses.replace(one, pace=None) for one in trials]
    assert harm(state(*raw), OBJECTIVE)[0] > 2


def test_the_time_in_which_requests_were_held_back_for_a_change_is_lost() -> None:
    assert harm(state(seen(1.0), seen(1.0, 20, held_s=0.7), seen(1.0, held_s=0.2)), OBJECTIVE)[0] == pytest.approx(
        0.9
    )


def test_a_knob_that_is_taken_leaves_what_was_lost_as_it_was() -> None:
    method = Searching(OBJECTIVE, Listed((20,)), Search(2, 3, None, 10.0))
    knobs: tuple[Knob, ...] = MemoryPlant().knobs()
    before = dataclasses.replace(method.start(knobs, 1), start={"workers": 10, "timeout_ms": 1})
    trials = tuple(
        dataclasses.replace(one, configuration={**one.configuration, "timeout_ms": 1})
        for one in (seen(1.0), seen(2.0, 20, held_s=1.0))
    )
    before = dataclasses.replace(before, trials=trials)
    after = method.withdraw(before, knobs[1].name)
    assert harm(after, OBJECTIVE) == harm(before, OBJECTIVE)
    assert harm(after, OBJECTIVE)[0] == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("values", "lost_s"), [((0.5, 0.0, 1.0), 5.0), ((0.0, 0.0, 1.0), 10.0)], ids=["some before", "nothing before"]
)
def test_where_less_is_better_a_reading_of_nothing_is_no_loss(values: tuple[float, ...], lost_s: float) -> None:
    trials = tuple(Seen({"workers": 10 * (i + 1)}, value, False, 10.0) for i, value in enumerate(values))
    assert harm(SearchState((WORKERS,), 0, None, start={"workers": 10}, trials=trials), OBJECTIVE) == (lost_s, 0.0)


@pytest.mark.parametrize(("won", "said"), [(9, "the start in timeout alone"), (7, "nothing did better")])
def test_what_was_claimed_of_the_start_itself_is_no_matter_of_a_knob_that_is_taken(won: int, said: str) -> None:
    method = Searching(OBJECTIVE, Listed((20,)), Search(5, 3, None, 10.0))
    found = Claim(Verdict.SAME, "no improvement: nothing did better than the start configuration")
    start, winner = {"workers": 10, "timeout": 7}, {"workers": 10, "timeout": won}
    claim = found if winner == start else None
    state = SearchState((WORKERS, TIMEOUT), 0, Place(), start, winner=winner, claim=claim, ended="all are made")
    after = method.withdraw(state, "timeout").claim
    assert after is not None and after.verdict is Verdict.SAME and said in after.why
