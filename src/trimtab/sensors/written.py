"""Sensor: bytes that the processes of a server write, its replies in the main, where it counts none itself.

| reading            | from                                                                                        |
|--------------------|---------------------------------------------------------------------------------------------|
| byte_rate_bytes_hz | wchar of /proc/PID/io, of the first process and its children / length of the window          |

That is what write, writev and sendfile took, to sockets, pipes and files alike; not what send and sendmsg did
(`add_wchar` in fs/read_write.c). So it serves for a server that replies by the first of these, as PHP-FPM does
(`fcgi_write` in main/fastcgi.c), with what its programs write besides: to logs, sessions and caches. What it wrote to
ourselves is subtracted. A child that has ended counts with its parent (`wait_task_zombie` in kernel/exit.c). Where a
child ends or begins while the others are read, all are read again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trimtab.core.sensor import Clock, Precedence
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured
from trimtab.processes import PROC, children, contents, start_of
from trimtab.sensors._counter_window import CounterWindow
from trimtab.sensors._metrics import BYTE_RATE

_TIMES = 3
"""How often all are read before it is given up, as they come and go faster than they are read."""


class Written(CounterWindow[int]):
    """The bytes that one server writes.

    Args:
        pid: its first process, the parent of its workers.
        clock: the loop's clock.
        ours: bytes that it has written to us so far.
        proc: where /proc is.
    """

    name = "written"
    precedence = Precedence.INFERRED
    metrics = (BYTE_RATE,)

    def __init__(self, pid: int, clock: Clock, ours: Callable[[], int] = lambda: 0, proc: Path = PROC) -> None:
        super().__init__(clock)
        self._ours = ours
        self._pid = pid
        self._proc = proc

    def state(self) -> int:
        """Bytes written to others by all that there are and have been.

        Raises:
            NotMeasured: the server is gone, they may not be read, or none stays long enough.
        """
        if start_of(self._pid, self._proc) is None:
            raise NotMeasured(f"pid {self._pid} has ended")
        for _ in range(_TIMES):
            there = children(self._pid, self._proc)
            written = self._sum((self._pid, *there))
            if written is not None and children(self._pid, self._proc) == there:
                return written - self._ours()
        raise NotMeasured(f"the processes of pid {self._pid} come and go faster than they are read")

    def differences(self, elapsed_s: float, first: int, last: int) -> Readings:
        """The readings of the window.

        Raises:
            NotMeasured: it is another server by now.
        """
        if last < first:
            raise NotMeasured("what the processes of the server have written so far has become less")
        return {BYTE_RATE.name: (last - first) / elapsed_s}

    def _sum(self, pids: tuple[int, ...]) -> int | None:
        """Bytes written by these; None where one has ended.

        Raises:
            NotMeasured: they may not be read.
        """
        written = 0
        for pid in pids:
            try:
                words = contents(f"{self._proc}/{pid}/io").split()
                written += int(words[words.index(b"wchar:") + 1])
            except PermissionError:
                raise NotMeasured(f"no permission to read what pid {pid} has written") from None
            except (OSError, ValueError, IndexError):
                return None
        return written


SENSOR = Written
