"""Connections that have entered the accept queues of some ports, counted by the kernel.

There are two sources, and each may count too much but never too little, so the smaller of the two is taken:

- `Ports`: a perf counter on the tracepoint sock:inet_sock_set_state, filtered to the step from SYN_RECV to
  ESTABLISHED on these ports. It is exact unless another network namespace uses the same port. It needs CAP_PERFMON
  or root; the counter ends with its descriptors and nothing is set up that would outlive them.
- `Namespace`: PassiveOpens of /proc/<pid>/net/snmp. It needs no permission, and counts the connections to every other
  listening socket of the server's network namespace too.

Both count at the moment at which the kernel makes the child socket and appends it to the accept queue: on the third
packet of the handshake, or with TCP_DEFER_ACCEPT (Apache sets it) on the first data. An attempt that finds the
queue full is in neither.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from trimtab.errors import NotMeasured
from trimtab.sensors._kernel_file import KernelFile, counter
from trimtab.sensors._namespace import with_tracefs

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
PERF_TYPE_TRACEPOINT = 2
PERF_ATTR_SIZE_VER0 = 64
PERF_FLAG_FD_CLOEXEC = 8
PERF_EVENT_IOC_SET_FILTER = 0x4008_2406
TCP_ESTABLISHED, TCP_SYN_RECV = 1, 3

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class Namespace:
    """Connections to all listening sockets in the network namespace of a process.

    Args:
        pid: the process.

    Raises:
        NotMeasured: its counters cannot be opened.
    """

    def __init__(self, pid: int) -> None:
        self._file = KernelFile(Path(f"/proc/{pid}/net/snmp"))

    def count(self) -> int:
        """Connections so far.

        Raises:
            NotMeasured: the process is gone.
        """
        return counter(self._file.read(), b"Tcp", b"PassiveOpens")

    def close(self) -> None:
        """Closes the file; may be called twice."""
        self._file.close()


class Ports:
    """Connections to some ports, of any listener.

    Args:
        ports: the ports.

    Attributes:
        cpus: the CPUs that were on when it was made, as far as is told here.

    Raises:
        NotMeasured: the counter cannot be had, with the reason.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self.cpus: set[int] = set()
        self._fds: list[int] = []
        number = _PERF_EVENT_OPEN.get(platform.machine())
        if number is None:
            raise NotMeasured(f"perf counters are not known on {platform.machine()}")
        try:
            event = with_tracefs(lambda d: int((d / "events/sock/inet_sock_set_state/id").read_text("ascii")))
        except OSError as error:
            raise NotMeasured(f"the tracepoint of TCP states cannot be read: {error.strerror}") from None
        attributes = struct.pack("=IIQ", PERF_TYPE_TRACEPOINT, PERF_ATTR_SIZE_VER0, event)
        buffer = ctypes.create_string_buffer(attributes, PERF_ATTR_SIZE_VER0)
        try:
            self.cpus = _online()
            # All that there may be: a container of LXC is told that its own alone are on (lxcfs), and connections
            # come to the others too.
            for cpu in sorted(_possible()):
                fd = _libc.syscall(number, buffer, -1, cpu, -1, ctypes.c_ulong(PERF_FLAG_FD_CLOEXEC))
                if fd < 0 and ctypes.get_errno() == errno.ENODEV:  # it is off
                    continue
                if fd < 0:
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
                self._fds.append(fd)
                _filter(fd, ports)
        except OSError as error:
            self.close()
            raise NotMeasured(f"perf counter of connections: {error.strerror}") from None

    def count(self) -> int:
        """Connections since this counter was made."""
        return sum(int.from_bytes(os.read(fd, 8), "little") for fd in self._fds)

    def close(self) -> None:
        """Ends the counter; may be called twice."""
        while self._fds:
            os.close(self._fds.pop())

    def __del__(self) -> None:
        self.close()


class Visitor(Protocol):
    """A part of trimtab that connects to the server itself."""

    @property
    def port(self) -> int:
        """The port it connects to."""
        ...

    @property
    def connections(self) -> int:
        """Connections it has made so far."""
        ...

    @property
    def received_bytes(self) -> int:
        """Bytes of the replies so far."""
        ...

    @property
    def own_s(self) -> float:
        """Time that a server takes for one of its requests; 0 where it is not known, or next to nothing."""
        ...

    def ours(self) -> int:
        """Those of its connections that wait now to be served."""
        ...


class Arrivals:
    """Connections that enter the accept queues of a server, without those of trimtab.

    Args:
        ports: where the server listens.
        pid: a process of the server.
        visitor: whose connections are ours; None when there is none.

    Attributes:
        source: where the count is from, in words.

    Raises:
        NotMeasured: neither source can be read.
    """

    def __init__(self, ports: Sequence[int], pid: int, visitor: Visitor | None) -> None:
        self._namespace = Namespace(pid)
        self._watched = tuple(ports)
        self._visitor = visitor
        self._ours_there = visitor is not None and visitor.port in ports
        self._ports: Ports | None = None
        self._count_ports()
        self._mark = self._counts()

    def mark(self) -> None:
        """Counts from here, also on CPUs that were added since: a counter is of those that there were."""
        if self._ports is not None and self._ports.cpus != _online():
            self._ports.close()
            self._count_ports()
        self._mark = self._counts()

    def since_mark(self) -> int:
        """Connections since `mark`.

        Raises:
            NotMeasured: the process is gone.
        """
        everywhere, here, ours = (now - then for now, then in zip(self._counts(), self._mark, strict=True))
        everywhere -= ours
        if self._ports is None:
            return max(0, everywhere)
        return max(0, min(everywhere, here - (ours if self._ours_there else 0)))

    def close(self) -> None:
        """Closes descriptors; may be called twice."""
        self._namespace.close()
        if self._ports is not None:
            self._ports.close()

    def _count_ports(self) -> None:
        """Opens the counter on the ports, if it can be had."""
        self._ports = None
        try:
            self._ports = Ports(self._watched)
            self.source = f"tracepoint sock:inet_sock_set_state on {', '.join(map(str, self._watched))}"
        except NotMeasured as error:
            self.source = f"PassiveOpens of the network namespace, all its ports ({error})"

    def _counts(self) -> tuple[int, int, int]:
        """Connections so far: in the namespace, on the ports, and ours."""
        here = self._ports.count() if self._ports is not None else 0
        return self._namespace.count(), here, self._visitor.connections if self._visitor is not None else 0


def _filter(fd: int, ports: Sequence[int]) -> None:
    """Restricts a counter to connections that are established on these ports."""
    any_port = "||".join(f"sport=={port}" for port in ports)
    text = f"({any_port})&&oldstate=={TCP_SYN_RECV}&&newstate=={TCP_ESTABLISHED}"
    fcntl.ioctl(fd, PERF_EVENT_IOC_SET_FILTER, bytearray(text.encode() + b"\0"))


def _online() -> set[int]:
    """The CPUs that are online, as far as is told here."""
    return cpus(Path("/sys/devices/system/cpu/online").read_text(encoding="ascii"))


def _possible() -> set[int]:
    """The CPUs that there could be."""
    return cpus(Path("/sys/devices/system/cpu/possible").read_text(encoding="ascii"))


def cpus(text: str) -> set[int]:
    """The CPUs in a list such as "0-3,8"; empty for an empty list."""
    found: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    return found
