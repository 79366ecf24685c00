"""The controllers of delay guarantees, window by window: limits, gaps, rounding, bad options."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests._classes import TWO, budget_knobs, class_window, delays
from trimtab.controllers import _needed
from trimtab.controllers._pi import Pi
from trimtab.controllers.absolute_delay import AbsoluteDelay, allot
from trimtab.controllers.hybrid_delay import HybridDelay
from trimtab.controllers.log_relative_delay import LogRelativeDelay
from trimtab.controllers.relative_delay import RelativeDelay, floored, proportions, whole
from trimtab.core import Move, Objective, Trial, of_class
from trimtab.errors import UsageError

OBJECTIVE = Objective("connection_delay_s@premium")
ABSOLUTE = AbsoluteDelay(OBJECTIVE, TWO, (10.0, 30.0), gain=-2.0, zero=0.0)
RELATIVE = RelativeDelay(OBJECTIVE, TWO, (1.0, 3.0))
EVEN = {"premium": 64, "basic": 64}


def first(controller: Any, readings: dict[str, float], budgets: dict[str, int] | None = None) -> Move:
    """The move after one window."""
    state = controller.start(budget_knobs(), 0)
    move: Move = controller.step(state, Trial(class_window(budgets or EVEN, readings, 0, 128)))[1]
    return move


def waiting(name: str, oldest_s: float) -> dict[str, float]:
    """Readings of a class of which nobody was dispatched."""
    return {of_class("oldest_wait_s", name): oldest_s, of_class("dispatch_rate_hz", name): 0.0}


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=5), st.integers(6, 500), st.data())
def test_relative_budgets_are_whole_add_up_to_m_and_keep_every_minimum(
    ratios: list[float], total: int, data: st.DataObject
) -> None:
    count = len(ratios) + 1
    minimum = tuple(data.draw(st.integers(1, total // count)) for _ in range(count))
    budgets = whole(floored(proportions(tuple(ratios), total), minimum), total)
    assert sum(budgets) == total
    assert all(budget >= least for budget, least in zip(budgets, minimum, strict=True))


def test_shares_above_their_minima_keep_their_proportions() -> None:
    assert floored((60.0, 30.0, 10.0), (1, 1, 28)) == pytest.approx((48, 24, 28))
    assert whole((33.4, 33.3, 33.3), 100) == (34, 33, 33)
    assert whole((32.5, 32.5), 65) == (33, 32)


def test_absolute_budgets_are_served_in_the_order_of_priority_with_reserved_minima() -> None:
    names = ("a", "b", "c")
    group = AbsoluteDelay(OBJECTIVE, names, (1.0, 2.0, 3.0), (4, 5, 6)).group(budget_knobs(names), "x", 1)
    budgets, limited = allot((Pi(90.6), Pi(80.2), Pi(70.0)), group, 128)
    assert budgets == (91, 31, 6)
    assert [loop.value for loop in limited] == [90.6, 31.0, 6.0]
    budgets, limited = allot((Pi(-5.0), Pi(20.4), Pi(30.0)), group, 128)
    assert budgets == (4, 20, 30)
    assert [loop.value for loop in limited] == [4.0, 20.4, 30.0]


def test_a_delay_that_is_missed_for_want_of_processes_is_told_however_small_the_gain() -> None:
    controller = AbsoluteDelay(OBJECTIVE, TWO, (10.0, 30.0), gain=-0.01)
    move = first(controller, delays({"premium": 10.0, "basic": 34.0}))
    assert (move.phase, dict(move.changes)) == ("saturated", {})
    assert "basic cannot be met with 128 processes" in move.reason
    assert move.evidence["unmet@basic"] == 1.0 and "unmet@premium" not in move.evidence
    free = first(controller, delays({"premium": 10.0, "basic": 34.0}), {"premium": 64, "basic": 50})
    assert free.phase == "absolute"


def test_what_a_guard_or_a_gate_allotted_is_where_the_controller_goes_on_from() -> None:
    state = ABSOLUTE.start(budget_knobs(), 0)
    seen = delays({"premium": 12.0, "basic": 30.0})
    state, move = ABSOLUTE.step(state, Trial(class_window(EVEN, seen, 0, 128)))
    assert move.changes == {"process_budget@premium": 68, "process_budget@basic": 60}
    state, move = ABSOLUTE.step(state, Trial(class_window({"premium": 50, "basic": 60}, seen, 1, 128)))
    assert move.changes["process_budget@premium"] == 54


@pytest.mark.parametrize(("basic_s", "said"), [(32.0, "is 3.2, "), (4000.0, "is 12 or more, ")])
def test_a_ratio_that_counts_as_no_more_than_a_bound_is_told_as_that(basic_s: float, said: str) -> None:
    reason = first(RELATIVE, delays({"premium": 10.0, "basic": basic_s})).reason
    assert f"basic:premium {said}desired 3 " in reason


def test_a_gain_of_another_controllers_size_moves_a_logarithm_to_the_end_and_no_further() -> None:
    controller = LogRelativeDelay(OBJECTIVE, TWO, (1.0, 3.0), gain=100.0)
    move = first(controller, delays({"premium": 10.0, "basic": 0.001}))
    assert move.changes == {"process_budget@premium": 127, "process_budget@basic": 1}


def test_a_ratio_goes_on_from_the_budgets_in_force_too() -> None:
    """Asked for 78 and 50; 100 and 28 are in force. E = 0.3 after E = 2: U = 100 / 28 + 0.3 (0.3 - 0.05 * 2)."""
    state = RELATIVE.start(budget_knobs(), 0)
    window = class_window(EVEN, delays({"premium": 10.0, "basic": 10.0}), 0, 128)
    state, move = RELATIVE.step(state, Trial(window))
    assert move.changes["process_budget@premium"] == 78
    window = class_window({"premium": 100, "basic": 28}, delays({"premium": 10.0, "basic": 27.0}), 1, 128)
    state, move = RELATIVE.step(state, Trial(window))
    assert move.evidence["process_ratio@basic"] == pytest.approx(100 / 28 + 0.3 * (0.3 - 0.1))


def test_small_errors_add_up_although_budgets_are_whole() -> None:
    state, budgets = ABSOLUTE.start(budget_knobs(), 0), {"premium": 50, "basic": 50}
    for index in range(5):
        window = class_window(budgets, delays({"premium": 10.1, "basic": 30.0}), index, 128)
        state, move = ABSOLUTE.step(state, Trial(window))
        budgets["premium"] = move.changes.get("process_budget@premium", budgets["premium"])
    assert budgets == {"premium": 51, "basic": 50}


def test_the_workers_are_those_in_force_or_given_or_the_sum_of_the_budgets() -> None:
    seen = delays({"premium": 100.0, "basic": 30.0})
    for workers, given_, expected in ((100, 0, 99), (None, 0, 127), (100, 90, 89)):
        controller = AbsoluteDelay(OBJECTIVE, TWO, (10.0, 30.0), workers=given_, gain=-2.0, zero=0.0)
        state = controller.start(budget_knobs(), 0)
        move = controller.step(state, Trial(class_window(EVEN, seen, 0, workers)))[1]
        assert move.changes["process_budget@premium"] == expected


def test_a_queue_that_waits_too_long_counts_although_nobody_was_dispatched() -> None:
    stuck = first(ABSOLUTE, {**waiting("premium", 25.0), **delays({"basic": 30.0})})
    assert stuck.changes["process_budget@premium"] == 94
    assert "premium over 25 s of 10 s" in stuck.reason
    young = first(ABSOLUTE, {**waiting("premium", 5.0), **delays({"basic": 30.0})})
    assert not young.changes


@pytest.mark.parametrize(
    ("readings", "moves"),
    [
        ({**waiting("basic", 40.0), **delays({"premium": 5.0})}, True),
        ({**waiting("basic", 10.0), **delays({"premium": 5.0})}, False),
        ({**waiting("premium", 40.0), **delays({"basic": 5.0})}, True),
        ({**waiting("premium", 1.0), **delays({"basic": 5.0})}, False),
        ({**waiting("premium", 40.0), **waiting("basic", 400.0)}, False),
        (delays({"premium": 5.0}), False),
        (delays({"premium": 0.0, "basic": 0.0005}), False),
    ],
    ids=["at least 8", "at least 2", "at most 1/8", "at most 5", "both bounds", "no traffic", "nobody waits"],
)
def test_a_ratio_that_is_only_bounded_moves_the_budgets_where_its_error_has_a_sure_sign(
    readings: dict[str, float], moves: bool
) -> None:
    assert bool(first(RELATIVE, readings).changes) is moves


def test_an_error_from_before_a_gap_is_forgotten() -> None:
    """g = -1, r = 1/2: 64 + 2, then a gap, then E = -8 counts 1/2: 66 + 4; with the old error it would be 66 + 6."""
    controller = AbsoluteDelay(OBJECTIVE, TWO, (10.0, 30.0), gain=-1.0, zero=0.5)
    state, budget = controller.start(budget_knobs(), 0), 64
    for index, delay_s in enumerate([14.0, None, 18.0]):
        window = class_window(
            {"premium": budget, "basic": 50}, delays({"premium": delay_s, "basic": 30.0}), index, 128
        )
        state, move = controller.step(state, Trial(window))
        budget = move.changes.get("process_budget@premium", budget)
    assert budget == 70


def test_where_nobody_waits_it_says_so() -> None:
    move = first(RELATIVE, delays({"premium": 0.0002, "basic": 0.0004}))
    assert not move.changes
    assert "nobody waits, so its share stays" in move.reason


def test_too_few_dispatches_are_no_delay() -> None:
    controller = RelativeDelay(OBJECTIVE, TWO, (1.0, 3.0), min_samples=10)
    seen = {**delays({"premium": 5.0, "basic": 5.0}), of_class("dispatch_rate_hz", "basic"): 9 / 30}
    assert not first(controller, {**seen, of_class("dispatch_rate_hz", "premium"): 9.0}).changes
    seen[of_class("dispatch_rate_hz", "basic")] = 10 / 30
    assert first(controller, {**seen, of_class("dispatch_rate_hz", "premium"): 9.0}).changes


def test_one_window_with_a_delay_near_0_is_no_leap() -> None:
    """V counts for at most 4 times 3, so E is at least -9 and U = 3 - 0.3 * 9 * 0.95; V itself was 30,000."""
    state = RELATIVE.start(budget_knobs(), 0)
    seen = delays({"premium": 0.001, "basic": 30.0})
    state, move = RELATIVE.step(state, Trial(class_window({"premium": 96, "basic": 32}, seen, 0, 128)))
    assert move.evidence["ratio@basic"] == 12.0
    assert move.changes["process_budget@premium"] == round(128 * (3 - 0.3 * 9 * 0.95) / (4 - 0.3 * 9 * 0.95))


def test_a_ratio_that_a_minimum_stands_in_the_way_of_is_told_with_what_would_make_room() -> None:
    controller = RelativeDelay(OBJECTIVE, TWO, (1.0, 3.0), minimum=(1, 60))
    move = first(controller, delays({"premium": 10.0, "basic": 10.0}))
    assert move.phase == "saturated"
    assert move.changes == {"process_budget@premium": 68, "process_budget@basic": 60}
    u = 1 + 0.3 * 2 * 0.95
    assert f"with about {-(-60 * (1 + u) // 1):.0f} processes the share of basic would be its minimum" in move.reason
    assert "cannot be met with 128 processes" in move.reason


def test_a_ratio_at_its_minimum_comes_back_at_once() -> None:
    """Wound up for 30 windows, the first window with the opposite error moves the budgets."""
    controller = RelativeDelay(OBJECTIVE, TWO, (1.0, 3.0), minimum=(1, 60))
    state, budgets = controller.start(budget_knobs(), 0), dict(EVEN)
    for index in range(30):
        seen = delays({"premium": 10.0, "basic": 10.0})
        state, move = controller.step(state, Trial(class_window(budgets, seen, index, 128)))
        budgets = {n: move.changes.get(of_class("process_budget", n), b) for n, b in budgets.items()}
    assert budgets == {"premium": 68, "basic": 60}
    seen = delays({"premium": 5.0, "basic": 30.0})
    assert controller.step(state, Trial(class_window(budgets, seen, 30, 128)))[1].changes["process_budget@basic"] > 60


def test_the_number_of_processes_by_littles_law_by_hand() -> None:
    """30 in service for 2 s each, 75 queued: 15 per second wait 5 s. For 3 s: (75 + 30) / (1 + 3 / 2) = 42."""
    names = {"queue_length": 75.0, "in_service": 30.0, "dispatch_rate_hz": 15.0, "arrival_rate_hz": 15.0}
    window = class_window(EVEN, {of_class(name, "basic"): value for name, value in names.items()})
    assert _needed.processes(window, "basic", 3.0) == 42
    faster = {**names, "arrival_rate_hz": 25.0}
    window = class_window(EVEN, {of_class(name, "basic"): value for name, value in faster.items()})
    assert _needed.processes(window, "basic", 3.0) == 50
    assert _needed.processes(class_window(EVEN, {}), "basic", 3.0) is None


def test_a_class_with_few_dispatches_borrows_the_time_in_service_of_all() -> None:
    """One process and two dispatches in 30 s say 15 s each; all classes together say 2 s: 105 / (1 + 3 / 2) = 42."""
    readings = {
        "queue_length@basic": 104.0,
        "in_service@basic": 1.0,
        "dispatch_rate_hz@basic": 2 / 30,
        "arrival_rate_hz@basic": 2 / 30,
        "in_service@premium": 59.0,
        "dispatch_rate_hz@premium": 30.0 - 2 / 30,
    }
    window = class_window(EVEN, readings)
    assert _needed.processes(window, "basic", 3.0, TWO) == 42
    assert _needed.processes(window, "basic", 3.0) == 88


def test_a_switch_of_the_hybrid_is_bumpless() -> None:
    """The absolute controllers begin at the budgets in force: the move is g (1 - r) E and nothing else."""
    controller = HybridDelay(OBJECTIVE, TWO, (10.0, 30.0), absolute_gain=-1.0, absolute_zero=0.5)
    state = controller.start(budget_knobs(), 0)
    budgets = {"premium": 90, "basic": 38}
    seen = delays({"premium": 14.0, "basic": 30.0})
    _, move = controller.step(state, Trial(class_window(budgets, seen, 0, 128)))
    assert move.reason.startswith("hybrid, to absolute because premium is 14 s, 10 s desired: absolute: ")
    assert move.changes == {"process_budget@premium": 92, "process_budget@basic": 36}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"desired": (1.0,)}, "option desired has 1 values for 2 classes"),
        ({"desired": (1.0, -3.0)}, "option desired is -3, allowed is more than 0"),
        ({"desired": (1.0, float("nan"))}, "option desired is nan"),
        ({"desired": (1.0, 3.0), "minimum": (1, 0)}, "option minimum is 0"),
        ({"desired": (1.0, 3.0), "classes": ("premium", "gold")}, "class 'gold' has no budget"),
        ({"desired": (1.0, 3.0), "classes": ("basic", "basic")}, "names a class twice"),
        ({"desired": (1.0, 3.0), "metrics": ("cpu_ratio",)}, "cpu_ratio"),
        ({"desired": (1.0, 3.0), "workers": -1}, "option workers is -1"),
    ],
)
@pytest.mark.parametrize("kind", [AbsoluteDelay, RelativeDelay, HybridDelay])
def test_what_cannot_be_is_refused_before_anything_moves(kind: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        kind(OBJECTIVE, **options).start(budget_knobs(), 0)


def test_gains_of_the_wrong_sign_are_refused() -> None:
    with pytest.raises(UsageError, match=r"gain is 4\.6, allowed is less than 0"):
        AbsoluteDelay(OBJECTIVE, gain=4.6)
    with pytest.raises(UsageError, match=r"gain is -0\.3, allowed is more than 0"):
        RelativeDelay(OBJECTIVE, gain=-0.3)
    with pytest.raises(UsageError, match="gain is 1, allowed is less than 0"):
        HybridDelay(OBJECTIVE, absolute_gain=1.0)
    with pytest.raises(UsageError, match="hysteresis_s is 10, allowed is less than the first delay"):
        HybridDelay(OBJECTIVE, TWO, (10.0, 30.0), hysteresis_s=10.0).start(budget_knobs(), 0)


def test_a_percentile_is_guaranteed_where_it_is_asked_for() -> None:
    controller = AbsoluteDelay(OBJECTIVE, TWO, (10.0, 30.0), (), ("connection_delay_p95_s", "connection_delay_s"))
    seen = {**delays({"premium": 2.0, "basic": 30.0}), of_class("connection_delay_p95_s", "premium"): 15.0}
    move = first(controller, seen)
    assert move.changes["process_budget@premium"] == 64 + round(4.6 * 5 * 0.7)
    assert "premium 15 s of 10 s" in move.reason
