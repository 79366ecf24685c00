"""The processes of a server with the shim in it, found by their memory maps.

Everybody can write what he likes into the environment, the name and the command line of his processes. The mapped
file of a run only its owner can open, so what has it mapped was started by him, or is a child of what was.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

from trimtab import processes
from trimtab.errors import UsageError
from trimtab.gate import run_directory
from trimtab.gate.run_directory import RunDirectory
from trimtab.processes import Process, identify, maps, parent_of, pids

_SHIM = b"libtrimtab_shim"
_Identity = tuple[bytes, bytes]
"""Device and inode as /proc/PID/maps writes them."""


def shared_of(pid: int) -> Path | None:
    """The mapped file of the run that a process belongs to; None when of none of this user's."""
    files = _files_under_shim(pid)
    found = (one.shared for one in run_directory.known() if files and _identity(one.shared) in files)
    return next(found, None)


def processes_of(run_dir: RunDirectory) -> list[Process]:
    """The processes of the server of one run that may be looked into, its first process first."""
    wanted = _identity(run_dir.shared)
    if wanted is None:
        return []
    members = {pid: parent_of(pid) for pid in pids() if wanted in _files_under_shim(pid)}
    first = sorted(members, key=lambda pid: (members[pid] in members, pid))
    return [process for pid in first if (process := identify(pid)) is not None and process.alive()]


def belongs(run_dir: RunDirectory, pid: int) -> bool:
    """Whether a process is one of the server of a run: the others on the machine are not looked at."""
    wanted = _identity(run_dir.shared)
    return wanted is not None and wanted in _files_under_shim(pid)


def steerable(name: str | None) -> RunDirectory:
    """The run that is meant, which may also be one whose `trimtab run` was killed and whose server goes on.

    Args:
        name: its name; None when there is only one.

    Raises:
        UsageError: there is no such run, or several and none was named.
    """
    try:
        return run_directory.chosen(name)
    except UsageError:
        left = [one for one in ([run_directory.named(name)] if name else run_directory.known()) if processes_of(one)]
        if len(left) != 1:
            raise
        return left[0]


def server_of(run_dir: RunDirectory) -> int | None:
    """The first process of the server of one run, the parent of its workers; None when it cannot be found."""
    found = processes_of(run_dir)
    return found[0].pid if found else None


def threads_of(run_dir: RunDirectory) -> int:
    """Threads in a worker process of the server of one run: 1 where each connection has a process of its own."""
    return max((processes.threads_of(one.pid) for one in processes_of(run_dir)[1:]), default=1)


def _files_under_shim(pid: int) -> set[_Identity]:
    """The files that a process with the shim in it has mapped; none when it is without, or may not be looked into.

    The gate and the controllers map a run's file too, but are no part of the server.
    """
    mapped = [parts for line in maps(pid) if len(parts := line.split(maxsplit=5)) == 6]
    if not any(parts[5].rpartition(b"/")[2].startswith(_SHIM) for parts in mapped):
        return set()
    return {(parts[3], parts[4]) for parts in mapped}


def _identity(path: Path) -> _Identity | None:
    """Identity of this file as the maps of a process show it; None when it cannot be read.

    From a mapping of our own, because on some file systems (btrfs, overlayfs) `stat` has another device for it.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        # Private and writable only because ctypes gives the address of nothing else; it is never written to.
        with mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
            first = ctypes.c_char.from_buffer(mapped)
            begins = b"%x-" % ctypes.addressof(first)
            del first
            lines = maps(os.getpid())
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)
    return next(((parts[3], parts[4]) for line in lines if (parts := line.split()) and line.startswith(begins)), None)
