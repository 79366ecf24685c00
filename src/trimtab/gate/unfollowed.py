"""Says when a server listens by a process in which the shim is not, though it was in the program that was started.

Such as a Go program that a script executes, or one that does not see the run directory: its clients are served as
without trimtab, and no class holds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection

from trimtab import processes
from trimtab.core import Clock
from trimtab.errors import UsageError
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.server import belongs
from trimtab.sensors._tcp_listeners import listeners

PATIENCE_S = 10.0
"""Time in which a server may begin to listen; one look for a whole run."""


class Unfollowed:
    """Looks once.

    Args:
        run_dir: the run directory.
        server: the server's first process.
        ports: those that are gated or measured; none for all.
        clock: says when it is time.
        say: takes one line for the operator.
    """

    def __init__(
        self, run_dir: RunDirectory, server: int, ports: Collection[int], clock: Clock, say: Callable[[str], None]
    ) -> None:
        self._run_dir, self._server, self._ports = run_dir, server, ports
        self._clock, self._say = clock, say
        self._due_s: float | None = clock.now_s() + PATIENCE_S

    def watch(self) -> None:
        """Looks when it is time."""
        if self._due_s is None or self._clock.now_s() < self._due_s:
            return
        self._due_s = None
        with contextlib.suppress(OSError):  # no room to look: the server and its gate go on
            self._look()

    def _look(self) -> None:
        for pid in processes.family(self._server):
            port = self._port_of(pid)
            if port is None or belongs(self._run_dir, pid):
                continue
            if self._port_of(pid) == port:  # else it has ended, and had nothing mapped any more
                self._say(
                    f"pid {pid} listens on port {port} and has not loaded the shim (it is statically linked, or does "
                    f"not see {self._run_dir.directory}): its clients are served, but neither measured nor put into "
                    "classes"
                )
                return

    def _port_of(self, pid: int) -> int | None:
        """A port of ours on which a process listens; None for none, or when that may not be seen."""
        with contextlib.suppress(UsageError, OSError):
            return next((port for _, port in listeners(pid) if not self._ports or port in self._ports), None)
        return None
