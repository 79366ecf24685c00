"""Proxies as clients: few connections that bring thousands of requests each, and begin when chance has it."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from tests.unit.referee.test_rule import START, WINDOW_S, Bench
from trimtab.core import Objective
from trimtab.referee import Referee
from trimtab.referee.measure import Workload, measured

RATE_HZ, SERVICE_S = 200.0, 0.02
IN_TURN = (2, 0, 1, 4, 0, 3, 1, 0, 2, 1)
"""Connections that begin in a window, as chance has it where it is one or two in the mean."""


def seen(bench: Bench, connections: int, cost_s: float | None = 0.03, **readings: float) -> Bench:
    """A window of as many requests as any, over connections of which some are new."""
    busy = RATE_HZ * (cost_s or 0.03)
    usual = {"request_rate_hz": RATE_HZ, "cpu_ratio": 0.6, "busy_workers": busy, "idle_workers": 50.0}
    return bench.see(1, cost_s, connection_rate_hz=connections / WINDOW_S, **{**usual, **readings})


def test_their_number_says_nothing_of_the_load() -> None:
    bench = Bench()
    for connections in IN_TURN:
        seen(bench, connections)
    work = Workload.of(bench.state.reference)
    assert {work.arrivals(window) for window in bench.state.reference} == {RATE_HZ}
    assert work.arrivals_hz == RATE_HZ


def test_a_rush_of_new_ones_does_though_little_is_completed() -> None:
    bench = Bench()
    for connections in IN_TURN:
        seen(bench, connections)
    work = Workload.of(bench.state.reference)
    rush = bench.window(1.0, connection_rate_hz=100 / WINDOW_S, request_rate_hz=RATE_HZ / 4)
    assert work.arrivals(measured(rush, Objective("request_time_s"))) > 10 * RATE_HZ


def test_a_load_that_rises_a_little_is_no_server_that_falls_behind() -> None:
    bench = Bench()
    for busy in (10, 10, 10, 14, 18, 22):
        seen(bench, 1, busy_workers=busy)
    assert not bench.state.overloaded


def outcome(seed: int, factor: float) -> str:
    """What becomes of a change that makes requests take that many times as long, or does nothing."""
    rng, bench, noise = random.Random(seed), Bench(), 0.0
    for index in range(10 + 36):
        if index == 10:
            bench.change(w=120)
        load_hz = RATE_HZ * math.exp(rng.gauss(0, 0.05))
        noise = 0.4 * noise + math.sqrt(1 - 0.4**2) * rng.gauss(0, 0.1)
        rho = min(0.93, 0.7 * load_hz / RATE_HZ)
        cost_s = SERVICE_S / (1 - rho) * math.exp(noise) * (factor if index >= 10 else 1.0)
        came = sum(rng.random() < 0.02 for _ in range(100))
        seen(bench, came, cost_s, request_rate_hz=load_hz, cpu_ratio=rho, busy_workers=load_hz * cost_s)
        if bench.backs:
            return "taken back" if bench.state.worse else "not better"
        if bench.state.incumbent["w"] == 120:
            return "better"
    return "on trial"


@pytest.mark.parametrize(("factor", "right"), [(1.0, {"not better", "on trial"}), (0.5, {"better"})])
def test_what_a_change_does_is_told_all_the_same(factor: float, right: set[str]) -> None:
    found = Counter(outcome(seed, factor) for seed in range(1, 41))
    assert sum(found[one] for one in right) >= 36, found


def test_a_window_in_which_none_begins_is_none_in_which_nothing_could_be_measured() -> None:
    """The time of a connection is not known then, while requests are served as ever."""
    objective = Objective("response_time_s")
    bench = Bench(Referee(objective))
    for connections in IN_TURN * 2:
        time = {} if connections == 0 else {objective.metric: 10.0 / connections}
        seen(bench, connections, None, **time)
    assert not bench.state.overloaded
    bench.change(w=200)
    for connections in IN_TURN:
        time = {} if connections == 0 else {objective.metric: 10.0 / connections}
        seen(bench, connections, None, **time)
    assert not bench.backs
    assert bench.values["w"] != START["w"]


def test_one_in_which_none_can_begin_is() -> None:
    objective = Objective("response_time_s")
    bench = Bench(Referee(objective))
    for connections in IN_TURN * 2:
        seen(bench, max(1, connections), None, **{objective.metric: 10.0})
    bench.change(w=200)
    for _ in range(3):
        seen(bench, 0, None, request_rate_hz=1.0, busy_workers=200.0, idle_workers=0.0, accept_queue_length=50.0)
    assert bench.backs
