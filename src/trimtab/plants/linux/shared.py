"""Knobs that are one number in a file of the kernel: those of the machine, and of a control group."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from trimtab.errors import ApplyFailed, PlantGone, UsageError
from trimtab.plants.linux import putback
from trimtab.plants.linux.journal import Journal
from trimtab.plants.linux.knobs import KernelFile, hindrance


class Shared:
    """Such knobs, and the values given to them.

    Args:
        files: the knobs.
        journal: journal of the values from before.

    Attributes:
        given: knob to the value that was set.
    """

    def __init__(self, files: Iterable[KernelFile], journal: Journal) -> None:
        self._files = {one.knob.name: one for one in files}
        self._journal = journal
        self._first: dict[str, str] = {}
        self.given: dict[str, int] = {}

    def values(self) -> dict[str, int]:
        """Values in force, each to the nearest one of its knob's domain.

        Raises:
            PlantGone: a file has gone with its control group.
        """
        return {name: one.knob.domain.clip(int(_read(one)) / one.factor) for name, one in self._files.items()}

    def paths(self) -> list[str]:
        """Paths of the knobs' files."""
        return [os.fspath(one.path) for one in self._files.values()]

    def check(self) -> None:
        """Makes sure that every file may be written.

        Raises:
            UsageError: one may not.
        """
        for one in self._files.values():
            if why := hindrance(one):
                raise UsageError(f"{one.knob.name} may not be set: {why}")

    def edited(self) -> Mapping[str, str]:
        """The knobs that somebody else has set since, each with a message.

        Raises:
            PlantGone: a file has gone with its control group.
        """
        found = {}
        for name, value in self.given.items():
            one = self._files[name]
            if (text := _read(one)) != self._text(name, value):
                found[name] = f"{one.path} is {text}, where trimtab had set {self._text(name, value)}"
                self._journal.file_taken(os.fspath(one.path))
        return found

    def bring(self, values: Mapping[str, int]) -> None:
        """Sets these, or puts the first values back.

        Raises:
            ApplyFailed: did not take; what was before is restored.
            PlantGone: a file has gone with its control group.
        """
        before = {name: _read(self._files[name]) for name in values}
        for name, value in values.items():
            self._first.setdefault(name, before[name])
            self._journal.file(os.fspath(self._files[name].path), before[name], self._text(name, value))
        self._journal.write()
        try:
            for name, value in values.items():
                self._write(name, self._text(name, value))
        except BaseException as error:
            left = self._put_back(before)
            if isinstance(error, OSError | ApplyFailed):
                raise ApplyFailed(f"{error}; {left or 'what was before is restored'}") from None
            raise
        self.given |= values

    def _put_back(self, before: Mapping[str, str]) -> str:
        """Puts back what files held, and returns a message on those where that failed; empty where it did not."""
        left = []
        for name, text in before.items():
            try:
                putback.write_file(os.fspath(self._files[name].path), text)
            except OSError as error:
                left.append(f"{self._files[name].path}: {error.strerror}")
        return f"could not be put back: {'; '.join(left)}" if left else ""

    def forget(self, names: Iterable[str] | None = None) -> None:
        """Forgets the values given to these knobs, without a change; None for all."""
        for name in list(self.given if names is None else names):
            self.given.pop(name, None)

    def _text(self, name: str, value: int) -> str:
        """Text of a file for a value; its first text where that has this value."""
        one, first = self._files[name], self._first.get(name)
        if first is not None and one.knob.domain.clip(int(first) / one.factor) == value:
            return first
        return str(value * one.factor)

    def _write(self, name: str, text: str) -> None:
        """Writes one, and reads it back.

        Raises:
            ApplyFailed: it reads otherwise.
        """
        one = self._files[name]
        putback.write_file(os.fspath(one.path), text)
        if (found := _read(one)) != text:
            raise ApplyFailed(f"{one.path} is {found}, not {text}")


def _read(one: KernelFile) -> str:
    """Reads a file of the kernel.

    Raises:
        PlantGone: it has gone with its control group.
    """
    try:
        return putback.read_file(os.fspath(one.path))
    except OSError as error:
        raise PlantGone(f"{one.path} cannot be read: {error.strerror}") from None
