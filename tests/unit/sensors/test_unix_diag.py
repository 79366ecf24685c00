"""The Unix sockets of a network: what netlink says is what the file says, and names are whole."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests._stranger import needs_root

from trimtab.errors import NotMeasured
from trimtab.sensors import _unix_diag
from trimtab.sensors._unix_diag import UnixSocket, attributes, opened, question, require_no_error, unix_sockets

ME = os.getpid()
NO_PROCESS = 1 << 30
DONE = struct.pack("=IHHIIi", 20, 3, 2, 1, 0, 0)


def about(inode: int, name: bytes | None = None, state: int = 1, kind: int = socket.SOCK_STREAM) -> bytes:
    """The kernel's message about a socket, with the bytes that fill it up."""
    body = struct.pack("=BBBBIII", socket.AF_UNIX, kind, state, 0, inode, 7, 8)
    body += struct.pack("=HHB3x", 5, 6, 0)  # another attribute first, of one byte
    if name is not None:
        body += struct.pack("=HH", 4 + len(name), 0) + name
    whole = struct.pack("=IHHII", 16 + len(body), 20, 2, 1, 0) + body
    return whole + bytes(-len(whole) % 4)


def refusal(code: int) -> bytes:
    return struct.pack("=IHHIIi", 36, 2, 0, 1, 0, -code) + bytes(16)


class Kernel:
    """A netlink socket with a script of answers."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = iter(answers)
        self.asked = b""

    def send(self, message: bytes) -> None:
        self.asked += message

    def recv(self, size: int) -> bytes:
        return next(self._answers)[:size]


def answered(*answers: bytes) -> list[UnixSocket]:
    kernel: Any = Kernel(*answers)
    return list(_unix_diag._answered(kernel))


@pytest.fixture
def sockets(tmp_path: Path) -> Iterator[dict[str, socket.socket]]:
    """A listening one with a path, one of packets with an abstract name of two lines, and one without a name."""
    made = {
        "path": socket.socket(socket.AF_UNIX),
        "abstract": socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET),
        "bare": socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
    }
    made["path"].bind(os.fspath(tmp_path / "s"))
    made["path"].listen()
    made["abstract"].bind(f"\0{ME} a\nb\udcff\0")
    yield made
    for one in made.values():
        one.close()


def inodes(sockets: dict[str, socket.socket]) -> dict[int, str]:
    return {os.fstat(made.fileno()).st_ino: name for name, made in sockets.items()}


def test_each_socket_is_there_with_its_kind_and_its_whole_name(
    sockets: dict[str, socket.socket], tmp_path: Path
) -> None:
    ours = inodes(sockets)
    found = {ours[one.inode]: one for one in unix_sockets(ME) if one.inode in ours}
    assert {name: (one.kind, one.listens, one.name) for name, one in found.items()} == {
        "path": (socket.SOCK_STREAM, True, os.fspath(tmp_path / "s")),
        "abstract": (socket.SOCK_SEQPACKET, False, f"\0{ME} a\nb\udcff\0"),
        "bare": (socket.SOCK_DGRAM, False, ""),
    }
    assert found["bare"].target == os.readlink(f"/proc/self/fd/{sockets['bare'].fileno()}")


@pytest.mark.parametrize(
    "fails", [NotMeasured("it may not be entered"), OSError(errno.EPROTONOSUPPORT, "no netlink")], ids=repr
)
def test_where_the_kernel_cannot_be_asked_the_file_says_the_same_less_what_is_no_line(
    sockets: dict[str, socket.socket], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: Exception
) -> None:
    def refused(pid: int, make: Callable[[], object]) -> object:
        raise fails

    ours = inodes(sockets)
    asked = {one.inode: one for one in unix_sockets(ME) if one.inode in ours}
    monkeypatch.setattr(_unix_diag, "in_network_of", refused)
    read = {one.inode: one for one in unix_sockets(ME) if one.inode in ours}
    assert [(one.inode, one.kind, one.listens) for one in asked.values()] == [
        (one.inode, one.kind, one.listens) for one in (read[inode] for inode in asked)
    ]
    assert {ours[inode]: one.name for inode, one in read.items()} == {
        "path": os.fspath(tmp_path / "s"),
        "abstract": f"@{ME} a",
        "bare": "",
    }


def test_a_process_that_is_gone_has_none() -> None:
    assert unix_sockets(NO_PROCESS) == ()


def test_an_answer_in_several_parts_is_read_to_its_end() -> None:
    parts = (about(1, b"/a\0", 10) + about(2, b"\0a\nb\0"), about(3, kind=socket.SOCK_SEQPACKET), DONE + about(4))
    assert answered(*parts) == [
        UnixSocket(1, socket.SOCK_STREAM, True, "/a"),
        UnixSocket(2, socket.SOCK_STREAM, False, "\0a\nb\0"),
        UnixSocket(3, socket.SOCK_SEQPACKET, False, ""),
    ]


def test_a_refusal_is_an_error_with_its_number() -> None:
    with pytest.raises(FileNotFoundError):
        answered(about(1), refusal(errno.ENOENT))
    with pytest.raises(PermissionError):
        require_no_error(refusal(errno.EPERM))
    require_no_error(about(1))


def test_attributes_that_are_cut_short_or_have_no_size_end() -> None:
    assert list(attributes(about(1, b"abcde"))) == [(6, b"\0"), (0, b"abcde")]
    assert list(attributes(about(1) + struct.pack("=HH", 9, 0) + b"abc")) == [(6, b"\0"), (0, b"abc")]
    assert list(attributes(about(1) + struct.pack("=HHHH", 0, 1, 0, 2))) == [(6, b"\0"), (1, b""), (2, b"")]


def test_a_question_is_for_one_socket_or_for_all() -> None:
    one, everything = question(1 << 10, 77, 0x10), question(0xFFFF_FFFF, 0, 1, dump=True)
    assert struct.unpack("=IHHIIBBHIIIII", one) == (40, 20, 1, 1, 0, 1, 0, 0, 1 << 10, 77, 0x10, 2**32 - 1, 2**32 - 1)
    assert struct.unpack_from("=IHH", everything) == (40, 20, 0x301)


@needs_root
def test_an_answer_of_somebody_elses_does_not_reach_us() -> None:
    with opened() as netlink, socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as other:
        number, _ = netlink.getsockname()
        with pytest.raises(ConnectionRefusedError):
            other.sendto(about(1, b"/his.sock\0", 10) + DONE, (number, 0))
