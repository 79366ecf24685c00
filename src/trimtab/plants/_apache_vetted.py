"""Whether a process is an Apache of ours: looked at before anything of it is run, read or signalled.

Anybody can name a program apache2. What is run here with our rights must be run by this user already, see what we
see, and be a program that nobody else can change (`trimtab.trust`); its configuration is looked at where it is read
(`_apache_config`). A process may execute another program between two looks, and one that changes its user, so all of
this is asked again once its command line and its environment were read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.plants._apache_process import Parent, not_permitted, user_of
from trimtab.trust import printable, require_trusted

_SEPARATE = ("user", "pid")
"""Namespaces that must be ours. Mounts may be apart, as Debian's apache2.service has them (PrivateTmp): there the
files are compared."""


def vet(parent: Parent) -> None:
    """Makes sure that a process is an Apache that may be run and signalled with our rights.

    Raises:
        UsageError: it may not; the message says why and what to do.
        PlantGone: it has ended.
    """
    parent.check()
    _require_own(parent)
    try:
        for kind in _SEPARATE:
            if not _same(f"/proc/{parent.pid}/ns/{kind}", f"/proc/self/ns/{kind}"):
                raise _apart(parent.pid, f"is in another {kind} namespace")
        if not _same(f"/proc/{parent.pid}/root", "/"):
            raise _apart(parent.pid, "has another root directory")
        if not _same(f"/proc/{parent.pid}/exe", parent.exe):
            if not _same(f"/proc/{parent.pid}/ns/mnt", "/proc/self/ns/mnt"):
                raise _apart(parent.pid, "sees other files")
            raise UsageError(f"{_shown(parent.exe)} was replaced since pid {parent.pid} was started: restart Apache")
    except PermissionError:
        raise not_permitted(parent.pid) from None
    except FileNotFoundError as error:
        parent.check()
        raise UsageError(f"Apache (pid {parent.pid}): {error.filename} is not there") from None
    require_trusted(parent.exe)
    _require_own(parent)
    parent.check()


def same_files(parent: Parent, files: Iterable[Path]) -> None:
    """Makes sure that Apache and trimtab see the same files.

    Raises:
        UsageError: Apache is in a container, or a file cannot be read.
    """
    for file in files:
        try:
            same = _same(f"/proc/{parent.pid}/root{file}", file)
        except PermissionError:
            raise not_permitted(parent.pid) from None
        except OSError as error:
            raise UsageError(f"cannot read Apache's configuration {_shown(file)}: {error.strerror}") from None
        if not same:
            raise _apart(parent.pid, "sees other files")


def _require_own(parent: Parent) -> None:
    """Makes sure that this user, and nobody else, runs a process.

    Raises:
        UsageError: somebody else does.
        PlantGone: it has ended.
    """
    user, me = user_of(parent.pid), os.geteuid()
    if user == me:
        return
    parent.check()
    if me != 0:
        raise not_permitted(parent.pid)
    if user is None:
        raise UsageError(f"Apache (pid {parent.pid}) has the rights of several users: trimtab leaves it alone")
    raise UsageError(f"Apache (pid {parent.pid}) is run by uid {user}, not by root: run trimtab as that user")


def _same(one: str | Path, other: str | Path) -> bool:
    """Whether two paths lead to the same file."""
    first, second = os.stat(one), os.stat(other)
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _apart(pid: int, how: str) -> UsageError:
    return UsageError(f"Apache (pid {pid}) {how}, as in a container: run trimtab in there")


def _shown(path: Path) -> str:
    return printable(os.fspath(path))
