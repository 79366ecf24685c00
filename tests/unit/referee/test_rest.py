"""What was tried in vain on one workload after another: each time it is left alone for longer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.referee.test_rule import DOWN, WINDOW_S, Bench, ready
from trimtab.core import Verdict
from trimtab.referee.experiment import Experiment
from trimtab.referee.measure import Workload
from trimtab.referee.state import REST_S, RESTS

BUSY = {"request_rate_hz": 150.0, "connection_rate_hz": 75.0, "cpu_ratio": 0.6}


def failed(bench: Bench, **readings: float) -> float:
    """A change that is five times as slow and goes back; the end of its last window, on the run's clock."""
    count = len(bench.backs)
    bench.change(w=40)
    while len(bench.backs) == count:
        bench.see(1, 0.1, **readings)
    at_s = bench.index * WINDOW_S
    bench.see(40, **readings)
    return at_s


def thrice_in_vain() -> tuple[Bench, float]:
    """On one workload, another, and the first again; and then, for 40 windows, on the other."""
    bench = ready()
    failed(bench)
    failed(bench.see(20, **BUSY), **BUSY)
    assert not bench.state.resting
    at_s = failed(bench.see(60))
    return bench.see(40, **BUSY), at_s


def test_what_was_in_vain_three_times_rests_whatever_the_workload_for_as_long_as_one_is_taken_to_last() -> None:
    bench, at_s = thrice_in_vain()
    assert not bench.state.refuted, "the workload is another one"
    held = bench.asked()
    assert not held.changes and "tried three times or more in this run" in held.reason
    assert ("w", -1) in bench.state.closed, "as methods are told"
    while (bench.index + 1) * WINDOW_S < at_s + REST_S:
        bench.see(1, **BUSY)
        assert bench.state.resting == {("w", -1)}
    assert not bench.see(1, **BUSY).state.resting
    assert bench.asked() == DOWN


def test_what_is_in_vain_again_rests_twice_as_long() -> None:
    bench, _ = thrice_in_vain()
    bench.see(180, **BUSY)
    at_s = failed(bench, **BUSY)
    ((*_, count, until_s),) = bench.state.vain
    assert (count, until_s) == (4, pytest.approx(at_s + 2 * REST_S))


def test_the_other_way_and_other_knobs_do_not_rest() -> None:
    bench, _ = thrice_in_vain()
    assert not bench.state.resting & {("w", 1), ("k", -1), ("k", 1)}


def test_what_was_tried_under_overload_rests_there_alone() -> None:
    bench, at_s = thrice_in_vain()
    state = replace(bench.state, vain=frozenset())
    assert not replace(bench.state, behind=2).resting
    for _ in range(RESTS):
        state = state.tried(frozenset({("w", -1)}), Experiment({}, (), Workload.of(()), overloaded=True), at_s)
    assert not state.resting
    assert replace(state, behind=2).resting == {("w", -1)}


def test_a_change_that_is_better_ends_all_rest() -> None:
    bench, _ = thrice_in_vain()
    bench.change(k=1250).see(8, 0.002, **BUSY)
    assert bench.state.incumbent == {"w": 150, "k": 1250}
    assert bench.state.judgement is None or bench.state.judgement.verdict is Verdict.BETTER
    assert not bench.state.vain
