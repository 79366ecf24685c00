"""Whether a server is ours: looked at before anything of it is run, read or signalled.

Anybody can name a program as a server's. What is run here with our rights must be run by this user already, see what
we see, and be a program that nobody else can change (`trimtab.trust`); its configuration is looked at where it is
read (by each plant). A process may execute another program between two looks, and one that changes its user, so all
of this is asked again once its command line and its environment were read.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.plants._master import Master
from trimtab.trust import printable, require_trusted

_SEPARATE = ("user", "pid")
"""Namespaces that must be ours. Mounts may be apart, as Debian's apache2.service has them (PrivateTmp): there the
files are compared."""


def vet(master: Master) -> None:
    """Makes sure that a process is a server that may be run and signalled with our rights.

    Raises:
        UsageError: it may not; the message says why and what to do.
        PlantGone: it has ended.
    """
    master.check()
    _require_own(master)
    require_here(master)
    try:
        if not _same(f"/proc/{master.pid}/exe", master.exe):
            if not _same(f"/proc/{master.pid}/ns/mnt", "/proc/self/ns/mnt"):
                raise _apart(master, "sees other files")
            raise UsageError(
                f"{_shown(master.exe)} was replaced since pid {master.pid} was started: restart {master.title}"
            )
    except PermissionError:
        raise master.not_permitted() from None
    except FileNotFoundError as error:
        master.check()
        raise UsageError(f"{master}: {error.filename} is not there") from None
    require_trusted(master.exe)
    _require_own(master)
    master.check()


def require_here(master: Master) -> None:
    """Makes sure that a process is in no container: what it is asked is asked where it is, and among our processes.

    Raises:
        UsageError: it is in one, or that may not be looked at.
        PlantGone: it has ended.
    """
    try:
        where = _elsewhere(master)
    except PermissionError:
        raise master.not_permitted() from None
    except FileNotFoundError as error:
        master.check()
        raise UsageError(f"{master}: {error.filename} is not there") from None
    if where:
        raise _apart(master, where)


def same_network(master: Master) -> None:
    """Makes sure that what a server's addresses are asked for is asked of this server.

    In another network namespace the same address may be another server's, whose page would be taken for this one's.

    Raises:
        UsageError: they are in another namespace.
        PlantGone: it has ended.
    """
    theirs = f"/proc/{master.pid}/ns/net"
    try:
        same = _same(theirs, "/proc/self/ns/net")
    except PermissionError:
        raise master.not_permitted() from None
    except OSError:
        master.check()
        return
    if not same:
        raise UsageError(
            f"{master} is in another network namespace, where it cannot be asked from here: "
            f"run trimtab there ('nsenter --net={theirs} trimtab ...')"
        )


def same_files(master: Master, files: Iterable[Path]) -> None:
    """Makes sure that a server and trimtab see the same files.

    Raises:
        UsageError: it is in a container, or a file cannot be read.
    """
    for file in files:
        names = {os.fspath(file), os.path.realpath(file)}  # links, under its root too, lead from our own
        try:
            same = all(_same(f"/proc/{master.pid}/root{name}", name) for name in names)
        except PermissionError:
            raise master.not_permitted() from None
        except OSError as error:
            raise UsageError(f"cannot read {master.title}'s configuration {_shown(file)}: {error.strerror}") from None
        if not same:
            raise _apart(master, "sees other files")


def _require_own(master: Master) -> None:
    """Makes sure that this user, and nobody else, runs a process.

    Raises:
        UsageError: somebody else does.
        PlantGone: it has ended.
    """
    user, me = master.user_of(master.pid), os.geteuid()
    if user == me:
        return
    master.check()
    if me != 0:
        raise master.not_permitted()
    if user in master.accounts():
        return
    with contextlib.suppress(OSError):  # a container's users are nobody's here: one cannot be run as them
        if where := _elsewhere(master):
            raise _apart(master, where)
    if user is None:
        raise UsageError(f"{master} has the rights of several users: trimtab leaves it alone")
    raise UsageError(f"{master} is run by uid {user}, not by root: run trimtab as that user")


def _elsewhere(master: Master) -> str:
    """Where else than here a process is, as its words in a message; empty for nowhere.

    Raises:
        OSError: it has ended, or that may not be looked at.
    """
    for kind in _SEPARATE:
        if not _same(f"/proc/{master.pid}/ns/{kind}", f"/proc/self/ns/{kind}"):
            return f"is in another {kind} namespace"
    return "" if _same(f"/proc/{master.pid}/root", "/") else "has another root directory"


def _same(one: str | Path, other: str | Path) -> bool:
    """Whether two paths lead to the same file."""
    first, second = os.stat(one), os.stat(other)
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _apart(master: Master, how: str) -> UsageError:
    return UsageError(f"{master} {how}, as in a container: run trimtab in there")


def _shown(path: Path) -> str:
    return printable(os.fspath(path))
