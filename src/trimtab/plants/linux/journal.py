"""Journal of the kernel's knobs before a run sets them, in the form that `putback` reads.

Journals stand in a directory of this user's own that a reboot empties, as it does the kernel's knobs: one for each
trimtab that sets any.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from trimtab import codec
from trimtab.errors import ApplyFailed, UsageError
from trimtab.files import remove, stamp
from trimtab.gate import run_directory
from trimtab.plants import _journal
from trimtab.plants.linux import putback
from trimtab.plants.linux.putback import Scheduling, Thread
from trimtab.plants.linux.target import Target
from trimtab.processes import Process, identify
from trimtab.trust import require_trusted

FIELDS = ("policy", "nice", "slice")


class Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A journal on disk; `putback`, which reads it without trimtab, says what each key means."""

    owner: tuple[int, int]
    kept: bool
    roots: tuple[tuple[int, int], ...]
    groups: tuple[str, ...]
    threads: tuple[tuple[int, int, int, int, int, int, int, int], ...]
    ours: dict[str, tuple[int, ...]]
    files: tuple[tuple[str, str, tuple[str, ...]], ...]


class Journal:
    """The journal of this process.

    Args:
        target: the servers.

    Attributes:
        known: how the threads were scheduled that were there before, by id and start time.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.known: dict[tuple[int, int], Scheduling] = {}
        self._processes: dict[tuple[int, int], int] = {}
        self._ours: dict[str, list[int]] = {field: [] for field in FIELDS}
        self._files: dict[str, tuple[str, list[str]]] = {}
        self._kept = False
        me = identify(os.getpid())
        assert me is not None
        self._owner = me
        self.path = directory() / f"{me.pid}-{me.start_ticks}-{id(self):x}.json"

    @property
    def empty(self) -> bool:
        """Whether nothing was set yet."""
        return not self._files and not any(self._ours.values())

    def found(self, thread: Thread, now: Scheduling) -> None:
        """Records how a thread was scheduled before; an earlier record stays."""
        self.known.setdefault((thread.tid, thread.start), now)
        self._processes.setdefault((thread.tid, thread.start), thread.pid)

    def meant(self, field: str, value: int) -> None:
        """Remembers a value that threads are to be given."""
        if value not in self._ours[field]:
            self._ours[field].append(value)

    def file(self, path: str, before: str, after: str) -> None:
        """Records a file's text before, and its new one."""
        ours = self._files.setdefault(path, (before, []))[1]
        if after not in ours:
            ours.append(after)

    def taken(self, thread: Thread, was: Scheduling) -> None:
        """Records what somebody else has given a thread, which is its own from now on."""
        self.known[thread.tid, thread.start] = was
        self._processes[thread.tid, thread.start] = thread.pid

    def file_taken(self, path: str) -> None:
        """Records that somebody else has set a file: nothing in it is ours any more."""
        self._files[path][1].clear()

    def data(self) -> dict[str, Any]:
        """The journal as `putback` reads it."""
        return {
            "owner": [self._owner.pid, self._owner.start_ticks],
            "kept": self._kept,
            "roots": [[one.pid, one.start_ticks] for one in self._target.roots],
            "groups": [os.fspath(group) for group in self._target.groups],
            "threads": [[self._processes[key], *key, *scheduling] for key, scheduling in self.known.items()],
            "ours": self._ours,
            "files": [[path, before, ours] for path, (before, ours) in self._files.items()],
        }

    def write(self) -> None:
        """Brings it to disk.

        Raises:
            ApplyFailed: it could not be written.
        """
        try:
            _journal.write(self.path, self.data())
        except UsageError as error:
            raise ApplyFailed(f"{self.path} cannot be written, so nothing was changed: {error}") from None

    def keep(self) -> None:
        """Records that the values in force were left on purpose."""
        self._kept = True
        self.write()

    def undo(self) -> None:
        """Puts everything back and forgets it.

        Raises:
            ApplyFailed: something could not be put back.
        """
        if self.empty:
            return
        _put_back(self.path, self.data())
        self.known.clear()
        self._processes.clear()
        self._ours = {field: [] for field in FIELDS}
        self._files.clear()


@dataclass(frozen=True)
class Left:
    """A journal that another trimtab has written.

    Args:
        path: where it is.
        data: what it holds.
    """

    path: Path
    data: Written

    @property
    def owner(self) -> Process:
        """The trimtab that wrote it."""
        return Process(*self.data.owner)

    @property
    def kept(self) -> bool:
        """Whether it was left in order, and not by a trimtab that was killed."""
        return self.data.kept

    def undo(self) -> None:
        """Puts its values back, and removes it.

        Raises:
            ApplyFailed: something could not be put back.
        """
        _put_back(self.path, codec.builtins(self.data))


def directory() -> Path:
    """Directory of this user's journals."""
    runs = run_directory.base()
    return runs.parent / f"{runs.name}-kernel"


def left(kept: bool = True) -> Sequence[Left]:
    """The journals of trimtabs that have ended, the last one first.

    Args:
        kept: whether those that were left in order count too.

    One of which nothing can be in force any more is taken away.

    Raises:
        UsageError: somebody else could have written them, or one cannot be read.
    """
    found = []
    for one in _all():
        if one.owner.alive():
            continue
        if not _lives(one.data):
            remove(one.path)
        elif kept or not one.kept:
            found.append(one)
    return tuple(found)


def rival(there: Mapping[int, Thread], files: Iterable[str]) -> int | None:
    """The process id of another trimtab that moves one of these threads or files; None where there is none.

    Args:
        there: threads by id.
        files: paths.

    Raises:
        UsageError: somebody else could have written the journals, or one cannot be read.
    """
    mine = set(files)
    for one in _all():
        if one.owner.pid != os.getpid() and one.owner.alive():
            moved = {tid for _, tid, start, *_ in one.data.threads if tid in there and there[tid].start == start}
            if moved or mine & {path for path, _, _ in one.data.files}:
                return one.owner.pid
    return None


def _all() -> Sequence[Left]:
    """Every journal there is, that of the trimtab that was started last first: the machine's time may be set back.

    Raises:
        UsageError: somebody else could have written them, or one cannot be read.
    """
    there = directory()
    if not there.is_dir():
        return ()
    require_trusted(there)
    found = [Left(path, data) for path in there.glob("*.json") if (data := _journal.read(path, Written)) is not None]
    return sorted(found, key=lambda one: (one.owner.start_ticks, stamp(one.path)[2]), reverse=True)


def _put_back(path: Path, data: Mapping[str, Any]) -> None:
    """Puts a journal's values back, and removes it.

    Raises:
        ApplyFailed: something could not be put back.
    """
    if left := putback.undo(data):
        raise ApplyFailed(f"not everything could be put back: {'; '.join(left)}")
    remove(path)


def _lives(data: Written) -> bool:
    """Whether anything of what a journal tells of is still there."""
    if data.files or any(Process(*root).alive() for root in data.roots) or putback.members(data.groups):
        return True
    return any(putback.stat(pid, tid) is not None for pid, tid, *_ in data.threads)
