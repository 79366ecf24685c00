"""nginx as a plant: the user's own or a private one.

It is steered by files of trimtab's own where nginx includes a directory, by one value in the operator's file where
he allows it (`locations`), and by reloads, in which new processes take over and the old ones finish their requests. A
change is read back: the configuration test names the files, the master has started as many new processes as it was
told to, and a short keep-alive time is seen on a connection.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from trimtab.core import Clock, Configuration, Prepared, Sensor
from trimtab.core.memory import Need, under
from trimtab.errors import ApplyLater, ApplyRefused, OperatorEdit, UsageError
from trimtab.plants._beside import require_alone, require_unshared
from trimtab.plants._change import Texts
from trimtab.plants._reloaded_plant import ReloadedPlant
from trimtab.plants.nginx import edits
from trimtab.plants.nginx.attached import Attached, configuration_of, included_by
from trimtab.plants.nginx.change import Change
from trimtab.plants.nginx.knobs import kept_bytes, value_of
from trimtab.plants.nginx.ledger import Ledger
from trimtab.plants.nginx.locations import NAME, Nowhere, chosen
from trimtab.plants.nginx.process import Master
from trimtab.plants.nginx.reload import Patience
from trimtab.plants.nginx.stub_status import StubStatus
from trimtab.plants.nginx.undo import script
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.connections import Connections
from trimtab.sensors.pages import Pages
from trimtab.sensors.resources import Resources
from trimtab.sensors.shim import Shim


class Nginx(ReloadedPlant):
    """A running nginx.

    Args:
        clock: for the waits of a reload.
        attached: the running nginx.
        patience: how long a reload may take.
        accept_lost: whether requests may be lost in a reload, by a short worker_shutdown_timeout, HTTP/3, UDP or
            RTMP.

    Attributes:
        listeners: addresses and ports on which it listens.
    """

    name = "nginx"
    _server: Attached
    own_sensors = (StubStatus,)

    def __init__(
        self, clock: Clock, attached: Attached, patience: Patience | None = None, accept_lost: bool = False
    ) -> None:
        self.listeners = attached.listeners
        super().__init__(clock, attached, attached.knobs.values())
        self._patience = patience or Patience()
        self._accept_lost = accept_lost
        locations = chosen(attached.possible)
        self._ledger = Ledger.of(attached.config, {knob: locations[knob] for knob in attached.knobs})

    @staticmethod
    def attach(
        clock: Clock,
        pid: int | None = None,
        status_url: str | None = None,
        edit: bool = False,
        accept_lost: bool = False,
    ) -> Nginx:
        """Finds a running nginx and attaches to it.

        Args:
            clock: for the waits of a reload.
            pid: its master process; None when only one nginx runs.
            status_url: its page of stub_status; None to look for it.
            edit: whether values in the operator's own files may be changed.
            accept_lost: whether requests may be lost in a reload, by a short worker_shutdown_timeout, HTTP/3, UDP or
                RTMP.

        Raises:
            UsageError: none or several run, or it cannot be read from here; the message says what is needed.
        """
        if status_url is not None:
            StubStatus(status_url, clock)  # refuses a page outside this machine before it is asked
        return Nginx(clock, Attached(Master.find(pid), status_url, edit), None, accept_lost)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on this nginx for the user, one line each."""
        fixed = (location for location in self._server.possible.values() if isinstance(location, Nowhere))
        return (*self._server.notes, *(f"{location.why}: {location.enable}" for location in fixed))

    def new_sensors(self) -> tuple[Sensor, ...]:
        """Those of the kernel, of the status page where there is one, and of the shim where it is loaded."""
        clock, pid, page, shared = self.clock, self.pid, self._server.page, self._server.shared
        stub = None if page is None else StubStatus(page.url, clock, page.host)
        return (
            AcceptQueue(self.listeners, clock, pid, stub),
            Resources(pid, clock),
            Connections(self.listeners, clock, pid, None, shared),
            *(() if stub is None else (stub,)),
            # Last, so that its exact terms of Eq. (1) stand in place of those seen from outside.
            *(() if shared is None else (Shim(shared, clock, stub), Pages(shared, clock, stub))),
        )

    @property
    def set_to(self) -> Mapping[str, int]:
        """Knob to the value that we have set."""
        return self._ledger.values

    def look_for_edits(self, knobs: Iterable[str]) -> Mapping[str, str]:
        """The knobs that somebody else has set.

        Raises:
            UsageError: the configuration cannot be read.
        """
        return self._ledger.edited(self._server.config, knobs)

    def objection(self, configuration: Configuration) -> str:
        """Why this leaves no room for the connections there are, or does not fit into memory; empty when it does.

        Any process may have to hold them all, since nginx does not spread them, and each may need one to an upstream.
        """
        most = max((one.most_open for one in self.sensors() if isinstance(one, StubStatus)), default=0)
        room = configuration.get("worker_connections", 2 * most)
        if room < 2 * most:
            return f"worker_connections {room} is less than twice the {most} connections that were open at a time"
        return self.overfull(configuration)

    def needs(self, configuration: Configuration) -> tuple[Need, ...]:
        """What processes keep for connections, twice: a reload has old ones and new ones at a time."""
        values = {**self._server.in_force, **configuration}
        processes, connections = values["worker_processes"], values["worker_connections"]
        what = f"what {processes} old and as many new processes keep for {connections} connections each"
        return under(what, 2 * kept_bytes(values), self._server.rooms)

    def began_with(self, configuration: Configuration) -> None:
        """Takes what was in force before a killed run for what the operator has chosen."""
        super().began_with(configuration)
        self._server.finishing.start |= configuration

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Checks a change, also whether processes of those before it leave room for its reload; nothing is touched.

        Raises:
            ApplyLater: they do not, or somebody has edited another file; a way back is not kept waiting.
            ApplyRefused: not valid, against a rule among the knobs, or not permitted.
            OperatorEdit: somebody else has set one of the knobs.
            PlantGone: nginx has ended.
        """
        prepared, nginx = super().prepare(changes), self._server
        now = {knob: nginx.in_force[knob] for knob in self._knobs if knob not in self._down}
        limit_bytes = min((room.limit_bytes for room in nginx.rooms), default=None)
        if prepared.detail is not None and (why := nginx.finishing.too_many(now, prepared.changes, limit_bytes)):
            raise ApplyLater(why)
        return prepared

    def check_reload(self, accept_lost: bool) -> None:
        """Makes sure that nginx may be reloaded, its files written, and that no ordinary request is cut by it."""
        paths = (location.path for location in self._ledger.locations.values())
        self._server.permitted(paths, accept_lost)

    def check_alone(self, knobs: Iterable[str] = ()) -> None:
        """Makes sure that no other nginx would read a file of ours, or reads one that is to be edited."""
        master, locations = self._server.master, self._ledger.locations
        read = functools.cache(configuration_of)  # once for all knobs: it may have a thousand hosts
        for path in dict.fromkeys(one.path for one in locations.values()):
            if path.name == NAME:
                require_alone(master, path, lambda other: included_by(read(other)))
        for path in dict.fromkeys(locations[knob].path for knob in knobs if knob in locations):
            if path.name != NAME:
                require_unshared(master, path, lambda other: read(other).texts)

    def check_moment(self, values: Mapping[str, int]) -> None:
        """Makes sure that a reload brings nothing into force that somebody has edited."""
        self._server.require_loaded()

    def change(self, texts: Texts) -> Change:
        """The change that brings texts for files into force."""
        return Change(self._server, self.clock, texts, self._patience)

    def composed(self, values: Mapping[str, int]) -> tuple[Mapping[str, int], Mapping[str, int], Texts]:
        """Values to set, values set so far, and present texts of the files that we have written.

        Raises:
            UsageError: nginx refuses its present configuration, or a file cannot be read.
        """
        verdict = self._server.test()
        if not verdict.valid:
            raise UsageError(f"nginx refuses its configuration as it is: {verdict.message}")
        return values, dict(self._ledger.values), edits.present(self._ledger.written)

    def bring(self, prepared: Prepared) -> tuple[str, ...]:
        """Writes the files and reloads, or puts everything back.

        Where a change brings back all that the files set before the first one, they are as they were before it:
        nothing is left of this run then, and what the operator sets later counts.
        """
        ledger, values = self._ledger, prepared.detail[0]
        back = ledger.needless(values)
        try:
            ledger.rebase()
            config = self._server.config
            texts = ledger.original()[0] if back else edits.written(config, ledger.locations, values, ledger.before)
            edits.require_unchanged(config, texts)
            first = ledger.first(texts)
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        notes = self.change(texts).bring(values)
        ledger.took({} if back else values, texts, first)
        return notes

    def rollback(self, prepared: Prepared) -> None:
        """Takes back a change that was prepared, or committed; what somebody has edited since stays.

        Raises:
            UsageError: a file cannot be read.
            ApplyFailed: it could not be taken back.
        """
        self.settle()
        if prepared.detail is None:
            return
        _, values, texts = prepared.detail
        if self._ledger.values != values:
            earlier, now = self._ledger.earlier(texts)
            self._ledger.go_back(values, texts)
            self.undo(earlier, now)

    def restore(self) -> None:
        """Puts back what was in force before the first `apply`; may be called twice.

        An operator's file that was edited meanwhile keeps these edits: only our values are taken back.

        Raises:
            OperatorEdit: a file of our own was edited by somebody else, and was left as it is.
            ApplyFailed: the files are as they were, but the reload to them did not take.
        """
        if not self._ledger.values:
            self.settle()
            return
        self.settle_files()
        texts, theirs = self._ledger.original()
        self.change(texts).undo()
        knob = min(self._ledger.values, default="")
        self._ledger.close()
        if theirs:
            raise OperatorEdit(knob, theirs)

    def leftover(self) -> str:
        """Files left by an earlier run, or an undo of it that was cut, in one line; empty for neither."""
        if self._ledger.values:
            return ""
        try:
            left = edits.leftovers(self._server.config)
        except UsageError:
            return ""
        names = ", ".join(str(path) for path in left if not edits.is_kept(path))
        return f"{names} is left from an earlier run" if left else self.not_loaded()

    def outdated(self) -> bool:
        """Whether nginx may run with something else than its files say, as its number of processes tells too."""
        nginx, knob = self._server, "worker_processes"
        return super().outdated() or nginx.in_force[knob] != value_of(nginx.config, knob)

    def undo_leftover(self) -> None:
        """Undoes earlier runs, back to the texts before the first of them, also where these are there and not loaded.

        Raises:
            ApplyFailed: the files are as they were, but the reload to them did not take.
        """
        left = edits.leftovers(self._server.config)
        if not self._ledger.values and (left or self.outdated()):
            self.change(left).undo()

    def undo_script(self) -> str:
        """A POSIX shell script that undoes `apply`, for a user without trimtab."""
        return script(self._server, self._ledger.locations)
