"""A reply that comes in parts, late, or without end: it holds up no call, and one without end is none."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests._memory_plant import StillClock

from trimtab.errors import NotMeasured
from trimtab.observer import LONGEST_SLEEP_S
from trimtab.sensors import _status_page
from trimtab.sensors._polled_page import Polled

STEP_S, SAMPLING_S = 0.001, 0.04
MOST_STEPS = 1000
NEVER_S = 1e9


class Page(Polled[int]):
    """The length of a reply."""

    name = "length"

    def understood(self, reply: bytes) -> int:
        return len(reply)


class Server:
    """It sends one byte after the other; whoever waits for it does so on its clock.

    Args:
        path: where it listens.
        every_s: time that one waits for a byte.
        length: bytes of a reply; None for one without end.
    """

    def __init__(self, path: Path, every_s: float, length: int | None) -> None:
        self.address = (int(socket.AF_UNIX), str(path))
        self.clock = StillClock()
        self.every_s, self.length = every_s, length
        self.steps = 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.open = contextlib.ExitStack()
        self.open.callback(self.listener.close)


class Poll:
    """Waits for one connection, which is ready for a request at once."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.events = self.sent = 0
        self.peer: socket.socket | None = None

    def register(self, connection: object, events: int) -> None:
        self.events = events

    modify = register

    def poll(self, timeout_ms: float) -> list[int]:
        server = self.server
        server.steps += 1
        assert server.steps < MOST_STEPS, "one call goes on for ever"
        if self.events == select.POLLIN:
            if timeout_ms / 1000 < server.every_s:
                server.clock.seconds += timeout_ms / 1000
                return []
            server.clock.seconds += max(server.every_s, STEP_S)
            self.send()
        return [self.events]

    def send(self) -> None:
        if self.peer is None:
            self.peer = self.server.open.enter_context(self.server.listener.accept()[0])
            self.peer.recv(16)
        if self.sent == self.server.length:
            self.peer.close()
        else:
            self.sent += self.peer.send(b"x")


Serve = Callable[..., tuple[Page, Server]]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Serve]:
    """Starts a server; its page and the server."""
    with contextlib.ExitStack() as stack:

        def started(every_s: float, length: int | None = None, patience_s: float = 0.02) -> tuple[Page, Server]:
            server = Server(tmp_path / "socket", every_s, length)
            stack.callback(server.open.close)
            waits = SimpleNamespace(poll=lambda: Poll(server), POLLIN=select.POLLIN, POLLOUT=select.POLLOUT)
            monkeypatch.setattr(_status_page, "select", waits)
            page = Page([server.address], b"?", server.clock, patience_s)
            stack.callback(page.close)
            return page, server

        yield started


def test_an_address_for_which_the_machine_has_no_socket_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """With IPv6 switched off /etc/hosts may have ::1 for localhost all the same."""
    real = socket.socket

    def made(family: int, *rest: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, *rest)

    with real(socket.AF_INET) as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        port = bound.getsockname()[1]
        monkeypatch.setattr(socket, "socket", made)
        page = Page(
            [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port))], b"?", StillClock(), 0.1
        )
        with pytest.raises(NotMeasured, match="Address family not supported"):
            page.begin()


@pytest.mark.parametrize("every_s", [0.0, 0.015])
def test_a_server_that_always_has_one_more_byte_holds_up_no_call(serve: Serve, every_s: float) -> None:
    page, server = serve(every_s)
    for call in (page.begin, page.sample, page.sample, page.read):
        server.steps, began_s = 0, server.clock.seconds
        with contextlib.suppress(NotMeasured):
            call()
        assert server.clock.seconds - began_s < LONGEST_SLEEP_S
        server.clock.seconds += page.period_s


@pytest.mark.parametrize("every_s", [0.0, 0.015])
def test_a_reply_that_is_not_whole_ten_seconds_after_its_first_byte_is_none(serve: Serve, every_s: float) -> None:
    page, server = serve(every_s)
    page.begin()
    with pytest.raises(NotMeasured, match="not whole 10 s after its first byte"):
        while server.clock.seconds < 20:
            server.steps = 0
            page.sample()
            server.clock.seconds += SAMPLING_S
    assert 10 < server.clock.seconds < 11


def test_a_reply_that_has_not_begun_may_come_at_any_time_and_a_sample_does_not_wait_for_it(serve: Serve) -> None:
    page, server = serve(NEVER_S)
    page.begin()
    while (began_s := server.clock.seconds) < 60:
        server.steps = 0
        page.sample()
        assert server.clock.seconds == began_s
        server.clock.seconds += SAMPLING_S


def test_a_reply_whose_parts_have_come_is_taken_in_one_call_without_waiting(serve: Serve) -> None:
    page, _ = serve(0.0, length=7, patience_s=0.0)
    page.begin()
    assert page.latest() == 7
