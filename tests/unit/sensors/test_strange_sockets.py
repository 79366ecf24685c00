"""In a socket's name anybody may write what looks like lines about other sockets: it is not taken for them."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests._memory_plant import StillClock

from trimtab.errors import NotMeasured, UsageError
from trimtab.plants.mariadb.process import MariadbServer
from trimtab.plants.nginx.process import Master
from trimtab.plants.php_fpm.process import _listening
from trimtab.processes import start_of
from trimtab.sensors.unix_queue import UnixQueue

ME = os.getpid()
LISTENS, PLAIN = "00010000", "00000000"
CUT_SHORT = "b"


@contextlib.contextmanager
def named(lines: str) -> Iterator[None]:
    """A stranger's socket whose name goes on, after the end of its line in /proc/net/unix, with lines of his own."""
    with socket.socket(socket.AF_UNIX) as his:
        his.bind(f"\0{ME}\n{lines}")
        yield


def line(about: socket.socket, flags: str, name: str = "") -> str:
    """What /proc/net/unix would say about a socket."""
    return f"0: 2 0 {flags} 0001 01 {os.fstat(about.fileno()).st_ino} {name}".rstrip()


def target(of: socket.socket) -> str:
    return os.readlink(f"/proc/self/fd/{of.fileno()}")


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.fspath(tmp_path / "s"))
        made.listen()
        yield made


@pytest.fixture
def channel() -> Iterator[socket.socket]:
    """One end of a pair, as between a master and its child."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours


@pytest.mark.parametrize("forged", [True, False])
def test_a_listener_of_nginx_is_not_taken_for_a_channel_by_a_strangers_word(
    listener: socket.socket, channel: socket.socket, forged: bool
) -> None:
    with named(line(listener, PLAIN) if forged else CUT_SHORT):
        found = Master(ME, 1, Path("/usr/sbin/nginx"), (), os.geteuid()).accepting()
    assert target(listener) in found and target(channel) not in found


@pytest.mark.parametrize("forged", [True, False])
def test_a_channel_of_fpm_is_not_taken_for_a_listener_by_a_strangers_word(
    listener: socket.socket, channel: socket.socket, forged: bool
) -> None:
    with named(line(channel, LISTENS) if forged else CUT_SHORT):
        found = _listening(ME)
    assert target(listener) in found and target(channel) not in found


def mariadb() -> MariadbServer:
    """This process, as if it were one."""
    return MariadbServer(ME, start_of(ME) or 0, Path("/usr/sbin/mariadbd"), (), os.geteuid())


def test_mariadb_does_not_listen_where_a_stranger_says(channel: socket.socket) -> None:
    with named(line(channel, LISTENS, "/his.sock")), pytest.raises(UsageError, match="listens on no Unix socket"):
        mariadb().listen()


def test_mariadbs_socket_is_found_beside_a_name_of_two_lines(listener: socket.socket) -> None:
    with named(CUT_SHORT):
        assert mariadb().listen() == Path(listener.getsockname())


def test_the_queue_of_another_socket_is_not_measured_by_a_strangers_word() -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"\0{ME}-other")
        other.listen()
        with named(line(other, LISTENS, "/web.sock")), pytest.raises(NotMeasured, match="does not listen at /web"):
            UnixQueue("/web.sock", StillClock(), ME).length()
