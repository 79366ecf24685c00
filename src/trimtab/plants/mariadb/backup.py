"""Whether somebody else has a running MariaDB's own files open, as one has who copies them.

`BACKUP STAGE` tells of a mariadb-backup, but of none that was started with `--no-lock`, nor of another program. All
of them keep the redo log or the system tablespace open while they copy. A file is known by its device and inode,
whatever it is called where it is opened. The kernel says both of a descriptor without a look at the file, which its
owner could have wait for ever (Linux 5.14 and newer; before that nothing is known). Nobody but root and MariaDB's
user can open these files, so nobody else's processes are looked into.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from trimtab.plants.mariadb.process import MariadbServer
from trimtab.processes import PROC, contents, opened, pids, users_of

_FILES = frozenset({"ib_logfile0", "ibdata1"})
_DELETED = " (deleted)"
"""After the name of a file in whose place another was put since it was opened."""
_MOUNT, _INODE = (re.compile(rb"^%s:\s+(\d+)$" % name, re.MULTILINE) for name in (b"mnt_id", b"ino"))


def copied_by(server: MariadbServer) -> int | None:
    """A process beside the server that has one of these files open; None where there is none, as far as can be seen.

    Args:
        server: the running MariaDB.
    """
    files = set(_files(server.pid))
    if not files:
        return None
    users = {0, os.geteuid(), *users_of(server.pid)}
    for pid in pids():
        if pid not in (server.pid, os.getpid()) and users_of(pid) & users and not files.isdisjoint(_files(pid)):
            return pid
    return None


def _files(pid: int) -> Iterator[tuple[bytes, bytes]]:
    """Device and inode of each file of such a name that a process has open; none where they may not be looked at."""
    with contextlib.suppress(OSError):
        for number, target in opened(pid):
            if Path(target.removesuffix(_DELETED)).name in _FILES:
                yield from _file(pid, number)


def _file(pid: int, number: int) -> Iterator[tuple[bytes, bytes]]:
    """Device and inode of what a descriptor of a process leads to; nothing where the kernel does not say."""
    with contextlib.suppress(OSError):
        said = contents(f"{PROC}/{pid}/fdinfo/{number}")
        mount, inode = _MOUNT.search(said), _INODE.search(said)
        if mount and inode:
            # A line is number of the mount, its parent's, device, and then names, in which the kernel escapes ends.
            rows = (line.split(None, 3) for line in (PROC / str(pid) / "mountinfo").read_bytes().split(b"\n"))
            yield from ((row[2], inode[1]) for row in rows if row[:1] == [mount[1]])
