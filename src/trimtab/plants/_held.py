"""Holds a server's first process still by ptrace, so that it starts and counts no workers meanwhile.

They accept and serve by themselves. Should trimtab be killed, the kernel lets the process go, which then finds what
has happened. It needs CAP_SYS_PTRACE.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Iterator

from trimtab.plants._master import Master
from trimtab.processes import capable

_POLL_S = 0.001
_STOP_PATIENCE_S = 1.0
_CAP_SYS_PTRACE = 19  # linux/capability.h
_SEIZE, _INTERRUPT, _DETACH, _ALL_CHILDREN = 0x4206, 0x4207, 17, 0x40000000  # linux/ptrace.h, linux/wait.h


def permitted() -> bool:
    """Whether this process has CAP_SYS_PTRACE, with which the master may be held."""
    return capable(_CAP_SYS_PTRACE)


@contextlib.contextmanager
def held(master: Master) -> Iterator[bool]:
    """Holds a process still until the end of the context, which is given false where that is not possible.

    By a thread of its own, whose end lets it go in any case.

    Args:
        master: the process.

    Raises:
        PlantGone: it has ended.
    """
    stopped, release = threading.Event(), threading.Event()
    done: list[bool] = []
    thread = threading.Thread(target=_hold, args=(master.pid, done, stopped, release), daemon=True)
    thread.start()
    try:
        stopped.wait()
        master.check()
        yield bool(done)
    finally:
        release.set()
        thread.join()


def _hold(pid: int, done: list[bool], stopped: threading.Event, release: threading.Event) -> None:
    """Body of that thread: what is traced is let go by the kernel when it ends."""
    libc = ctypes.CDLL(None)
    libc.ptrace.argtypes, libc.ptrace.restype = (ctypes.c_long, ctypes.c_long, *[ctypes.c_void_p] * 2), ctypes.c_long
    try:
        if libc.ptrace(_SEIZE, pid, None, None) or libc.ptrace(_INTERRUPT, pid, None, None):
            return
        deadline_s = time.monotonic() + _STOP_PATIENCE_S
        while os.waitpid(pid, _ALL_CHILDREN | os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline_s:
                return
            time.sleep(_POLL_S)
        done.append(True)
        stopped.set()
        release.wait()
    except ChildProcessError:  # it has ended
        return
    finally:
        libc.ptrace(_DETACH, pid, None, None)
        stopped.set()
