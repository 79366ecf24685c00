"""Idle connections end after the keep-alive time, and those on which anything is under way, or may be, do not."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from tests.servers._asking import page
from tests.servers._backend import PAUSE_S, PIECE, PIECES, backend
from tests.servers._kept import BODY, PAGE, SERVERS, Kept, Server, kept
from tests.servers._private_apache import MPMS
from tests.servers._under_gate import fetched, under_gate, until
from tests.servers.test_shim_apache import in_service
from trimtab.sensors._shared_file import MODE_FIXED, KeepAlive, SharedFile
from trimtab.testbed.apache_config import Mpm

pytestmark = [pytest.mark.server, pytest.mark.apache]
ALL = pytest.mark.parametrize("server", SERVERS)
TIME_MS, FAR_MS = 100, 300_000
LOOK_S = 1.5
"""Waits are looked after once a second."""


def ends(connection: socket.socket) -> bool:
    """Waits for the end of an idle connection, which only the shim ends within the patience of a test."""
    return connection.recv(1) == b""


@pytest.fixture(scope="module", params=SERVERS)
def running(request: pytest.FixtureRequest) -> Iterator[Kept]:
    """Each server, in front of a backend that takes its time."""
    with backend() as port, kept(request.param, backend=port) as bed:
        yield bed


@pytest.fixture
def bed(running: Kept) -> Kept:
    """One whose time in force is longer than any test, and where nothing is counted yet."""
    running.keep(FAR_MS)
    running.begin()
    return running


@contextlib.contextmanager
def keeping(bed: Kept, time_ms: int) -> Iterator[socket.socket]:
    """Brings a keep-alive time into force; a connection that is made under it."""
    bed.keep(time_ms)
    with contextlib.closing(bed.connect()) as client:
        yield client


def test_an_idle_connection_ends_after_the_time_and_not_before(bed: Kept) -> None:
    with keeping(bed, FAR_MS) as client:
        for _ in range(3):
            page(client, PAGE)
            time.sleep(0.05)
        start = time.monotonic()
        page(client, PAGE)
        bed.keep(1200)
        assert ends(client)
        assert time.monotonic() - start >= 1.2
        until(lambda: bed.idle().cut == 1, "the cut was not counted")
        idle = bed.idle()
        assert (idle.intervals, idle.left, idle.expired, idle.spared) == (3, 0, 0, 0)
        assert bed.ended() == (1, 0)


@ALL
def test_connections_from_before_the_first_time_keep_the_servers_own(server: Server) -> None:
    """Nobody has followed them; where the server waits for one connection at a time the next request is followed."""
    with kept(server) as bed, contextlib.closing(bed.connect()) as before:
        page(before, PAGE)
        bed.keep(TIME_MS)
        with contextlib.closing(bed.connect()) as client:
            page(client, PAGE)
            assert ends(client)
        time.sleep(2 * TIME_MS / 1000)  # a period counts as spared only where it was longer than the time
        page(before, PAGE)
        if server in ("prefork", "worker"):
            assert ends(before)
        else:
            time.sleep(2 * TIME_MS / 1000)
            page(before, PAGE)
        until(lambda: bed.idle().cut + bed.idle().intervals == 3, "the periods were not counted")
        assert bed.idle().spared == bed.idle().intervals


@ALL
def test_a_time_that_is_set_during_a_wait_is_followed_and_one_that_is_taken_back_too(server: Server) -> None:
    with kept(server) as bed, keeping(bed, 0) as client:
        page(client, PAGE)
        time.sleep(0.2)
        bed.keep(TIME_MS)
        assert ends(client)
        with contextlib.closing(bed.connect()) as next_client:
            bed.keep(FAR_MS)
            page(next_client, PAGE)
            bed.keep(0)
            time.sleep(TIME_MS / 1000 + LOOK_S)
            page(next_client, PAGE)
        assert bed.idle().cut == 1


def test_a_trial_gets_the_time_of_a_trial(bed: Kept) -> None:
    with keeping(bed, FAR_MS) as client:
        bed.keep(TIME_MS, trial_ms=700, every=1)
        start = time.monotonic()
        page(client, PAGE)
        assert ends(client)
        assert time.monotonic() - start >= 0.7


def test_one_idle_period_in_so_many_is_a_trial(bed: Kept) -> None:
    bed.keep(TIME_MS, trial_ms=FAR_MS, every=4)
    for _ in range(4):
        before = bed.idle().cut
        with contextlib.ExitStack() as stack:
            for client in [stack.enter_context(contextlib.closing(bed.connect())) for _ in range(12)]:
                page(client, PAGE)
            # Eleven trials of twelve: once in ten thousand runs.
            until(lambda: bed.idle().cut >= before + 2, "nothing was cut")  # noqa: B023
            time.sleep(5 * TIME_MS / 1000)
    # 48 periods, each a trial with probability 1/4: outside of 2 to 30 once in ten thousand runs.
    assert 2 <= 48 - bed.idle().cut <= 30, bed.idle()


def test_a_request_that_has_begun_is_waited_for(bed: Kept) -> None:
    with keeping(bed, FAR_MS) as client:
        page(client, PAGE)
        client.sendall(b"GET ")
        bed.keep(TIME_MS)
        time.sleep(5 * TIME_MS / 1000)
        assert page(client, PAGE, begun="GET ") == BODY.encode()


def test_a_first_request_is_waited_for(bed: Kept) -> None:
    with keeping(bed, TIME_MS) as client:
        time.sleep(5 * TIME_MS / 1000)
        assert page(client, PAGE) == BODY.encode()


def test_an_answer_that_takes_its_time_arrives_whole(bed: Kept) -> None:
    with keeping(bed, FAR_MS) as client:
        page(client, PAGE)
        client.sendall(b"GET /back/chunks HTTP/1.1\r\nHost: a\r\n\r\n")
        bed.keep(TIME_MS)
        got = bytearray()
        while not got.endswith(b"\r\n0\r\n\r\n"):
            got += (more := client.recv(4096))
            assert more, bytes(got)
        assert got.count(PIECE) == PIECES
        assert ends(client)
        until(lambda: bed.idle().cut == 1, "after a chunked answer nothing is under way")
        with contextlib.closing(bed.connect()) as late:
            assert page(late, "/back/late") == b"0 bytes"


def test_a_body_that_comes_slowly_is_waited_for(bed: Kept) -> None:
    with keeping(bed, FAR_MS) as client:
        page(client, PAGE)
        client.sendall(b"POST /back/ HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\n")
        bed.keep(TIME_MS)
        for _ in range(3):
            time.sleep(PAUSE_S)
            client.sendall(b"0123456789")
        got = b""
        while b"30 bytes" not in got:
            got += (more := client.recv(4096))
            assert more, got


def test_a_stream_of_events_arrives_whole(bed: Kept) -> None:
    with keeping(bed, FAR_MS) as client:
        page(client, PAGE)
        client.sendall(b"GET /back/events HTTP/1.1\r\nHost: a\r\n\r\n")
        bed.keep(TIME_MS)
        got = b""
        while got.count(PIECE) < PIECES:
            got += (more := client.recv(4096))
            assert more, got


def test_a_connection_that_speaks_another_protocol_is_left_alone(bed: Kept) -> None:
    upgrade = b"GET /back/ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with keeping(bed, FAR_MS) as client:
        page(client, PAGE)
        client.sendall(upgrade)
        bed.keep(TIME_MS)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += (more := client.recv(4096))
            assert more, head
        assert b" 101 " in head.split(b"\r\n")[0]
        for word in (b"one\n", b"two\n", b"three\n"):
            time.sleep(PAUSE_S)
            client.sendall(word)
            assert client.recv(4096) == word
        idle = bed.idle()
        assert (idle.cut, idle.intervals) == (0, 1), "only the page and the request to switch"


@pytest.mark.parametrize("mpm", MPMS)
def test_under_a_gate_the_slot_of_an_ended_connection_comes_back(mpm: Mpm) -> None:
    with (
        under_gate(mpm) as bed,
        contextlib.closing(bed.client("127.0.0.1")) as client,
        contextlib.closing(SharedFile(bed.run_dir.shared, write=True)) as file,
    ):
        file.set_keep_alive(KeepAlive(TIME_MS * 10**6, 0, 0, MODE_FIXED))
        assert fetched(client) == 200
        assert client.sock is not None and client.sock.recv(1) == b""
        until(lambda: in_service(bed) == 0, "the connection has a slot yet")
        assert file.idle().cut == 1


def test_where_there_is_doubt_a_connection_is_spared(bed: Kept) -> None:
    """A pipelined request is one; TLS hides whether anything is under way."""
    with keeping(bed, TIME_MS) as client:
        client.sendall(f"GET {PAGE} HTTP/1.1\r\nHost: a\r\n\r\n".encode() * 2)
        got = b""
        while got.count(b"HTTP/1.1 200") < 2 or not got.endswith(b"a page\n"):
            got += client.recv(65_536)
        time.sleep(5 * TIME_MS / 1000)
        page(client, PAGE)
        with contextlib.closing(bed.connect_tls()) as hidden:
            for _ in range(4):
                page(hidden, PAGE)
                time.sleep(3 * TIME_MS / 1000)
            page(hidden, PAGE)
        until(lambda: bed.idle().left == 1, "the client's end was not seen")
        idle = bed.idle()
        # Of the first connection one period; of the second those after its handshake: the last one if it was long.
        assert idle.cut == 0 and 3 <= idle.spared <= 6, idle
