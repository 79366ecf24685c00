"""The Unix sockets of a network namespace, asked of the kernel over netlink (sock_diag(7)).

/proc/net/unix has the names of sockets as they are, and everybody may put the end of a line into his: what looks like
a line of it may be a stranger's words. Over netlink each field is apart. That file is read only where a kernel is
without unix_diag, or the namespace may not be entered.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import NotMeasured
from trimtab.sensors._inet_diag import (
    NETLINK_SOCK_DIAG,
    NLM_F_DUMP,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    SOCK_DIAG_BY_FAMILY,
)
from trimtab.sensors._namespace import in_network_of

ANY = 0xFFFF_FFFF
HEADER = struct.Struct("=IHHII")
MESSAGE = struct.Struct("=BBBBIII")
ATTRIBUTE = struct.Struct("=HH")
_REQUEST = struct.Struct("=BBHIIIII")
_LISTENS = 10
_NAME, _SHOW_NAME = 0, 0x1
_MOST_BYTES = 1 << 16
_FLAG_ACCEPTS = 0x10000
"""__SO_ACCEPTCON in /proc/net/unix: it listens."""


@dataclass(frozen=True)
class UnixSocket:
    """One Unix socket.

    Args:
        inode: its number, as in /proc/PID/fd.
        kind: such as `socket.SOCK_STREAM`.
        listens: whether it takes connections.
        name: its path; an abstract one begins with a zero byte, and one without a name has an empty one.
    """

    inode: int
    kind: int
    listens: bool
    name: str

    @property
    def target(self) -> str:
        """What a descriptor of it is a link to."""
        return f"socket:[{self.inode}]"


def unix_sockets(pid: int) -> tuple[UnixSocket, ...]:
    """The Unix sockets in the network namespace of a process; none when it is gone.

    Args:
        pid: the process.
    """
    try:
        netlink = in_network_of(pid, opened)
        with netlink:
            return tuple(_answered(netlink))
    except (NotMeasured, OSError):
        return tuple(_written(pid))


def opened() -> socket.socket:
    """A netlink socket in the network namespace of the thread that makes it; an answer has a second.

    Raises:
        OSError: this kernel has none.
    """
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 1, 0))
    made.connect((0, 0))  # to the kernel alone: root of that namespace could send us answers of his own
    return made


def question(states: int, inode: int, show: int, dump: bool = False) -> bytes:
    """A question for the socket of an inode, or (`dump`) for all of them.

    Args:
        states: bits of the states that count.
        inode: the socket's.
        show: bits of the attributes that are wanted.
        dump: whether all are wanted.
    """
    body = _REQUEST.pack(socket.AF_UNIX, 0, 0, states, inode, show, ANY, ANY)
    flags = NLM_F_REQUEST | (NLM_F_DUMP if dump else 0)
    return HEADER.pack(HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, flags, 1, 0) + body


def attributes(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and value of each attribute of a message about a socket, header included."""
    at = HEADER.size + MESSAGE.size
    while at + ATTRIBUTE.size <= len(message):
        taken, name = ATTRIBUTE.unpack_from(message, at)
        yield name & 0x3FFF, message[at + ATTRIBUTE.size : at + taken]
        at += max(ATTRIBUTE.size, (taken + 3) & ~3)


def require_no_error(message: bytes) -> None:
    """Makes sure that a message is not the kernel's word for an error.

    Raises:
        OSError: it is.
    """
    if HEADER.unpack_from(message)[1] == NLMSG_ERROR:
        (code,) = struct.unpack_from("=i", message, HEADER.size)
        raise OSError(-code, os.strerror(-code))


def _answered(netlink: socket.socket) -> Iterator[UnixSocket]:
    """All sockets, from the kernel's answer.

    Raises:
        OSError: it answers with an error, or not in time.
    """
    netlink.send(question(ANY, 0, _SHOW_NAME, dump=True))
    while True:
        data = netlink.recv(_MOST_BYTES)
        while len(data) >= HEADER.size:
            size, kind, _, _, _ = HEADER.unpack_from(data)
            message, data = data[:size], data[max(HEADER.size, (size + 3) & ~3) :]
            require_no_error(message)
            if kind == NLMSG_DONE:
                return
            _, what, state, _, inode, _, _ = MESSAGE.unpack_from(message, HEADER.size)
            name = next((value for number, value in attributes(message) if number == _NAME), b"")
            path = name if name[:1] == b"\0" else name.rstrip(b"\0")
            yield UnixSocket(inode, what, state == _LISTENS, os.fsdecode(path))


def _written(pid: int) -> Iterator[UnixSocket]:
    """All sockets as /proc/net/unix has them, less what is no line of it; a zero byte in a name is "@" there."""
    try:
        rows = os.fsdecode(Path(f"/proc/{pid}/net/unix").read_bytes()).split("\n")[1:]
    except OSError:
        return
    for row in rows:
        fields = [*row.split(maxsplit=7), ""][:8]
        try:
            yield UnixSocket(int(fields[6]), int(fields[4], 16), bool(int(fields[3], 16) & _FLAG_ACCEPTS), fields[7])
        except (IndexError, ValueError):  # somebody has put the end of a line into his socket's name
            continue
