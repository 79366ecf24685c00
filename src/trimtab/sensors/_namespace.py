"""Things done in another namespace, by a thread of their own, so that the rest of the process stays where it is."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from trimtab.errors import NotMeasured

T = TypeVar("T")

CLONE_NEWNS = 0x0002_0000
CLONE_NEWNET = 0x4000_0000
MS_NOSUID_NODEV_NOEXEC = 0x2 | 0x4 | 0x8
MS_REC_PRIVATE = 0x4000 | 0x4_0000

_libc = ctypes.CDLL(None, use_errno=True)


def in_network_of(pid: int, make: Callable[[], T]) -> T:
    """Calls `make` in the network namespace of a process; sockets made there stay there.

    Args:
        pid: the process.
        make: the function to call.

    Raises:
        NotMeasured: there is no such process, or its namespace may not be entered.
    """
    theirs = f"/proc/{pid}/ns/net"
    # Each namespace has files of its own under net/, which everybody may look at; ns/net itself only its owner.
    counters = [f"/proc/{process}/net/snmp" for process in (pid, "self")]
    try:
        if len({os.stat(path).st_ino for path in counters}) == 1:
            return make()
        fd = os.open(theirs, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise NotMeasured(f"network namespace of pid {pid}: {os.strerror(error.errno or 0)}") from None
    try:

        def entered() -> T:
            if _libc.setns(fd, CLONE_NEWNET) != 0:
                why = os.strerror(ctypes.get_errno())
                raise NotMeasured(f"pid {pid} is in another network namespace, and entering it failed: {why}")
            return make()

        return _in_thread(entered)
    finally:
        os.close(fd)


def with_tracefs(read: Callable[[Path], T]) -> T:
    """Calls `read` with the directory of tracefs, mounted for it alone where it is not mounted yet.

    Raises:
        NotMeasured: it is not mounted and may not be.
    """
    for place in (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing")):
        if (place / "events").is_dir():
            return read(place)

    def mounted() -> T:
        place = "/sys/kernel/tracing"
        steps: tuple[Callable[[], int], ...] = (
            lambda: _libc.unshare(CLONE_NEWNS),
            lambda: _libc.mount(None, b"/", None, ctypes.c_ulong(MS_REC_PRIVATE), None),
            lambda: _libc.mount(b"tracefs", place.encode(), b"tracefs", ctypes.c_ulong(MS_NOSUID_NODEV_NOEXEC), None),
        )
        for step in steps:
            if step() != 0:
                raise NotMeasured(f"tracefs is not mounted here: {os.strerror(ctypes.get_errno())}")
        return read(Path(place))

    return _in_thread(mounted)


def _in_thread(work: Callable[[], T]) -> T:
    """Runs `work` in a thread that ends with it; returns or raises as it does."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="trimtab-namespace")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
