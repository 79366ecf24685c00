"""A socket on which every answer ends in time and has a size.

PyMySQL's own timeout is for each read alone, and it reads on for as long as rows come: a peer that sends a byte every
few seconds, or never ends, would hold trimtab for ever or take all memory.
"""

from __future__ import annotations

import io
import socket
from typing import Any

from trimtab.core import Clock

_MOST_BYTES = 1 << 20
"""For one answer; those to our questions have a few KiB."""


class Bounded(io.RawIOBase):
    """A connected socket, as PyMySQL uses one.

    Args:
        link: the socket.
        clock: for the time that is left.
        deadline_s: when the first answer must have come, in seconds on this clock.
    """

    def __init__(self, link: socket.socket, clock: Clock, deadline_s: float) -> None:
        super().__init__()
        self._link = link
        self._clock = clock
        self.begin(deadline_s)

    def begin(self, deadline_s: float) -> None:
        """Another answer is waited for from now on.

        Args:
            deadline_s: when it must have come, in seconds on the clock.
        """
        self._deadline_s = deadline_s
        self._left_bytes = _MOST_BYTES

    def makefile(self, mode: str) -> io.BufferedReader:
        """What comes, as a file to read."""
        assert mode == "rb"
        return io.BufferedReader(self)

    def settimeout(self, timeout_s: float | None) -> None:
        """Does nothing: the deadline holds in place of PyMySQL's timeout."""

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Reads what has come.

        Args:
            buffer: where to.

        Returns:
            The number of bytes; 0 at the end.

        Raises:
            OSError: the time is over, or there was too much of one answer.
        """
        if not self._left_bytes:
            raise OSError(f"more than {_MOST_BYTES} bytes in one answer")
        self._wait_no_longer()
        count = self._link.recv_into(buffer, min(len(buffer), self._left_bytes))
        self._left_bytes -= count
        return count

    def sendall(self, data: bytes) -> None:
        """Sends all of it.

        Raises:
            OSError: the time is over, or the other end is gone.
        """
        self._wait_no_longer()
        self._link.sendall(data)

    def close(self) -> None:
        """Closes the socket; may be called twice."""
        self._link.close()
        super().close()

    def _wait_no_longer(self) -> None:
        """Has the socket wait until the deadline at most.

        Raises:
            TimeoutError: it is over.
        """
        left_s = self._deadline_s - self._clock.now_s()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._link.settimeout(left_s)
