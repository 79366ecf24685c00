"""An objective that is 0 where less is better: the best there is, and no window in which nothing was measured."""

from __future__ import annotations

import random

import pytest

from tests.unit.referee.test_rule import START, Bench
from trimtab.core import Objective, Readings, Verdict
from trimtab.referee import Afterwards, Referee
from trimtab.referee.measure import measured

WAIT = Objective("accept_queue_delay_s")
BUSY = {"busy_workers": 8.0, "idle_workers": 2.0}


def bench(objective: Objective = WAIT) -> Bench:
    return Bench(Referee(objective))


def see(run: Bench, *values: float, objective: Objective = WAIT, readings: Readings = BUSY) -> Bench:
    """A window for each value of the objective."""
    for value in values:
        run.see(1, **{**readings, objective.metric: value})
    return run


@pytest.mark.parametrize("metric", ["accept_queue_delay_s", "memory_pressure_ratio", "swap_in_rate_hz"])
def test_a_change_after_which_nothing_of_it_is_left_is_better(metric: str) -> None:
    objective = Objective(metric)
    run = see(bench(objective), *[0.2, 0.25, 0.22, 0.19, 0.21, 0.2] * 2, objective=objective)
    see(run.change(w=200), 0.0, 0.0, 0.0, 0.0, objective=objective)
    assert not run.backs
    assert run.state.incumbent["w"] == 200
    see(run, 0.0, 0.0, objective=objective)
    assert run.values["w"] == 200 and not run.state.overloaded


def test_a_window_of_nothing_is_none_in_which_the_server_falls_behind() -> None:
    run = see(bench(), *[0.0] * 6)
    assert not run.state.overloaded and run.state.judgement is None


def test_where_it_was_nothing_at_times_before_the_change_such_a_window_says_nothing_of_it() -> None:
    """A light load, whose connections wait in one window and not in the next."""
    for seed in range(1, 41):
        rng, run = random.Random(seed), bench()
        see(run, *(rng.choice((0.0, 0.0, rng.uniform(0.002, 0.003))) for _ in range(20)))
        see(run.change(w=200), *(rng.choice((0.0, 0.0, rng.uniform(0.002, 0.003))) for _ in range(3)))
        assert run.state.incumbent["w"] == START["w"], seed


def test_nothing_says_nothing_where_nobody_was_served() -> None:
    run = see(bench(), *[0.2] * 12)
    idle = {"request_rate_hz": 0.0, "connection_rate_hz": 0.0, "busy_workers": 0.0, "accept_queue_length": 0.0}
    see(run.change(w=200), 0.0, 0.0, 0.0, readings=idle)
    assert run.backs == [{"w": START["w"]}]
    assert run.state.judgement is not None and run.state.judgement.verdict is not Verdict.BETTER


def test_a_run_that_ends_with_nothing_left_of_it_is_not_put_back() -> None:
    run = see(Bench(Afterwards(WAIT)), 0.2, 0.21, 0.2, 0.19)
    see(run.change(w=200), 0.0, 0.0, 0.0, 0.0)
    assert run.judge.final(run.state) == {}


def test_more_is_better_of_what_should_be_great_and_nothing_of_it_is_not_measured() -> None:
    window = bench(Objective("hit_ratio", minimize=False)).window(hit_ratio=0.0)
    assert not measured(window, Objective("hit_ratio", minimize=False)).nothing
