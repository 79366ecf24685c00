"""The TCP sockets that listen in a network namespace, asked of the kernel over netlink (sock_diag(7)).

/proc/net/tcp has all connections in it, those that are over too: with 3,600 of these a look at it took 0.1 s. It is
read only where a kernel is without inet_diag, or the namespace may not be entered.
"""

from __future__ import annotations

import contextlib
import ipaddress
import struct

from trimtab.errors import NotMeasured
from trimtab.processes import descriptors, sockets
from trimtab.sensors._inet_diag import InetDiag
from trimtab.sensors._namespace import in_network_of

_LISTENS = "0A"
"""TCP_LISTEN in /proc/net/tcp."""

Listener = tuple[str, int]
"""Address and port of a listening TCP socket."""


def listening(pid: int) -> dict[str, Listener]:
    """The TCP sockets that listen in the network namespace of a process: kernel name to address and port.

    Args:
        pid: the process.
    """
    try:
        with contextlib.closing(in_network_of(pid, InetDiag)) as netlink:
            found = netlink.everywhere()
    except NotMeasured:
        return _written(pid)
    return {f"socket:[{one.inode}]": (one.address.host, one.address.port) for one in found}


def listeners(pid: int) -> tuple[Listener, ...]:
    """The TCP addresses on which a process listens, from its own sockets.

    Raises:
        UsageError: not permitted.
    """
    held = descriptors(pid, "socket")
    return tuple(sorted({address for name, address in listening(pid).items() if name in held}))


def _written(pid: int) -> dict[str, Listener]:
    """The same, as the kernel's file has them."""
    rows = (row for row in sockets(pid, "tcp", "tcp6") if row[3] == _LISTENS)
    return {f"socket:[{row[9]}]": _address(row[1]) for row in rows}


def _address(text: str) -> Listener:
    """An address and port of /proc/net/tcp, which prints 32-bit words in the machine's byte order."""
    address, _, port = text.partition(":")
    words = [int(address[i : i + 8], 16) for i in range(0, len(address), 8)]
    return str(ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))), int(port, 16)
