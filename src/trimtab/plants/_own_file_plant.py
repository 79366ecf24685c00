"""Base of plants that are steered by one file of trimtab's own and by reloads.

It remembers what was there before the first change, what it wrote and what that set, and undoes what it, or an
earlier run that was killed, has done.
"""

from __future__ import annotations

import argparse
import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trimtab.core import Clock, Knob, Prepared
from trimtab.errors import OperatorEdit, UsageError
from trimtab.plants import _own_file
from trimtab.plants._beside import require_alone
from trimtab.plants._change import Server
from trimtab.plants._master import Master
from trimtab.plants._reloaded_plant import ReloadedPlant
from trimtab.trust import printable


@dataclass(frozen=True)
class Standing:
    """State of our file.

    Args:
        original: text in its place before our first change; None for no file.
        written: our text; None for nothing yet.
        values: value of each knob in our text.
        first: value of each knob before our first change.
    """

    original: str | None = None
    written: str | None = None
    values: Mapping[str, int] = field(default_factory=dict)
    first: Mapping[str, int] = field(default_factory=dict)


class OwnFilePlant(ReloadedPlant):
    """The base of such plants.

    Args:
        clock: for the waits of a reload.
        server: the running server.
        knobs: its knobs.
        directory: where our file shall go; None to look for one.
    """

    def __init__(self, clock: Clock, server: Server, knobs: Iterable[Knob], directory: Path | None) -> None:
        super().__init__(clock, server, knobs)
        self._directory = directory
        self._file: Path | None = None
        self._standing = Standing()

    @abstractmethod
    def find_location(self, directory: Path | None) -> Path:
        """Path of our file.

        Args:
            directory: the one that the user named; None for any.

        Raises:
            UsageError: there is no place where it would take effect.
        """

    @abstractmethod
    def permitted(self, accept_lost: bool) -> None:
        """Makes sure that the server may be reloaded.

        Args:
            accept_lost: whether something may be lost by it.

        Raises:
            UsageError: it may not, or not without harm.
            PlantGone: it has ended.
        """

    @abstractmethod
    def text(self, values: Mapping[str, int], before: str | None) -> str:
        """The text of our file that sets these values, and keeps the text before."""

    @abstractmethod
    def edits(self, knobs: Iterable[str]) -> Mapping[str, str]:
        """The knobs that somebody else has set outside of our file, each with a message."""

    @abstractmethod
    def kept(self, path: Path) -> Iterable[str]:
        """The knobs that our file sets as an earlier run has left it, and the server has loaded it.

        Args:
            path: our file.
        """

    @abstractmethod
    def script(self, path: Path, before: str | None) -> str:
        """A shell script that puts a text back in our file's place."""

    def location(self) -> Path:
        """Path of our file, whether it exists or not.

        Raises:
            UsageError: there is no place where it would take effect.
        """
        self._file = self._file or self.find_location(self._directory)
        return self._file

    def look_for_edits(self, knobs: Iterable[str]) -> Mapping[str, str]:
        """The knobs that somebody else has set: all of them where our file was edited."""
        written = self._standing.written
        if written is not None and (edit := _edit(self.location(), written)):
            return dict.fromkeys(self._knobs, edit)
        return self.edits({*knobs, *self.set_to})

    @property
    def set_to(self) -> Mapping[str, int]:
        """Knob to the value that our file sets."""
        return self._standing.values

    def included_by(self, other: Master) -> Iterable[Path]:
        """The directories of which another server of this kind reads all files with such a name as ours.

        Args:
            other: its first process, which has been looked at.

        Raises:
            UsageError: it cannot be told.
            PlantGone: it has ended.
        """
        return ()

    def check_reload(self, accept_lost: bool) -> None:
        """Makes sure that the server may be reloaded, and our file written."""
        self.permitted(accept_lost)
        _own_file.writable(self.location(), self._standing.written)

    def check_alone(self, knobs: Iterable[str] = ()) -> None:
        """Makes sure that no other server would read our file."""
        require_alone(self._server.master, self.location(), self.included_by)

    def composed(self, values: Mapping[str, int]) -> tuple[Standing, Standing]:
        """State of our file before the change, and after it: what an earlier run has kept in it stays.

        Raises:
            UsageError: our file cannot be read.
        """
        now, path = self._standing, self.location()
        if now.written is not None:
            return now, replace(now, written=self.text(values, now.original), values=values)
        found, in_force = _own_file.read(path), self._server.in_force
        if _own_file.leftover(found or ""):
            values = {knob: in_force[knob] for knob in self.kept(path) if knob not in self._down} | {**values}
        return now, Standing(found, self.text(values, found), values, dict(in_force))

    def bring(self, prepared: Prepared) -> tuple[str, ...]:
        """Writes our file and reloads, or puts everything back."""
        _, after = prepared.detail
        notes = self.change({self.location(): after.written}).bring(after.values)
        self._standing = after
        return notes

    def rollback(self, prepared: Prepared) -> None:
        """Takes back a change that was committed, by one more reload; one that was only prepared touched nothing.

        Raises:
            UsageError: our file was edited by somebody else, and was left as it is.
            ApplyFailed: the file is as it was, but the reload to it did not take.
        """
        self.settle()
        before, after = prepared.detail or (self._standing, None)
        if self._standing is after:
            path, self._standing = self.location(), before
            self.undo({path: after.original if before.written is None else before.written}, {path: after.written})

    def restore(self) -> None:
        """Puts back what was in force before the first `apply`; may be called twice.

        Raises:
            OperatorEdit: our file was edited by somebody else, and was left as it is.
            UsageError: the same after a change that had failed.
            ApplyFailed: the file is as it was, but the reload to it did not take.
        """
        standing = self._standing
        if standing.written is None:
            self.settle()
            return
        self.settle_files()
        path = self.location()
        if edit := _edit(path, standing.written, standing.original):
            raise OperatorEdit(min(self.set_to), edit)
        self._standing = Standing()
        self.undo({path: standing.original}, {path: standing.written})

    def close(self) -> None:
        """Closes the sensors, and leaves our file as it is to be from the operator's next reload on, without one."""
        super().close()
        ours = self._standing
        if ours.written is None:
            return
        path, left = self.location(), self.left_text(ours)
        with contextlib.suppress(OSError, UsageError):  # then it is as after a kill: `undo` takes it away
            if _own_file.read(path) == ours.written != left:
                _own_file.write(path, left)
                self._standing = replace(ours, written=left)

    def left_text(self, ours: Standing) -> str | None:
        """The text of our file once a run has ended; None for no file, where it sets only what was so before it.

        It would hide what the operator sets later.
        """
        before = ours.original is None and all(ours.first.get(knob) == value for knob, value in ours.values.items())
        return None if before else ours.written

    def leftover(self) -> str:
        """File left by an earlier run, or an undo of it that was cut, in one line; empty for neither."""
        if self._standing.written is not None:
            return ""
        try:
            path = self.location()
            found = _own_file.leftover(_own_file.read(path) or "")
        except UsageError:
            return ""
        return f"{path} is left from an earlier run" if found else self.not_loaded()

    def undo_leftover(self) -> None:
        """Undoes earlier runs, back to the text before the first of them, also where that is there and not loaded.

        Raises:
            UsageError: it may not be done from here; the message says what is needed.
            ApplyFailed: the file is as it was, but the reload to it did not take.
        """
        path = self.location()
        text = _own_file.read(path)
        before = _own_file.before_all(text)
        if self._standing.written is None and (before != text or self.outdated()):
            self.permitted(accept_lost=True)  # as at the end of a run, whose reload waits for no leave either
            self.change({path: before}).undo()

    def undo_script(self) -> str:
        """A POSIX shell script that undoes `apply`, or an earlier run, for a user without trimtab."""
        try:
            path = self.location()
            now = _own_file.read(path)
        except UsageError as error:
            return f"#!/bin/sh\n# There is nothing that trimtab could undo:\n# {printable(str(error))}\nexit 0\n"
        return self.script(
            path, _own_file.before_all(now) if self._standing.written is None else self._standing.original
        )


def _edit(path: Path, *ours: str | None) -> str:
    """Message where somebody else has changed our file; empty when it holds one of our texts."""
    try:
        text = _own_file.read(path)
    except UsageError as error:
        return f"{error}; trimtab leaves it alone now"
    return "" if text in ours else _own_file.taken_over(path, text)


def add_directory(parser: argparse._ActionsContainer) -> None:
    """Adds the option for the directory of our file."""
    parser.add_argument(
        "--snippet-directory",
        type=Path,
        metavar="DIR",
        help="included directory for trimtab's own file (default: the last that its configuration includes)",
    )


def first_location(
    directories: Sequence[Path], chosen: Path | None, name: str, hindrance: Callable[[Path], str], mend: str
) -> Path:
    """The path for our file: in the first directory in which it would take effect.

    Args:
        directories: the included directories, best first.
        chosen: the one that the user named; None for any.
        name: name of our file.
        hindrance: why a file of ours at this path would not take effect; empty when it would.
        mend: advice that would give it a place.

    Raises:
        UsageError: there is none.
    """
    found = [one for one in directories if chosen is None or one.resolve() == chosen.resolve()]
    reasons = [] if found else [f"{chosen} is not included" if chosen else "no directory is included"]
    for directory in found:
        if not (reason := hindrance(directory / name)):
            return directory / name
        reasons.append(f"in {directory} {reason}")
    raise UsageError(f"no place for trimtab's settings ({'; '.join(reasons)}): {mend}")


def edited(knob: str, before: Sequence[tuple[Any, ...]], now: Sequence[tuple[Any, ...]]) -> str:
    """Message where somebody else has set a knob; empty where nobody has.

    Args:
        knob: its name.
        before: each of its settings outside of our file when trimtab attached, the file first.
        now: each of its settings now.
    """
    if before == now:
        return ""
    touched = (*(one for one in now if one not in before), *(one for one in before if one not in now), *now)
    return f"{knob} was edited in {touched[0][0]}; trimtab leaves it alone now"
