"""One change of a server's configuration: write, test, reload, verify, and put back on any failure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from trimtab.core import Clock
from trimtab.errors import ApplyFailed, ApplyRefused, PlantGone, UsageError
from trimtab.plants import _own_file, _unloaded
from trimtab.plants._master import Master
from trimtab.plants._program import Verdict
from trimtab.plants._standstill import Standstill

Texts = dict[Path, str | None]
"""Texts that files shall hold, in the order of writing; None for a file that shall be removed."""

_REFUSED = "cannot write {path}: {why}"
_NOT_BACK = "{path} could not be put back: {why}; once that is mended, 'trimtab runs undo' does it"


class Server(Protocol):
    """A running server that is steered by files and reloads."""

    @property
    def master(self) -> Master:
        """Its first process."""
        ...

    @property
    def in_force(self) -> Mapping[str, int]:
        """Knob to value."""
        ...

    @property
    def standstill(self) -> Standstill | None:
        """That of its last reload by us; None where it is not known."""
        ...

    @property
    def by_hand(self) -> str:
        """How an operator reloads it."""
        ...

    def test(self) -> Verdict:
        """Has it check its configuration, once it is known that nobody else can have changed it.

        Raises:
            UsageError: somebody else could, or the program cannot be run.
            PlantGone: it has ended.
        """
        ...

    def refresh(self) -> None:
        """Notices changes by others.

        Raises:
            PlantGone: it has ended.
        """
        ...


S = TypeVar("S", bound=Server)


@dataclass(frozen=True)
class Change(ABC, Generic[S]):
    """New texts for files, and the conditions once they are in force.

    Args:
        server: the running server.
        clock: for the waits.
        texts: new texts of the files.
    """

    server: S
    clock: Clock
    texts: Texts

    @abstractmethod
    def reloaded(self, expected: Mapping[str, int]) -> tuple[str, ...]:
        """Reloads the server, and makes sure that the intended values are in force.

        Args:
            expected: knob name to the value that must be in force then.

        Returns:
            What the user should know, one line each.

        Raises:
            ApplyRefused: it may not be reloaded with these now; it was not asked to.
            ApplyFailed: it is not, or the server did not reload in time.
            PlantGone: it has ended.
        """

    def mark(self) -> None:
        """Marks the server, before its files say something else than it runs with."""
        _unloaded.mark(self.server.master, self.server.in_force)

    def loaded(self) -> None:
        """Takes the server's mark away: it runs with what its files say."""
        _unloaded.unmark(self.server.master)

    def present(self) -> Texts:
        """Present texts of these files.

        Raises:
            UsageError: one cannot be read.
        """
        return {path: _own_file.read(path) for path in self.texts}

    def hidden(self, path: Path) -> bool:
        """Whether a file is read by nobody but trimtab."""
        return False

    def write(self, path: Path, text: str | None) -> None:
        """Puts a text in a file's place.

        Raises:
            UsageError: others could change what is written, or something else is in its place.
            OSError: it could not be done; what was there before still is.
        """
        # A hidden one holds an operator's file, which may be for fewer eyes than our settings.
        _own_file.write(path, text, 0o600 if self.hidden(path) else 0o644)

    def bring(self, expected: Mapping[str, int]) -> tuple[str, ...]:
        """Brings the change into force.

        Args:
            expected: knob name to the value that must be in force then.

        Returns:
            What the user should know, one line each.

        Raises:
            ApplyRefused: the server does not accept it, or may not be reloaded now; the files are as they were.
            ApplyFailed: it did not take; the files and what is in force are as they were.
            PlantGone: the server ended; the files are as they were.
        """
        try:
            previous = replace(self, texts=dict(reversed(self.present().items())))
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        if None in self.texts.values():  # what tells of the trial goes before that is out of force
            self.mark()
        try:
            self._put(_REFUSED)
            self.test(expected)
        except BaseException as error:
            self._go_back(previous, error, lambda: previous._put(_NOT_BACK))
            if isinstance(error, OSError | UsageError | ApplyFailed):
                raise ApplyRefused(str(error)) from None
            raise
        try:
            notes = self.reloaded(expected)
        except (ApplyRefused, PlantGone) as error:  # no reload to take back
            self._go_back(previous, error, lambda: previous._put(_NOT_BACK))
            if isinstance(error, PlantGone) and (read := previous._read_meanwhile()):
                raise NotBack(error, read, Debt(previous, self.texts)) from error
            raise
        except BaseException as error:
            self._go_back(previous, error, previous.undo)
            if isinstance(error, OSError | UsageError):
                raise ApplyFailed(str(error)) from error
            raise
        self.loaded()
        return notes

    def undo(self) -> None:
        """Puts the texts in the files' places, and raises only after that where the server refuses its configuration.

        Raises:
            ApplyFailed: a file could not be put there, as on a full disk, or they are as wanted, but the server was
                not or could not be reloaded, or another that was started in its place may have read ours; the message
                says which.
        """
        self.mark()
        self._put(_NOT_BACK)
        there = False
        try:
            self.test({})
            there = True
            self.reloaded({})
            self.loaded()
        except PlantGone as error:
            if read := self._read_meanwhile():
                raise ApplyFailed(read) from None
            if there:
                raise ApplyFailed(f"{self._as_it_was}, but {error} in the reload to it: start it") from None
        except Exception as error:  # a defect too: the files are back, and the server does not know
            why = f"{self.server.master.title} was not reloaded to it: {error}; once that is mended"
            raise ApplyFailed(f"{self._as_it_was}, but {why}, {self._by_hand}") from None

    def test(self, expected: Mapping[str, int]) -> None:
        """Makes sure that the server would accept the files on disk, and that it reads those written.

        Args:
            expected: knob name to the value that is to come into force; none in an undo, where it is enough that the
                server accepts what is there.

        Raises:
            ApplyRefused: it would not, or does not.
            UsageError: it cannot be asked.
            PlantGone: it has ended.
        """
        title, verdict = self.server.master.title, self.server.test()
        if not verdict.valid:
            raise ApplyRefused(f"{title} refuses the configuration: {verdict.message}")
        for path, text in self.texts.items():
            known = verdict.files is None or path in verdict.files or self.hidden(path) or text is None
            if expected and not known:
                raise ApplyRefused(f"{title} does not read {path}")

    def require(self, expected: Mapping[str, int]) -> None:
        """Makes sure that these values are in force.

        Raises:
            ApplyFailed: one is not.
        """
        for knob, value in expected.items():
            if self.server.in_force[knob] != value:
                raise ApplyFailed(f"{knob} is {self.server.in_force[knob]} after the reload, not {value}")

    @property
    def _as_it_was(self) -> str:
        there = ", ".join(str(path) for path in self.texts if not self.hidden(path))
        return f"{there or 'its configuration'} is as it was"

    @property
    def _by_hand(self) -> str:
        return f"reload it ({self.server.by_hand})"

    def _read_meanwhile(self) -> str:
        """Message where another server was started in the place of one that has ended; empty where none was."""
        there = ", ".join(map(str, self.server.master.successors()))
        read = f"{there}, started meanwhile, may have read it before that"
        return f"{self._as_it_was}, but {read}: {self._by_hand}" if there else ""

    def _put(self, failing: str) -> None:
        """Puts the texts in the files' places, where something else is there.

        Args:
            failing: message where it cannot be done.

        Raises:
            ApplyFailed: it cannot; this file, and those after it, are as they were.
        """
        for path, text in self.texts.items():
            try:
                if not _holds(path, text):
                    self.write(path, text)
            except (UsageError, OSError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                raise ApplyFailed(failing.format(path=path, why=why)) from None

    def _go_back(self, previous: Change[S], why: BaseException, put: Callable[[], None]) -> None:
        """Puts back the earlier texts, after `why`.

        Raises:
            NotBack: that failed too.
        """
        try:
            put()
        except ApplyFailed as error:
            raise NotBack(why, str(error), Debt(previous, self.texts)) from why
        self.loaded()


@dataclass(frozen=True)
class Debt:
    """What a change that failed could not put back, or an undo could not bring into force.

    Args:
        change: the change that does it.
        ours: texts that its files may hold until then.
    """

    change: Change[Any]
    ours: Texts

    def pay(self) -> None:
        """Puts everything back.

        Raises:
            UsageError: somebody has edited a file meanwhile, which is left alone, or it cannot be read.
            ApplyFailed: it fails again.
        """
        self.put()
        self.change.undo()

    def put(self) -> None:
        """Puts the files back, and tells the server nothing: something else is to come into force.

        Raises:
            UsageError: somebody has edited a file meanwhile, which is left alone, or it cannot be read.
            ApplyFailed: it fails again.
        """
        for path, text in self.change.present().items():
            if text not in (self.change.texts[path], self.ours.get(path)):
                raise UsageError(_own_file.taken_over(path, text))
        self.change._put(_NOT_BACK)


class NotBack(ApplyFailed):
    """A change that did not take, and that could not be put back either.

    Args:
        why: why it did not take.
        said: why it could not be put back.
        debt: what is still to be done.
    """

    def __init__(self, why: BaseException, said: str, debt: Debt) -> None:
        super().__init__(f"{why}; {said}")
        self.why, self.said, self.debt = why, said, debt


def _holds(path: Path, text: str | None) -> bool:
    """Whether a file holds a text already."""
    try:
        return _own_file.read(path) == text
    except UsageError:
        return False
