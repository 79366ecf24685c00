"""Ends idle processes of Apache's prefork MPM that a smaller M leaves over, so that their memory is back at once.

prefork's child ends by itself on SIGUSR1, after the request in hand, as it does in a graceful restart; the parent
reads no configuration and begins new children only where fewer are idle than MinSpareServers says. Where the server
listens on several ports, idle children take turns to wait for connections, and end when their turn comes: with the
next connections. A child with a connection is left alone. Other servers and MPMs give SIGUSR1 other meanings, and
get none.
"""

from __future__ import annotations

import os
import signal

from trimtab import processes
from trimtab.core import Clock
from trimtab.errors import UsageError
from trimtab.processes import Process, identify

SPARE = 10
"""Processes that stay beyond M: Debian's MaxSpareServers. With fewer idle ones than MinSpareServers prefork begins
others at once, and the memory is gone again."""
PATIENCE_S = 5.0
"""Time in which children that serve someone may become idle; those that do not are left to MaxSpareServers."""
_PAUSE_S = 0.05
_PROGRAMS = ("apache2", "httpd")
_BEGINS = b"apr_proc_other_child_register"
"""The function by which a module has Apache look after a process of its own."""


def retired(server: int | None, limit: int, clock: Clock) -> int:
    """Ends idle children of a prefork server beyond a limit and `SPARE`, one by one.

    Args:
        server: its first process; None where it is not known.
        limit: M, the connections that it may hold.
        clock: for the pauses between looks.

    Returns:
        how many were told to end; 0 for a server that is not Apache's prefork, or has processes of modules.
    """
    if server is None or not _is_prefork(server) or _has_helpers(server):
        return 0
    told: set[Process] = set()
    deadline_s = clock.now_s() + PATIENCE_S
    while True:
        there = [child for pid in processes.children(server) if (child := identify(pid)) and child.alive()]
        surplus = len([child for child in there if child not in told]) - limit - SPARE
        if surplus <= 0:
            return len(told)
        for child in _idle(there):
            if surplus > 0 and child not in told and child.send(signal.SIGUSR1):
                told.add(child)
                surplus -= 1
        if surplus <= 0 or clock.now_s() >= deadline_s:
            return len(told)
        clock.sleep(_PAUSE_S)


def _is_prefork(server: int) -> bool:
    """Whether a process is Apache's, with children that serve one connection each."""
    program = processes.program_of(server)
    children = processes.children(server)
    if program is None or program.name not in _PROGRAMS or not children:
        return False
    same = all(processes.program_of(child) in (program, None) for child in children)
    return same and all(processes.threads_of(child) == 1 for child in children)


def _has_helpers(server: int) -> bool:
    """Whether a module may have begun a process beside the workers; so it is where that cannot be read."""
    lines = (line.split(maxsplit=5) for line in processes.maps(server))
    files = {parts[5] for parts in lines if len(parts) == 6}
    modules = [file for file in files if file.rpartition(b"/")[2].startswith(b"mod_")]
    return not modules or any(map(_begins_processes, modules))


def _begins_processes(module: bytes) -> bool:
    """Whether a module has the name of that function in it, or cannot be read, as after an upgrade."""
    try:
        with open(os.open(module, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return _BEGINS in file.read()
    except OSError:
        return True


def _idle(children: list[Process]) -> list[Process]:
    """Those that hold no connection: they have no more sockets than the one that has least."""
    try:
        held = {child: len(processes.descriptors(child.pid, "socket")) for child in children}
    except UsageError:
        return []
    alive = {child: count for child, count in held.items() if count}
    least = min(alive.values(), default=0)
    return [child for child, count in alive.items() if count == least]
