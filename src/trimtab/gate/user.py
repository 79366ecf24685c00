"""The user that root's gate becomes: one of its own, with a memory and limits of its own.

Not `nobody`, whom other services share: what one of them may do to its own processes it could do to the gate. Not the
web server's user, because a worker that was broken into must not reach the gate by more than their conversation.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import zlib
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.gate.start import User
from trimtab.processes import users_in

USUAL = "trimtab"
UNUSED = range(61_184, 65_520)
"""Ids that are given to services while they run (systemd's DynamicUser), not to people or packages."""


def chosen(name: str | None, run: str, proc: Path = Path("/proc")) -> User | None:
    """The user of a gate, as its start line says it.

    Args:
        name: the user asked for; None: the user `trimtab` where there is one, else an id that nobody has.
        run: the name of the run; runs differ in the ids that they get.
        proc: where /proc is.

    Returns:
        The user; None when this process is not root's, or root's of a namespace without other users: it
        stays who it is.

    Raises:
        UsageError: there is no such user, it is root, or this process may not become it.
    """
    if os.geteuid() != 0:
        if name is not None:
            raise UsageError("--gate-user needs root: another user's gate stays what it is")
        return None
    if name is None:
        known = _known(USUAL)
        if known is not None and known.pw_uid != 0:
            return User(known.pw_uid, known.pw_gid)
        free = _unused(run, proc)
        return None if free is None else User(free, free)
    found = _known(name)
    if found is None:
        raise UsageError(f"--gate-user {name!r}: there is no such user")
    if found.pw_uid == 0:
        raise UsageError(f"--gate-user {name!r} is root: the gate does not stay root, name another user")
    return User(found.pw_uid, found.pw_gid)


def _known(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _unused(run: str, proc: Path) -> int | None:
    """An id that is mapped here, that no user has and no process runs as; None when there is none."""
    mapped = _mapped((proc / "self/uid_map").read_text(), (proc / "self/gid_map").read_text())
    running = _owners(proc)
    first = zlib.crc32(run.encode()) % len(UNUSED)
    for step in range(len(UNUSED)):
        candidate = UNUSED[(first + step) % len(UNUSED)]
        if candidate in running or not all(any(candidate in part for part in parts) for parts in mapped):
            continue
        try:
            pwd.getpwuid(candidate)
        except KeyError:
            return candidate
    return None


def _mapped(*maps: str) -> list[list[range]]:
    """The ids that each of some user namespace maps has."""
    lines = [[line.split() for line in text.splitlines()] for text in maps]
    return [[range(int(first), int(first) + int(number)) for first, _, number in one] for one in lines]


def _owners(proc: Path) -> set[int]:
    """The users that have processes."""
    found = set[int]()
    for pid in filter(str.isdigit, os.listdir(proc)):
        with contextlib.suppress(OSError):
            # The status, not the owner of the directory: that is root for what must not be looked into.
            found |= users_in((proc / pid / "status").read_bytes())
    return found
