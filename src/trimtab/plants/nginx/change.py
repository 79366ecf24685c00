"""One change of nginx's configuration: its reload, and how it is verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import ApplyFailed
from trimtab.plants import _change, _own_file
from trimtab.plants._change import Texts
from trimtab.plants.nginx import edits, status
from trimtab.plants.nginx.attached import Attached
from trimtab.plants.nginx.knobs import counted, value_of
from trimtab.plants.nginx.locations import NAME
from trimtab.plants.nginx.reload import Patience, reload
from trimtab.processes import open_files

_WATCHED_MS = 1000
"""A keep-alive time up to this is seen in force on a connection of our own; a longer one would take too long."""


@dataclass(frozen=True)
class Change(_change.Change[Attached]):
    """New texts for our own files and for the operator's.

    Args:
        patience: how long a reload may take.
    """

    patience: Patience

    def present(self) -> Texts:
        """Present texts of these files, to the byte.

        Raises:
            UsageError: one cannot be read, or somebody else can change it.
        """
        return edits.present(self.texts)

    def hidden(self, path: Path) -> bool:
        """Whether a file is one that stands beside an operator's."""
        return edits.is_kept(path)

    def write(self, path: Path, text: str | None) -> None:
        """Puts a text in a file's place; an operator's stays beside it, and comes back from there."""
        theirs = path.name != NAME and not self.hidden(path)
        if theirs and text is not None:
            edits.replace(path, text)
            return
        if text is None and self.hidden(path):
            _own_file.write(edits.original(path), None)
        super().write(path, text)

    def reloaded(self, expected: Mapping[str, int]) -> tuple[str, ...]:
        """Reloads nginx, and makes sure that the intended values are in force.

        Raises:
            ApplyFailed: it is not, or the new processes did not come in time.
            PlantGone: it has ended.
        """
        nginx, notes = self.server, list[str]()
        before = dict(nginx.in_force) if expected else None
        config = nginx.config
        processes = value_of(config, "worker_processes")
        seen = reload(nginx.master, processes, self.clock, self.patience, counted(config))
        nginx.finishing.reloaded(seen.old, before)
        nginx.read_running()
        self.require(expected)
        files = min((n for pid, _ in seen.workers if (n := open_files(pid)) is not None), default=None)
        if files is not None and files < nginx.in_force["worker_connections"]:
            notes.append(f"a process may have only {files} files open, so it cannot hold all its connections")
        wait_ms = expected.get("keepalive_timeout_ms", _WATCHED_MS + 1)
        if wait_ms <= _WATCHED_MS and nginx.page is not None and status.outlives(nginx.page, wait_ms / 1000):
            raise ApplyFailed(f"an idle connection is kept for longer than {wait_ms} ms after the reload")
        if seen.old:
            many = f"{len(seen.old)} processes of the previous configuration still finish their requests"
            one = "1 process of the previous configuration still finishes its requests"
            notes.append(one if len(seen.old) == 1 else many)
        return tuple(notes)
