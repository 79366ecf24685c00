"""Tomcat as a plant: the user's own or a private one, steered through JMX while it serves.

Nothing of its files is touched. What is set is in force at once, and gone when Tomcat restarts; what was there
before stands in a journal before it is set (`journal`), so that a run ended by SIGKILL can be undone. See `jmx` for
how it is reached and with whose rights, and `change` for what is seen in effect.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from trimtab.core import Applied, Clock, Configuration, Knob, Prepared, Readings, Sensor
from trimtab.core.memory import Need
from trimtab.errors import ApplyFailed, ApplyRefused, PlantGone, UsageError
from trimtab.plants._edits import StoodDown
from trimtab.plants._returning_plant import ReturningPlant
from trimtab.plants.tomcat import knobs, response, undo
from trimtab.plants.tomcat.attached import Attached, Spot
from trimtab.plants.tomcat.change import Change
from trimtab.plants.tomcat.layout import name_of
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.plants.tomcat.restart import DEAF, held, renewed, serve_again
from trimtab.plants.tomcat.status import TomcatStatus
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.connections import Connections
from trimtab.sensors.held_back import HeldBack
from trimtab.sensors.resources import Resources

_PATIENCE_S = 30.0
"""How long a server that lives and does not answer is asked again to take back what was set."""
_AGAIN_S = 1.0
_MOMENT_S = 2.0
"""In which one that does not stall answers."""


class Tomcat(ReturningPlant):
    """A running Tomcat.

    Args:
        clock: for the waits.
        attached: the running Tomcat.

    Attributes:
        clock: as given.
        pid: its process id.
        listeners: addresses and ports on which it serves.
    """

    name = "tomcat"
    metrics = response.METRICS
    own_sensors = (TomcatStatus,)

    def __init__(self, clock: Clock, attached: Attached) -> None:
        self.clock = clock
        self.pid: int = attached.process.pid
        self.listeners = attached.listeners
        self._tomcat = attached
        self._journal = attached.journal
        self._known = attached.in_force()
        self._chosen = dict(self._known)
        self._asked: dict[str, int] = {}
        self._unfinished: dict[str, int] = {}
        self._start: dict[str, int] = {}
        self._down = StoodDown()

    @staticmethod
    def attach(clock: Clock, pid: int | None = None, restart: bool = False) -> Tomcat:
        """Finds a running Tomcat and attaches to it.

        Args:
            clock: for the waits.
            pid: its process; None when only one runs.
            restart: whether connectors may be restarted.

        Raises:
            UsageError: none or several run, or it cannot be attached to; the message says what is needed.
            PlantGone: it has ended.
        """
        attached = Attached(TomcatProcess.find(pid), clock, restart)
        try:
            return Tomcat(clock, attached)
        except BaseException:
            attached.jmx.close()
            raise

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on this Tomcat for the user, one line each."""
        tomcat = self._tomcat
        deaf = (DEAF,) if tomcat.layout.deaf else ()
        apart = (f"{name} is a Unix socket: neither measured, moved nor held back" for name in tomcat.layout.portless)
        return (
            "what is set is in force until Tomcat restarts, and then what its files say",
            *tomcat.missing,
            *deaf,
            *apart,
        )

    def knobs(self) -> tuple[Knob, ...]:
        """The knobs that can be moved here, with the domains that hold for this installation."""
        return tuple(dial.knob for dial in self._tomcat.dials)

    def new_sensors(self) -> tuple[Sensor, ...]:
        """Those of the kernel and of Tomcat's own beans."""
        return (
            AcceptQueue(self.listeners, self.clock, self.pid),
            Resources(self.pid, self.clock),
            Connections(self.listeners, self.clock, self.pid),
            TomcatStatus(self._tomcat.jmx, self._tomcat.layout, self.clock),
            HeldBack(self._tomcat),
        )

    def derive(self, readings: Readings) -> Readings:
        """Response time and wait for a thread, by Little's law."""
        return response.derived(readings)

    def breach(self, configuration: Configuration) -> str:
        """Which rule among the knobs this breaks; empty for none."""
        return knobs.objection(self._tomcat.dials, configuration)

    def needs(self, configuration: Configuration) -> tuple[Need, ...]:
        """Heap for the buffers of as many connections as there were at once so far, and memory for spare threads."""
        return self._tomcat.needs({**self._known, **configuration})

    def configuration(self) -> Configuration:
        """The configuration in force.

        Raises:
            OperatorEdit: somebody else has set a knob of ours; said once for each.
            PlantGone: the server has ended.
        """
        now = self._now()
        self._look_for_edits(now, self._start)
        self._down.tell(self._start)
        return now

    def check_permissions(self) -> None:
        """Makes sure, before anything is changed, that the journal can be written.

        Raises:
            UsageError: it cannot; the message says what is needed.
            PlantGone: the server has ended.
        """
        self._tomcat.process.check()
        self._journal.check()

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Checks a change: its values, who else has set them, the rules among them; nothing is touched.

        Raises:
            ApplyRefused: not valid, against a rule among the knobs, or not permitted.
            OperatorEdit: somebody else has set one of the knobs.
            PlantGone: the server has ended.
        """
        wanted, now = self.validated(changes), self._now()
        self._look_for_edits(now, wanted)
        self._down.refuse(wanted)
        before = {name: now[name] for name in wanted}
        if before == wanted:
            return Prepared(wanted, before)
        self.require_fit({**now, **wanted})
        try:
            self.check_permissions()
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        return Prepared(wanted, before, now)

    def commit(self, prepared: Prepared) -> Applied:
        """Brings a prepared change into force, all of it or nothing.

        Raises:
            ApplyFailed: it did not take; what was before is restored.
            PlantGone: the server has ended.
        """
        if prepared.detail is None:
            return Applied(self.configuration(), 0.0, ("already in force",))
        began_s = self.clock.now_s()
        self._start = {**prepared.before, **self._start}
        notes = self._change(prepared.detail, prepared.changes)
        self.went(prepared.detail, {**prepared.detail, **prepared.changes})
        return Applied(self.configuration(), self.clock.now_s() - began_s, notes)

    def rollback(self, prepared: Prepared) -> None:
        """Takes back a change that was prepared or committed; what somebody else has set since is left alone.

        Raises:
            ApplyFailed: it could not be taken back.
            PlantGone: the server has ended.
        """
        self._put_back(prepared.before)

    def held(self, notes: list[str]) -> contextlib.AbstractContextManager[None]:
        """While it lasts no request is taken, once those in service have ended, and no JDBC connection outlives it.

        Args:
            notes: to which it adds what the user should know.

        Raises:
            ApplyFailed: it cannot be done, or undone.
            PlantGone: the server has ended.
        """
        return held(self._tomcat, self.clock, notes)

    @property
    def pools(self) -> tuple[str, ...]:
        """Its JDBC pools."""
        return tuple(pool.name for pool in self._tomcat.layout.pools)

    def renew(self, notes: list[str]) -> None:
        """Has its JDBC pools make their connections anew; one that has ended has none.

        Args:
            notes: to which it adds what the user should know.

        Raises:
            ApplyFailed: requests could not be held back for it, or are not served again.
        """
        with contextlib.suppress(PlantGone):
            renewed(self._tomcat, self.clock, notes)

    def restore(self) -> None:
        """Puts back what was in force before the first `apply`; may be called twice.

        Raises:
            OperatorEdit: somebody else has set a knob, which was left as it is; the others are back.
            ApplyFailed: not everything could be put back.
        """
        with contextlib.suppress(PlantGone):
            self._put_back(self._start, _PATIENCE_S)
        start, self._start = self._start, {}
        self._down.refuse(start)

    def silent(self) -> bool:
        """Whether it answers nothing within a moment, as one that has ended does not."""
        try:
            with self._tomcat.jmx.within(_MOMENT_S):
                self._tomcat.in_force()
        except PlantGone:
            return True
        return False

    def leftover(self) -> str:
        """Settings left by an earlier run, in one line; empty for none."""
        try:
            entries, paused = () if self._start else self._journal.entries(), self.not_loaded()
        except UsageError as error:
            return str(error)
        said = [paused, *(f"{one.attribute} {one.ours[-1]} for {one.before}" for one in entries)]
        return f"left from an earlier run: {', '.join(filter(None, said))}" if any(said) else ""

    def not_loaded(self) -> str:
        """That connectors may be paused since a kill, whatever of a run's settings is back; empty where none may."""
        return ", ".join(f"the connector {name_of(one.endpoint)} may be paused" for one in self._journal.paused())

    def undo_killed(self) -> None:
        """Has them serve again.

        Raises:
            UsageError: which they are cannot be read.
            ApplyFailed: one does not.
            PlantGone: the server has ended.
        """
        self._serve_again()

    def undo_leftover(self) -> None:
        """Undoes earlier runs; values that somebody else has set since stay.

        So does what needs a restart of its connector, which it may not make: its socket would keep it.

        Raises:
            UsageError: what was before cannot be read.
            ApplyFailed: not everything could be put back.
            PlantGone: the server has ended.
        """
        entries, tomcat = self._journal.entries(), self._tomcat
        self._serve_again()
        found = tomcat.values([(one.bean, one.attribute) for one in entries])
        ours = {(e.bean, e.attribute): e.before for e in entries if found[e.bean, e.attribute] in e.ours}
        stays = {spot for spot in self._fixed() if spot in ours}
        ours = {spot: value for spot, value in ours.items() if spot not in stays}
        now = {spot: value for spot, value in found.items() if value is not None}
        if ours:
            Change(tomcat, self._journal, self.clock, now, ours).bring()
        undone = {(e.bean, e.attribute): e.before for e in entries}
        self._journal.settled({spot: value for spot, value in undone.items() if spot not in stays})
        self._known |= tomcat.in_force()

    def out_of_reach(self) -> Mapping[str, str]:
        """What an earlier run has set that needs a restart of its connector, where that may not be made."""
        fixed, entries = self._fixed(), self._journal.entries()
        return {fixed[spot]: "" for one in entries if (spot := (one.bean, one.attribute)) in fixed}

    def close(self) -> None:
        """Ends the conversation, without changing the server; may be called twice."""
        super().close()
        self._tomcat.jmx.close()
        self._journal.tidy()

    def undo_script(self) -> str:
        """A POSIX shell script that undoes `apply`, or an earlier run, for a user without trimtab."""
        try:
            return undo.script(self._tomcat.process, self._journal.entries(), self._journal.paused())
        except (UsageError, PlantGone) as error:
            return undo.nothing(str(error))

    def _fixed(self) -> dict[Spot, str]:
        """Attributes that need a restart which may not be made, to the names of their knobs."""
        named = knobs.restarting(self._tomcat.layout)
        return {spot: name for spot, name in named.items() if self._tomcat.dial(spot) is None}

    def _put_back(self, values: Mapping[str, int], patience_s: float = 0.0) -> None:
        """Puts back earlier values, but for those of knobs that somebody else has set since.

        Args:
            values: the values.
            patience_s: for how long one that does not answer is asked again.

        Raises:
            ApplyFailed: not all of it could be; one that does not answer keeps what was set.
            PlantGone: the server has ended, and what was set is gone with it.
        """
        deadline_s = self.clock.now_s() + patience_s
        while True:
            try:
                return self._take_back(values)
            except PlantGone as error:
                self._tomcat.process.check()
                if self.clock.now_s() >= deadline_s:
                    raise ApplyFailed(f"{error}; what was set there is still in force") from None
            self.clock.sleep(_AGAIN_S)

    def _take_back(self, values: Mapping[str, int]) -> None:
        """Puts back earlier values once.

        Raises:
            ApplyFailed: not all of it could be.
            PlantGone: the server has ended, or does not answer.
        """
        with contextlib.suppress(UsageError):
            self._serve_again()
        if not values:
            return
        self._tomcat.revived()
        now = self._now()
        self._look_for_edits(now, {name: value for name, value in values.items() if now[name] != value})
        self._change(now, {name: value for name, value in values.items() if name not in self._down})

    def _now(self) -> dict[str, int]:
        """The configuration in force; a knob whose part has gone stands down, and is as it was last.

        Raises:
            PlantGone: the server has ended, or does not answer.
        """
        now = self._tomcat.in_force()
        for dial in self._tomcat.dials:
            if (name := dial.knob.name) not in now:
                gone = f"{dial.location} has gone, as at a redeployment; trimtab leaves {name} alone now"
                self._down.setdefault(name, gone)
        return {**self._known, **now}

    def _serve_again(self) -> None:
        """Has the connectors serve that a pause was left in.

        Raises:
            UsageError: which they are cannot be read.
            ApplyFailed: one does not.
            PlantGone: the server has ended, or does not answer.
        """
        for one in self._journal.paused():
            self._tomcat.revived()
            serve_again(self._tomcat, one)

    def _change(self, now: Mapping[str, int], then: Mapping[str, int]) -> tuple[str, ...]:
        """Sets values, and knows them as ours."""
        tomcat = self._tomcat
        self._unfinished = self._unfinished or dict(now)
        self._asked = {**self._asked, **then}
        target = {**now, **self._unfinished, **then}
        try:
            meant = tomcat.meant(target, then)
            said = {spot: value for spot, value in tomcat.values(list(meant)).items() if value is not None}
            wanted = {spot: value for spot, value in meant.items() if spot in said}
            notes = Change(tomcat, self._journal, self.clock, said, wanted).bring()
        except BaseException:
            with contextlib.suppress(PlantGone):
                self._know({name: value for name, value in tomcat.in_force().items() if name in then})
            raise
        tomcat.keep(target)
        self._know(then)
        return notes

    def _know(self, values: Mapping[str, int]) -> None:
        """Takes values for ours; what was asked for and not seen may be done later, and is ours too."""
        self._known |= values
        self._unfinished = {}
        self._asked = {name: value for name, value in self._asked.items() if name not in values}

    def _look_for_edits(self, now: Mapping[str, int], wanted: Mapping[str, int]) -> None:
        """Stands down the knobs that somebody else has set."""
        for name in wanted:
            if name not in self._down and now[name] not in (self._known[name], self._asked.get(name)):
                self._down[name] = f"{name} was set to {now[name]} by somebody else; trimtab leaves it alone now"
