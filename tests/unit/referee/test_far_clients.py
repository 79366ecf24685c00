"""Clients far away: a connection that has to be opened anew costs them what no reading of the server's own says."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.unit.referee.test_rule import DOWN, WINDOW_S, Bench
from trimtab.core import Move, Objective, Verdict, Window
from trimtab.referee.measure import measured

SHORTER = {"k": 1250}
BY_REQUEST = Objective("request_time_s")


def shortened(handshake_s: float) -> Bench:
    """A keep-alive time with which a request takes half of its time, and its client opens two connections for one."""
    each = {"handshake_s": handshake_s, "busy_workers": 1.0, "idle_workers": 50.0}
    bench = Bench().see(12, 0.026, connection_rate_hz=12.5, **each)
    return bench.change(**SHORTER).see(13, 0.013, connection_rate_hz=25.0, **each)


@pytest.mark.parametrize("handshake_s", [0.0, 0.0005])
def test_for_clients_nearby_a_shorter_time_is_better_by_what_the_server_takes(handshake_s: float) -> None:
    bench = shortened(handshake_s)
    assert not bench.backs and bench.state.incumbent["k"] == SHORTER["k"]


@pytest.mark.parametrize("handshake_s", [0.3, 1.0])
def test_for_clients_far_away_it_goes_back(handshake_s: float) -> None:
    assert shortened(handshake_s).backs == [{"k": 5000}]


def test_another_change_is_judged_by_the_servers_own_time() -> None:
    """Who is near is among the others, and three times as long for him is no less harm."""
    each = {"handshake_s": 1.0, "busy_workers": 1.0, "idle_workers": 50.0}
    bench = Bench().see(12, **each).change(w=100).see(6, 0.06, **each)
    assert bench.backs == [{"w": 150}] and bench.state.judgement.verdict is Verdict.WORSE


def test_a_shorter_time_gains_no_share_of_what_clients_wait_to_connect() -> None:
    little = Move(SHORTER, "shorter", gain=0.3)
    assert Bench().see(36, handshake_s=0.0001).asked(little) == little
    far = Bench().see(36, handshake_s=4.0)
    assert not far.asked(little).changes and "a gain of at most 0%" in far.asked(little).reason
    assert far.asked(replace(DOWN, gain=0.3)).changes, "it is another change"


@pytest.mark.parametrize(
    ("cut_hz", "handshake_s", "tried"), [(0.0, 0.1, True), (5.0, 0.1, False), (5.0, 0.001, True), (1.0, 0.1, True)]
)
def test_a_shorter_time_is_not_tried_where_to_connect_anew_takes_longer_than_it_can_gain(
    cut_hz: float, handshake_s: float, tried: bool
) -> None:
    """Of 20 ms for a request 4 ms can be gained; five more in 50 that connect for 100 ms lose 10 ms."""
    seen = {"handshake_s": handshake_s, "cut_rate_hz": cut_hz}
    bench = Bench().see(180, **seen)
    shorter = Move(SHORTER, "shorter", gain=0.2)
    for move in (shorter, replace(shorter, changes={**SHORTER, "w": 140})):
        asked = bench.asked(move)
        assert (asked == move) is tried
        assert tried or "clients are so far away" in asked.reason
    for other in (DOWN, replace(shorter, changes={"k": 9000})):
        assert bench.asked(other) == other, "it is not shorter"


def window(**readings: float) -> Window:
    return Window(0, 0.0, WINDOW_S, {}, {"request_rate_hz": 50.0, "connection_rate_hz": 10.0, **readings}, 250)


def test_a_request_has_its_share_of_its_connections_opening() -> None:
    """Of 50 requests in ten connections, each of them 20 ms, and 30 connections more with a quarter of the time."""
    seen = measured(window(request_time_s=0.02, handshake_s=0.1, cut_rate_hz=30.0), BY_REQUEST)
    assert (seen.opening, seen.reopening) == pytest.approx((1.0, 3.0))
    assert seen.log_cost == pytest.approx(math.log(0.02)), "the objective stays what it is"
    assert seen.opened().log_cost == pytest.approx(math.log(0.04))


def test_where_the_time_was_inferred_it_is_in_times_of_that() -> None:
    """Ten inside, and ten connections of five requests a second, are 0.2 s for a request."""
    readings = {"busy_workers": 4.0, "accept_queue_length": 6.0, "handshake_s": 0.4}
    seen = measured(window(**readings), BY_REQUEST, per_connection=5.0)
    assert seen.inferred and seen.opening == pytest.approx(0.4 / 5 / 0.2)


@pytest.mark.parametrize(
    ("why", "readings", "objective"),
    [
        ("no round trip is known", {"request_time_s": 0.02}, BY_REQUEST),
        ("nothing was completed", {"request_time_s": 0.02, "handshake_s": 0.1, "request_rate_hz": 0.0}, BY_REQUEST),
        ("no cost is known", {"handshake_s": 0.1}, BY_REQUEST),
        ("no time of a request", {"response_time_s": 0.02, "handshake_s": 0.1}, Objective("response_time_s")),
        ("to be more", {"request_time_s": 0.02, "handshake_s": 0.1}, Objective("request_time_s", minimize=False)),
    ],
)
def test_else_it_is_of_no_account(why: str, readings: dict[str, float], objective: Objective) -> None:
    seen = measured(window(cut_rate_hz=30.0, **readings), objective)
    assert (seen.opening, seen.reopening) == (0, 0) and seen.opened() == seen, why
