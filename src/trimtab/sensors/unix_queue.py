"""Sensor: how many connections wait at a listening Unix socket.

The kernel gives the length of the queue of a listening Unix socket as it does that of a TCP socket (`accept_queue`),
over netlink (sock_diag(7), UNIX_DIAG_RQLEN); asked for by the socket's inode it costs a few microseconds. It is
sampled and averaged over time by the trapezoidal rule, and the server is not touched. The kernel does not count the
connections that come, so their delay needs another source: with the requests per second of the server's own status
page, Little's law gives it (each plant's `derive`). Connections of a client that found the queue full are not seen.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from trimtab.core.sensor import Clock, Precedence, Sensor
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured, UsageError
from trimtab.processes import descriptors
from trimtab.sensors._metrics import ACCEPT_QUEUE_LENGTH
from trimtab.sensors._namespace import in_network_of
from trimtab.sensors._unix_diag import attributes, opened, question, require_no_error, unix_sockets

_QUEUE = struct.Struct("=II")
_SHOW_RQLEN = 0x10
_RQLEN = 4
_LISTENING = 1 << 10


class UnixQueue(Sensor):
    """The queue of one listening Unix socket.

    Args:
        path: where it listens.
        clock: the loop's clock.
        pid: the process that listens, for its network namespace and to tell its socket from others of that name.
        ours: how many of the connections that wait now are ours, which are not counted.
    """

    name = "unix-queue"
    metrics = (ACCEPT_QUEUE_LENGTH,)
    precedence = Precedence.SAMPLED
    sampling_period_s = 0.04

    def __init__(self, path: str, clock: Clock, pid: int, ours: Callable[[], int] = lambda: 0) -> None:
        self._ours = ours
        self._path = path
        self._clock = clock
        self._pid = pid
        self._inode = 0
        self._netlink: socket.socket | None = None
        self._began_s = self._last_s = self._area = 0.0
        self._length = 0

    def begin(self) -> None:
        """Marks the start of a window.

        Raises:
            NotMeasured: nothing listens there, or the kernel does not say.
        """
        self._length = max(0, self.length() - self._ours())
        self._began_s = self._last_s = self._clock.now_s()
        self._area = 0.0

    def sample(self) -> None:
        """Takes one sample of the length.

        Raises:
            NotMeasured: the listening socket is gone.
        """
        length, now_s = max(0, self.length() - self._ours()), self._clock.now_s()
        self._area += (self._length + length) / 2 * (now_s - self._last_s)
        self._length, self._last_s = length, now_s

    def read(self) -> Readings:
        """The mean length since `begin`.

        Raises:
            NotMeasured: the listening socket is gone, or no time has passed.
        """
        self.sample()
        elapsed_s = self._last_s - self._began_s
        if elapsed_s <= 0:
            raise NotMeasured("no time has passed since the window began")
        return {"accept_queue_length": self._area / elapsed_s}

    def length(self) -> int:
        """Connections that wait now, ours too.

        Raises:
            NotMeasured: nothing listens there, or the kernel does not say.
        """
        return self.waiting()[0]

    def waiting(self) -> tuple[int, int]:
        """Connections that wait now, ours too, and how many may.

        Raises:
            NotMeasured: nothing listens there, or the kernel does not say.
        """
        try:
            if self._netlink is None:
                self._inode = _listening(self._path, self._pid)
                self._netlink = in_network_of(self._pid, opened)
            self._netlink.send(question(_LISTENING, self._inode, _SHOW_RQLEN))
            return _answer(self._netlink.recv(1 << 12))
        except OSError as error:
            self.close()
            raise NotMeasured(f"the queue of {self._path}: {error.strerror or error}") from None

    def close(self) -> None:
        """Closes the descriptor; may be called twice."""
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None


def _listening(path: str, pid: int) -> int:
    """The inode of the socket that listens at a path and that a process holds.

    Raises:
        NotMeasured: there is none, or it may not be looked at.
    """
    try:
        held = descriptors(pid, "socket")
    except UsageError as error:
        raise NotMeasured(f"the sockets of pid {pid}: {error}") from None
    for one in unix_sockets(pid):
        if one.listens and one.name == path and one.target in held:
            return one.inode
    raise NotMeasured(f"pid {pid} does not listen at {path}")


def _answer(message: bytes) -> tuple[int, int]:
    """The length of the queue and the most that it holds, from the kernel's answer.

    Raises:
        OSError: it answers with an error, or without a length.
    """
    require_no_error(message)
    for name, value in attributes(message):
        if name == _RQLEN and len(value) >= _QUEUE.size:
            length, most = _QUEUE.unpack_from(value)
            return length, most
    raise OSError("this kernel does not say how many wait; 'modprobe unix_diag'")


SENSOR = UnixQueue
