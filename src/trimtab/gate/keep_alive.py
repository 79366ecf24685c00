"""The keep-alive time of a run: its value, who sets it, and how both are changed.

Both stand in the mapped file, where every process of the server reads the time. So a change is in force at once (for
a worker that waits already: within a second), needs no reload, and stays when trimtab ends.

| in charge | time in force      | who changes it                                                |
|-----------|--------------------|---------------------------------------------------------------|
| server    | the server's own   | nobody                                                        |
| fixed     | what was set       | `trimtab keep-alive set`, `trimtab tune keep-alive`           |
| auto      | what was learned   | the controller that `trimtab run` keeps going, and nobody else |

One idle period in 32 is a trial, which is given twice the time, half a second more at least: without trials nobody
would see the intervals that the time cuts short.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from trimtab.core import Domain
from trimtab.errors import NotMeasured, UsageError
from trimtab.locks import locked
from trimtab.sensors._shared_file import (
    MODE_AUTO,
    MODE_FIXED,
    MODE_SERVER,
    Idle,
    KeepAlive,
    SharedFile,
)
from trimtab.units import format_duration, parse_duration_s

DOMAIN = Domain(1, 3_600_000, 1, "an idle connection is kept for an hour at the longest")
"""The times that may be set, in ms."""
TRIAL_EVERY = 32
_LEAST_MORE_MS = 500
_NS_PER_MS = 1_000_000


class InCharge(IntEnum):
    """Who decides the keep-alive time."""

    SERVER = MODE_SERVER
    FIXED = MODE_FIXED
    AUTO = MODE_AUTO

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Setting:
    """A keep-alive time and who decides it.

    Args:
        in_charge: who sets the time.
        time_ms: the time in ms; None for the server's own.
    """

    in_charge: InCharge
    time_ms: int | None

    def __str__(self) -> str:
        if self.time_ms is None:
            return (
                "the server's own" if self.in_charge is InCharge.SERVER else f"{self.in_charge}, the server's own yet"
            )
        return f"{self.in_charge}, {format_duration(self.time_ms / 1000)}"


OF_SERVER = Setting(InCharge.SERVER, None)
"""Control given back."""


def parse_setting(text: str) -> Setting:
    """Parses a keep-alive setting: `auto`, `server` or a time such as `400ms`; that of `auto` has no time yet.

    Raises:
        UsageError: it is none of these, or the time is outside of 1 ms to 1 h.
    """
    if text == str(InCharge.SERVER):
        return OF_SERVER
    if text == str(InCharge.AUTO):
        return Setting(InCharge.AUTO, None)
    try:
        time_ms = parse_duration_s(text) * 1000
    except UsageError:
        raise UsageError(f"keep-alive {text!r}: write auto, server or a time such as 400ms or 15s") from None
    if round(time_ms) not in DOMAIN:
        raise UsageError(f"keep-alive {text!r} is outside of 1ms to 1h")
    return Setting(InCharge.FIXED, round(time_ms))


def trial_ms(time_ms: int) -> int:
    """The time that a trial is given, in ms."""
    return max(2 * time_ms, time_ms + _LEAST_MORE_MS)


class KeepAliveTime:
    """The setting of one run, for reading and changing.

    Args:
        path: the mapped file.

    Raises:
        UsageError: it is not there, may not be written from here, or is of another version.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = SharedFile(path, write=True)
            self._lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except NotMeasured as error:
            raise UsageError(
                f"{error}; the time is set by who started the server, or root, "
                "and of a server that this version's 'trimtab run' has started"
            ) from None
        self._inode = os.fstat(self._lock).st_ino

    def setting(self) -> Setting:
        """Time in force and who sets it; the server, where the mapped file holds no known mode."""
        now = self._file.keep_alive()
        in_charge = InCharge(now.mode) if now.mode in list(InCharge) else InCharge.SERVER
        return Setting(in_charge, DOMAIN.clip(round(now.time_ns / _NS_PER_MS)) if now.time_ns else None)

    def server_ms(self) -> int | None:
        """The time that the server itself last asked for, in ms; None when none was seen."""
        return self._file.idle().server_ms or None

    def counted(self) -> Idle:
        """Counts and durations of idle periods since the server was started."""
        return self._file.idle()

    def present(self) -> bool:
        """Whether the file is still that of a run: a run that has ended takes it away."""
        try:
            return os.stat(self._path).st_ino == self._inode
        except OSError:
            return False

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps other changes out while this lasts, so that nothing comes between reading and writing.

        A change takes no time. Who holds the lock for seconds is a process of the server, which has the file too, and
        may not keep the time from being given back.
        """
        locked(self._lock)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def write(self, wanted: Setting) -> Setting:
        """Brings a setting into force, with the trials that belong to it, and reads it back."""
        time_ns, trial_ns, every = 0, 0, 0
        if wanted.time_ms is not None:
            time_ns, trial_ns, every = wanted.time_ms * _NS_PER_MS, trial_ms(wanted.time_ms) * _NS_PER_MS, TRIAL_EVERY
        self._file.set_keep_alive(KeepAlive(time_ns, trial_ns, every, wanted.in_charge))
        return self.setting()

    def close(self) -> None:
        """Unmaps the file; may be called twice."""
        self._file.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
