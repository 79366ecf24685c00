"""Journal of what trimtab sets in a running MariaDB, written before it is set, so that a killed run can be undone.

What is set lives as long as the server's process, and so does the journal: one file for each process, in this user's
state directory. A knob is still ours while it has one of the values that were written down for it; with any other it
is the operator's.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from trimtab import own
from trimtab.errors import UsageError
from trimtab.plants import _journal
from trimtab.plants.mariadb.process import MariadbServer
from trimtab.processes import boot_id
from trimtab.trust import printable


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
        entries = _journal.read(path, dict[str, Entry]) or {}
        if unknown := [name for name in entries if name not in known]:
            raise UsageError(f"{path} is not what trimtab wrote: unknown knob {printable(unknown[0])!r}")
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
        _journal.write(self.path, self.entries or None)
        _journal.tidy(self.path.parent)
