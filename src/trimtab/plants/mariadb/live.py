"""What a restart of MariaDB would forget, on disk until it is set again: a kill in between forgets nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab import own
from trimtab.errors import ApplyFailed, UsageError
from trimtab.plants import _journal
from trimtab.plants.mariadb.attached import Attached
from trimtab.plants.mariadb.process import MariadbServer
from trimtab.processes import boot_id
from trimtab.trust import printable

Values = Mapping[str, int | float | str | None]
"""Variable to value, as a statement sets it."""


@dataclass(frozen=True)
class _Record:
    """The file's content.

    Args:
        boot: the boot of the machine.
        pid: the process that had them.
        started: its start time, as the kernel counts it.
        values: the variables.
    """

    boot: str
    pid: int
    started: int
    values: Values


@dataclass(frozen=True)
class Live:
    """The file for one unit of systemd.

    Args:
        path: where it is.
    """

    path: Path

    @staticmethod
    def of(unit: str, directory: Path | None = None) -> Live:
        """The file for a unit.

        Args:
            unit: its name.
            directory: where journals are; None for this user's own.
        """
        return Live((directory or own.state() / "mariadb") / f"live-{unit}.json")

    def keep(self, server: MariadbServer, values: Mapping[str, object]) -> None:
        """Writes down what this server has and a restart forgets; nothing where it has nothing.

        Raises:
            UsageError: it cannot be written, or others could change it.
        """
        known = {name: value for name, value in values.items() if isinstance(value, int | float | str | None)}
        _journal.write(self.path, _Record(boot_id(), server.pid, server.started, known) if known else None)

    def before(self, server: MariadbServer) -> Values:
        """What the server had in whose place this one is; empty where nothing was written down.

        Raises:
            UsageError: others could have written it, or it makes no sense.
        """
        found = _journal.read(self.path, _Record)
        if found is None or found.boot != boot_id() or (found.pid, found.started) == (server.pid, server.started):
            return {}
        if strange := [name for name in found.values if not name.isidentifier()]:
            raise UsageError(f"{self.path} is not what trimtab wrote: {printable(strange[0])!r} is no variable")
        return found.values

    def forgotten(self, attached: Attached) -> Values:
        """What a restart of ours has made MariaDB forget, as trimtab was killed before it was set again.

        Raises:
            PlantError: MariaDB did not answer.
            PlantGone: it has ended.
            UsageError: what was written down was not by us, or makes no sense.
        """
        return attached.forgotten(self.before(attached.server))

    def set_again(self, attached: Attached) -> None:
        """Sets it again, and forgets it.

        Raises:
            ApplyFailed: MariaDB does not take all of it.
            PlantError: as for `forgotten`.
            PlantGone: it has ended.
            UsageError: as for `forgotten`; or it cannot be removed.
        """
        lost = attached.set_again(self.forgotten(attached))
        self.settled()
        if lost:
            raise ApplyFailed(f"could not set again what was set live before a restart: {', '.join(lost)}")

    def settled(self) -> None:
        """Takes it away: all of it is in force again.

        Raises:
            UsageError: others could change it, or it cannot be removed.
        """
        _journal.write(self.path, None)
