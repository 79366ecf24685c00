"""Locks on files and directories that whoever may open them can hold, and so is not waited for without end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from trimtab.errors import StoreError, UsageError
from trimtab.trust import printable

_STEP_S = 0.02


def opened(path: Path) -> int:
    """A descriptor of a file to lock that nobody else can open, made where there is none; the caller closes it.

    Args:
        path: the file, in a directory that nobody else can change.

    Raises:
        OSError: it cannot be opened, or is a link.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def locked(fd: int, patience_s: float = 10.0) -> bool:
    """Whether a lock on an open file or directory was got, alone; whoever may open it can hold it.

    Args:
        fd: its descriptor; the lock goes when that is closed.
        patience_s: how long to try, in seconds.
    """
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_STEP_S)


def held(path: Path, patience_s: float) -> int | None:
    """A descriptor of a file that is locked, alone; None where another process holds it all that time.

    Whoever holds it may remove the file before the lock goes: who has waited for that begins anew with the next file
    of this name.

    Args:
        path: as for `opened`.
        patience_s: how long to try, in seconds.

    Raises:
        OSError: as for `opened`.
    """
    deadline_s = time.monotonic() + patience_s
    while True:
        lock = opened(path)
        got = locked(lock, deadline_s - time.monotonic())
        if got and _named(lock, path):
            return lock
        os.close(lock)
        if not got:
            return None


def _named(fd: int, path: Path) -> bool:
    """Whether an open file is the one of this name."""
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keeps others out while a store is opened: a change to WAL does not wait for them, whatever the time-out.

    Args:
        path: a file of its own: others may open a directory that they can read, and closing any other descriptor of
            the store itself would drop the locks that SQLite holds on it.

    Raises:
        StoreError: another process holds the lock.
    """
    there = path.exists()
    lock = opened(path)
    try:
        if not locked(lock):
            raise StoreError(f"{printable(os.fspath(path))} is locked by another process")
        yield
    except UsageError:  # what it was made for is no store
        if not there:
            path.unlink(missing_ok=True)
        raise
    finally:
        os.close(lock)
