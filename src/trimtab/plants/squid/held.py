"""Keeps the listening ports of a Squid open through its reload, so that no connection is lost by it.

Squid closes its listening sockets in a reload and opens them anew a moment later. What waited to be accepted is reset
then, and what comes in between is refused. While trimtab has the same sockets open too, they go on listening; once
Squid has its new ones, trimtab lets go, and the kernel hands what waits at the old ones to the new. That takes two
things of the operator's: `worker-queues` on every http_port and https_port (SO_REUSEPORT, without which Squid could
not open its ports beside the old ones), and net.ipv4.tcp_migrate_req = 1 (Linux 5.14).
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.plants.squid.process import SquidMaster
from trimtab.processes import not_permitted, opened

_PIDFD_GETFD = 438
"""pidfd_getfd(2), the same number on every architecture that has it but alpha."""
_MIGRATE = Path("/proc/sys/net/ipv4/tcp_migrate_req")


def hindrances(master: SquidMaster) -> list[str]:
    """Reasons why the ports cannot be kept open, each with a remedy; none when they can.

    Raises:
        UsageError: not permitted, or it listens nowhere just now.
    """
    worker, found = master.worker(), []
    try:
        if os.stat(f"/proc/{worker}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino:
            return ["Squid is in another network namespace"]
        with held(master) as sockets:
            if not sockets:
                raise UsageError("Squid listens nowhere just now, as in the middle of a reload by somebody else")
            if not all(one.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) for one in sockets):
                found.append("add 'worker-queues' to every http_port and https_port and reload Squid once")
        migrates = _MIGRATE.read_text(encoding="ascii").strip() == "1"
    except OSError as error:
        return [f"its sockets cannot be taken hold of: {error.strerror} (run as root, on Linux 5.14 or newer)"]
    if not migrates:
        found.append("set net.ipv4.tcp_migrate_req = 1 (sysctl)")
    return found


@contextmanager
def held(master: SquidMaster) -> Iterator[tuple[socket.socket, ...]]:
    """The listening sockets of its worker, open here too until the end.

    Raises:
        UsageError: not permitted.
        OSError: the kernel does not give them.
    """
    worker, names = master.worker(), master.ports()
    with ExitStack() as stack:
        process = os.pidfd_open(worker)
        stack.callback(os.close, process)
        yield tuple(stack.enter_context(_same(process, fd)) for fd in _numbers(worker, frozenset(names)))


def _numbers(pid: int, names: frozenset[str]) -> list[int]:
    """The descriptors by which a process holds these sockets.

    Raises:
        UsageError: not permitted.
    """
    try:
        return [number for number, target in opened(pid) if target in names]
    except OSError:
        raise not_permitted(pid, f"look into pid {pid}") from None


def _same(process: int, fd: int) -> socket.socket:
    """The socket that another process holds by a number.

    Raises:
        OSError: the kernel does not give it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    own = libc.syscall(_PIDFD_GETFD, process, fd, 0)
    if own < 0:
        number = ctypes.get_errno() or errno.EPERM
        raise OSError(number, os.strerror(number))
    return socket.socket(fileno=own)
