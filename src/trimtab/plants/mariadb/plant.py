"""A running MariaDB as a plant: the user's own or a private one.

It is steered by SET GLOBAL over its Unix socket. A change is journalled, set, and read back: MariaDB rounds and clips
what it is told, and the value that is in force counts. The buffer pool is looked at by its pages. What is set is gone
when MariaDB is restarted. Connections that are open keep what is copied at their begin; those of pools that trimtab
steers too are made anew, or a trial would measure what was before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from trimtab.core import Applied, Clock, Configuration, How, Knob, Plant, Prepared, Readings, Sensor, give_up
from trimtab.core.memory import Need, foreseen, overfull
from trimtab.errors import ApplyLater, ApplyRefused, NotMeasured, PlantError, PlantGone, TrimtabError, UsageError
from trimtab.plants._edits import StoodDown
from trimtab.plants._journal import make_directory
from trimtab.plants._returning_plant import ReturningPlant
from trimtab.plants.mariadb import knobs, notes, response, undo, variables
from trimtab.plants.mariadb.attached import Attached
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.journal import Journal
from trimtab.plants.mariadb.live import Live
from trimtab.plants.mariadb.process import MariadbServer, data_of
from trimtab.plants.mariadb.restart import Restarts, Service
from trimtab.plants.mariadb.status import MariadbStatus
from trimtab.sensors.held_back import HeldBack
from trimtab.sensors.resources import Resources

_PERSISTENCE_S = 300.0
"""How long a MariaDB that does not answer is asked again to take back what was set."""
_PAUSE_S = 1.0
_MOMENT_S = 2.0
"""In which one that does not stall answers the least question."""


class Mariadb(ReturningPlant):
    """A running MariaDB.

    Args:
        clock: for the windows and the waits.
        attached: the running MariaDB.
        journals: where journals are; None for this user's own place.
        snippet_directory: included directory for a file of ours; None where MariaDB is not to be restarted.

    Attributes:
        clock: as given.
        pid: its process id.
    """

    name = "mariadb"
    metrics = response.METRICS
    own_sensors = (MariadbStatus,)
    _knobs: dict[str, Knob]

    def __init__(
        self,
        clock: Clock,
        attached: Attached,
        journals: Path | None = None,
        snippet_directory: Path | None = None,
    ) -> None:
        self.clock = clock
        self.pid: int = attached.server.pid
        self.known_by = data_of(self.pid)
        self._mariadb, self._server = attached, attached.server
        self._journals = journals
        self._knobs = {knob.name: knob for knob in attached.knobs}
        self._begin()
        self.metrics = response.METRICS if attached.counts_time else ()
        self._set: dict[str, int] = {}
        self._unsettled: set[str] = set()
        self._down = StoodDown()
        self._restarts: Restarts | None = None
        if snippet_directory is not None:
            attached.require_restartable()
            service = Service.of(attached.server)
            live = Live.of(service.unit, journals)
            self._restarts = Restarts(
                attached, service, clock, self._moved, self._before, live, self.others_held, snippet_directory
            )

    @staticmethod
    def attach(
        clock: Clock,
        pid: int | None = None,
        credentials: Credentials | None = None,
        less_durable: bool = False,
        journals: Path | None = None,
        snippet_directory: Path | None = None,
    ) -> Mariadb:
        """Finds a running MariaDB and attaches to it.

        Args:
            clock: for the windows and the waits.
            pid: its process; None when only one runs.
            credentials: our account; None for this user's own account.
            less_durable: whether commits may be made less durable.
            journals: where journals are; None for this user's own place.
            snippet_directory: included directory for a file of ours; None where MariaDB is not to be restarted.

        Raises:
            UsageError: none or several run, or it cannot be read from here; the message says what is needed.
            PlantGone: it has ended.
        """
        rows = {**knobs.TABLE, **(knobs.LESS_DURABLE if less_durable else {})}
        rows |= {} if snippet_directory is None else knobs.AT_RESTART
        attached = Attached(MariadbServer.find(pid), credentials or Credentials.chosen(None, None), clock, rows)
        try:
            return Mariadb(clock, attached, journals, snippet_directory)
        except BaseException:
            attached.close()
            raise

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user before anything is changed."""
        return notes.of(self._mariadb, self._knobs, bool(self._pooled))

    def new_sensors(self) -> tuple[Sensor, ...]:
        """Those of MariaDB's counters, of its CPU and memory, and of our restarts."""
        mariadb = self._mariadb
        status = MariadbStatus(mariadb.server, mariadb.link.credentials, self.clock, mariadb.counts_time)
        return status, Resources(self.pid, self.clock), HeldBack(self._mariadb)

    def derive(self, readings: Readings) -> Readings:
        """Response time."""
        return response.derived(readings)

    def configuration(self) -> Configuration:
        """The configuration in force.

        Raises:
            OperatorEdit: somebody else has set a knob of ours; said once for each.
            PlantGone: it has ended.
        """
        now = self._looked_at()
        self._down.tell(self._set)
        return {name: now[name] for name in self._knobs}

    def breach(self, configuration: Configuration) -> str:
        """Why this configuration cannot work: descriptors that there are not, too few connections or pages.

        Connections that are refused send no statements, so that the mean time of a statement looks the better for it.
        A buffer pool smaller than the operator's gains nothing where memory is not short, and drops pages that are
        missed for hours: now, or once the database has grown to what it had room for.

        What is so already in the configuration at the start is no reason: the operator has chosen it. It all holds
        of a way back too, which would do this harm now.
        """
        if why := knobs.lacking_files(configuration, self._chosen, self._mariadb.there):
            return why
        most, room = self._mariadb.peak, configuration["max_connections"]
        if room < (least := min(foreseen(most), self._chosen["max_connections"])):
            return f"max_connections {room} is less than the {least} to plan for: {most} were open at a time"
        pool, chosen = configuration[knobs.BUFFER_POOL], self._chosen[knobs.BUFFER_POOL]
        if pool < chosen and not overfull(self.needs(self._chosen), ()):
            return f"a buffer pool of {pool >> 20} MiB, less than its {chosen >> 20}, while memory is not short"
        return ""

    def needs(self, configuration: Configuration) -> tuple[Need, ...]:
        """Its caches, and the buffers of its connections."""
        return self._mariadb.needs(configuration)

    def check_permissions(self) -> None:
        """Makes sure, before anything is changed, that a change could be made, and undone.

        Raises:
            UsageError: it could not; the message says what is needed.
            PlantError: it did not answer.
            PlantGone: it has ended.
        """
        self._mariadb.server.check()
        lacking = self._mariadb.unprivileged(self._knobs)
        if len(lacking) == len(self._knobs):
            raise UsageError(self._mariadb.grant(lacking))
        make_directory(self._journal().path.parent)
        if self._restarts is not None:
            self._restarts.permitted()
            self._restarts.require_harmless()

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Checks a change; nothing in force is touched.

        Raises:
            ApplyLater: a backup is under way, and the change would end it.
            ApplyRefused: not valid, against a rule among the knobs, or not permitted.
            OperatorEdit: somebody else has set one of the knobs.
            PlantGone: it has ended.
        """
        wanted, now = self.validated(changes), self._looked_at()
        self._down.refuse(wanted)
        moved = {name: value for name, value in wanted.items() if now[name] != value}
        if not moved:
            return Prepared(wanted, {name: now[name] for name in wanted})
        self._mariadb.look_around()
        self.require_fit({**now, **moved})
        if lacking := self._mariadb.unprivileged(moved):
            raise ApplyRefused(self._mariadb.grant(lacking))
        try:
            if self._restarts is not None and self._fixed(moved):
                self._restarts.permitted()
                self._restarts.require_harmless(back=self.goes_back({**now, **moved}))
            live = {name: value for name, value in moved.items() if name not in self._fixed(moved)}
            with self._mariadb.no_backup(moved):
                journal = self._journal().with_values(now, live)
        except (NotMeasured, UsageError) as error:
            raise ApplyRefused(str(error)) from None
        return Prepared(wanted, {name: now[name] for name in wanted}, journal)

    def commit(self, prepared: Prepared) -> Applied:
        """Sets a prepared change: all of it or nothing.

        Raises:
            ApplyFailed: did not take; what was before is restored.
            PlantGone: it has ended.
        """
        if prepared.detail is None:
            return Applied(self.configuration(), 0.0, ("already in force",))
        began_s = self.clock.now_s()
        before = {name: value for name, value in prepared.before.items() if prepared.changes[name] != value}
        wanted = {name: prepared.changes[name] for name in before}
        try:
            prepared.detail.write()
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        was, self._set = self._set, {**self._set, **wanted}  # first: what cannot be put back now is later
        try:
            costs = self._bring(wanted, before)
        except PlantGone:
            raise
        except BaseException as error:
            self._go_back(before, was, error)
            raise
        self.went({**self._known, **before}, self._known)
        return Applied(self.configuration(), self.clock.now_s() - began_s, costs)

    def rollback(self, prepared: Prepared) -> None:
        """Takes back a change that was committed; one that was only prepared touched nothing.

        Raises:
            ApplyFailed: something could not be put back.
            PlantGone: it has ended.
        """
        now, ours = self._looked_at(), self._set.keys() - self._down.keys()
        back = {name: value for name, value in prepared.before.items() if name in ours}
        self._bring({name: value for name, value in back.items() if now[name] != value}, now)
        self._set = {name: value for name, value in {**self._set, **back}.items() if value != self._start[name]}
        self._tidy()

    def restore(self) -> None:
        """Puts back what was in force before the first `apply`, as `restoring` does."""
        for _ in self.restoring():
            self.clock.sleep(_PAUSE_S)

    def restoring(self) -> Iterator[None]:
        """Puts back what was in force before the first `apply`, but for what the operator has set since.

        A MariaDB that does not answer is asked again for minutes: what stalls it may be what is to be put back. One
        that has ended has forgotten what was set live.

        Raises:
            UsageError: our file was edited by somebody else, and is left alone.
            ApplyFailed: something could not be put back.
            PlantError: it did not answer in all that time.
            PlantGone: it has ended; our file is as it was. One started meanwhile is named: it may have read ours.
        """
        until_s, silent = self.clock.now_s() + _PERSISTENCE_S, False
        while self._set:
            try:
                if silent:
                    self._put_back_unseen(until_s)
                self._restored()
            except PlantGone as error:
                if self._restarts is not None and self._restarts.written is not None:
                    self._restarts.put_file_back()
                    raise PlantGone(f"{error}{self._restarts.successor()}") from None
                self._set = {}
            except PlantError as error:
                silent = silent or isinstance(error.__cause__, NotMeasured)
                if not silent or self.clock.now_s() > until_s:
                    raise
                yield

    def _restored(self) -> None:
        """Puts back what was in force before the first `apply`.

        Raises:
            PlantError: it did not answer, or something could not be put back.
            PlantGone: it has ended.
        """
        now = self._looked_at()
        back = {name: self._start[name] for name in self._set if name not in self._down}
        try:
            self._bring(back, now)
        except ApplyLater:  # what takes no restart does not wait for one
            self._bring({name: value for name, value in back.items() if name not in self._fixed(back)}, now)
            raise
        self._set = {}
        self._tidy()

    def _put_back_unseen(self, until_s: float) -> None:
        """Puts back what was set live, as the journal knows it, without a look at what is in force.

        Args:
            until_s: when to give up, on the clock.

        Raises:
            UsageError: the journal cannot be read.
            PlantGone: it has ended.
        """
        entries = self._journal().entries
        back = {name: self._start[name] for name in self._set if name in entries and name not in self._down}
        for name, value in variables.in_order(back, self._known).items():
            if self.clock.now_s() <= until_s:
                self._mariadb.tell(undo.statement(name, replace(entries[name], before=value), self._mariadb.literal))

    def silent(self) -> bool:
        """Whether it answers nothing within a moment."""
        return self._mariadb.link.silent(_MOMENT_S)

    def leftover(self) -> str:
        """Settings left by an earlier run, in one line; empty for none."""
        if self._set:
            return ""
        try:
            left = {*self._before(), *(self._restarts.left() if self._restarts else ())}
            said = f"{', '.join(sorted(left))} of MariaDB (pid {self.pid}) as an earlier run set it" if left else ""
            return "; ".join(filter(None, (said, self.not_loaded())))
        except (UsageError, PlantError) as error:
            return str(error)

    def not_loaded(self) -> str:
        """What was set live before a restart of ours and not again, as after a kill in it; empty for nothing."""
        lost = ", ".join(sorted(self._restarts.live.forgotten(self._mariadb))) if self._restarts else ""
        return f"{lost} not as it was set live before an earlier run restarted MariaDB" if lost else ""

    def undo_killed(self) -> None:
        """Sets that again, whatever else of an earlier run stays.

        Raises:
            UsageError: it cannot be read.
            ApplyFailed: MariaDB does not take it.
        """
        if self._restarts is not None and self.not_loaded():
            self._restarts.live.set_again(self._mariadb)
            self._begin()

    def undo_leftover(self) -> None:
        """Undoes earlier runs, but for values that somebody has set since.

        Raises:
            UsageError: it may not be done from here; the message says what is needed.
            ApplyLater: what takes a restart waits for a backup; all else is undone.
            ApplyFailed: something could not be put back.
            PlantGone: it has ended.
        """
        later: ApplyLater | None = None
        if self._restarts is not None:
            self._restarts.permitted()
            try:
                self._restarts.undo_left()
            except ApplyLater as error:
                later = error
        now, journal = self._mariadb.values(), self._journal()
        self._mariadb.set(variables.in_order(journal.left(now), now))
        self._tidy()
        self._begin()
        if later is not None:
            raise later

    def out_of_reach(self) -> Mapping[str, str]:
        """What our file has set, where it may not be restarted."""
        return {} if self._restarts is not None else dict.fromkeys(self._mariadb.read_from_ours(), "")

    def close(self) -> None:
        """Closes the sensors and the connection, without changing the server; may be called twice."""
        super().close()
        self._mariadb.close()

    def undo_script(self) -> str:
        """A POSIX shell script that undoes `apply`, or an earlier run, for a user without trimtab."""
        files = [] if self._restarts is None else self._restarts.script()
        mariadb, entries = self._mariadb, self._journal().entries
        return undo.script(mariadb.server, mariadb.link.credentials, entries, mariadb.literal, files)

    def _begin(self) -> None:
        self._start = self._mariadb.values()
        self._known, self._chosen = dict(self._start), dict(self._start)

    def _fixed(self, values: Iterable[str]) -> set[str]:
        """Those of these knobs that need a restart."""
        return {name for name in values if self._knobs[name].how is How.RESTART}

    def _bring(self, values: Mapping[str, int], now: Mapping[str, int]) -> tuple[str, ...]:
        """Brings values into force: those that need a restart first, since it forgets all others of ours too.

        Raises:
            ApplyFailed: one is not; some may be.
            PlantGone: it has ended.
        """
        self._unsettled |= values.keys()
        fixed, notes = self._fixed(values), tuple[str, ...]()
        live = {name: value for name, value in values.items() if name not in fixed}
        if fixed and self._restarts is not None:
            self._unsettled |= self._set.keys()
            ours = {name: self._known[name] for name in self._set if name not in self._down} | dict(values)
            kept = {name: ours[name] for name in self._fixed(ours) if ours[name] != self._start[name]}
            notes = self._restarts.bring(kept) if kept else self._restarts.put_back()
            now = self._mariadb.values()
            live |= {name: ours[name] for name in ours.keys() - self._fixed(ours) if ours[name] != now[name]}
        self._mariadb.set(variables.in_order(live, now))
        self._known |= {**values, **live}
        self._unsettled.clear()
        return (*notes, *self._renewed(live))

    def _moved(self) -> None:
        """A restart has put another server in the place: sensors and journal go on with that."""
        entries, server = self._journal(self._server).entries, self._mariadb.server
        self.pid = server.pid
        for sensor in self.sensors():
            if isinstance(sensor, MariadbStatus):
                sensor.follow(server)
            elif isinstance(sensor, Resources):
                sensor.follow(server.pid)
        if entries:
            replace(self._journal(), entries=entries).write()
        self._server = server

    def _before(self) -> dict[str, int]:
        """What every knob goes back to that has a value of ours which was set live."""
        return self._journal().left(self._mariadb.values())

    def _journal(self, server: MariadbServer | None = None) -> Journal:
        """The journal of the server, or of the one that was there before a restart."""
        return Journal.of(server or self._mariadb.server, knobs.ALL, self._journals)

    def _looked_at(self) -> dict[str, int]:
        """The configuration in force; knobs that somebody else has set stand down, and are chosen as he has them.

        One that was in the middle of a change of ours may have any value, and is not taken for somebody else's.
        """
        now = self._mariadb.values()
        for name, value in now.items():
            if value != self._known[name] and name not in self._unsettled:
                self._down[name] = f"{name} was set to {value} by somebody else; trimtab leaves it alone now"
                self._chosen = {**self._chosen, name: value}
        self._known |= now
        self._unsettled.clear()
        return now

    def _go_back(self, before: Mapping[str, int], was: dict[str, int], why: BaseException) -> None:
        """Puts back the values before a change that did not take.

        Args:
            before: value of each knob of the change before it.
            was: what we had set before it.
            why: why it did not take.

        Raises:
            ApplyFailed: that failed too.
        """
        try:
            now = self._looked_at()
            ours = {name: value for name, value in {**was, **before}.items() if name not in self._down}
            back = {name: value for name, value in ours.items() if now[name] != value}
            if self._fixed(back) or (self._restarts is not None and self._restarts.stale):
                back |= {name: before[name] for name in self._fixed(before)}  # our file sets all of them
            self._bring(back, now)
            self._set = was
            self._tidy()
        except PlantGone:
            return
        except (TrimtabError, OSError) as error:
            give_up(why, str(why), [f"{error}; 'trimtab runs undo' puts it back"])

    def _tidy(self) -> None:
        """Removes the journal where no setting of ours is left in force."""
        journal = self._journal()
        if not journal.left(self._mariadb.values()):
            with contextlib.suppress(UsageError):  # one that cannot be taken away is right all the same
                Journal(journal.path).write()

    @property
    def _pooled(self) -> list[Plant]:
        """The plants in front whose pools can be emptied."""
        return [plant for plant in self.in_front if plant.pools]

    def _renewed(self, values: Iterable[str]) -> tuple[str, ...]:
        """Has pools in front make their connections anew, where what was set is copied at a connection's begin."""
        copied, notes = [name for name in values if self._knobs[name].how is How.CONNECTIONS], list[str]()
        if not copied:
            return ()
        for plant in self._pooled:
            plant.renew(notes)
        kept = "open connections" if not self._pooled else "connections that are open, and of no pool in front,"
        return (*notes, f"{kept} keep their {', '.join(copied)}")
