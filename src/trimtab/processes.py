"""Processes by id and start time, so that a reused id is never mistaken for the process that was meant."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One process of this boot.

    Args:
        pid: its id.
        start_ticks: clock ticks from boot to its start, field 22 of /proc/PID/stat.
    """

    pid: int
    start_ticks: int

    def alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        fields = _stat(self.pid)
        return fields is not None and int(fields[19]) == self.start_ticks and fields[0] not in "ZX"

    def send(self, number: int) -> bool:
        """Sends this very process a signal; False when it has ended, also when its id has a new owner."""
        try:
            fd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.alive():  # asked with the descriptor open, which stays with who has the id now
                return False
            signal.pidfd_send_signal(fd, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(fd)
        return True


def identify(pid: int) -> Process | None:
    """The process that has this id now, or None."""
    fields = _stat(pid)
    return None if fields is None else Process(pid, int(fields[19]))


def session_members(leader: Process, mentioning: str) -> list[int]:
    """Ids of the processes of a session whose command line contains a text.

    Args:
        leader: the session's leader, which may have ended.
        mentioning: text that only this session's processes have in their command lines.
    """
    found = []
    for entry in PROC.iterdir():
        fields = _stat(int(entry.name)) if entry.name.isdigit() else None
        if fields is None or int(fields[3]) != leader.pid or int(fields[19]) < leader.start_ticks:
            continue
        try:
            if mentioning.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def end(members: Callable[[], Iterable[int]], patience_s: float) -> bool:
    """Kills processes until none is left.

    Args:
        members: gives the ids of those that still run.
        patience_s: how long to go on.

    Returns:
        Whether none is left.
    """
    deadline = time.monotonic() + patience_s
    while True:
        left = list(members())
        if not left:
            return True
        if time.monotonic() > deadline:
            return False
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (the state) on; None when there is no such process."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
