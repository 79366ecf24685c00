"""Locks on files and directories that whoever may open them can hold, and so is not waited for without end."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

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
