"""A running Squid as trimtab reads it: its configuration on disk, and as far as known the one in force."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path

from trimtab import processes
from trimtab.core import Clock
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants import _unloaded
from trimtab.plants._included_files import Setting, changed_after
from trimtab.plants._included_server import IncludedServer
from trimtab.plants._vetted import same_network, vet
from trimtab.plants._view import gone, seen
from trimtab.plants.squid import knobs, manager
from trimtab.plants.squid.configuration import Configuration, read
from trimtab.plants.squid.held import hindrances
from trimtab.plants.squid.process import SquidMaster
from trimtab.plants.squid.program import Program
from trimtab.sensors._memory import rooms

WORKER = "worker's start"
"""In the mark of a Squid: when its worker was started, in clock ticks since boot."""
_RELOAD_PATIENCE_S = 5.0
_BY_DNS = re.compile(r"(\S+)\s+(?:dst|dst_as|srcdomain|srcdom_regex)\s(?!\s*(?:-\w+\s+)*-\w*n)")
"""An acl for which a name is resolved: one that does not forbid it."""
_WAITING = {"http_access", "adapted_http_access", "http_reply_access"}
_WAITING |= {"url_rewrite_access", "store_id_access", "adaptation_access"}
"""Rules for which a request waits until it is; the others go by what is known by then ("only fast acl types")."""
_BUILT_IN = {"to_localhost", "to_linklocal"}
"""Those of them that Squid has of its own."""
_LOG = re.compile(r"(?:(?:daemon|stdio):)?(/\S+)")
"""A log that is a file."""
_ON_DISK = re.compile(r"(?:ufs|aufs|diskd)\s+(/\S+)")
"""A cache whose worker keeps a log of it within."""


class Attached(IncludedServer[Configuration]):
    """A running Squid.

    Args:
        master: its master.
        clock: for the manager's page.
        manager_url: where the manager's pages are; None to look for them.

    Attributes:
        master: as given.
        program: its program.
        loaded: the configuration as it was when Squid was last seen to read it, or when trimtab attached.
        in_force: knob to value.
        pending: a file that was changed after Squid was started, so that it may not have read it yet; else None.
        listeners: addresses and ports at which it listens.
        manager_url: where the manager's pages are.
        rooms: the limits of its memory and what is there, as when it was looked at last.

    Raises:
        UsageError: it cannot be read from here; the message says what is needed.
        PlantGone: it has ended.
    """

    master: SquidMaster
    program: Program
    by_hand = "squid -k reconfigure"

    def __init__(self, master: SquidMaster, clock: Clock, manager_url: str | None = None) -> None:
        vet(master)
        self.master = master
        self.clock = clock
        self.program = Program.of(master)
        vet(master)
        self.loaded = self.read()
        # What only a start reads is still the trial's where a kill came between its file's going and the reload.
        self._worker = master.worker()
        kept = _unloaded.marked(master) or {}
        if kept and kept.get(WORKER) != processes.start_of(self._worker):
            _unloaded.unmark(master)  # another one has read its files since
            kept = {}
        at_start = {name: kept[name] for name in knobs.AT_START if name in kept}
        self.in_force = {**knobs.values(self.loaded), **at_start}
        self.rooms = rooms(self._worker)
        # Somebody's reload may be under way, in which it listens nowhere for a moment.
        self._sockets = master.awaited(clock, _RELOAD_PATIENCE_S, master.ports)
        self.listeners = tuple(sorted(set(self._sockets.values())))
        same_network(master)
        self.manager_url, memory = manager.find(self.listeners, clock, manager_url)
        self.pending = self._changed_since_start() or self._disagreeing(memory)

    def parsed(self) -> Configuration:
        """Parses the files on disk."""
        return read(self.program.config_file, self.program.service)

    def values(self, configuration: Configuration) -> dict[str, int]:
        """Values of all knobs in a configuration; of one that somebody has set to what is none, as it was before.

        That one stands down where it is ours, and keeps no other from being moved or put back.
        """
        return knobs.values(configuration, self.in_force)

    def _fatal(self) -> str:
        """Why a reload would end Squid's worker though its own test passes; empty where nothing is seen.

        It opens its logs anew, and ends where it cannot (`logfileOpen` in src/log/File.cc); so does the next worker.
        Each cache on disk has one too (`UFSSwapDir::openLog` in src/fs/ufs/UFSSwapDir.cc).
        """
        view, files = Path(f"/proc/{self.master.pid}/root"), self.parsed()
        for one in (*files.all("access_log"), *files.all("cache_store_log")[-1:]):
            log = _LOG.match(one.value)
            if log is not None and gone(seen(Path(log[1]).parent, view)):
                return (
                    f"Squid would end in a reload, though its own test passes: no directory for {log[1]} "
                    f"({one.where}): make it"
                )
        for one in () if files.all("cache_swap_state") or files.all("cache_swap_log") else files.all("cache_dir"):
            cache = _ON_DISK.match(one.value)
            if cache is not None and (why := _shut(seen(Path(cache[1]), view))):
                return f"Squid would end in a reload, though its own test passes: {cache[1]} ({one.where}) {why}"
        return ""

    def refresh(self) -> None:
        """Notices that somebody else has reloaded Squid, and what else needs memory now.

        Raises:
            PlantGone: it has ended.
        """
        self.master.check()
        try:
            now = self.master.ports()
        except UsageError:
            return  # its worker is just being replaced
        if now and not set(now) & set(self._sockets):
            self.reloaded()
        with contextlib.suppress(NotMeasured):  # its worker is just being replaced, and what was known stands
            self.rooms = rooms(self._worker)

    def reloaded(self) -> None:
        """Called once Squid has read the configuration on disk; the same worker keeps what only a start reads."""
        self.loaded = self.read()
        values, worker = self.values(self.loaded), self.master.worker()
        if worker == self._worker:
            values |= {name: self.in_force[name] for name in knobs.AT_START}
        else:
            _unloaded.unmark(self.master)
        self.in_force, self._worker = values, worker
        self._sockets = self.master.ports()
        self.pending = None

    @property
    def stale(self) -> list[str]:
        """What only a start reads, and the worker has otherwise than the files that it has loaded say."""
        wanted = self.values(self.loaded)
        return sorted(name for name in knobs.AT_START if self.in_force[name] != wanted[name])

    def mark(self, values: Mapping[str, int]) -> None:
        """Marks it with what its worker runs with, for as long as that runs: another one reads its files.

        Args:
            values: knob to value.
        """
        _unloaded.mark(self.master, {**values, WORKER: processes.start_of(self._worker) or 0})

    def permitted(self, accept_lost: bool) -> None:
        """Makes sure that Squid may be reloaded, that nothing is lost by it, and nobody waits for long.

        It has one thread, which serves nobody while it reads its configuration: with a list of some hundred thousand
        domains that is ten seconds. What waits for a cache_peer's reply may fail; most pages it asks for once more,
        but never what came with a body (`FwdState::checkRetriable` in src/FwdState.cc).

        Args:
            accept_lost: whether connections and requests may be lost.

        Raises:
            UsageError: it may not; the message says what is needed.
            PlantGone: it has ended.
        """
        self.master.signal(0)
        if fatal := self._fatal():
            raise UsageError(fatal)
        if not accept_lost and (why := hindrances(self.master)):
            raise UsageError(
                "a reload closes the listening ports for a moment, and connections that come or wait then are lost: "
                f"{' and '.join(why)}, or accept it with --accept-lost-connections"
            )
        if not accept_lost and (cut := self._cuts()):
            raise UsageError(f"{'; '.join(cut)}: accept it with --accept-lost-connections")
        if math.isinf(self.reading_s):
            self.test()
        if not accept_lost and self.reads_long:
            self.test()  # that may have been a busy moment
        if not accept_lost and self.reads_long:
            raise UsageError(f"{self._stops()}: shorten its lists, or accept it with --accept-lost-connections")

    def notes(self) -> tuple[str, ...]:
        """Notes for the user before anything is changed."""
        why = hindrances(self.master)
        found = [
            "every change is a reload: the listening ports are closed for a moment, and connections that come or "
            f"wait then are refused or reset; to lose none, {' and '.join(why)}"
            if why
            else "every change is a reload, through which trimtab keeps the listening ports open"
        ]
        found += self._cuts()
        if self.reads_long:
            found.append(self._stops())
        if self.pending is not None:
            found.append(
                f"{self.pending} was changed after Squid was started; if it was not reloaded since, another "
                "configuration is in force than is shown here, and a reload brings all such edits into force"
            )
        return tuple(found)

    def _stops(self) -> str:
        return (
            f"Squid takes {self.reading_s:.1f} s to read its configuration ('squid -k parse'), and in every reload "
            "it serves nobody for as long or longer"
        )

    def _cuts(self) -> list[str]:
        """What a reload does to requests that wait for somebody else's answer, a sentence for each kind.

        The access lists that wait for a helper's answer, or for that of a name server, are gone then, and what they
        would have allowed is denied (`ACLChecklist::prepNonBlocking` in src/acl/Checklist.cc).
        """
        helpers = [one for one in self.loaded.all("auth_param") if one.value.split()[1:2] == ["program"]]
        helped = [*self.loaded.all("external_acl_type"), *helpers][:1]
        said = "when Squid reloads, as for every change"
        waited_for = [f"a helper ({one.name}, {one.where})" for one in helped]
        waited_for += [f"the address of its host ({one.name}, {one.where})" for one in self._resolving()[:1]]
        return [
            f"a request on its way to a cache_peer ({peer.where}) may be answered 502 {said}, most of all one with a "
            "body (POST, PUT)"
            for peer in self.loaded.all("cache_peer")[:1]
        ] + [f"a request that waits for {what} may be answered 403 {said}" for what in waited_for]

    def _resolving(self) -> list[Setting]:
        """The rules for which a name is resolved."""
        asking = {*_BUILT_IN, *(found[1] for one in self.loaded.all("acl") if (found := _BY_DNS.match(one.value)))}
        rules = (one for one in self.loaded.settings if one.name in _WAITING)
        return [one for one in rules if asking & {word.lstrip("!") for word in one.value.split()}]

    def _changed_since_start(self) -> Path | None:
        """A file that was changed after its worker was started; Squid does not say when it was last reloaded."""
        ticks = processes.start_of(self.master.worker())
        return None if ticks is None else changed_after(self.loaded.files, ticks)

    def _disagreeing(self, memory: manager.Memory) -> Path | None:
        """The main file, where Squid's use of its memory contradicts its files."""
        return None if memory.agrees(self.in_force["cache_mem"] << 20) else self.program.config_file


def _shut(cache: Path) -> str:
    """Why nothing can be written in a directory any more; empty where nothing is seen."""
    if gone(cache):
        return "is not there: make it"
    try:
        read_only = os.statvfs(cache).f_flag & os.ST_RDONLY
    except OSError:
        return ""
    return "is on a file system that is read-only: mend that" if read_only else ""
