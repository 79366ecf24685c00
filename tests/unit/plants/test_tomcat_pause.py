"""A connector that trimtab has paused serves again, whoever of us is killed meanwhile, and with its own limits."""

from __future__ import annotations

import contextlib

import pytest

from tests._jvm import CONNECTOR, ENDPOINT, Bench, Killed, bench
from trimtab.errors import ApplyFailed
from trimtab.plants.tomcat.jmx import Refused
from trimtab.plants.tomcat.journal import Paused
from trimtab.plants.tomcat.restart import DRAIN_S, _lost
from trimtab.sensors.held_back import HeldBack

__all__ = ["bench"]
LIMITS = (8192, 100)


def left(bench: Bench, *point: str) -> None:
    """What is left when trimtab and its program are killed at this point of a restart of the connector."""
    plant = bench.attach(restart=True)
    bench.kill_at(*point)
    with pytest.raises(Killed):
        plant.apply({"accept_count": 35})
    assert not bench.jvm.serves()


@pytest.mark.parametrize(
    "point",
    [("pause",), ("read", ENDPOINT, "currentThreadsBusy"), ("call", CONNECTOR, "stop"), ("call", CONNECTOR, "start")],
    ids=["before it is paused", "while it is paused", "before it is stopped", "before it is started"],
)
def test_it_serves_again_by_an_undo_where_both_of_us_were_killed(bench: Bench, point: tuple[str, ...]) -> None:
    left(bench, *point)
    plant = bench.attach(restart=True)
    assert "the connector http-nio-8080 may be paused" in plant.leftover()
    plant.undo_leftover()
    assert bench.jvm.serves()
    assert (bench.jvm.limits, plant.leftover()) == (LIMITS, "")


def test_it_serves_again_before_the_next_run_whatever_else_stays(bench: Bench) -> None:
    """As where it was held for a restart of the database behind it: nothing of Tomcat's own was on trial."""
    left(bench, "read", ENDPOINT, "currentThreadsBusy")
    plant = bench.attach()
    assert plant.not_loaded() == "the connector http-nio-8080 may be paused"
    plant.undo_killed()
    assert (bench.jvm.serves(), bench.jvm.limits, plant.not_loaded()) == (True, LIMITS, "")
    assert plant.leftover() == "left from an earlier run: acceptCount 35 for 100"


def test_an_undo_that_may_restart_no_connector_leaves_what_its_socket_keeps_and_names_it(bench: Bench) -> None:
    """Put back in the MBean alone, it was told of as undone, and the socket kept the trial's."""
    bench.attach(restart=True).apply({"accept_count": 35})
    bench.attach().apply({"max_threads": 100})
    plant = bench.attach()
    assert plant.out_of_reach() == {"accept_count": ""}
    for _ in range(2):
        plant.undo_leftover()
        assert [bench.jvm.beans[ENDPOINT][name] for name in ("maxThreads", "acceptCount")] == [200, 35]
        assert plant.leftover() == "left from an earlier run: acceptCount 35 for 100"
        assert plant.out_of_reach() == {"accept_count": ""}
    plant = bench.attach(restart=True)
    assert plant.out_of_reach() == {}, "an undo with leave does it"
    plant.undo_leftover()
    assert (bench.jvm.beans[ENDPOINT]["acceptCount"], plant.leftover()) == (100, "")


def test_who_has_set_it_since_keeps_it_there_too(bench: Bench) -> None:
    bench.attach(restart=True).apply({"accept_count": 35})
    bench.jvm.set(ENDPOINT, "acceptCount", 60)
    plant = bench.attach()
    plant.undo_leftover()
    assert (bench.jvm.beans[ENDPOINT]["acceptCount"], plant.leftover(), plant.out_of_reach()) == (60, "", {})


def test_a_connector_that_opens_its_socket_at_its_start_opens_it_once(bench: Bench) -> None:
    bench.jvm.beans[ENDPOINT]["bindOnInit"] = 0
    plant = bench.attach(restart=True)
    plant.apply({"accept_count": 35})
    assert (bench.jvm.serves(), bench.jvm.beans[ENDPOINT]["acceptCount"]) == (True, 35)
    plant.restore()
    assert (bench.jvm.serves(), bench.jvm.beans[ENDPOINT]["acceptCount"]) == (True, 100)


def test_a_connector_does_not_wait_for_requests_of_another_that_shares_its_executor(bench: Bench) -> None:
    """An executor counts those of both: while one served, a restart of the other took ten seconds."""
    beans = bench.jvm.beans
    other, its_endpoint = CONNECTOR.replace("8080", "8443"), ENDPOINT.replace("8080", "8443")
    beans["Catalina:type=Executor,name=pool"] = {"maxThreads": 50, "minSpareThreads": 4}
    beans[CONNECTOR]["executorName"] = "pool"
    beans[other] = {**beans[CONNECTOR], "localPort": 8443}
    beans[its_endpoint] = {**beans[ENDPOINT], "localPort": 8443}
    for endpoint in (ENDPOINT, its_endpoint):
        beans[endpoint]["currentThreadsBusy"] = 2
    plant = bench.attach(restart=True)

    def served(*words: str) -> None:
        if words == ("pause", other):
            beans[ENDPOINT]["currentThreadsBusy"] = beans[its_endpoint]["currentThreadsBusy"] = 0

    bench.programs[-1].on = served
    note = plant.apply({"accept_count@8080": 35}).notes[0]
    assert note.startswith(
        "the connector of port 8080 and those that share its Executor (8443) took nothing for 0.00 s"
    )
    assert (bench.jvm.serves(), plant.leftover()) == (True, "")


def test_a_restart_waits_for_asynchronous_requests_too_which_no_thread_serves(bench: Bench) -> None:
    handler = "Catalina:type=ProtocolHandler,port=8080"
    bench.jvm.beans[handler] = {"waitingProcessorCount": 3}
    plant = bench.attach(restart=True)

    def one_ends(*words: str) -> None:
        if handler in words and bench.clock.now_s() > 5.0:
            bench.jvm.beans[handler]["waitingProcessorCount"] = 2

    bench.programs[-1].on = one_ends
    note = plant.apply({"accept_count": 35}).notes[0]
    assert "took nothing for 10.0" in note
    assert "; 2 requests were still in service and may have been cut" in note


def test_nobody_waits_for_websockets_which_a_restart_ends_and_says(bench: Bench) -> None:
    beans = bench.jvm.beans
    beans["Catalina:type=ProtocolHandler,port=8080"] = {"waitingProcessorCount": 3}
    beans['Catalina:name="http-nio-8080",type=GlobalRequestProcessor,Upgrade=websocket'] = {}
    note = bench.attach(restart=True).apply({"accept_count": 35}).notes[0]
    assert "took nothing for 0.00 s" in note
    assert "; 3 requests or WebSockets were still in service and may have been cut" in note


@pytest.mark.parametrize(("requests", "waited_for"), [(5, False), (0, True)])
def test_nobody_waits_for_connections_over_http_2_which_tomcat_counts_as_requests(
    bench: Bench, requests: int, waited_for: bool
) -> None:
    """One that was idle made a restart take nothing for twelve seconds."""
    beans = bench.jvm.beans
    beans["Catalina:type=ProtocolHandler,port=8080"] = {"waitingProcessorCount": 3}
    beans[f"{ENDPOINT.replace('ThreadPool', 'GlobalRequestProcessor')},Upgrade=h2c"] = {"requestCount": requests}
    note = bench.attach(restart=True).apply({"accept_count": 35}).notes[0]
    assert ("took nothing for 10.0" in note) is waited_for
    kind = "requests" if waited_for else "requests or connections over HTTP/2"
    assert f"; 3 {kind} were still in service and may have been cut" in note


def test_a_limit_that_is_left_over_is_not_taken_for_the_operators(bench: Bench) -> None:
    left(bench, "pause")
    with bench.attach().held([]):
        assert not bench.jvm.serves()
    assert bench.jvm.serves()
    assert bench.jvm.limits == LIMITS


def test_what_the_operator_has_set_since_outlives_the_undo(bench: Bench) -> None:
    left(bench, "pause")
    bench.jvm.set(ENDPOINT, "maxConnections", 500)
    bench.jvm.set(ENDPOINT, "maxKeepAliveRequests", 7)
    bench.attach().undo_leftover()
    assert bench.jvm.limits == (500, 7)


def test_a_connector_that_may_have_no_connections_is_not_paused(bench: Bench) -> None:
    plant = bench.attach()
    bench.jvm.set(ENDPOINT, "maxConnections", 0)
    with pytest.raises(ApplyFailed, match="port 8080 is not paused: its maxConnections is 0"), plant.held([]):
        raise AssertionError("it was paused")
    assert (bench.jvm.paused, bench.jvm.limits, plant.leftover()) == (False, (0, 100), "")


@pytest.mark.parametrize(
    ("said", "lost"), [("Apache Tomcat/8.5.100", True), ("Apache Tomcat/9.0.98", False), (None, False)]
)
def test_that_a_pause_of_a_tomcat_8_may_lose_requests_on_kept_connections_is_said_before_and_with_it(
    bench: Bench, said: str | None, lost: bool
) -> None:
    """Six pauses of 8.5.100 under four busy clients lost 9 and 16 of some two thousand, of 9.0.98 and 10.1 none."""
    if said is not None:
        bench.jvm.beans["Catalina:type=Server"] = {"serverInfo": said}
    plant, notes = bench.attach(), list[str]()
    with plant.held(notes):
        pass
    for lines in (plant.notes, notes):
        assert any("Tomcat 8 ends those, in use too" in one for one in lines) is lost


def test_an_apr_connector_which_takes_no_limit_while_it_runs_has_no_such_knob_and_what_its_pause_may_cost_is_said(
    bench: Bench,
) -> None:
    """Tomcat 9.0.98 goes on with 8192; six pauses under four busy clients lost one of some two thousand requests."""
    other, its_endpoint = CONNECTOR.replace("8080", "8443"), ENDPOINT.replace("nio-8080", "apr-8443")
    bench.jvm.beans[other] = {**bench.jvm.beans[CONNECTOR], "localPort": 8443}
    bench.jvm.beans[its_endpoint] = {**bench.jvm.beans[ENDPOINT], "localPort": 8443}
    plant, notes = bench.attach(), list[str]()
    assert "max_connections@8080" in plant.configuration()
    assert "max_connections@8443" not in plant.configuration()
    assert any(note.startswith("max_connections@8443 is 8192; an APR connector takes it at") for note in plant.notes)
    with plant.held(notes):
        pass
    assert notes[0].endswith(
        "; a request that came just then may be lost, as APR takes no maxConnections while it runs"
    )
    assert (bench.jvm.serves(), bench.jvm.limits, plant.leftover()) == (True, LIMITS, "")


def test_where_the_program_alone_was_killed_another_one_has_it_serve_again(bench: Bench) -> None:
    plant = bench.attach()
    with plant.held([]):
        bench.programs[-1].died = True
    assert bench.jvm.serves()
    assert plant.leftover() == ""


def test_one_that_answers_nothing_is_silent_and_is_asked_for_no_longer_than_a_moment(bench: Bench) -> None:
    plant, allowed = bench.attach(), list[float]()

    def within(duration_s: float) -> contextlib.AbstractContextManager[None]:
        allowed.append(duration_s)
        return contextlib.nullcontext()

    bench.programs[-1].within = within  # type: ignore[method-assign]
    assert not plant.silent()
    bench.jvm.silent = True
    assert plant.silent()
    assert allowed == [2.0, 2.0]


def test_one_that_did_not_answer_when_it_was_to_serve_again_does_so_when_the_run_ends(bench: Bench) -> None:
    plant = bench.attach()
    with pytest.raises(ApplyFailed, match="resume failed"), plant.held([]):
        bench.jvm.silent = True
    bench.jvm.silent = False
    plant.restore()
    assert bench.jvm.serves()
    assert plant.leftover() == ""


@pytest.mark.parametrize(("name", "lost"), [("ajp-nio-127.0.0.1-8009", True), ("http-nio-8080", False)])
def test_that_a_pause_ends_kept_connections_of_ajp_in_use_is_said(name: str, lost: bool) -> None:
    """Those of HTTP end with their next response."""
    paused = Paused(CONNECTOR, f'Catalina:type=ThreadPool,name="{name}"', *LIMITS)
    assert ("kept connections of AJP may be lost" in _lost(False, paused)) is lost


def test_for_how_long_a_restart_that_fails_takes_nothing_counts_too(bench: Bench) -> None:
    bench.jvm.beans[ENDPOINT]["currentThreadsBusy"] = 2  # as long as it waits for them
    plant, fails = bench.attach(restart=True), ["java.net.BindException"]
    (told,) = (one for one in plant.sensors() if isinstance(one, HeldBack))
    told.begin()

    def refused(*words: str) -> None:
        if words == ("call", CONNECTOR, "start") and fails:
            raise Refused(fails.pop())

    bench.programs[-1].on = refused
    with pytest.raises(ApplyFailed, match="BindException"):
        plant.apply({"accept_count": 35})
    assert bench.jvm.serves() and told.read()["held_s"] >= 2 * DRAIN_S, "and the one back"
