"""Accept queues of listening sockets, asked of the kernel over netlink (sock_diag(7)).

For a listening socket the kernel gives its present backlog as `idiag_rqueue` and the largest as `idiag_wqueue`. A
lookup by address costs 2 us; a socket that shares its address with others (SO_REUSEPORT) can only be had
from a dump of all listening sockets of a port, which walks the kernel's table of them: 15 us where there are few.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from trimtab.errors import NotMeasured

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
TCP_LISTEN = 10
INET_DIAG_SKMEMINFO = 7
SK_MEMINFO_DROPS = 8

_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI")
_PORTS = struct.Struct(">HH")
_TAIL = struct.Struct("=IQ")
_MESSAGE = struct.Struct("=BBBB")
_QUEUE = struct.Struct("=II")
_ATTRIBUTE = struct.Struct("=HH")
_SEQUENCE = struct.Struct("=I")
_AT_SEQUENCE = 8
ANY_COOKIE = 0xFFFF_FFFF_FFFF_FFFF
_AT_ID = _HEADER.size + _MESSAGE.size
_AT_QUEUE = _AT_ID + 48 + 4
_AT_INODE = _AT_QUEUE + 12
_AT_ATTRIBUTES = _AT_QUEUE + 16
_EVERY = {"", "*"}
_FAMILIES = ((socket.AF_INET, bytes(4)), (socket.AF_INET6, bytes(16)))


@dataclass(frozen=True)
class Address:
    """Address of a listening socket: family (AF_INET or AF_INET6), packed address, port."""

    family: int
    packed: bytes
    port: int

    def wildcard(self) -> bool:
        """Whether it takes connections to any address."""
        return not any(self.packed)

    @property
    def host(self) -> str:
        """The address in words."""
        return str(ipaddress.ip_address(self.packed))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.family == socket.AF_INET6 else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Listening:
    """A listening socket as it was when asked.

    Args:
        address: where it listens.
        cookie: tells it from every other socket since boot.
        length: connections that wait to be accepted.
        limit: connections that may wait.
        drops: connection attempts it has refused so far; None where the kernel does not say.
        inode: its number, as in /proc/PID/fd.
    """

    address: Address
    cookie: int
    length: int
    limit: int
    drops: int | None
    inode: int


def request(address: Address, sequence: int, dump: bool) -> bytes:
    """One question: for the socket at an address, or (`dump`) for all that listen on its port (0: any) and family."""
    flags = NLM_F_REQUEST | (NLM_F_DUMP if dump else 0)
    body = _REQUEST.pack(address.family, socket.IPPROTO_TCP, 1 << (INET_DIAG_SKMEMINFO - 1), 1 << TCP_LISTEN)
    identity = _PORTS.pack(address.port, 0) + address.packed.ljust(16, b"\0") + bytes(16)
    body += identity + _TAIL.pack(0, ANY_COOKIE)
    return _HEADER.pack(_HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, flags, sequence, 0) + body


def listening(message: bytes | memoryview) -> Listening:
    """A listening socket from the message about it, header included."""
    family, _, _, _ = _MESSAGE.unpack_from(message, _HEADER.size)
    port, _ = _PORTS.unpack_from(message, _AT_ID)
    packed = bytes(message[_AT_ID + 4 : _AT_ID + (20 if family == socket.AF_INET6 else 8)])
    _, cookie = _TAIL.unpack_from(message, _AT_ID + 36)
    length, limit = _QUEUE.unpack_from(message, _AT_QUEUE)
    (inode,) = _SEQUENCE.unpack_from(message, _AT_INODE)
    return Listening(Address(family, packed, port), cookie, length, limit, _drops(message), inode)


def _drops(message: bytes | memoryview) -> int | None:
    at = _AT_ATTRIBUTES
    while at + _ATTRIBUTE.size <= len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        whole = _ATTRIBUTE.size + 4 * (SK_MEMINFO_DROPS + 1) <= size <= len(message) - at
        if kind == INET_DIAG_SKMEMINFO and whole:
            (drops,) = struct.unpack_from("=I", message, at + _ATTRIBUTE.size + 4 * SK_MEMINFO_DROPS)
            return int(drops)
        at += max(_ATTRIBUTE.size, (size + 3) & ~3)
    return None


class InetDiag:
    """A netlink socket in the network namespace of the thread that makes it.

    Raises:
        NotMeasured: this kernel has no sock_diag.
    """

    def __init__(self) -> None:
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG)
        except OSError as error:
            raise NotMeasured(f"netlink sock_diag: {error.strerror}; 'modprobe inet_diag tcp_diag'") from None
        self._socket.connect((0, 0))  # to the kernel alone: root of that namespace could send us answers of his own
        # The kernel answers at once; the bound is for a reply that was lost for want of memory. Set in the kernel:
        # Python's own timeout costs a poll before each call.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 1, 0))
        self._sequence = 0
        self._reply = bytearray(4096)

    def find(self, address: Address) -> Listening:
        """The one socket that listens at an address; of several, any.

        Raises:
            NotMeasured: none listens there.
        """
        for message in self.ask(bytearray(request(address, 0, dump=False)), str(address)):
            return listening(message)
        raise NotMeasured(f"nothing listens on {address}")

    def length(self, address: Address, question: bytearray) -> int:
        """Connections that wait at an address: as `find`, for a question made once by `request` and asked often.

        Raises:
            NotMeasured: none listens there.
        """
        self._sequence = self._sequence % 0x7FFF_FFFF + 1
        _SEQUENCE.pack_into(question, _AT_SEQUENCE, self._sequence)
        try:
            self._socket.send(question)
            while True:
                self._socket.recv_into(self._reply)
                _, kind, _, sequence, _ = _HEADER.unpack_from(self._reply)
                if sequence == self._sequence:
                    break
        except OSError as error:
            raise NotMeasured(f"netlink sock_diag for {address}: {error}") from None
        if kind == NLMSG_ERROR:
            raise _refused(memoryview(self._reply), str(address))
        length: int = _QUEUE.unpack_from(self._reply, _AT_QUEUE)[0]
        return length

    def on_port(self, address: Address) -> list[Listening]:
        """All sockets that listen on an address's port, of its family, at whatever address.

        Raises:
            NotMeasured: the kernel refuses to say.
        """
        return [listening(message) for message in self.ask(bytearray(request(address, 0, dump=True)), str(address))]

    def everywhere(self) -> list[Listening]:
        """All sockets that listen.

        Raises:
            NotMeasured: the kernel refuses to say.
        """
        return [one for family, anywhere in _FAMILIES for one in self.on_port(Address(family, anywhere, 0))]

    def matching(self, host: str, port: int) -> Counter[Address]:
        """How many sockets listen at each address that takes connections to this one.

        At "0.0.0.0" and "::" of one port two servers may listen, as nginx does at "[::]:80" for IPv6 alone.

        Args:
            host: an address; "" and "*" stand for every address, "0.0.0.0" and "::" where none listens at just that.
            port: the port.

        Raises:
            NotMeasured: none does, or the kernel refuses to say.
        """
        there = Counter(
            s.address for family, anywhere in _FAMILIES for s in self.on_port(Address(family, anywhere, port))
        )
        wanted = ipaddress.ip_address(host).packed if host not in _EVERY else None
        if exact := {a: n for a, n in there.items() if a.packed == wanted}:
            return Counter(exact)
        if wanted is not None and any(wanted):
            there = Counter({a: n for a, n in there.items() if a.wildcard()})
        if not there:
            raise NotMeasured(f"nothing listens on {host or '*'}:{port} in the server's network namespace")
        return there

    def close(self) -> None:
        """Closes the socket; may be called twice."""
        self._socket.close()

    def ask(self, question: bytearray, about: str) -> Iterator[memoryview]:
        """The messages that answer one question, each good until the next is taken.

        Args:
            question: the whole netlink message; its sequence number is set here.
            about: what it asks about, in words.

        Raises:
            NotMeasured: the kernel refuses to say, or there is no such socket.
        """
        self._sequence = self._sequence % 0x7FFF_FFFF + 1
        _SEQUENCE.pack_into(question, _AT_SEQUENCE, self._sequence)
        many = _HEADER.unpack_from(question)[2] & NLM_F_DUMP
        try:
            self._socket.send(question)
            while True:
                data = memoryview(self._socket.recv(1 << 16))
                while len(data) >= _HEADER.size:
                    size, kind, _, sequence, _ = _HEADER.unpack_from(data)
                    message, data = data[:size], data[(size + 3) & ~3 :]
                    if sequence != self._sequence:
                        continue
                    if kind == NLMSG_DONE:
                        return
                    if kind == NLMSG_ERROR:
                        raise _refused(message, about)
                    yield message
                    if not many:
                        return
        except OSError as error:
            raise NotMeasured(f"netlink sock_diag for {about}: {error}") from None


def _refused(message: memoryview, about: str) -> NotMeasured:
    (code,) = struct.unpack_from("=i", message, _HEADER.size)
    if -code == errno.ENOENT:
        return NotMeasured(f"nothing listens on {about}")
    return NotMeasured(f"netlink sock_diag for {about}: {os.strerror(-code)}")
