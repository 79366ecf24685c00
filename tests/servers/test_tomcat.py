"""The plant against a real Tomcat: found, read, changed, seen in effect, undone, and put back."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.servers._private_tomcat import NOWHERE, POOL, SHIPPED, Asked, Bed, Held, in_process, opened, private
from tests.servers._under_gate import PATIENCE_S, until
from trimtab.clock import SystemClock
from trimtab.core.memory import MIB
from trimtab.errors import ApplyFailed, ApplyRefused, OperatorEdit, PlantGone
from trimtab.plants.tomcat import process, restart
from trimtab.plants.tomcat.jmx import Jmx
from trimtab.plants.tomcat.plant import Tomcat
from trimtab.processes import start_of
from trimtab.sensors._tcp_listeners import listening

pytestmark = pytest.mark.server
ALL = {
    **SHIPPED,
    **POOL,
    **{f"ajp_{name}": value for name, value in SHIPPED.items() if name != "keep_alive_timeout_ms"},
}
PAGE = b"GET /shop/page.txt HTTP/1.1\r\nHost: shop\r\n\r\n"


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with private(ajp=True) as bed:
        yield bed


@pytest.fixture(scope="module")
def operator(bed: Bed) -> Iterator[Jmx]:
    """Somebody else who sets what he likes."""
    with contextlib.closing(Jmx(process.TomcatProcess.find(bed.testbed.pid), SystemClock())) as jmx:
        yield jmx


@pytest.fixture(scope="module")
def one(bed: Bed) -> Iterator[Tomcat]:
    with contextlib.closing(bed.attach()) as tomcat:
        yield tomcat


@pytest.fixture
def tomcat(one: Tomcat) -> Iterator[Tomcat]:
    """One that is left as it was found."""
    assert one.configuration() == ALL
    yield one
    one.restore()
    assert one.configuration() == ALL
    assert one.leftover() == ""


def bean(jmx: Jmx, kind: str) -> str:
    """The MBean of the HTTP connector of this kind, or of the pool."""
    (found,) = [name for name in jmx.names(f"*:type={kind},*") if "ajp" not in name and "connections=" not in name]
    return found


def says(jmx: Jmx, kind: str, attribute: str) -> int:
    """What the server says of itself."""
    (row,) = jmx.read({bean(jmx, kind): (attribute,)})
    assert row is not None
    value = row[attribute]
    assert isinstance(value, int)
    return value


def test_it_is_found_and_read(bed: Bed, tomcat: Tomcat) -> None:
    assert bed.testbed.pid in [one.pid for one in process.TomcatProcess.running()]
    assert tomcat.configuration() == ALL
    ports = {int(name.rpartition("-")[2].strip('"')) for name in tomcat._tomcat.peaks}
    assert {port for _, port in tomcat.listeners} == ports > {bed.testbed.port}
    tomcat.check_permissions()


def test_a_change_is_in_force_and_restore_undoes_it(tomcat: Tomcat, operator: Jmx) -> None:
    changes = {"max_threads": 50, "keep_alive_timeout_ms": 5000, "pool_max_active": 20}
    applied = tomcat.apply(changes)
    assert applied.configuration == {**ALL, **changes}
    assert says(operator, "ThreadPool", "maxThreads") == 50
    assert says(operator, "ConnectionPool", "MaxActive") == 20
    assert any('maxThreads="50" in the Connector of port' in note for note in applied.notes)
    tomcat.restore()
    assert tomcat.configuration() == ALL
    tomcat.restore()


def test_fewer_threads_serve_fewer_requests_at_once_and_more_serve_more(
    bed: Bed, tomcat: Tomcat, operator: Jmx
) -> None:
    tomcat.apply({"min_spare_threads": 0, "max_threads": 5})
    until(lambda: says(operator, "ThreadPool", "currentThreadCount") <= 5, "threads did not end")
    asked = Held(bed, 12)
    until(lambda: says(operator, "ThreadPool", "currentThreadsBusy") == 5, "five did not become busy")
    assert asked.wait() == [200] * 12
    tomcat.apply({"max_threads": 10})
    asked = Held(bed, 20)
    until(lambda: says(operator, "ThreadPool", "currentThreadsBusy") == 10, "ten did not become busy")
    assert asked.wait() == [200] * 20


def test_threads_in_the_middle_of_a_request_finish_it(bed: Bed, tomcat: Tomcat) -> None:
    asked = Held(bed, 15)
    until(lambda: says_busy(tomcat) == 15, "they were not taken")
    applied = tomcat.apply({"max_threads": 10})
    assert any("finish their requests" in note for note in applied.notes)
    assert asked.wait() == [200] * 15


def says_busy(tomcat: Tomcat) -> int:
    jmx = tomcat._tomcat.jmx
    return says(jmx, "ThreadPool", "currentThreadsBusy")


def test_the_next_connection_has_buffers_of_the_size_that_was_set_and_after_the_undo_of_that_before(
    bed: Bed, tomcat: Tomcat
) -> None:
    def changed() -> int:  # on a busy machine what waits may go out together, and the page in fewer segments
        tomcat.restore()
        tomcat.apply({"write_buffer_bytes": 512})
        return segments(bed)

    until(lambda: changed() >= 30_000 / 512 / 2, "no page came in pieces of 512 bytes")
    tomcat.restore()
    assert segments(bed) < 30_000 / 512 / 2


def test_an_idle_connection_is_ended_at_the_time_that_was_set(bed: Bed, tomcat: Tomcat) -> None:
    tomcat.apply({"keep_alive_timeout_ms": 500})
    with connected(bed) as connection:
        connection.sendall(PAGE)
        page(connection)
        connection.settimeout(15)  # 20 s is what it was
        assert connection.recv(1) == b"", "it was not ended"


def test_no_more_connections_are_held_than_were_set_and_the_next_is_served_when_one_ends(
    bed: Bed, tomcat: Tomcat
) -> None:
    tomcat.apply({"max_connections": 3})
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connected(bed)) for _ in range(6)]
        for connection in connections:
            connection.sendall(PAGE)
        until(lambda: len(select.select(connections, [], [], 0)[0]) >= 3, "three were not served")
        time.sleep(1.0)  # for those that are not to be served
        held = select.select(connections, [], [], 0)[0]
        # One may have been let in before the limit was lowered: the acceptor had counted it already.
        assert 3 <= len(held) <= 4
        (waiting, *_) = [connection for connection in connections if connection not in held]
        for connection in held:
            page(connection)
            connection.close()
        page(waiting)


def test_buffers_that_would_fill_the_heap_are_refused(bed: Bed, tomcat: Tomcat) -> None:
    attached, both = tomcat._tomcat, ("read_buffer_bytes", "write_buffer_bytes")
    assert (attached.heap_bytes or 0) > 16 * MIB
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connected(bed)).sendall(PAGE)
        until(lambda: tomcat.configuration() == ALL and sum(attached.peaks.values()) >= 20, "not all were counted")
    attached.heap_bytes = 64 * MIB
    with pytest.raises(ApplyRefused, match="half of the heap of Tomcat"):
        tomcat.apply(dict.fromkeys(both, MIB))
    tomcat.apply(dict.fromkeys(both, MIB // 4))


def connected(bed: Bed) -> socket.socket:
    """A connection that stays."""
    return socket.create_connection(("127.0.0.1", bed.testbed.port), timeout=PATIENCE_S)


def page(connection: socket.socket) -> None:
    """Receives the page that was asked for."""
    reply = b""
    while b"a page" not in reply:
        came = connection.recv(1 << 16)
        assert came, "it was ended"
        reply += came
    assert reply.startswith(b"HTTP/1.1 200")


def segments(bed: Bed) -> int:
    """In how many segments a page of 30,000 bytes came; the server sends each buffer by itself."""
    with connected(bed) as connection:
        connection.sendall(b"GET /shop/long.txt HTTP/1.0\r\n\r\n")
        while connection.recv(1 << 16):
            pass
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    return int(struct.unpack_from("=I", info, 152)[0])  # data_segs_in


def test_a_smaller_pool_lends_no_more_than_it_may_though_it_had_more(bed: Bed, tomcat: Tomcat, operator: Jmx) -> None:
    assert Asked(bed, 20, 300, "&db=1").wait() == [200] * 20
    assert says(operator, "ConnectionPool", "Size") > 2, "it would lend what it has, whatever it is told"
    tomcat.apply({"pool_min_idle": 0, "pool_max_active": 2})
    assert says(operator, "ConnectionPool", "Size") <= 2
    asked = Held(bed, 6, "&db=1")
    until(lambda: says(operator, "ConnectionPool", "WaitCount") > 0, "nobody waits")
    assert says(operator, "ConnectionPool", "Active") <= 2
    assert asked.wait() == [200] * 6


def test_the_two_limits_of_threads_cross_the_values_before_in_either_direction(tomcat: Tomcat) -> None:
    for low, high in ((105, 300), (0, 5), (200, 200), (5, 20)):
        applied = tomcat.apply({"min_spare_threads": low, "max_threads": high})
        assert (applied.configuration["min_spare_threads"], applied.configuration["max_threads"]) == (low, high)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"max_threads": 0}, r"max_threads 0 is outside 5\.\.16384"),
        ({"max_threads": 52}, "in steps of 5"),
        ({"max_threads": 5}, "min_spare_threads 10 is more than max_threads 5"),
        ({"pool_min_idle": 101}, "pool_min_idle 101 is more than pool_max_idle 100"),
        ({"pool_max_active": 5}, "pool_min_idle 10 is more than pool_max_active 5"),
        ({"accept_count": 5}, "unknown knob 'accept_count'"),
    ],
)
def test_what_is_not_valid_or_against_a_rule_is_refused_and_changes_nothing(
    tomcat: Tomcat, changes: dict[str, int], why: str
) -> None:
    with pytest.raises(ApplyRefused, match=why):
        tomcat.apply({"write_buffer_bytes": 4096, **changes})
    assert tomcat.configuration() == ALL


def test_a_value_that_does_not_take_brings_the_others_back(tomcat: Tomcat, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Jmx.set

    def set_all_but(self: Jmx, bean: str, attribute: str, value: int) -> None:
        if (attribute, value) != ("MaxIdle", 50):
            real(self, bean, attribute, value)

    monkeypatch.setattr(Jmx, "set", set_all_but)
    with pytest.raises(ApplyFailed, match="MaxIdle is 100 after it was set to 50"):
        tomcat.apply({"max_threads": 100, "pool_max_idle": 50})
    assert tomcat.configuration() == ALL


def test_an_operators_edit_stands_that_knob_down_alone(bed: Bed, operator: Jmx) -> None:
    with contextlib.closing(bed.attach()) as tomcat:
        tomcat.apply({"max_threads": 100, "pool_max_idle": 50})
        operator.set(bean(operator, "ThreadPool"), "maxThreads", 120)
        try:
            with pytest.raises(OperatorEdit, match="max_threads was set to 120 by somebody else") as edit:
                tomcat.configuration()
            assert edit.value.knob == "max_threads"
            assert tomcat.configuration()["max_threads"] == 120, "it is said once"
            with pytest.raises(OperatorEdit):
                tomcat.apply({"max_threads": 100})
            tomcat.apply({"pool_max_idle": 60})
            with pytest.raises(OperatorEdit):
                tomcat.restore()
            assert tomcat.configuration() == {**ALL, "max_threads": 120}
        finally:
            operator.set(bean(operator, "ThreadPool"), "maxThreads", 200)
    with contextlib.closing(bed.attach()) as tomcat:
        tomcat.undo_leftover()
        assert tomcat.leftover() == ""
        assert tomcat.configuration() == ALL


def test_a_change_that_a_stack_takes_back_leaves_what_the_operator_has_set_meanwhile(bed: Bed, operator: Jmx) -> None:
    with contextlib.closing(bed.attach()) as tomcat:
        prepared = tomcat.prepare({"max_threads": 100, "pool_max_idle": 50})
        tomcat.commit(prepared)
        operator.set(bean(operator, "ThreadPool"), "maxThreads", 120)
        try:
            tomcat.rollback(prepared)
            with pytest.raises(OperatorEdit):
                tomcat.configuration()
            assert tomcat.configuration() == {**ALL, "max_threads": 120}
        finally:
            operator.set(bean(operator, "ThreadPool"), "maxThreads", 200)
    with contextlib.closing(bed.attach()) as tomcat:
        tomcat.undo_leftover()
        assert tomcat.configuration() == ALL


def kill_at(bed: Bed, point: str, restart: bool = False, how: str = "die") -> None:
    """A run that is killed when it comes to a point, or as this expression has it."""
    more = ', "accept_count": 35' if restart else ""
    run = f"""
        import os, signal
        from trimtab.clock import SystemClock
        from trimtab.plants.tomcat import attached, change, jmx, journal, plant, restart
        tomcat = plant.Tomcat.attach(SystemClock(), {bed.testbed.pid}, {restart})
        def die(*_):
            os.kill(os.getpid(), signal.SIGKILL)
        {point} = {how}
        tomcat.apply({{"max_threads": 105, "min_spare_threads": 100, "pool_max_idle": 50{more}}})
    """
    assert subprocess.run(in_process(run, bed.testbed.directory), check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "point",
    ["journal.Journal._write", "attached.Attached.set", "change.Change._threads"],
)
def test_what_a_run_that_was_killed_at_any_point_left_is_undone(bed: Bed, point: str) -> None:
    kill_at(bed, point)
    with contextlib.closing(bed.attach()) as tomcat:
        set_something = point not in ("journal.Journal._write", "attached.Attached.set")
        assert (tomcat.configuration() != ALL) == set_something
        assert bool(tomcat.leftover()) == (point != "journal.Journal._write")
        tomcat.undo_leftover()
        assert tomcat.leftover() == ""
        assert tomcat.configuration() == ALL


def test_the_undo_script_undoes_without_trimtab(bed: Bed) -> None:
    kill_at(bed, "change.settle")
    with contextlib.closing(bed.attach()) as tomcat:
        script = tomcat.undo_script()
        ended = subprocess.run(["sh", "-c", script], check=False, capture_output=True, text=True)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "undone\n", "")
        assert tomcat.configuration() == ALL
        tomcat.undo_leftover()
        assert tomcat.leftover() == ""


def test_nothing_of_ours_is_open_or_left_in_the_server_once_we_have_gone(bed: Bed) -> None:
    def ports() -> set[int]:
        held = set(opened(bed.testbed.pid))
        return {address[1] for name, address in listening(bed.testbed.pid).items() if name in held}

    def left() -> set[str]:
        """Those of other servers too, which come and go."""
        return {path.name for path in Path("/proc", str(bed.testbed.pid), "root", "tmp").glob("trimtab-jmx-*")}

    before, there = ports(), left()
    first, second = bed.attach(), bed.attach()
    held = opened(second._tomcat.jmx._client.pid)
    (ours,) = {Path(name).parent.name for name in held if "/trimtab-jmx-" in name}
    first.close()
    assert second.configuration() == ALL, "the other one goes on"
    assert ours in left()
    second.close()
    assert (ports(), ours in left()) == (before, ours in there)


def test_a_restart_of_the_connector_brings_its_accept_count_into_force(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(bed.attach(restart=True)) as tomcat:
        assert tomcat.configuration()["accept_count"] == 100
        asked = Held(bed, 3)
        until(lambda: says_busy(tomcat) == 3, "they were not taken")
        drained = restart._drained

        def ending(*words: Any) -> int:
            """They are in service until it waits for them."""
            asked.finish()
            return drained(*words)

        monkeypatch.setattr(restart, "_drained", ending)
        applied = tomcat.apply({"accept_count": 35})
        assert asked.wait() == [200] * 3, "requests in service are served"
        assert any("took nothing for" in note for note in applied.notes)
        assert backlog(bed.testbed.port) == 35
        assert bed.ask(1) == 200
        tomcat.restore()
        assert backlog(bed.testbed.port) == 100
        assert bed.ask(1) == 200


def test_while_it_is_held_requests_wait_and_in_the_end_are_served_with_new_jdbc_connections(
    bed: Bed, tomcat: Tomcat, operator: Jmx
) -> None:
    assert bed.ask(1, "&db=1") == 200
    assert says(operator, "ConnectionPool", "Size") > 0
    notes = list[str]()
    under_way = Held(bed, 2)
    until(lambda: says_busy(tomcat) == 2, "they were not taken")
    threading.Timer(0.5, under_way.finish).start()
    with tomcat.held(notes):
        assert under_way.wait() == [200] * 2, "those in service have ended"
        asked = Asked(bed, 3, 1)
        until(lambda: restart._waiting(bed.testbed.pid, bed.testbed.port) == 3, "they do not wait to be accepted")
        assert asked.said == []
    assert says(operator, "ConnectionPool", "Size") == 0
    assert asked.wait() == [200] * 3
    assert notes[0].startswith("Tomcat held requests back for ")


def test_no_request_is_lost_to_a_pause_under_way_of_many_and_the_limits_are_as_before(
    bed: Bed, tomcat: Tomcat, operator: Jmx
) -> None:
    """A paused connector of itself closes what it has just taken, and refuses what it has just read."""
    replies, ended = list[bytes](), threading.Event()

    def ask(kept: bool) -> None:
        while not ended.is_set():
            with connected(bed) as connection:
                connection.sendall(PAGE if kept else PAGE.replace(b"HTTP/1.1", b"HTTP/1.0"))
                replies.append(connection.recv(1 << 16)[:12])

    limits = "maxConnections", "maxKeepAliveRequests"
    before = [says(operator, "ThreadPool", limit) for limit in limits]
    threads = [threading.Thread(target=ask, args=(one % 2 == 0,)) for one in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            more = len(replies) + 50
            until(lambda more=more: len(replies) > more, "no replies come")  # type: ignore[misc]
            with tomcat.held(list[str]()):
                pass
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert {reply[9:] for reply in replies} == {b"200"}
    assert [says(operator, "ThreadPool", limit) for limit in limits] == before


ONCE_ASKED = "lambda self, *calls: (self._send('call', *(w for c in calls for w in c)), len(calls) > 1 and die())"


@pytest.mark.parametrize(
    ("point", "how"), [("restart._drained", "die"), ("restart._waiting", "die"), ("jmx.Jmx.call", ONCE_ASKED)]
)
def test_a_tomcat_serves_again_when_we_are_killed_in_the_restart_of_its_connector(
    bed: Bed, point: str, how: str
) -> None:
    kill_at(bed, point, restart=True, how=how)
    until(lambda: bed.ask(1) == 200, "it does not serve")
    with contextlib.closing(bed.attach(restart=True)) as tomcat:
        assert "acceptCount 35 for 100" in tomcat.leftover()
        tomcat.undo_leftover()
        assert (tomcat.leftover(), tomcat.configuration()) == (
            "",
            {**ALL, "accept_count": 100, "ajp_accept_count": 100},
        )
    assert (bed.ask(1), backlog(bed.testbed.port)) == (200, 100)


def test_who_ends_all_of_our_processes_politely_leaves_us_what_we_need_to_put_things_back(bed: Bed) -> None:
    with contextlib.closing(bed.attach()) as tomcat:
        tomcat.apply({"max_threads": 105})
        client = tomcat._tomcat.jmx._client
        client.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(1.0)
        tomcat.restore()
        assert tomcat.configuration() == ALL


def backlog(port: int) -> int:
    """The length that the kernel allows the accept queue of a port."""
    said = subprocess.run(["ss", "-Hltn", f"sport = :{port}"], check=True, capture_output=True, text=True).stdout
    return int(said.split()[2])


def test_threads_that_connectors_share_are_those_of_their_executor() -> None:
    shared = (("maxThreads", "150"), ("minSpareThreads", "5"))
    with (
        private(jdbc=replace(NOWHERE, dbcp=True), executor=shared) as bed,
        contextlib.closing(bed.attach()) as tomcat,
    ):
        start = tomcat.configuration()
        assert (start["max_threads"], start["min_spare_threads"]) == (150, 5)
        assert (start["pool_max_active"], start["pool_min_idle"], start["pool_max_idle"]) == (8, 0, 8)
        tomcat.apply({"max_threads": 5, "pool_max_active": 2})
        asked = Held(bed, 8, "&db=1")
        spot = tomcat._tomcat.layout.executors[0].bean, "activeCount"
        until(lambda: tomcat._tomcat.values([spot])[spot] == 5, "five did not become busy")
        assert asked.wait() == [200] * 8
        os.kill(bed.testbed.pid, signal.SIGKILL)
        until(lambda: start_of(bed.testbed.pid) is None, "it did not end")
        with pytest.raises(PlantGone, match=f"pid {bed.testbed.pid}"):
            tomcat.configuration()
        with pytest.raises(PlantGone):
            tomcat.apply({"max_threads": 10})
        tomcat.restore()
