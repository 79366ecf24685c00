"""Idle periods of real connections, as the shim sees them on servers that wait in poll and in epoll."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from tests.servers._asking import page
from tests.servers._kept import PAGE, POLLING, SERVERS, Kept, kept
from tests.servers._under_gate import until
from trimtab.sensors._shared_file import Idle

pytestmark = [pytest.mark.server, pytest.mark.apache]
GAPS_S = (0.12, 0.32, 0.12)


@pytest.fixture(scope="module", params=SERVERS)
def running(request: pytest.FixtureRequest) -> Iterator[Kept]:
    """Each server, with more patience than any of these tests."""
    with kept(request.param) as bed:
        yield bed


@pytest.fixture
def bed(running: Kept) -> Kept:
    """One where nothing is counted yet."""
    running.begin()
    return running


@pytest.fixture(scope="module", params=SERVERS)
def running_hastily(request: pytest.FixtureRequest) -> Iterator[Kept]:
    """Each server, which ends a connection itself after a second."""
    with kept(request.param, keep_alive_ms=1000) as bed:
        yield bed


@pytest.fixture
def hasty(running_hastily: Kept) -> Kept:
    """One where nothing is counted yet."""
    running_hastily.begin()
    return running_hastily


def ask(connection: socket.socket, gaps_s: tuple[float, ...]) -> float:
    """A request, and one after each gap; what all of it took, in which the idle periods between them lie."""
    start = time.monotonic()
    page(connection, PAGE)
    for gap_s in gaps_s:
        time.sleep(gap_s)
        page(connection, PAGE)
    return time.monotonic() - start


def firsts(bed: Kept, number: int) -> bool:
    """Whether so many connections had a first answer; Apache wakes its listeners with requests that have one too."""
    return bed.idle().firsts == number if bed.server == "nginx" else bed.idle().firsts >= number


def in_steps(steps: dict[int, int], idle: Idle) -> bool:
    """Whether the histogram of request intervals agrees with their sum."""
    least_s = 0.05 * sum(step * number for step, number in steps.items())
    return least_s <= idle.interval_ns / 1e9 < least_s + 0.05 * sum(steps.values())


def over(bed: Kept, number: int) -> bool:
    """Whether so many idle periods ended otherwise than by a request."""
    idle = bed.idle()
    return idle.cut + idle.expired + idle.left == number


def test_each_request_interval_is_counted_once_and_with_its_length(bed: Kept) -> None:
    start = time.monotonic()
    with contextlib.closing(bed.connect()) as client:
        asked_s = ask(client, GAPS_S)
        time.sleep(0.2)
    until(lambda: over(bed, 1), "the client's end was not seen")
    all_s, idle = time.monotonic() - start, bed.idle()
    assert (idle.intervals, idle.left, idle.cut, idle.expired) == (3, 1, 0, 0)
    # The server may see a gap begin some moments after the client, and sees none longer than there was.
    assert 0.5 * sum(GAPS_S) <= idle.interval_ns / 1e9 <= asked_s
    assert idle.interval_ns / 1e9 + 0.1 <= idle.idle_ns / 1e9 <= all_s
    assert sum(bed.steps().values()) == 3 and in_steps(bed.steps(), idle)
    assert bed.ended() == (0, 1)
    assert idle.held_ns == (idle.idle_ns if bed.server in POLLING else 0)
    assert firsts(bed, 1) and idle.first_service_ns > 0


def test_a_period_that_the_server_itself_ends_is_censored(hasty: Kept) -> None:
    with contextlib.closing(hasty.connect()) as client:
        start = time.monotonic()
        page(client, PAGE)
        assert client.recv(1) == b""
        until(lambda: over(hasty, 1), "the server's end was not seen")
        idle = hasty.idle()
        assert (idle.intervals, idle.left, idle.cut, idle.expired, idle.spared) == (0, 0, 0, 1, 0)
        assert 0.5 <= idle.idle_ns / 1e9 <= time.monotonic() - start
        assert hasty.ended() == (1, 0)
        assert idle.server_ms == (1000 if hasty.server in POLLING else 0)


def test_a_connection_that_is_closed_after_its_answer_was_never_idle(bed: Kept) -> None:
    for _ in range(3):
        with contextlib.closing(bed.connect()) as client:
            page(client, PAGE, last=True)
            assert client.recv(1) == b""
    with contextlib.closing(bed.connect()) as client:
        ask(client, GAPS_S[:1])
    until(lambda: over(bed, 1), "the client's end was not seen")
    idle = bed.idle()
    assert (idle.intervals, idle.left, idle.expired) == (1, 1, 0)
    assert firsts(bed, 4)


def test_over_tls_requests_are_told_from_the_handshake(bed: Kept) -> None:
    """The period after the first request may be missed: the handshake's last words look like a request."""
    with contextlib.closing(bed.connect_tls()) as client:
        time.sleep(1.5)
        asked_s = ask(client, (0.12,) * 5)
    until(lambda: over(bed, 1), "the client's end was not seen")
    steps, idle = bed.steps(), bed.idle()
    assert sum(steps.values()) in (4, 5) and in_steps(steps, idle), steps
    # The wait after the handshake is none of them.
    assert idle.interval_ns / 1e9 <= asked_s
    assert (idle.left, idle.expired) == (1, 0)
    assert firsts(bed, 1)
    with contextlib.closing(bed.connect_tls()):
        time.sleep(0.2)
    with contextlib.closing(bed.connect()) as client:
        page(client, PAGE)
    until(lambda: over(bed, 2), "the client's end was not seen")
    assert bed.idle().intervals == idle.intervals, "a handshake without a request"


def test_over_tls_a_period_that_the_server_itself_ends_is_censored(hasty: Kept) -> None:
    with contextlib.closing(hasty.connect_tls()) as client:
        start = time.monotonic()
        ask(client, (0.05,) * 4)
        assert client.recv(1) == b""
        until(lambda: over(hasty, 1), "the server's end was not seen")
        idle = hasty.idle()
        assert (idle.left, idle.cut, idle.expired) == (0, 0, 1)
        assert 0.5 <= (idle.idle_ns - idle.interval_ns) / 1e9 <= time.monotonic() - start
