"""After a pause a Tomcat serves again, also when all of us were killed in it, and counts its connections rightly."""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.servers._private_tomcat import SHIPPED, Asked, Bed, Held, in_process, private
from tests.servers._under_gate import PATIENCE_S, stop, until
from tests.servers.test_sensors_tomcat import frame
from tests.servers.test_tomcat import PAGE, connected, page, says_busy
from trimtab.clock import SystemClock
from trimtab.plants.tomcat.jmx import Jmx
from trimtab.plants.tomcat.plant import Tomcat
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.plants.tomcat.restart import LIMIT, REQUESTS, _waiting, held

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with private(jdbc=None) as bed:
        yield bed


@contextlib.contextmanager
def holding(bed: Bed, body: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A trimtab that holds requests back again and again, and does this meanwhile; and its Java program's id."""
    code = f"""
        import sys
        from trimtab.clock import SystemClock
        from trimtab.plants.tomcat.plant import Tomcat
        tomcat = Tomcat.attach(SystemClock(), {bed.testbed.pid})
        print(tomcat._tomcat.jmx._client.pid, flush=True)
        while True:
            with tomcat.held([]):
                {body}
    """
    command = in_process(code, bed.testbed.directory)
    run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with run:
        assert run.stdout is not None
        program = int(run.stdout.readline())
        try:
            yield run, program
        finally:
            run.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(program, signal.SIGKILL)


def limits(jmx: Jmx, endpoint: str) -> list[object]:
    """What a pause changes for a moment."""
    (row,) = jmx.read({endpoint: (LIMIT, REQUESTS)})
    assert row is not None
    return [row[LIMIT], row[REQUESTS]]


def test_before_it_is_paused_when_it_may_have_no_connections(bed: Bed) -> None:
    with contextlib.closing(Jmx(TomcatProcess.find(bed.testbed.pid), SystemClock())) as looks:
        (endpoint,) = looks.names("*:type=ThreadPool,*")
        before = limits(looks, endpoint)
        busy = Held(bed, 1)  # which a pause waits for
        with holding(bed, "pass") as (run, program):

            def caught() -> bool:
                if limits(looks, endpoint)[0] != 0:
                    return False
                stop(program)
                if limits(looks, endpoint)[0] != 0:
                    os.kill(program, signal.SIGCONT)
                    return False
                return True

            until(caught, "it was not caught")
            run.kill()
            os.kill(program, signal.SIGKILL)
        asked = Asked(bed, 3, 1)
        until(lambda: _waiting(bed.testbed.pid, bed.testbed.port) >= 2, "more than one was let in")
        with contextlib.closing(bed.attach()) as tomcat:
            assert "may be paused" in tomcat.leftover()
            tomcat.undo_leftover()
            assert tomcat.leftover() == ""
        assert (asked.wait(), busy.wait()) == ([200] * 3, [200])
        assert limits(looks, endpoint) == before


def test_while_it_is_paused_also_by_the_script_that_needs_no_trimtab(bed: Bed) -> None:
    with holding(bed, "print('held', flush=True); sys.stdin.read()") as (run, program):
        assert run.stdout is not None and run.stdout.readline() == "held\n"
        os.kill(program, signal.SIGKILL)
        run.kill()
    asked = Asked(bed, 1, 1)
    with contextlib.closing(bed.attach()) as tomcat:
        script = tomcat.undo_script()
        assert asked.said == []
        ended = subprocess.run(["sh", "-c", script], check=False, capture_output=True, text=True)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "undone\n", "")
        assert asked.wait() == [200]
        tomcat.undo_leftover()
        assert tomcat.leftover() == ""
    with contextlib.closing(bed.attach()) as tomcat:
        assert tomcat.configuration() == SHIPPED


def test_one_without_a_limit_of_connections_has_none_afterwards_and_what_its_pause_may_cost_is_said() -> None:
    unlimited = (("maxConnections", "-1"), ("socket.bufferPool", "0"))
    with private(jdbc=None, connector=unlimited) as bed, contextlib.closing(bed.attach(restart=True)) as tomcat:
        endpoint, notes = tomcat._tomcat.layout.connectors[0].endpoint, list[str]()
        before = limits(tomcat._tomcat.jmx, endpoint)
        assert before[0] == -1
        assert any("has no limit" in note and "lose no request" in note for note in tomcat.notes)
        assert not {"max_connections", "read_buffer_bytes"} & tomcat.configuration().keys()
        with tomcat.held(notes):
            pass
        more = tomcat.apply({"max_threads": 105, "accept_count": 35}).notes
        for note in (notes[0], next(note for note in more if "took nothing" in note)):
            assert note.endswith("; a request that came just then may be lost, as maxConnections has no limit")
        tomcat.restore()
        assert (limits(tomcat._tomcat.jmx, endpoint), tomcat.leftover(), bed.ask(1)) == (before, "", 200)


def test_a_connector_that_opens_its_socket_at_its_start_serves_again_after_a_restart() -> None:
    late = (("bindOnInit", "false"),)
    with private(jdbc=None, connector=late) as bed, contextlib.closing(bed.attach(restart=True)) as tomcat:
        tomcat.apply({"accept_count": 35})
        assert (bed.ask(1), tomcat.configuration()["accept_count"]) == (200, 35)
        tomcat.restore()
        assert (bed.ask(1), tomcat.configuration()["accept_count"]) == (200, 100)


def test_a_connection_over_http_2_which_tomcat_counts_as_a_request_is_not_waited_for() -> None:
    head = b"\x82\x86\x01\x09localhost\x04\x0e/shop/page.txt"  # RFC 7541: GET, http, authority and path
    with (
        private(jdbc=None, http2=True) as bed,
        contextlib.closing(bed.attach(restart=True)) as tomcat,
        connected(bed) as client,
    ):
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 5, 1, head))
        came = b""
        while b"a page" not in came:
            came += client.recv(4096)
        (connector,) = tomcat._tomcat.layout.connectors
        spot = connector.handler, "waitingProcessorCount"
        until(lambda: tomcat._tomcat.values([spot]) == {spot: 1}, "Tomcat does not count it")
        note = tomcat.apply({"accept_count": 35}).notes[0]
        assert "; 1 requests or connections over HTTP/2 were still in service and may have been cut" in note
        tomcat.restore()


def counted(tomcat: Tomcat) -> int:
    """Connections as Tomcat counts them: one more than there are, for the one that it waits for."""
    spot = tomcat._tomcat.layout.connectors[0].endpoint, "connectionCount"
    count = tomcat._tomcat.values([spot])[spot]
    assert count is not None
    return count


@pytest.fixture(scope="module")
def few() -> Iterator[tuple[Bed, Tomcat]]:
    """One that holds eight connections."""
    limited = (("maxConnections", "8"),)
    with private(jdbc=None, connector=limited) as bed, contextlib.closing(bed.attach()) as tomcat:
        yield bed, tomcat


def in_service(bed: Bed, tomcat: Tomcat) -> Held:
    """Five requests that are in service."""
    until(lambda: counted(tomcat) == 1, "connections are left from before")
    long = Held(bed, 5)
    until(lambda: says_busy(tomcat) == 5, "they were not taken")
    return long


def test_a_request_that_a_pause_waits_for_leaves_the_count_and_the_limit_of_connections_as_they_were(
    few: tuple[Bed, Tomcat],
) -> None:
    bed, tomcat = few
    for _ in range(3):
        long = in_service(bed, tomcat)
        threading.Timer(1.5, long.finish).start()  # the pause is under way by then
        with tomcat.held(list[str]()):
            pass
        assert long.wait() == [200] * 5
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connected(bed)) for _ in range(14)]
        for connection in connections:
            connection.sendall(PAGE)
        until(lambda: len(select.select(connections, [], [], 0)[0]) >= 8, "eight were not served")
        time.sleep(1.0)  # for those that are not to be served
        served = select.select(connections, [], [], 0)[0]
        assert len(served) == 8
        for connection in served:
            page(connection)
            connection.close()
    until(lambda: counted(tomcat) == 1, "it has counted others than there are")


def test_a_pause_after_one_that_requests_outlasted_is_as_short(few: tuple[Bed, Tomcat]) -> None:
    bed, tomcat = few
    after, plain = list[float](), list[float]()
    for _ in range(3):
        long = in_service(bed, tomcat)
        with held(tomcat._tomcat, tomcat.clock, list[str](), drain_s=0.1):
            pass
        assert long.wait() == [200] * 5
        until(lambda: counted(tomcat) == -4, "Tomcat counts those that a pause has found")
        for took_s in (after, plain):
            before_s = tomcat._tomcat.held_s
            with tomcat.held(list[str]()):
                pass
            took_s.append(tomcat._tomcat.held_s - before_s)
            until(lambda: counted(tomcat) == 1, "it has counted others than there are")
    assert min(after) < 3 * min(plain), "its acceptor was waited for in vain"


@pytest.mark.parametrize("protocol", ["Nio", "Nio2"])
def test_no_request_is_lost_by_a_pause_whether_a_thread_of_its_own_takes_connections_or_not(
    bed: Bed, protocol: str
) -> None:
    how = (("protocol", f"org.apache.coyote.http11.Http11{protocol}Protocol"),)
    said, over = list[int](), threading.Event()

    def visits(bed: Bed) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", bed.testbed.port, timeout=PATIENCE_S)
        while not over.is_set():
            try:
                connection.request("GET", "/shop/work?ms=5")
                reply = connection.getresponse()
                reply.read()
                said.append(reply.status)
            except (OSError, http.client.HTTPException):
                said.append(0)
                connection.close()

    def reached(number: int) -> bool:
        return len(said) >= number

    shipped = contextlib.nullcontext(bed)  # whose protocol is Nio
    with (
        shipped if protocol == "Nio" else private(jdbc=None, connector=how) as asked,
        contextlib.closing(asked.attach()) as tomcat,
    ):
        assert tomcat._tomcat.layout.connectors[0].endpoint.split('"')[1].startswith(f"http-{protocol.lower()}-")
        visitors = [threading.Thread(target=visits, args=(asked,)) for _ in range(2)]
        for visitor in visitors:
            visitor.start()
        try:
            for _ in range(4):
                until(partial(reached, len(said) + 20), "it does not serve")
                with tomcat.held(list[str]()):
                    pass
        finally:
            over.set()
            for visitor in visitors:
                visitor.join()
        assert set(said) == {200}
        until(lambda: counted(tomcat) == 1, "it has counted others than there are")


def test_connections_that_a_restart_of_the_connector_ends_are_not_taken_from_its_count(bed: Bed) -> None:
    with contextlib.closing(bed.attach(restart=True)) as tomcat, contextlib.ExitStack() as stack:
        for _ in range(6):
            connection = stack.enter_context(connected(bed))
            connection.sendall(PAGE)
            page(connection)
        tomcat.apply({"accept_count": 35})
        until(lambda: counted(tomcat) == 1, "it has counted others than there are")
        tomcat.restore()
        assert bed.ask(1) == 200
