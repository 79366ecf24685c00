"""Makes the kernel take a worker, never the server's first process, when the memory limit cannot be kept.

Many processes that fault at once under a limit may bring the kernel to kill although swap is left; by its own measure
the victim is often the parent of all, or a system call of the parent fails for want of memory. So every child is
marked as the one to take as soon as it is seen, as a container's engine marks what it can spare.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

FIRST = "1000"
PERIOD_S = 0.2


class Victims:
    """Watches the children of one process until closed.

    Args:
        pid: the process to spare.
    """

    def __init__(self, pid: int) -> None:
        self._children = Path(f"/proc/{pid}/task/{pid}/children")
        self._known: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-victims", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the watch; may be called twice."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(PERIOD_S):
            try:
                there = set(self._children.read_text(encoding="ascii").split())
            except OSError:
                return
            for child in there - self._known:
                with contextlib.suppress(OSError):
                    Path(f"/proc/{child}/oom_score_adj").write_text(FIRST, encoding="ascii")
            self._known = there
