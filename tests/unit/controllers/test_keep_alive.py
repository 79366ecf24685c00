from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests._idle_periods import NAME, Loop, Mixture, time_knob, window_at
from trimtab.controllers.keep_alive import BINS, KeepAlive, greatest_interval
from trimtab.controllers.keep_alive_cost import KeepAliveCost
from trimtab.core import Move, Objective, Trial, Window
from trimtab.errors import UsageError

OBJECTIVE = Objective()
BATCH = {"intervals_50ms@0": 100.0, "intervals_50ms@5": 100.0, "intervals_50ms@6": 300.0}


def fed(controller: KeepAlive, *windows: Window, knob_from: int = 1) -> list[Move]:
    """The moves after these windows."""
    state, moves = controller.start((time_knob(knob_from),), 0), []
    for window in windows:
        state, move = controller.step(state, Trial(window))
        moves.append(move)
    return moves


def test_intervals_are_gathered_over_windows_until_there_are_enough() -> None:
    part = {name: count / 5 for name, count in BATCH.items()}
    moves = fed(KeepAlive(OBJECTIVE), *[window_at(15_000, part, index) for index in range(6)])
    assert [move.phase for move in moves] == ["gather"] * 4 + ["adjust", "gather"]
    assert "400 request intervals so far, 500 are needed" in moves[3].reason


def test_a_window_brings_one_control_however_many_intervals_it_has() -> None:
    once = fed(KeepAlive(OBJECTIVE), window_at(15_000, BATCH))[0]
    many = fed(KeepAlive(OBJECTIVE), window_at(15_000, {name: 100 * count for name, count in BATCH.items()}))[0]
    assert once.changes == many.changes == {NAME: 13_505}


def test_the_time_is_kept_as_it_is_between_controls_and_rounded_only_for_the_knob() -> None:
    controller = KeepAlive(OBJECTIVE, alpha=0.999)
    state, time_ms = controller.start((time_knob(),), 0), 1000
    for index in range(10):
        state, move = controller.step(state, Trial(window_at(time_ms, {"intervals_50ms@0": 500.0}, index)))
        time_ms = move.changes.get(NAME, time_ms)
    assert time_ms == round(50 + 950 * 0.999**10)


def test_a_time_that_something_else_has_set_is_where_it_goes_on_from() -> None:
    moves = fed(KeepAlive(OBJECTIVE), window_at(15_000, BATCH), window_at(5_000, BATCH))
    assert moves[1].changes == {NAME: 4_505}


def test_an_empty_beginning_of_the_histogram_is_passed_over() -> None:
    found = greatest_interval({5: 100.0, 6: 300.0, 7: 50.0}, 100.0, 0.05, 5.0)
    assert found.greatest == 8


def test_when_no_interval_is_within_the_time_it_grows_as_far_as_it_can() -> None:
    found = greatest_interval({20: 100.0}, 2.0, 0.05, 5.0)
    assert (found.t, found.ratio, found.greatest) == pytest.approx((1, 1.0, 2 + 5 * 19))


def test_a_thin_bin_just_before_the_time_is_the_end_of_the_bursts_and_not_a_cut() -> None:
    found = greatest_interval({0: 50.0, 1: 50.0, 2: 3.0}, 3.5, 0.05, 5.0)
    assert (found.greatest, found.err) == (2, None)


def test_intervals_beyond_the_time_have_no_say() -> None:
    within = {t: 10.0 for t in range(6)}
    assert greatest_interval(within, 6.0, 0.05, 5.0) == greatest_interval({**within, 9: 500.0}, 6.0, 0.05, 5.0)


def test_a_histogram_without_an_end_leaves_the_time() -> None:
    move = fed(KeepAlive(OBJECTIVE), window_at(60_000, {f"intervals_50ms@{BINS - 1}": 500.0}))[0]
    assert not move.changes
    assert "nothing to go by" in move.reason


def test_the_reason_says_what_was_seen_and_what_follows() -> None:
    move = fed(KeepAlive(OBJECTIVE), window_at(15_000, BATCH))[0]
    assert move.reason.endswith("of 500 intervals; 15000 ms to 13505 ms")
    assert "end at 50 ms" in move.reason
    assert move.evidence["greatest_interval_s"] == pytest.approx(0.05)
    grown = fed(KeepAlive(OBJECTIVE), window_at(250, {f"intervals_50ms@{t}": 100.0 for t in range(5)}))[0]
    assert "bursts are cut" in grown.reason
    assert grown.changes[NAME] > 250


def test_the_domain_ends_it() -> None:
    move = fed(KeepAlive(OBJECTIVE, alpha=0.0), window_at(15_000, BATCH), knob_from=200)[0]
    assert move.changes == {NAME: 200}


def test_it_holds_when_the_time_in_force_is_not_known() -> None:
    move = fed(KeepAlive(OBJECTIVE), Window(0, 0.0, 5.0, {}, BATCH))[0]
    assert not move.changes
    assert "not known" in move.reason


def test_it_settles_on_clients_that_are_drawn_and_stays() -> None:
    times_ms = Loop(KeepAlive(OBJECTIVE), Mixture(), rate_hz=200.0).run(150).times_ms
    assert all(400 <= time_ms <= 600 for time_ms in times_ms[70:]), times_ms[70:]


@given(st.dictionaries(st.integers(0, 1023), st.floats(0.001, 1e6), min_size=1), st.floats(0.01, 2000))
def test_what_is_found_is_a_bin_or_beyond_the_time(hist: dict[int, float], keep_alive: float) -> None:
    found = greatest_interval(hist, keep_alive, 0.05, 5.0)
    if found.err is not None:
        assert found.greatest is not None
        assert found.greatest >= found.t + 1
        assert found.ratio >= 0.05
        assert found.t == max(0, int(keep_alive) - 1)
    elif found.greatest is not None:
        assert found.ratio < 0.05
        assert found.greatest == found.t <= max(0, int(keep_alive) - 1)


@pytest.mark.parametrize("option", [{"target": 0.0}, {"alpha": 1.0}, {"intervals": 0}, {"gain": 0.0}])
def test_options_that_cannot_be_used_are_refused_by_name(option: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(option))):
        KeepAlive(OBJECTIVE, **option)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [KeepAlive, KeepAliveCost])
def test_another_knob_that_is_left_to_the_operator_changes_nothing(kind: type[KeepAlive | KeepAliveCost]) -> None:
    controller = kind(OBJECTIVE)
    state: Any = controller.start((time_knob(),), 0)
    assert controller.withdraw(state, "workers") == state
    with pytest.raises(UsageError, match="no knob to move"):
        controller.withdraw(state, time_knob().name)
