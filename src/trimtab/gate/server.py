"""The processes of a server with the shim in it, found by what they were given and have in their memory."""

from __future__ import annotations

import os
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.gate import place as places
from trimtab.gate.place import SHARED_VARIABLE, Place
from trimtab.testbed.processes import Process, identify

_PROC = Path("/proc")
_SHIM = "libtrimtab_shim"
_SHARED = Place("", Path()).shared.name


def shared_of(pid: int) -> Path | None:
    """The mapped file of the shim in a process; None when it was started without, or may not be looked into.

    It is in the environment that the process was started with. nginx writes its title over that; then the file and
    the shim are in its memory.
    """
    try:
        raw = (_PROC / str(pid) / "environ").read_bytes()
        wanted = f"{SHARED_VARIABLE}=".encode()
        found = next((item for item in raw.split(b"\0") if item.startswith(wanted)), None)
        if found is not None:
            return Path(os.fsdecode(found[len(wanted) :]))
        maps = (_PROC / str(pid) / "maps").read_bytes().splitlines()
    except OSError:
        return None
    files = [Path(os.fsdecode(parts[5])) for line in maps if len(parts := line.split(maxsplit=5)) == 6]
    if not any(one.name.startswith(_SHIM) for one in files):
        return None
    return next((one for one in files if one.name == _SHARED), None)


def processes_of(place: Place) -> list[Process]:
    """The processes of the server of one run that may be looked into, its first process first."""
    members = {int(e): _parent(int(e)) for e in os.listdir(_PROC) if e.isdigit() and _is_of(int(e), place)}
    first = sorted(members, key=lambda pid: (members[pid] in members, pid))
    return [process for pid in first if (process := identify(pid)) is not None and process.alive()]


def steerable(name: str | None) -> Place:
    """The run that is meant, which may also be one whose `trimtab run` was killed and whose server goes on.

    Args:
        name: its name; None when there is only one.

    Raises:
        UsageError: there is no such run, or several and none was named.
    """
    try:
        return places.chosen(name)
    except UsageError:
        left = [one for one in ([places.place(name)] if name else places.known()) if processes_of(one)]
        if len(left) != 1:
            raise
        return left[0]


def server_of(place: Place) -> int | None:
    """The first process of the server of one run, the parent of its workers; None when it cannot be found."""
    found = processes_of(place)
    return found[0].pid if found else None


def threads_of(place: Place) -> int:
    """Threads in a worker process of the server of one run: 1 where each connection has a process of its own."""
    return max((_threads(one.pid) for one in processes_of(place)[1:]), default=1)


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(_PROC / str(pid) / "task"))
    except OSError:
        return 1


def _is_of(pid: int, place: Place) -> bool:
    return shared_of(pid) == place.shared


def _parent(pid: int) -> int:
    """The parent of a process; 0 when it is gone."""
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return 0
    return int(fields.rpartition(b")")[2].split()[1])
