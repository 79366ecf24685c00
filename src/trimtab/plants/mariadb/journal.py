"""Journal of what trimtab sets in a running MariaDB, written before it is set, so that a killed run can be undone.

What is set lives as long as the server's process, and so does the journal: one file for each process, in this user's
state directory. A knob is still ours while it has one of the values that were written down for it; with any other it
is the operator's.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from trimtab import codec, own
from trimtab.errors import UsageError
from trimtab.files import read_regular, remove, write_whole
from trimtab.plants.mariadb.process import MariadbServer
from trimtab.processes import boot_id, start_of
from trimtab.trust import printable, require_trusted

_NAME = re.compile(r"([0-9a-f-]{36})-(\d+)-(\d+)\.json")


@dataclass(frozen=True)
class Entry:
    """One knob.

    Args:
        before: its value before trimtab set it first.
        ours: the values that trimtab has set, or was about to set, the last one last.
    """

    before: int
    ours: tuple[int, ...] = ()


@dataclass(frozen=True)
class Journal:
    """Settings made in one process.

    Args:
        path: the journal's file.
        entries: an entry for each knob that was set.
    """

    path: Path
    entries: Mapping[str, Entry] = field(default_factory=dict)

    @staticmethod
    def of(server: MariadbServer, known: Container[str], directory: Path | None = None) -> Journal:
        """The journal of a running server, as it is on disk.

        Args:
            server: the server.
            known: the knobs that there are.
            directory: where journals are; None for this user's own.

        Raises:
            UsageError: others could change it, or it is no journal.
        """
        directory = directory or own.state() / "mariadb"
        path = directory / f"{boot_id()}-{server.pid}-{server.started}.json"
        try:
            require_trusted(path)
            text = read_regular(path)
            entries = {} if text is None else codec.decode(text, dict[str, Entry])
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from None
        except ValueError as error:
            raise UsageError(f"{path} is not as trimtab wrote it: {error}") from None
        if unknown := [name for name in entries if name not in known]:
            raise UsageError(f"{path} is not as trimtab wrote it: unknown knob {printable(unknown[0])!r}")
        return Journal(path, entries)

    def with_values(self, now: Mapping[str, int], values: Mapping[str, int]) -> Journal:
        """The journal once these values are about to be set.

        Args:
            now: what is in force.
            values: knob to value.
        """
        entries = dict(self.entries)
        for knob, value in values.items():
            found = entries.get(knob, Entry(now[knob]))
            if found.ours and now[knob] not in (*found.ours, found.before):
                found = Entry(now[knob])  # the operator has set it since: an undo goes back to that
            entries[knob] = replace(found, ours=(*(one for one in found.ours if one != value), value))
        return replace(self, entries=entries)

    def left(self, now: Mapping[str, int]) -> dict[str, int]:
        """The knobs that still have a value of ours, and the value that each goes back to."""
        return {
            knob: entry.before
            for knob, entry in self.entries.items()
            if now.get(knob) in entry.ours and now.get(knob) != entry.before
        }

    def write(self) -> None:
        """Puts it on disk; one without entries is taken away, and so are those of servers that have ended.

        Raises:
            UsageError: others could change it, or it cannot be written.
        """
        directory = self.path.parent
        try:
            for missing in reversed([one for one in (directory, *directory.parents) if not one.exists()]):
                missing.mkdir(mode=0o700, exist_ok=True)
            require_trusted(directory)
            if self.entries:
                write_whole(self.path, codec.encode(self.entries), 0o600)
            else:
                remove(self.path)
            for path in _of_the_dead(directory.iterdir()):
                with contextlib.suppress(FileNotFoundError):
                    remove(path)
        except OSError as error:
            raise UsageError(f"cannot write {self.path}: {error.strerror}") from None


def _of_the_dead(paths: Iterable[Path]) -> list[Path]:
    """The journals of servers that have ended, and their settings with them."""
    found = []
    for path in paths:
        if one := _NAME.fullmatch(path.name):
            boot, pid, started = one.groups()
            if boot != boot_id() or start_of(int(pid)) != int(started):
                found.append(path)
    return found
