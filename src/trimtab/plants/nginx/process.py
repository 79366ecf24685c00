"""The processes of a running nginx: the master and its workers.

A worker holds the master's listening sockets. One that was told to finish has closed them, and so have the processes
that look after a cache (`ngx_close_listening_sockets` in src/os/unix/ngx_process_cycle.c). So the children
that hold one are the workers that serve; those of before a reload are told to finish 100 ms after the new ones were
started.
"""

from __future__ import annotations

import re

from trimtab.plants import _master
from trimtab.processes import children, holds, program_of, start_of

_TITLE = "nginx: master process "

Worker = tuple[int, int]
"""Process id and start time in clock ticks since boot."""


class Master(_master.Master):
    """The master process of a running nginx."""

    title = "nginx"
    called = "nginx that has a master process"
    program = re.compile("nginx")

    @staticmethod
    def serves(argv: tuple[str, ...]) -> bool:
        """Whether a command line is a master's."""
        return argv[:1] != () and argv[0].startswith(_TITLE)

    @property
    def command(self) -> str:
        """The command line that it was started with; nginx keeps it as one text, after its title."""
        return self.argv[0].removeprefix(_TITLE).strip() if self.argv else ""


def serving(master: Master) -> frozenset[Worker]:
    """The workers that accept connections.

    Raises:
        UsageError: not permitted.
    """
    held = master.accepting()
    return frozenset(one for one in workers(master) if holds(one[0], held))


def workers(master: Master) -> frozenset[Worker]:
    """All children that run its program: workers that serve, those that finish, and those that look after a cache."""
    there = ((pid, start_of(pid)) for pid in children(master.pid) if program_of(pid) == master.exe)
    return frozenset((pid, start) for pid, start in there if start is not None)
