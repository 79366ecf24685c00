"""What a change is charged for the time in which it stops the server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.referee.test_rule import IDLE, WORKERS, Bench, ready
from trimtab.core import How


def test_a_standstill_that_a_change_expects_counts_before_it() -> None:
    short, long = ready().see(1, standstill_s=0.05), ready().see(1, standstill_s=12.0)
    assert short.asked().changes
    assert "does not yet earn back" in long.asked().reason or "budget" in long.asked().reason


def test_a_standstill_is_spent_and_no_reason_for_another() -> None:
    bench = ready()
    before_s = bench.state.spent_s
    bench.change(w=40)
    bench.see(1, 0.025, standstill_s=5.0)
    assert bench.state.spent_s - before_s > 5.0
    assert 0 < bench.state.budget_s < 30.0
    assert not bench.backs
    bench.see(2, 0.1)
    assert bench.backs == [{"w": 150}]


def test_in_a_standstill_a_connection_waits_with_one_request_whatever_it_brings_later() -> None:
    spent_s = []
    for rate_hz in (50.0, 10.0):  # one request a connection, and five
        bench = Bench().see(180, connection_rate_hz=rate_hz)
        before_s = bench.state.spent_s
        bench.change(w=40)
        bench.see(1, standstill_s=1.0, connection_rate_hz=rate_hz)
        spent_s.append(bench.state.spent_s - before_s)
    alone, together = (1 + 1 / (2 * n * 0.02) for n in (1, 5))
    assert spent_s[0] / spent_s[1] == pytest.approx(alone / together, rel=0.05)


def test_what_connections_waited_in_a_standstill_is_charged_where_it_was_seen() -> None:
    bench = ready()
    rate_hz = bench.state.reference[-1].request_rate_hz
    before_s = bench.state.spent_s
    bench.change(w=40)
    bench.see(1, 0.02, standstill_s=5.0, standstill_wait_s=3.0)
    assert bench.state.spent_s - before_s == pytest.approx(3.0 / (rate_hz * 0.02), rel=0.1)


def test_what_takes_effect_at_once_is_charged_for_no_standstill() -> None:
    bench = ready()
    bench.state = replace(bench.state, knobs=(replace(WORKERS, how=How.LIVE), IDLE))
    before_s = bench.state.spent_s
    bench.change(w=40)
    bench.see(1, 0.015, standstill_s=5.0)
    assert bench.state.spent_s == before_s
    bench.change(w=150, k=250)
    bench.see(1, 0.015, standstill_s=5.0)
    assert bench.state.spent_s > before_s


def test_under_overload_the_backlog_makes_the_cost_and_no_standstill_is_charged() -> None:
    bench = ready()
    for waiting in (200.0, 400.0, 600.0):
        bench.see(1, 4.0, accept_queue_length=waiting)
    assert bench.state.overloaded
    before = bench.state.spent_s, bench.state.budget_s
    bench.change(w=300)
    bench.see(1, 4.0, accept_queue_length=800.0, standstill_s=1.5)
    assert (bench.state.spent_s, bench.state.budget_s) == before


def test_the_way_back_is_charged_for_its_standstill_too() -> None:
    bench = ready().change(w=40).see(2, 0.06, standstill_s=0.3)
    assert bench.backs == [{"w": 150}]
    before_s = bench.state.spent_s
    bench.see(1, 0.02, standstill_s=0.3)
    assert bench.state.spent_s - before_s > 0.3


def slowly_reloaded(*inside: float) -> Bench:
    """A change that let no request begin for 5 s, and how many are inside in each window after it, at 50 a second."""
    bench = crowded().change(w=40)
    for one in inside:
        bench.see(1, max(0.2, one / 50), standstill_s=5.0, cpu_ratio=0.9, accept_queue_length=one)
    return bench


def crowded() -> Bench:
    """Ten inside, on nine tenths of the CPU."""
    return Bench().see(180, 0.2, cpu_ratio=0.9, accept_queue_length=10.0)


def test_who_came_in_a_long_standstill_is_no_reason_for_another() -> None:
    """Request Tracker's Apache was reloaded twice in half a minute, 14.5 s and 15.6 s, each time for the backlog."""
    bench = slowly_reloaded(200.0, 205.0, 120.0, 40.0)
    assert not bench.backs and bench.state.budget_s > 0
    assert bench.state.experiment is not None and not bench.state.experiment.windows
    bench.see(3, 0.1, cpu_ratio=0.9, accept_queue_length=5.0)
    assert bench.state.experiment is None and bench.state.incumbent["w"] == 40, "it is judged by what comes after"


def test_a_window_of_that_backlog_is_not_cut_short() -> None:
    bench = crowded().change(w=40)
    for waiting, cut in ((200.0, False), (400.0, True)):
        partial = bench.window(4.0, standstill_s=5.0, cpu_ratio=0.9, accept_queue_length=waiting)
        assert bool(bench.judge.abort(bench.state, partial)) is cut


@pytest.mark.parametrize(
    "inside",
    [(400.0,), (150.0, 200.0), (230.0, 232.0, 234.0, 236.0)],
    ids=["more than came", "more and more", "until it has cost as much as to go back"],
)
def test_what_is_no_backlog_of_the_standstill_is_charged_to_the_setting(inside: tuple[float, ...]) -> None:
    assert not slowly_reloaded(*inside[:-1]).backs
    assert slowly_reloaded(*inside).backs == [{"w": 150}]


def test_the_standstill_of_an_earlier_change_leaves_no_backlog_to_one_without_a_reload() -> None:
    bench = ready()
    bench.state = replace(bench.state, knobs=(replace(WORKERS, how=How.LIVE), IDLE))
    bench.change(w=40)
    partial = bench.window(4.0, standstill_s=5.0, accept_queue_length=200.0)
    assert bench.judge.abort(bench.state, partial)
    bench.see(1, 4.0, standstill_s=5.0, accept_queue_length=200.0)
    assert bench.backs == [{"w": 150}]
