"""What a change is worth to the referee: what it can gain, what it costs, and whether that can be told."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.referee.test_rule import DOWN, Bench, overloaded, ready, restless
from trimtab.core import Move
from trimtab.referee.rule import REFERENCE


def test_a_gain_too_small_to_be_seen_is_not_tried() -> None:
    held = ready().asked(replace(DOWN, gain=0.01))
    assert not held.changes
    assert "windows to see" in held.reason


def test_what_nobody_uses_may_be_taken_away_whether_the_gain_can_be_told_or_not() -> None:
    spare = replace(DOWN, gain=0.1, spare=True)
    few = {"request_rate_hz": 1.0, "connection_rate_hz": 1.0, "busy_workers": 0.1}
    assert "window 2 of 3 of a reference" in restless(Bench(), 2, **few).asked(spare).reason
    bench = restless(Bench(), 60, **few)
    assert "windows to see" in bench.asked(replace(spare, spare=False)).reason
    assert bench.asked(spare) == spare


def test_a_gain_that_does_not_earn_back_the_change_is_not_tried_yet() -> None:
    held = Bench().see(REFERENCE, standstill_s=0.5).asked(replace(DOWN, gain=0.12))
    assert "does not yet earn back what a change costs" in held.reason


def test_where_a_change_adds_capacity_what_waits_for_its_reload_is_soon_served() -> None:
    bench = Bench().see(6, standstill_s=0.8, busy_workers=30.0, cpu_ratio=1.0)
    assert "does not yet earn back what a change costs (1.8e+02 s)" in bench.asked().reason
    assert bench.asked(replace(DOWN, capacity=16.0)).changes == DOWN.changes


def test_in_its_first_minute_a_workload_is_taken_to_last_one() -> None:
    bench = Bench().see(4, standstill_s=0.8, busy_workers=1.0)  # some ten seconds of normal operation
    assert bench.asked() == DOWN and not bench.asked(replace(DOWN, gain=0.4)).changes


def test_a_pool_that_would_have_to_grow_again_is_not_changed_for_little() -> None:
    """Six seconds of standstill are not earned back, whether a change was made before or not."""
    little = Move({"k": 1000}, "shorter", gain=0.3)
    for bench in (ready(), ready().change(w=100).see(160)):
        assert bench.see(1, standstill_s=0.05).asked(little).changes
        assert "does not yet earn back" in bench.see(1, standstill_s=0.05, regrowth_s=6.0).asked(little).reason


def test_nor_under_overload() -> None:
    bench = overloaded(ready()).see(1, 5.0, accept_queue_length=5000.0, regrowth_s=28.0, standstill_s=0.2)
    little, much = (Move({"w": 200}, "more", gain=0.9, capacity=capacity) for capacity in (1.1, 4.0))
    assert "1.1 times the work does not soon make up for 28 s without any" in bench.asked(little).reason
    assert bench.asked(much) == much
