"""The load generator against a real server: what it sends, and what it counts as what."""

from __future__ import annotations

from typing import Any

import pytest

from tests._scripted_server import ScriptedServer
from tests.servers._traffic import closed_port, finished, sessions, summary
from tests.servers._under_gate import until
from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import Connection, ConstantRate, Population, Step, Url, zipf

pytestmark = pytest.mark.server


def test_every_request_counted_is_one_that_the_server_saw() -> None:
    with ScriptedServer() as server:
        pages: dict[str, Any] = {
            "session_pages": Constant(3),
            "burst_requests": Constant(4),
            "think_s": Constant(0.05),
        }
        result = finished(server.target, sessions(50, "/ok", **pages), count=50)
        seen = server.seen()
    (one,) = result.classes
    assert (one.sessions, one.pages, one.requests) == (50, 150, 600)
    assert seen["requests"] == {"/ok": 600}
    assert (one.connections, seen["connections"]) == (50, 50)
    assert one.body_bytes == 600 * 1000
    assert (one.page_intended.count, one.request_actual.count, one.connect.count) == (150, 600, 50)
    assert (one.errors, one.resent, one.outstanding, one.unsent) == ({}, 0, 0, 0)
    assert one.waited_s == pytest.approx(600 * (one.request_intended.mean_s or 0.0), rel=1e-3)


@pytest.mark.parametrize(
    ("policy", "connections"),
    [(Connection.UNTIL_SERVER_CLOSES, 10), (Connection.PER_PAGE, 30), (Connection.PER_REQUEST, 60)],
)
def test_the_client_closes_when_its_policy_says_so(policy: Connection, connections: int) -> None:
    with ScriptedServer() as server:
        shape: dict[str, Any] = {"session_pages": Constant(3), "burst_requests": Constant(2), "connection": policy}
        result = finished(server.target, sessions(10, "/ok", **shape), count=10)
        seen = server.seen()
    assert seen["requests"] == {"/ok": 60}
    assert seen["connections"] == result.classes[0].connections == connections


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/status?code=404", "http_4xx"),
        ("/status?code=503", "http_5xx"),
        ("/reset", "reset"),
        ("/cut", "reset"),
        ("/garbage", "malformed"),
        ("/hang", "timeout"),
    ],
)
def test_failures_are_counted_by_kind_and_not_as_replies(path: str, kind: str) -> None:
    with ScriptedServer() as server:
        patience_s = 0.3 if kind == "timeout" else 60.0
        result = finished(server.target, sessions(20, path, timeout_s=patience_s), count=20)
        # A client that gives up does not know whether the server has seen its request yet.
        until(lambda: server.seen()["requests"] == {path: 20}, "the server did not see every request once")
    (one,) = result.classes
    assert one.errors == {kind: 20}
    assert (one.requests, one.pages, one.resent) == (0, 0, 0)


def test_a_server_that_is_not_there_is_a_connect_error() -> None:
    with closed_port() as target:
        (one,) = finished(target, sessions(20, "/ok"), count=20).classes
    assert one.errors == {"connect": 20}
    assert (one.requests, one.connections) == (0, 0)


def test_a_request_on_a_connection_just_closed_as_idle_is_sent_again_and_is_no_error() -> None:
    with ScriptedServer() as server:
        shape: dict[str, Any] = {"session_pages": Constant(3), "think_s": Constant(0.05)}
        result = finished(server.target, sessions(10, "/once", **shape), count=10)
        seen = server.seen()
    (one,) = result.classes
    assert (one.requests, one.resent, one.errors) == (30, 20, {})
    assert seen["requests"] == {"/once": 50}
    assert seen["connections"] == one.connections == 30


def test_a_connection_closed_while_idle_is_replaced_without_a_request_lost() -> None:
    with ScriptedServer(idle_ms=2000) as server:
        # A first request has 2 s to come; the server has the rest of 5 s to close what is idle.
        shape: dict[str, Any] = {"session_pages": Constant(2), "think_s": Constant(5.0)}
        result = finished(server.target, sessions(10, "/ok", **shape), count=10)
        seen = server.seen()
    (one,) = result.classes
    assert (one.requests, one.errors, one.resent) == (20, {}, 0)
    assert seen["connections"] == one.connections == 20


def test_each_class_comes_from_its_own_address_and_is_counted_apart() -> None:
    gold = sessions(30, "/gold", class_name="gold", source="127.0.0.2")
    lead = sessions(20, "/lead", class_name="lead", source="127.0.0.3")
    with ScriptedServer() as server:
        result = finished(server.target, gold, lead, count=50)
        seen = server.seen()
    assert seen["peers"] == {"127.0.0.2": 30, "127.0.0.3": 20}
    assert [(one.class_name, one.requests) for one in result.classes] == [("gold", 30), ("lead", 20)]


def test_steps_of_the_schedule_change_the_rate() -> None:
    # Every step lies half a gap after an arrival, clear of rounding.
    steps = (Step(0, 0), Step(0.5, 1), Step(1.49, 0), Step(2.0, 4), Step(2.5, 0))
    stream = Population(class_name="all", arrivals=ConstantRate(50), pages=(Url("/ok"),), schedule=steps)
    with ScriptedServer() as server:
        summary(server.target, stream, duration_s=4)
        requests = server.seen()["requests"]
    # 50 in the second after 0.5 s, none for half a second, then 100; the moments are tested in the generator itself.
    assert requests == {"/ok": 150}


def test_the_mix_follows_the_weights_and_one_seed_means_one_traffic() -> None:
    urls = zipf([Url(f"/ok?rank={rank}") for rank in range(1, 5)], 1.0)
    stream = Population(class_name="all", arrivals=ConstantRate(1000), pages=urls, schedule=(Step(0.9995, 0),))
    seen = []
    for seed in (1, 1, 2):
        with ScriptedServer() as server:
            finished(server.target, stream, count=1000, seed=seed)
            seen.append(server.seen()["requests"])
    assert seen[0] == seen[1] != seen[2]
    assert sum(seen[0].values()) == 1000
    harmonic = sum(1 / rank for rank in range(1, 5))
    for rank in range(1, 5):
        assert seen[0][f"/ok?rank={rank}"] / 1000 == pytest.approx(1 / rank / harmonic, abs=0.05)
