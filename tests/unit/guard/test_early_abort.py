from __future__ import annotations

from typing import Any

from tests._curve import NAME, seen, window_of, worker_knob
from trimtab.core import Limit, Move, Objective, Window
from trimtab.guard.early_abort import EarlyAbort

GOOD = seen(20, response_time_s=0.1, accept_queue_delay_s=0.02, memory_ratio=0.7)
ON = Move({NAME: 50}, "climb")


def after(*windows: Window, guard: EarlyAbort | None = None) -> tuple[EarlyAbort, Any, Move]:
    """The guard, its state and its last move after these windows."""
    guard = guard or EarlyAbort(Objective())
    state, move = guard.start((worker_knob(),)), ON
    for window in windows:
        state, move = guard.review(state, window, ON)
    return guard, state, move


def test_a_window_that_is_far_worse_than_the_last_good_one_is_cut_and_its_configuration_left() -> None:
    guard, state, move = after(GOOD)
    assert move == ON
    why = guard.abort(state, window_of(40, {"response_time_s": 0.41}, samples=20))
    assert "response_time_s 0.41 is more than 4 times worse than 0.1" in why
    _, move = guard.review(state, window_of(40, {"response_time_s": 0.41}, samples=20, aborted=why), ON)
    assert move.changes == {NAME: 20}
    assert move.reason == f"climb; guard: {why}; back to {NAME} 20"


def test_a_bad_window_that_was_not_cut_is_left_too() -> None:
    assert after(GOOD, seen(40, response_time_s=0.5))[2].changes == {NAME: 20}


def test_a_window_cut_by_another_guard_is_left_too() -> None:
    assert after(GOOD, window_of(40, {}, samples=0, aborted="another reason"))[2].changes == {NAME: 20}


def test_a_little_worse_or_too_few_requests_is_no_reason() -> None:
    guard, state, _ = after(GOOD)
    assert not guard.abort(state, seen(40, response_time_s=0.39))
    assert not guard.abort(state, window_of(40, {"response_time_s": 9.0}, samples=19))


def test_where_nothing_is_answered_the_accept_queue_shows_it() -> None:
    guard, state, _ = after(GOOD)
    stalled = window_of(150, {"accept_queue_delay_s": 0.5}, samples=0)
    assert "connections wait 0.5 s to be accepted" in guard.abort(state, stalled)
    assert not guard.abort(state, window_of(150, {"accept_queue_delay_s": 0.39}, samples=0))


def test_delays_too_short_to_matter_are_no_reason() -> None:
    guard, state, _ = after(seen(20, response_time_s=0.001, accept_queue_delay_s=0.0001))
    assert not guard.abort(state, window_of(25, {"accept_queue_delay_s": 0.09}, samples=0))


def test_a_workload_that_gets_worse_by_itself_is_not_our_doing_and_becomes_the_measure() -> None:
    guard, state, move = after(GOOD, seen(20, response_time_s=2.0, memory_ratio=0.7))
    assert move == ON
    assert not guard.abort(state, seen(40, response_time_s=7.9))


def test_a_server_found_swapping_is_never_returned_to() -> None:
    swapping = seen(150, response_time_s=0.1, memory_ratio=4.5)
    assert after(swapping, seen(37, response_time_s=9.0, memory_ratio=1.0))[2] == ON


def test_a_configuration_that_starts_to_swap_is_no_longer_the_last_good_one() -> None:
    cold = seen(150, response_time_s=0.1, memory_ratio=0.4)
    swapping = seen(150, response_time_s=20.0, memory_ratio=4.5)
    assert after(cold, swapping, seen(37, response_time_s=9.0, memory_ratio=1.0))[2] == ON


def test_what_is_maximised_is_bad_when_it_falls_by_the_factor() -> None:
    guard = EarlyAbort(Objective("request_rate_hz", minimize=False))
    guard, state, _ = after(seen(20, request_rate_hz=400.0), guard=guard)
    assert not guard.abort(state, seen(40, request_rate_hz=101.0))
    assert guard.abort(state, seen(40, request_rate_hz=99.0))


def test_knobs_that_may_not_be_moved_are_not_returned() -> None:
    before = Window(0, 0.0, 1.0, {NAME: 20, "keep_alive": 5}, {"response_time_s": 0.1}, 200)
    now = Window(1, 1.0, 1.0, {NAME: 40, "keep_alive": 9}, {"response_time_s": 3.0}, 200)
    assert after(before, now)[2].changes == {NAME: 20}


def test_a_window_that_breaks_a_limit_kept_before_is_cut_and_left_however_good_the_rest() -> None:
    limited = EarlyAbort(Objective(limits=(Limit("memory_ratio", 0.9, text="90%"),)))
    guard, state, _ = after(GOOD, guard=limited)
    bad = window_of(40, {"response_time_s": 0.01, "memory_ratio": 0.95}, samples=20)
    assert guard.abort(state, bad) == "memory_ratio <= 90% is broken, and was kept before"
    assert guard.review(state, bad, ON)[1].changes == {NAME: 20}
    assert not guard.abort(state, window_of(40, {"response_time_s": 0.01, "memory_ratio": 0.95}, samples=19))


def test_a_limit_that_was_broken_before_cuts_no_window_that_is_nearer_to_it() -> None:
    limited = EarlyAbort(Objective(limits=(Limit("busy_workers", 5.0),)))
    guard, state, _ = after(seen(20, response_time_s=0.1, busy_workers=20.0), guard=limited)
    assert not guard.abort(state, seen(40, response_time_s=0.9, busy_workers=10.0))
