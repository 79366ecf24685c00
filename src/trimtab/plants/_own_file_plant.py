"""A plant that is steered by one file of trimtab's own and by reloads: what is the same for every such server.

It remembers what was there before the first change, what it wrote and what that set; it changes in two phases, stands
a knob down that somebody else has set, and undoes what it, or an earlier run that was killed, has done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trimtab.core import Applied, Configuration, Knob, Plant, Prepared, Sensor
from trimtab.errors import ApplyRefused, OperatorEdit, UsageError
from trimtab.plants import _own_file
from trimtab.trust import printable


class Server(Protocol):
    """The running server."""

    @property
    def in_force(self) -> Mapping[str, int]:
        """Knob to value."""
        ...

    def refresh(self) -> None:
        """Notices what others have done to it.

        Raises:
            PlantGone: it has ended.
        """
        ...


class Change(Protocol):
    """A new text for our file."""

    def bring(self, expected: Mapping[str, int]) -> tuple[str, ...]:
        """Brings it into force, or puts everything back; gives what the user should know."""
        ...

    def undo(self) -> None:
        """Puts it in place even where the server then refuses its configuration, which is said."""
        ...


@dataclass(frozen=True)
class _Standing:
    """What stands of ours.

    Args:
        original: what was there before our first change; None for nothing.
        written: what we wrote; None for nothing yet.
        values: knob to the value that it sets.
    """

    original: str | None = None
    written: str | None = None
    values: Mapping[str, int] | None = None


@dataclass(frozen=True)
class _Texts:
    """What a prepared change needs to be committed and rolled back.

    Args:
        path: our file.
        text: what it is to hold.
        values: knob to the value that it sets.
        standing: what stood before.
        found: what was in the file's place before our first change.
    """

    path: Path
    text: str
    values: Mapping[str, int]
    standing: _Standing
    found: str | None


class OwnFilePlant(Plant):
    """The base of such plants.

    Args:
        server: the running server.
        knobs: its knobs.
    """

    def __init__(self, server: Server, knobs: Iterable[Knob]) -> None:
        self._server = server
        self._knobs = {knob.name: knob for knob in knobs}
        self._standing = _Standing()
        self._down: dict[str, str] = {}
        self._told: set[str] = set()
        self._sensors: tuple[Sensor, ...] = ()

    def place(self) -> Path:
        """Where our file is, or is to be.

        Raises:
            UsageError: there is no place where it would take effect.
        """
        raise NotImplementedError

    def permitted(self) -> None:
        """Makes sure that the server may be reloaded.

        Raises:
            UsageError: it may not, or not without harm.
            PlantGone: it has ended.
        """
        raise NotImplementedError

    def composed(self, values: Mapping[str, int], before: str | None) -> str:
        """The text of our file that sets these values, and remembers what was there before."""
        raise NotImplementedError

    def change(self, path: Path, text: str | None) -> Change:
        """What brings a text for our file into force; None has it gone."""
        raise NotImplementedError

    def edits(self, knobs: Iterable[str]) -> Mapping[str, str]:
        """The knobs that somebody else has set outside of our file, and what was found."""
        raise NotImplementedError

    def script(self, path: Path, before: str | None) -> str:
        """A shell script that puts a text back in our file's place."""
        raise NotImplementedError

    @property
    def set_to(self) -> Mapping[str, int]:
        """Knob to the value that our file sets."""
        return self._standing.values or {}

    def knobs(self) -> tuple[Knob, ...]:
        """The knobs that can be moved here, with the domains that hold for this installation."""
        return tuple(self._knobs.values())

    def sensors(self) -> tuple[Sensor, ...]:
        """The sensors that work here."""
        return self._sensors

    def close(self) -> None:
        """Gives back the sensors, without changing the server; may be called twice."""
        for sensor in self._sensors:
            sensor.close()

    def configuration(self) -> Configuration:
        """What is in force now.

        Raises:
            OperatorEdit: somebody else has set a knob of ours; said once for each.
            PlantGone: the server has ended.
        """
        self._server.refresh()
        self._look_for_edits(self.set_to)
        for knob, message in self._down.items():
            if knob in self.set_to and knob not in self._told:
                self._told.add(knob)
                raise OperatorEdit(knob, message)
        return {knob: self._server.in_force[knob] for knob in self._knobs}

    def check_permissions(self) -> None:
        """Makes sure, before anything is changed, that a change could be made.

        Raises:
            UsageError: it could not; the message says what is needed.
            PlantGone: the server has ended.
        """
        self.permitted()
        _own_file.writable(self.place(), self._standing.written)

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Checks a change, and composes what our file is to hold; nothing is touched.

        Raises:
            ApplyRefused: not valid, against a rule among the knobs, or not permitted.
            OperatorEdit: somebody else has set one of the knobs.
            PlantGone: the server has ended.
        """
        wanted, standing = self.validated(changes), self._standing
        try:
            self._server.refresh()
            self._look_for_edits({*wanted, *self.set_to})
            for knob in wanted:
                if knob in self._down:
                    self._told.add(knob)
                    raise OperatorEdit(knob, self._down[knob])
            now = {knob: self._server.in_force[knob] for knob in wanted}
            if now == wanted:
                return Prepared(wanted, now)
            if why := self.objection({**self._server.in_force, **wanted}):
                raise ApplyRefused(why)
            self.check_permissions()
            path = self.place()
            found = _own_file.read(path) if standing.written is None else standing.original
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        values = {knob: value for knob, value in {**self.set_to, **wanted}.items() if knob not in self._down}
        return Prepared(wanted, now, _Texts(path, self.composed(values, found), values, standing, found))

    def commit(self, prepared: Prepared) -> Applied:
        """Brings a prepared change into force by one reload: all of it or nothing.

        Raises:
            ApplyRefused: the server does not accept it; nothing changed.
            ApplyFailed: did not take; what was before is restored.
            PlantGone: the server has ended.
        """
        texts: _Texts | None = prepared.detail
        if texts is None:
            return Applied(self.configuration(), 0.0, ("already in force; not reloaded",))
        started_s = self.clock.now_s()
        notes = self.change(texts.path, texts.text).bring(texts.values)
        self._standing = _Standing(texts.found, texts.text, texts.values)
        return Applied(self.configuration(), self.clock.now_s() - started_s, notes)

    def rollback(self, prepared: Prepared) -> None:
        """Takes back a change that was committed, by one more reload; one that was only prepared touched nothing.

        Raises:
            ApplyFailed: the file is as it was, but the reload to it did not take.
        """
        texts: _Texts | None = prepared.detail
        if texts is None or self._standing.written != texts.text:
            return
        before = texts.standing
        self.change(texts.path, texts.found if before.written is None else before.written).undo()
        self._standing = before

    def restore(self) -> None:
        """Puts back what was in force before the first `apply`; may be called twice.

        Raises:
            OperatorEdit: our file was edited by somebody else, and was left as it is.
            ApplyFailed: the file is as it was, but the reload to it did not take.
        """
        standing = self._standing
        if standing.written is None:
            return
        path = self.place()
        if edit := _edit(path, standing.written, standing.original):
            raise OperatorEdit(min(self.set_to), edit)
        self.change(path, standing.original).undo()
        self._standing = _Standing()

    def leftover(self) -> str:
        """What an earlier trimtab left behind, in one line; empty when nothing."""
        try:
            path = self.place()
            found = _own_file.leftover(_own_file.read(path) or "")
        except UsageError:
            return ""
        return f"{path} is left from an earlier run" if found and self._standing.written is None else ""

    def undo_leftover(self) -> None:
        """Takes away what earlier runs left behind, back to what was there before the first of them.

        Raises:
            UsageError: it may not be done from here; the message says what is needed.
            ApplyFailed: the file is as it was, but the reload to it did not take.
        """
        path = self.place()
        text = _own_file.read(path)
        before = _own_file.before_all(text)
        if before != text and self._standing.written is None:
            self.permitted()
            self.change(path, before).undo()

    def undo_script(self) -> str:
        """A POSIX shell script that undoes what `apply`, or an earlier run, has done, for a user without trimtab."""
        try:
            path = self.place()
            now = _own_file.read(path)
        except UsageError as error:
            return f"#!/bin/sh\n# There is nothing that trimtab could undo:\n# {printable(str(error))}\nexit 0\n"
        return self.script(
            path, _own_file.before_all(now) if self._standing.written is None else self._standing.original
        )

    def _look_for_edits(self, knobs: Iterable[str]) -> None:
        """Stands down the knobs that somebody else has set."""
        written = self._standing.written
        if written is not None and (edit := _edit(self.place(), written)):
            self._down |= dict.fromkeys(self._knobs, edit)
            return
        self._down |= self.edits(knobs)


def _edit(path: Path, *ours: str | None) -> str:
    """What somebody else has done to our file; empty when it holds one of our texts."""
    try:
        text = _own_file.read(path)
    except UsageError as error:
        return f"{error}; trimtab leaves it alone now"
    return "" if text in ours else _own_file.taken_over(path, text)
