"""Lets a server that has reached its memory limit go on, slowly, where the kernel would kill it.

Under a limit with swap the kernel kills as soon as many processes fault at once, although swap is left, and often the
parent of all. Version 1 of control groups can make them wait instead, but wakes them only when somebody gives memory
back; when all wait, nobody does. So whenever they wait, the limit is raised for a moment, which wakes them, and put
back, which moves the excess to swap. Version 2 has no such switch.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from pathlib import Path

STEP_BYTES = 4 * 2**20
PAUSE_S = 0.01


class Relief:
    """Watches one memory group of version 1 until closed; costs nothing while memory suffices.

    Args:
        group: the group's directory.
        limit_bytes: its limit.

    Raises:
        OSError: this kernel offers no such switch or no notification.
    """

    def __init__(self, group: Path, limit_bytes: int) -> None:
        self._control = group / "memory.oom_control"
        self._limit = group / "memory.limit_in_bytes"
        self._limit_bytes = limit_bytes
        self._control.write_text("1", encoding="ascii")
        self._notice, self._stop = os.eventfd(0), os.eventfd(0)
        try:
            with self._control.open("rb") as control:
                text = f"{self._notice} {control.fileno()}"
                (group / "cgroup.event_control").write_text(text, encoding="ascii")
        except OSError:
            os.close(self._notice)
            os.close(self._stop)
            self._control.write_text("0", encoding="ascii")
            raise
        self._thread = threading.Thread(target=self._watch, name="memory-relief", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the watch; who waits then, waits until killed."""
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        os.close(self._notice)
        os.close(self._stop)

    def _watch(self) -> None:
        while True:
            ready, _, _ = select.select([self._notice, self._stop], [], [])
            if self._stop in ready:
                return
            os.eventfd_read(self._notice)
            while self._waiting() and not select.select([self._stop], [], [], PAUSE_S)[0]:
                self._relieve()

    def _waiting(self) -> bool:
        """Whether processes of the group wait for memory; a group that is gone has none."""
        with contextlib.suppress(OSError):
            return "under_oom 1" in self._control.read_text(encoding="ascii")
        return False

    def _relieve(self) -> None:
        with contextlib.suppress(OSError):
            self._limit.write_text(str(self._limit_bytes + STEP_BYTES), encoding="ascii")
        for _ in range(100):
            try:
                self._limit.write_text(str(self._limit_bytes), encoding="ascii")
                return
            except OSError:
                # Busy: what is above the limit cannot be swapped right now.
                time.sleep(PAUSE_S)
