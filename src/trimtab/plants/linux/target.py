"""The servers whose threads are moved: by the name of their program, by process id, by control group.

A name alone may be anybody's, so what is found by it must be this user's own server, looked at as any other
(`_vetted`). A process id is the operator's word for that very process; whose it is does not matter then, because
nothing of it is run or read but what the kernel itself says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import PlantGone, UsageError
from trimtab.plants._master import Master
from trimtab.plants._vetted import vet
from trimtab.plants.linux import putback
from trimtab.plants.linux.putback import Thread
from trimtab.processes import HIDDEN, SHOW, Process, hidden, identify
from trimtab.trust import printable, require_trusted

_WHOLE = {1: "the whole machine", 2: "the kernel"}


class Server(Master):
    """The first process of any server."""


@dataclass(frozen=True)
class Target:
    """The servers.

    Args:
        roots: their first processes.
        groups: control groups whose processes belong to them.
    """

    roots: tuple[Process, ...]
    groups: tuple[Path, ...] = ()

    @property
    def alive(self) -> bool:
        """Whether all their first processes still run."""
        return all(root.alive() for root in self.roots)

    def threads(self) -> dict[int, Thread]:
        """Their threads by id.

        Raises:
            PlantGone: one of the servers has ended, or a control group is empty.
        """
        for root in self.roots:
            if not root.alive():
                raise PlantGone(f"pid {root.pid} has ended")
        groups = [os.fspath(group) for group in self.groups]
        there = putback.threads([(one.pid, one.start_ticks) for one in self.roots], groups)
        if not there:
            raise PlantGone(f"no process is left in {' and '.join(groups)}")
        return there

    @property
    def pid(self) -> int | None:
        """The first of their first processes; None where there are only control groups."""
        return self.roots[0].pid if self.roots else None

    def __str__(self) -> str:
        return ", ".join([*(f"pid {one.pid}" for one in self.roots), *(f"group {one}" for one in self.groups)])


def find(servers: Iterable[str], pids: Iterable[int], groups: Iterable[Path]) -> Target:
    """The servers that the command line names.

    Raises:
        UsageError: none is named, one does not run, or one may not be moved from here.
    """
    roots = [*map(_named, servers), *map(_numbered, pids)]
    found = Target(tuple(dict.fromkeys(roots)), tuple(dict.fromkeys(map(_group, groups))))
    if not found.roots and not found.groups:
        raise UsageError("no server: name one with --server PROGRAM, --pid PID or --cgroup DIRECTORY")
    try:
        found.threads()
    except PlantGone as error:
        raise UsageError(str(error)) from None
    return found


def _named(program: str) -> Process:
    """This user's only server of that program.

    Raises:
        UsageError: there is none or several, or it is not this user's.
    """
    running = Server.named(re.compile(re.escape(program)))
    own = [one for one in running if one.own]
    shown = printable(program)
    if not running:
        unseen = f"; {HIDDEN}: {SHOW}" if hidden() else ""
        raise UsageError(f"no running {shown} found (no process has that program){unseen}")
    if not own:
        others = "; ".join(one.line for one in running)
        raise UsageError(f"no {shown} of this user's runs, but {others}: name the one that is meant with --pid")
    if len(own) > 1:
        raise UsageError(f"{shown} runs several times, choose with --pid: {'; '.join(one.line for one in own)}")
    try:
        vet(own[0])
    except PlantGone as error:
        raise UsageError(str(error)) from None
    return Process(own[0].pid, own[0].started)


def _numbered(pid: int) -> Process:
    """The process of that id.

    Raises:
        UsageError: there is none, or it is no server's.
    """
    if pid in _WHOLE:
        raise UsageError(f"--pid {pid} is {_WHOLE[pid]}: name a server's first process")
    if pid <= 0 or (found := identify(pid)) is None or not found.alive():
        raise UsageError(f"--pid {pid}: no such process")
    return found


def _group(directory: Path) -> Path:
    """The control group of that directory.

    Raises:
        UsageError: it is none, it is that of the whole machine, or others can change it.
    """
    path = directory.absolute()
    shown = printable(os.fspath(path))
    if not (path / "cgroup.procs").is_file():
        raise UsageError(f"--cgroup {shown} is not a control group: it has no cgroup.procs")
    require_trusted(path)
    if not (path.parent / "cgroup.procs").is_file():
        raise UsageError(f"--cgroup {shown} is the whole machine: name the group of a server")
    return path
