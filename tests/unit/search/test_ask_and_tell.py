"""The adapter for libraries, once a knob is left to the operator."""

from __future__ import annotations

from trimtab.controllers.random_search import RandomSearch
from trimtab.core import Domain, Fate, How, Knob, Move, MoveState, Objective, Trial, Window
from trimtab.search.ask_and_tell import AskState
from trimtab.search.evidence import believed

SEARCH = RandomSearch(Objective())
A, B = (Knob(name, name, "", Domain(0, 100), 50, How.LIVE, "nothing", "A number.") for name in "ab")


def told(state: AskState, a: int, b: int, cost: float, fate: Fate | None = None) -> tuple[AskState, Move]:
    readings = {"response_time_s": cost, "request_rate_hz": 20.0}
    return SEARCH.step(state, Trial(Window(0, 0.0, 1.0, {"a": a, "b": b}, readings, 100), fate))


def tried() -> AskState:
    """20 and 30 were best, with another b."""
    state = SEARCH.start((A, B), 1)
    for a, b, cost in ((50, 50, 1.0), (20, 30, 0.5), (80, 50, 2.0)):
        state, _ = told(state, a, b, cost)
    return state


def test_trials_at_the_operator_s_value_count_and_no_others() -> None:
    state, move = told(SEARCH.withdraw(tried(), "b"), 80, 50, 2.0)
    assert [one.values for one in believed(state.told, (50,))] == [(50,), (80,), (80,)]
    assert len(state.told) == 4, "all of them are trials made"
    assert move.changes == move.incumbent == {"a": 20}, "the best one is measured first at his value"
    state, move = told(state, 20, 50, 3.0)
    assert move.incumbent == {"a": 50}


def test_the_best_one_is_not_measured_again_where_it_had_his_value() -> None:
    _, move = told(SEARCH.withdraw(tried(), "b"), 80, 30, 2.0)
    assert move.incumbent == {"a": 20}
    assert move.changes != {"a": 20}


def test_the_best_one_is_asked_for_once_and_then_left_where_it_is_refused() -> None:
    state, _ = told(SEARCH.withdraw(tried(), "b"), 80, 50, 2.0)
    refused = Fate(MoveState.REFUSED, {"a": 20}, "no room")
    state, move = told(state, 80, 50, 2.0, refused)
    assert move.incumbent == {"a": 50} and move.changes != {"a": 20}
    assert state.told[-1].y is None


def test_the_best_one_is_asked_for_once_and_then_left_where_guards_hold_it() -> None:
    state, _ = told(SEARCH.withdraw(tried(), "b"), 80, 50, 2.0)
    _, move = told(state, 80, 50, 2.0, Fate(MoveState.HELD, {"a": 20}, "guard: no"))
    assert move.incumbent == {"a": 50} and move.changes != {"a": 20}


def test_the_same_points_are_not_drawn_anew_because_old_trials_do_not_count() -> None:
    def drawn(state: AskState) -> list[int]:
        found = []
        for _ in range(4):
            state, move = told(state, 80, 99, 2.0)
            found.append(move.changes["a"])
        return found[1:]

    assert drawn(SEARCH.withdraw(tried(), "b")) != drawn(SEARCH.start((A,), 1))
