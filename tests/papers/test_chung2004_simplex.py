"""The simplex of chung2004 as the code of 2003 had it: worked by hand on two knobs, departure by departure."""

from __future__ import annotations

import math

from trimtab.controllers.simplex import Simplex, SimplexState, first_vertices, told
from trimtab.core import Domain, Fate, How, Knob, MoveState, Objective, Trial, Window

KNOBS = tuple(
    Knob(name, name, "", Domain(0, 100), 0, How.LIVE, "nothing", "a knob of a worked example") for name in ("a", "b")
)


def whole(*vertices: tuple[float, tuple[int, int]]) -> SimplexState:
    """A simplex of three vertices, the last of which has just been measured."""
    *first, last = vertices
    return told(SimplexState(KNOBS, tuple(first), asked=last[1]), last[0])


def seen(index: int, a: int, b: int) -> Window:
    """A window with a mean of one second."""
    return Window(index, float(index), 1.0, {"a": a, "b": b}, {"response_time_s": 1.0}, 100)


STATE = whole((1.0, (10, 10)), (2.0, (40, 10)), (3.0, (10, 40)))


def test_vertex_k_has_one_more_knob_at_its_maximum() -> None:
    assert first_vertices(KNOBS, (10, 20)) == ((100, 20), (100, 100))


def test_the_centroid_has_the_worst_in_it() -> None:
    """c = (20, 20), and r = c + (c - x_n) = (30, 0); without the worst it would be (40, -20)."""
    assert (STATE.doing, STATE.asked) == ("reflection", (30, 0))


def test_a_reflection_that_is_best_is_expanded_and_the_expansion_kept_if_it_beats_the_best() -> None:
    better = told(STATE, 0.5)
    assert (better.doing, better.asked) == ("expansion", (40, 0)), "c + 2 (c - x_n) = (40, -20), clipped"
    assert (0.4, (40, 0)) in told(better, 0.4).simplex
    assert (0.5, (30, 0)) in told(better, 1.0).simplex


def test_a_reflection_between_best_and_second_worst_is_accepted() -> None:
    after = told(STATE, 1.5)
    assert after.doing == "reflection"
    assert after.simplex == ((1.0, (10, 10)), (1.5, (30, 0)), (2.0, (40, 10)))


def test_a_reflection_just_better_than_the_worst_leaves_its_value_but_not_its_point() -> None:
    after = told(STATE, 2.5)
    assert after.simplex[-1] == (2.5, (10, 40))
    assert (after.doing, after.asked) == ("contraction", (15, 30)), "half way from c to the worst"


def test_a_contraction_that_is_no_better_shrinks_all_and_runs_the_best_again() -> None:
    after = told(told(STATE, 3.5), 3.1)
    assert after.doing == "shrink"
    assert (after.asked, after.pending) == ((10, 10), ((25, 10), (10, 25)))
    assert (3.0, (15, 30)) in told(told(STATE, 3.5), 3.0).simplex, "as good as the worst is good enough"


def test_a_point_that_is_a_vertex_already_is_moved_by_a_step() -> None:
    state = whole((1.0, (20, 20)), (2.0, (20, 20)), (3.0, (20, 20)))
    assert state.asked == (21, 20)


def test_it_starts_from_what_runs_and_a_refused_vertex_costs_infinitely_much() -> None:
    controller = Simplex(Objective("response_time_s"))
    state = controller.start(KNOBS, 0)
    state, move = controller.step(state, Trial(seen(0, 10, 20)))
    assert dict(move.changes) == {"a": 100, "b": 20}
    fate = Fate(MoveState.REFUSED, {"a": 100}, "a + b is at most 100")
    state, move = controller.step(state, Trial(seen(1, 10, 20), fate))
    assert state.simplex[0] == (0.0, (10, 20))
    assert state.simplex[1] == (math.inf, (100, 20))
    assert dict(move.incumbent or {}) == {"a": 10, "b": 20}


def test_where_a_vertex_was_reached_in_part_it_is_what_was_measured() -> None:
    controller = Simplex(Objective("response_time_s"))
    state, move = controller.step(controller.start(KNOBS, 0), Trial(seen(0, 10, 20)))
    assert dict(move.changes) == {"a": 100, "b": 20}
    state, _ = controller.step(state, Trial(seen(1, 80, 20), Fate(MoveState.APPLIED, {"a": 100})))
    assert [vertex for _, vertex in state.simplex] == [(10, 20), (80, 20)]
