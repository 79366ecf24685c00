"""nginx as a plant: the user's own or a private one.

It is steered by files of trimtab's own where nginx includes a directory, by one value in the operator's file where
he allows it (`places`), and by reloads, in which new processes take over and the old ones finish their requests. A
change is read back: the configuration test names the files, the master has started as many new processes as it was
told to, and a short keep-alive time is seen on a connection.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from trimtab.core import Applied, Clock, Configuration, Knob, Plant, Prepared, Readings, Sensor
from trimtab.errors import ApplyRefused, OperatorEdit, UsageError
from trimtab.plants._change import Texts
from trimtab.plants.nginx import edits, process
from trimtab.plants.nginx.attached import Attached
from trimtab.plants.nginx.change import Change
from trimtab.plants.nginx.ledger import Ledger
from trimtab.plants.nginx.places import Nowhere, chosen
from trimtab.plants.nginx.reload import Patience
from trimtab.plants.nginx.stub_status import StubStatus
from trimtab.plants.nginx.undo import script
from trimtab.sensors._eq1 import eq1
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.resources import Resources
from trimtab.sensors.shim import Shim


class Nginx(Plant):
    """A running nginx.

    Args:
        clock: for the waits of a reload.
        attached: the running nginx.
        patience: how long a reload may take.

    Attributes:
        clock: as given.
        pid: process id of the master.
        listeners: addresses and ports on which it listens.
    """

    name = "nginx"

    def __init__(self, clock: Clock, attached: Attached, patience: Patience | None = None) -> None:
        self.clock = clock
        self.pid = attached.master.pid
        self.listeners = attached.listeners
        self._nginx = attached
        self._patience = patience or Patience()
        places = chosen(attached.possible)
        self._ledger = Ledger.of(attached.config, {knob: places[knob] for knob in attached.knobs})
        page, shared = attached.page, attached.shared
        self._stub = stub = None if page is None else StubStatus(page.url, clock, page.host)
        self._sensors: tuple[Sensor, ...] = (
            AcceptQueue(attached.listeners, clock, self.pid, stub),
            Resources(self.pid, clock),
            *(() if stub is None else (stub,)),
            # Last, so that its exact terms of Eq. (1) stand in place of those seen from outside.
            *(() if shared is None else (Shim(shared, clock),)),
        )

    @staticmethod
    def attach(clock: Clock, pid: int | None = None, status_url: str | None = None, edit: bool = False) -> Nginx:
        """Finds a running nginx and reads what it is.

        Args:
            clock: for the waits of a reload.
            pid: its master process; None when only one nginx runs.
            status_url: its page of stub_status; None to look for it.
            edit: whether values in the operator's own files may be changed.

        Raises:
            UsageError: none or several run, or it cannot be read from here; the message says what is needed.
        """
        if status_url is not None:
            StubStatus(status_url, clock)  # refuses a page outside this machine before it is asked
        return Nginx(clock, Attached(process.find(pid), status_url, edit))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of this nginx, one line each."""
        fixed = (place for place in self._nginx.possible.values() if isinstance(place, Nowhere))
        return (*self._nginx.notes, *(f"{place.why}: {place.enable}" for place in fixed))

    def knobs(self) -> tuple[Knob, ...]:
        """The knobs that can be moved here, with the domains that hold for this installation."""
        return tuple(self._nginx.knobs.values())

    def sensors(self) -> tuple[Sensor, ...]:
        """The accept queues, the processes, the page of stub_status and, under `trimtab run`, the shim."""
        return self._sensors

    def derive(self, readings: Readings) -> Readings:
        """Burst length and response time, Eq. (1) of liu2003, and the time per request."""
        return eq1(readings)

    def configuration(self) -> Configuration:
        """What is in force now.

        Raises:
            OperatorEdit: somebody else has set a knob of ours; said once for each.
            PlantGone: nginx has ended.
        """
        self._nginx.refresh()
        with contextlib.suppress(UsageError):  # in the middle of an edit it may make no sense; nginx has not read it
            self._ledger.look(self._nginx.config, ())
        self._ledger.tell()
        return {knob: self._nginx.in_force[knob] for knob in self._nginx.knobs}

    def objection(self, configuration: Configuration) -> str:
        """Why this leaves no room for the connections there are; empty when it does.

        Any process may have to hold them all, since nginx does not spread them, and each may need one to an upstream.
        """
        most = 0 if self._stub is None else self._stub.most_open
        room = configuration.get("worker_connections", 2 * most)
        if room >= 2 * most:
            return ""
        return f"worker_connections {room} is less than twice the {most} connections that were open at a time"

    def check_permissions(self) -> None:
        """Makes sure, before anything is changed, that a change could be made.

        Raises:
            UsageError: it could not; the message says what is needed.
            PlantGone: nginx has ended.
        """
        self._nginx.permitted(place.path for place in self._ledger.places.values())

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Checks a change: its values, who else has set them, whether it may be made, and the configuration as it is.

        Raises:
            ApplyRefused: not valid, not permitted, or nginx refuses its present configuration.
            OperatorEdit: somebody else has set one of the knobs.
            PlantGone: nginx has ended.
        """
        wanted = self.validated(changes)
        self._nginx.refresh()
        try:
            self._ledger.look(self._nginx.config, wanted)
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        self._ledger.require(wanted)
        if why := self.objection({**self._nginx.in_force, **wanted}):
            raise ApplyRefused(why)
        before = {knob: self._nginx.in_force[knob] for knob in wanted}
        if before == wanted:
            return Prepared({}, {})
        try:
            self.check_permissions()
            verdict = self._nginx.test()
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        if not verdict.valid:
            raise ApplyRefused(f"nginx refuses its configuration as it is: {verdict.message}")
        return Prepared(wanted, before, (dict(self._ledger.values), edits.present(self._ledger.written)))

    def commit(self, prepared: Prepared) -> Applied:
        """Brings a prepared change into force by one reload.

        Raises:
            ApplyRefused: nginx does not accept it; nothing changed.
            ApplyFailed: did not take; what was before is restored.
            PlantGone: nginx has ended.
        """
        if not prepared.changes:
            return Applied(self.configuration(), 0.0, ("already in force; not reloaded",))
        started_s = self.clock.now_s()
        ledger = self._ledger
        values = {k: v for k, v in {**ledger.values, **prepared.changes}.items() if k not in ledger.down}
        try:
            ledger.rebase()
            config = self._nginx.config
            texts = edits.written(config, ledger.places, values, ledger.before)
            edits.require_unchanged(config, texts)
            first = ledger.first(texts)
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        notes = self._change(texts).bring(values)
        ledger.took(values, texts, first)
        return Applied(self.configuration(), self.clock.now_s() - started_s, notes)

    def rollback(self, prepared: Prepared) -> None:
        """Takes back a change that was prepared, or committed.

        Raises:
            ApplyFailed: it could not be taken back.
            PlantGone: nginx has ended.
        """
        if not prepared.changes:
            return
        values, texts = prepared.detail
        if self._ledger.values != values:
            self._nginx.master.check()
            self._change(self._ledger.earlier(texts)).undo()
            self._ledger.go_back(values, texts)

    def restore(self) -> None:
        """Puts back what was in force before the first `apply`; may be called twice.

        An operator's file that was edited meanwhile keeps these edits: only our values are taken back.

        Raises:
            OperatorEdit: a file of our own was edited by somebody else, and was left as it is.
            ApplyFailed: the files are as they were, but the reload to them did not take.
        """
        if not self._ledger.written:
            return
        texts, theirs = self._ledger.original()
        self._change(texts).undo()
        knob = min(self._ledger.values, default="")
        self._ledger.close()
        if theirs:
            raise OperatorEdit(knob, theirs)

    def leftover(self) -> str:
        """What an earlier trimtab left behind, in one line; empty when nothing."""
        try:
            left = edits.leftovers(self._nginx.config)
        except UsageError:
            return ""
        names = ", ".join(str(path) for path in left if not edits.is_kept(path))
        return f"{names} is left from an earlier run" if left and not self._ledger.written else ""

    def undo_leftover(self) -> None:
        """Takes away what earlier runs left behind, back to what was there before the first of them.

        Raises:
            ApplyFailed: the files are as they were, but the reload to them did not take.
        """
        left = edits.leftovers(self._nginx.config)
        if left and not self._ledger.written:
            self._change(left).undo()

    def close(self) -> None:
        """Gives back the sensors, without changing the server; may be called twice."""
        for sensor in self._sensors:
            sensor.close()

    def undo_script(self) -> str:
        """A POSIX shell script that undoes what `apply` has done, for a user without trimtab."""
        return script(self._nginx, self._ledger.places)

    def _change(self, texts: Texts) -> Change:
        return Change(self._nginx, self.clock, texts, self._patience)
