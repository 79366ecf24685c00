"""Squid as a plant: a running one, the user's own or a private one.

It is steered by one small file of trimtab's own, which Squid reads after the operator's, and by reloads (SIGHUP to
its master). A change is tested by Squid's own program, and read back: the worker is the same and listens at new
sockets, its files say what was meant, and what the manager says of its memory is no other limit's. What it has set
Squid does not say (`manager`). A reload closes the listening ports; trimtab holds them open where it can (`held`),
and where it cannot nothing is changed unless the lost connections are accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from trimtab.core import Clock, Configuration, Sensor
from trimtab.core.memory import Need, under
from trimtab.errors import UsageError
from trimtab.plants import _unloaded
from trimtab.plants._change import Texts
from trimtab.plants._included_files import directories
from trimtab.plants._included_server import IncludedPlant
from trimtab.plants._master import Master
from trimtab.plants.squid import knobs, manager, snippet
from trimtab.plants.squid.attached import WORKER, Attached
from trimtab.plants.squid.change import Change
from trimtab.plants.squid.configuration import read
from trimtab.plants.squid.process import SquidMaster
from trimtab.plants.squid.program import Program
from trimtab.plants.squid.reload import Patience
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.held_back import HeldBack
from trimtab.sensors.resources import Resources

_AROUND_RATIO = 1.6
"""Memory of the process to its cache_mem: 92 MiB to 59 MiB with 5000 objects of 10 KB (docs/squid.md)."""


class Squid(IncludedPlant):
    """A running Squid.

    Args:
        clock: for the waits of a reload.
        attached: the running Squid.
        snippet_directory: where our file shall go; None to look for one.
        patience: how long a reload may take.
        accept_lost: whether connections may be lost in a reload.
        may_restart: whether the worker may be replaced, and its open connections ended.

    Raises:
        UsageError: it is to be restarted, and has a cache_dir, or does not say what it was built with.

    Attributes:
        listeners: where it listens.
        manager_url: where the pages of its manager are.
    """

    name = "squid"
    _server: Attached
    reloaded_by = "HUP"
    own_sensors = manager.SENSORS

    def __init__(
        self,
        clock: Clock,
        attached: Attached,
        snippet_directory: Path | None = None,
        patience: Patience | None = None,
        accept_lost: bool = False,
        may_restart: bool = False,
    ) -> None:
        self.listeners = attached.listeners
        self.manager_url = attached.manager_url
        self._patience = patience or Patience()
        self._accept_lost = accept_lost
        self._may_restart = may_restart
        disk = attached.loaded.all("cache_dir")
        if may_restart and disk:
            raise UsageError(f"Squid is not restarted by trimtab where it has a cache_dir ({disk[-1].where})")
        policies = attached.program.policies() if may_restart else ()
        super().__init__(
            clock,
            attached,
            knobs.knobs(attached.in_force, attached.rooms, may_restart, bool(disk), policies),
            snippet_directory,
        )

    @staticmethod
    def attach(
        clock: Clock,
        pid: int | None = None,
        manager_url: str | None = None,
        snippet_directory: Path | None = None,
        accept_lost: bool = False,
        may_restart: bool = False,
    ) -> Squid:
        """Finds a running Squid and attaches to it.

        Args:
            clock: for the waits of a reload.
            pid: its master; None when only one Squid runs.
            manager_url: where the pages of its manager are; None to look for them.
            snippet_directory: an included directory for trimtab's own file; None to look for one.
            accept_lost: whether connections may be lost in a reload.
            may_restart: whether the worker may be replaced, and its open connections ended.

        Raises:
            UsageError: none or several run, or it cannot be read from here; the message says what is needed.
            PlantGone: it ended.
        """
        attached = Attached(SquidMaster.find(pid), clock, manager_url)
        return Squid(clock, attached, snippet_directory, None, accept_lost, may_restart)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on this Squid for the user, one line each."""
        if self._may_restart:
            return self._server.notes()
        left = " and ".join(sorted(knobs.AT_START))
        return (*self._server.notes(), f"{left} are read at the start alone: --allow-restart makes them knobs")

    def new_sensors(self) -> tuple[Sensor, ...]:
        """Those of the kernel and of the manager's pages."""
        pages = manager.sensors(self.manager_url, self.clock, self._server.loaded.tunnels())
        queue = AcceptQueue(self.listeners, self.clock, self.pid, manager.Visitor(pages))
        return queue, Resources(self.pid, self.clock), HeldBack(self._server), *pages

    def objection(self, configuration: Mapping[str, int]) -> str:
        """Why these values make no sense together, or do not fit into memory; empty when they do."""
        return knobs.objection(configuration) or self.overfull(configuration)

    def needs(self, configuration: Configuration) -> tuple[Need, ...]:
        """The memory cache, and what is around its objects."""
        cache_mib = {**self._server.in_force, **configuration}["cache_mem"]
        return under(
            f"a memory cache of {cache_mib} MiB and what is around it",
            round(_AROUND_RATIO * (cache_mib << 20)),
            self._server.rooms,
        )

    def out_of_reach(self) -> Mapping[str, str]:
        """What only a start reads, and a worker that may not be replaced has otherwise than the files say."""
        squid = self._server
        return {} if self._may_restart else {name: f"restart {squid.master}" for name in squid.stale}

    def not_loaded(self) -> str:
        """That its files were put back and not loaded, or that its worker keeps what only a start reads."""
        kept = _unloaded.marked(self._server.master) or {}
        names = kept.keys() - {WORKER}
        if names and names <= knobs.AT_START:
            said = " and ".join(sorted(names))
            return f"{self._server.master} runs with {said} as an earlier run has set it until it is restarted"
        return super().not_loaded()

    def find_location(self, directory: Path | None) -> Path:
        """Path of our file.

        Raises:
            UsageError: there is no place where it would take effect.
        """
        squid = self._server
        return snippet.location(squid.program, squid.read(), squid.in_force, directory)

    def included_by(self, other: Master) -> Iterable[Path]:
        """The directories of which another Squid reads all files with such a name as ours."""
        assert isinstance(other, SquidMaster)
        theirs = Program.of(other)
        return directories(read(theirs.config_file, theirs.service).patterns, snippet.NAME)

    def permitted(self, accept_lost: bool) -> None:
        """Makes sure that Squid may be reloaded, and that no connection is lost by it."""
        self._server.permitted(accept_lost)

    def text(self, values: Mapping[str, int], before: str | None) -> str:
        """The text of our file."""
        return snippet.compose(values, before)

    def change(self, texts: Texts) -> Change:
        """The change that brings a text for our file into force."""
        return Change(self._server, self.clock, texts, self._patience.also(self._server.reading_s), self._may_restart)
