"""The queue of a listening Unix socket: a known number of connections is what the kernel says."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests._memory_plant import StillClock

from trimtab.errors import NotMeasured
from trimtab.sensors import unix_queue
from trimtab.sensors.unix_queue import UnixQueue


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.fspath(tmp_path / "s"))
        made.listen(16)
        yield made


def connected(listener: socket.socket, number: int) -> list[socket.socket]:
    made = [socket.socket(socket.AF_UNIX) for _ in range(number)]
    for one in made:
        one.connect(listener.getsockname())
    return made


def test_it_counts_what_waits_and_not_what_was_taken(listener: socket.socket) -> None:
    queue = UnixQueue(listener.getsockname(), StillClock(), os.getpid())
    assert queue.length() == 0
    waiting = connected(listener, 5)
    assert queue.length() == 5
    taken, _ = listener.accept()
    assert queue.length() == 4
    for one in (*waiting, taken):
        one.close()
    queue.close()
    queue.close()


def test_a_stranger_s_socket_whose_name_has_the_end_of_a_line_is_passed_over(
    listener: socket.socket, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as strange:
        strange.bind(os.fsencode(tmp_path) + b"/a\nb\r\x0bc\xff\xe2\x80\xa8d")
        queue = UnixQueue(listener.getsockname(), StillClock(), os.getpid())
        assert queue.length() == 0
        queue.close()


def test_the_mean_is_over_time_by_the_trapezoidal_rule(listener: socket.socket) -> None:
    clock = StillClock()
    queue = UnixQueue(listener.getsockname(), clock, os.getpid())
    queue.begin()
    clock.seconds = 1.0
    waiting = connected(listener, 4)
    queue.sample()
    clock.seconds = 3.0
    assert queue.read() == {"accept_queue_length": pytest.approx((2.0 * 1 + 4.0 * 2) / 3)}
    for one in waiting:
        one.close()
    queue.close()


def test_another_socket_that_has_had_the_same_path_is_not_taken_for_it(listener: socket.socket) -> None:
    path = listener.getsockname()
    os.unlink(path)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        waiting = connected_to = socket.socket(socket.AF_UNIX)
        other.listen(4)
        waiting.connect(path)
        with pytest.raises(NotMeasured, match=f"pid {os.getppid()} does not listen at"):
            UnixQueue(path, StillClock(), os.getppid()).length()
        connected_to.close()


def test_where_nothing_listens_it_is_not_measured_and_not_0(tmp_path: Path) -> None:
    queue = UnixQueue(os.fspath(tmp_path / "none"), StillClock(), os.getpid())
    with pytest.raises(NotMeasured, match="does not listen at"):
        queue.begin()


def test_a_listener_that_is_gone_is_said(listener: socket.socket) -> None:
    queue = UnixQueue(listener.getsockname(), StillClock(), os.getpid())
    queue.begin()
    listener.close()
    with pytest.raises(NotMeasured):
        queue.sample()


def test_a_kernel_that_cannot_be_asked_is_not_measured(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(pid: int, make: object) -> None:
        raise OSError(errno.EPROTONOSUPPORT, "no netlink")

    monkeypatch.setattr(unix_queue, "in_network_of", none)
    with pytest.raises(NotMeasured, match="no netlink"):
        UnixQueue(listener.getsockname(), StillClock(), os.getpid()).begin()
