"""Base of plants whose server reads files that include others, as trimtab then does too (`_included_files`).

Such a server is steered by one file of trimtab's own that is read after the operator's, and by reloads.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from trimtab.core import Clock, Knob
from trimtab.errors import ApplyRefused
from trimtab.files import ABSENT
from trimtab.plants import _change
from trimtab.plants._edits import require_unedited
from trimtab.plants._included_files import Files
from trimtab.plants._master import Master
from trimtab.plants._own_file import put_back
from trimtab.plants._own_file_plant import OwnFilePlant, edited
from trimtab.plants._program import Verdict
from trimtab.plants._standstill import Standstill
from trimtab.plants._vetted import same_files, vet

C = TypeVar("C", bound=Files)

_BRIEF_S = 1.0
"""A client whose connection is not taken asks again after a second (RFC 6298, 2.1): so long it hardly notices."""


class IncludedServer(ABC, Generic[C]):
    """Such a server as it runs.

    Attributes:
        master: its first process.
        clock: says how long its own test takes.
        program: its program, with `test` and the `argv` of that.
        loaded: the configuration as the server has loaded it, as far as that is known.
        in_force: knob to value.
        reading_s: the least time that its own test of its configuration took; infinite where that is not known.
        section: the section that sets its knobs; empty where there are none.
        standstill: that of its last reload by us; None where it is not known.
        held_s: for how long it let no request begin for our changes so far, as far as that is known.
    """

    master: Master
    clock: Clock
    program: Any
    loaded: C
    in_force: Mapping[str, int]
    reading_s = math.inf
    section = ""
    standstill: Standstill | None = None
    held_s = 0.0
    by_hand: ClassVar[str]
    """How an operator reloads it."""

    @abstractmethod
    def parsed(self) -> C:
        """Parses the files on disk.

        Raises:
            UsageError: one cannot be read, or somebody else could change it.
        """

    @abstractmethod
    def values(self, configuration: C) -> dict[str, int]:
        """Values of all knobs in a configuration.

        Raises:
            UsageError: a value cannot be understood.
        """

    @abstractmethod
    def refresh(self) -> None:
        """Notices that somebody else has reloaded the server.

        Raises:
            PlantGone: it has ended.
        """

    def read(self) -> C:
        """The configuration as it is on disk.

        Raises:
            UsageError: it cannot be read, or somebody else could change it.
        """
        found = self.parsed()
        same_files(self.master, (path for path, seen in found.stamps.items() if seen != ABSENT))
        return found

    def test(self) -> Verdict:
        """Has the server check its configuration, once it is known that nobody else can have changed it.

        It starts for that as in a reload; then it is seen whether it would end in one all the same.

        Raises:
            UsageError: somebody else could, or the program cannot be run.
            PlantGone: it has ended.
        """
        began_s = self.clock.now_s()
        verdict = self._tested()
        if not verdict.valid:  # it may have stopped at the first line
            return verdict
        self.reading_s = min(self.reading_s, self.clock.now_s() - began_s)
        return Verdict(False, why) if (why := self._fatal()) else verdict

    @property
    def reads_long(self) -> bool:
        """Whether it is known to take long to read its configuration."""
        return _BRIEF_S < self.reading_s < math.inf

    @abstractmethod
    def _fatal(self) -> str:
        """Why a reload would end it, or who serves, though its own test passes; empty where nothing is seen."""

    def _tested(self) -> Verdict:
        vet(self.master)
        self.read()
        verdict: Verdict = self.program.test()
        return verdict

    def require_loaded(self, ours: Path) -> None:
        """Makes sure that a reload would bring nothing into force that was edited in mid-run, but our own file.

        Raises:
            ApplyLater: somebody has edited another one since the server loaded it.
            UsageError: it cannot be read, as in the middle of an edit.
        """
        if self.loaded.changed():
            require_unedited(self.loaded.says(ours), self.read().says(ours), self.master.title, self.by_hand)


S = TypeVar("S", bound=IncludedServer[Any])


@dataclass(frozen=True)
class IncludedChange(_change.Change[S]):
    """A new text for our file."""

    def test(self, expected: Mapping[str, int]) -> None:
        """Makes sure that the server would accept the files on disk, and that they set the intended values.

        Raises:
            ApplyRefused: it would not, or they do not.
            UsageError: it cannot be asked.
            PlantGone: it has ended.
        """
        super().test(expected)
        found = self.server.values(self.server.read())
        for name, value in expected.items():
            if found[name] != value:
                raise ApplyRefused(f"{name} would be {found[name]}, not {value}")


class IncludedPlant(OwnFilePlant):
    """The base of such plants; its arguments are those of `OwnFilePlant`."""

    settings: ClassVar[Mapping[str, str]] = {}
    """Knob to the name of its setting, where that is another."""
    reloaded_by: ClassVar[str]
    """The signal that makes the server reload, such as "HUP"."""

    _server: IncludedServer[Any]

    def __init__(
        self, clock: Clock, server: IncludedServer[Any], knobs: Iterable[Knob], directory: Path | None
    ) -> None:
        super().__init__(clock, server, knobs, directory)
        self._first: Files = server.loaded

    def check_moment(self, values: Mapping[str, int]) -> None:
        """Makes sure that a reload brings nothing else into force, which somebody has edited."""
        self._server.require_loaded(self.location())

    def edits(self, knobs: Iterable[str]) -> Mapping[str, str]:
        """The knobs that somebody else has set outside of our file."""
        server, changed = self._server, bool(self._server.loaded.changed())
        if server.loaded is self._first and not changed:
            return {}
        now = server.read() if changed else server.loaded  # in every window, and there may be a thousand pools

        def pair(knob: str) -> list[list[tuple[Path, str]]]:
            name = self.settings.get(knob, knob)
            return [one.others(name, server.section, self._file) for one in (self._first, now)]

        return {knob: said for knob in knobs if (said := edited(knob, *pair(knob)))}

    def kept(self, path: Path) -> Iterable[str]:
        """The knobs that our file sets as an earlier run has left it, and the server has loaded it."""
        server = self._server
        for knob in server.in_force:
            there = server.loaded.all(self.settings.get(knob, knob), server.section)
            if there and there[-1].file == path:
                yield knob

    def script(self, path: Path, before: str | None) -> str:
        """A shell script that puts a text back in our file's place."""
        server = self._server
        return server.master.undo_script([put_back(path, before)], server.program.argv, self.reloaded_by)
