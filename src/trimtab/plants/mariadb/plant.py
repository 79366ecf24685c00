"""A running MariaDB as a plant: the user's own or a private one.

It is steered by SET GLOBAL over its Unix socket. A change is journalled, set, and read back: MariaDB rounds and clips
what it is told, and the value that is in force counts. The buffer pool is looked at by its pages. What is set is gone
when MariaDB is restarted, and connections that are open keep what is copied at their begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from trimtab.core import Applied, Clock, Configuration, How, Knob, Plant, Prepared, Readings, Sensor
from trimtab.errors import ApplyFailed, ApplyRefused, OperatorEdit, PlantError, PlantGone, UsageError
from trimtab.plants.mariadb import knobs, process, response, undo
from trimtab.plants.mariadb.attached import Attached
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.journal import Journal
from trimtab.plants.mariadb.status import MariadbStatus
from trimtab.sensors.resources import Resources

_MARGIN_RATIO = 0.9
"""Share of the memory that may be planned for, as in the guard of the memory."""
_RESTARTED = "what is set is in force until MariaDB is restarted: to keep it, write it in a file of its configuration"


class Mariadb(Plant):
    """A running MariaDB.

    Args:
        clock: for the windows and the waits.
        attached: the running MariaDB.
        journals: where journals are; None for this user's own place.

    Attributes:
        clock: as given.
        pid: its process id.
    """

    name = "mariadb"
    metrics = response.METRICS
    own_sensors = (MariadbStatus,)

    def __init__(self, clock: Clock, attached: Attached, journals: Path | None = None) -> None:
        self.clock = clock
        self.pid: int = attached.server.pid
        self._mariadb = attached
        self._journals = journals
        self._knobs = {knob.name: knob for knob in attached.knobs}
        self._start = attached.values()
        self._known = dict(self._start)
        self._set: dict[str, int] = {}
        self._down: dict[str, str] = {}
        self._told: set[str] = set()
        status = MariadbStatus(attached.server, attached.link.credentials, clock)
        self._sensors: tuple[Sensor, ...] = (status, Resources(self.pid, clock))

    @staticmethod
    def attach(
        clock: Clock,
        pid: int | None = None,
        credentials: Credentials | None = None,
        less_durable: bool = False,
        journals: Path | None = None,
    ) -> Mariadb:
        """Finds a running MariaDB and reads what it is.

        Args:
            clock: for the windows and the waits.
            pid: its process; None when only one runs.
            credentials: who we are to it; None for this user's own account.
            less_durable: whether commits may be made less durable.
            journals: where journals are; None for this user's own place.

        Raises:
            UsageError: none or several run, or it cannot be read from here; the message says what is needed.
            PlantGone: it has ended.
        """
        rows = {**knobs.TABLE, **(knobs.LESS_DURABLE if less_durable else {})}
        who = credentials or Credentials.chosen(None, None)
        return Mariadb(clock, Attached(process.find(pid), who, clock, rows), journals)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know before anything is changed."""
        copied = [knob.name for knob in self._knobs.values() if knob.how is How.CONNECTIONS]
        found = [_RESTARTED]
        if copied:
            found.append(f"connections that are open, as in a pool, keep what they began with of {', '.join(copied)}")
        if lacking := knobs.unprivileged(self._knobs, self._mariadb.privileges):
            found.append(self._grant(lacking))
        return tuple(found)

    def knobs(self) -> tuple[Knob, ...]:
        """The knobs that this MariaDB has, with the domains that hold here."""
        return tuple(self._knobs.values())

    def sensors(self) -> tuple[Sensor, ...]:
        """What MariaDB counts, and its CPU and memory."""
        return self._sensors

    def derive(self, readings: Readings) -> Readings:
        """Response time."""
        return response.derived(readings)

    def configuration(self) -> Configuration:
        """What is in force now.

        Raises:
            OperatorEdit: somebody else has set a knob of ours; said once for each.
            PlantGone: it has ended.
        """
        now = self._looked_at()
        for name, said in self._down.items():
            if name in self._set and name not in self._told:
                self._told.add(name)
                raise OperatorEdit(name, said)
        return {name: now[name] for name in self._knobs}

    def objection(self, configuration: Configuration) -> str:
        """Why this configuration cannot work: descriptors or memory that there are not.

        What is so already in the configuration at the start is no reason: the operator has chosen it.
        """
        mariadb, there = self._mariadb, self._mariadb.there
        files = there["open_files_limit"].value
        needed = knobs.files_needed(configuration, there)
        if needed > max(files, knobs.files_needed(self._start, there)):
            return (
                f"max_connections {configuration['max_connections']} and table_open_cache "
                f"{configuration['table_open_cache']} need {needed} descriptors, more than open_files_limit {files}"
            )
        needed, limit = mariadb.needed_bytes(configuration), mariadb.memory_limit_bytes
        if needed > max(_MARGIN_RATIO * limit, mariadb.needed_bytes(self._start)):
            return (
                f"caches and the buffers of {mariadb.peak} connections, the most there were, need "
                f"{needed / 2**20:.0f} MiB, more than {_MARGIN_RATIO:.0%} of {limit / 2**20:.0f} MiB"
            )
        return ""

    def check_permissions(self) -> None:
        """Makes sure, before anything is changed, that a change could be made, and undone.

        Raises:
            UsageError: it could not; the message says what is needed.
            PlantGone: it has ended.
        """
        self._mariadb.server.check()
        lacking = knobs.unprivileged(self._knobs, self._mariadb.privileges)
        if len(lacking) == len(self._knobs):
            raise UsageError(self._grant(lacking))
        self._journal()

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Checks a change; nothing in force is touched.

        Raises:
            ApplyRefused: not valid, against a rule among the knobs, or not permitted.
            OperatorEdit: somebody else has set one of the knobs.
            PlantGone: it has ended.
        """
        wanted, now = self.validated(changes), self._looked_at()
        for name in wanted:
            if name in self._down:
                self._told.add(name)
                raise OperatorEdit(name, self._down[name])
        moved = {name: value for name, value in wanted.items() if now[name] != value}
        if not moved:
            return Prepared(wanted, {name: now[name] for name in wanted})
        self._mariadb.look_at_peak()
        if why := self.objection({**now, **moved}):
            raise ApplyRefused(why)
        if lacking := knobs.unprivileged(moved, self._mariadb.privileges):
            raise ApplyRefused(self._grant(lacking))
        try:
            journal = self._journal().with_values(now, moved)
        except UsageError as error:
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
        try:
            self._mariadb.set(_in_order(wanted, before))
        except PlantGone:
            raise
        except BaseException as error:
            self._go_back(before, error)
            raise
        self._set |= wanted
        self._known |= wanted
        return Applied(self.configuration(), self.clock.now_s() - began_s, self._said(wanted))

    def restore(self) -> None:
        """Puts back what was in force before the first `apply`, but for what the operator has set since.

        Raises:
            ApplyFailed: something could not be put back.
            PlantGone: it has ended.
        """
        if self._set:
            now = self._looked_at()
            ours = {name: self._start[name] for name in self._set if name not in self._down}
            self._mariadb.set(_in_order(ours, now))
            self._known |= ours
            self._set = {}
            self._tidy()

    def leftover(self) -> str:
        """What an earlier trimtab left behind, in one line; empty when nothing."""
        if self._set:
            return ""
        try:
            left = self._journal().left(self._mariadb.values())
        except (UsageError, PlantError):
            return ""
        return f"{', '.join(sorted(left))} of MariaDB (pid {self.pid}) as an earlier run set it" if left else ""

    def undo_leftover(self) -> None:
        """Puts back what earlier runs have set, but for what somebody has set since.

        Raises:
            UsageError: it may not be done from here; the message says what is needed.
            ApplyFailed: something could not be put back.
            PlantGone: it has ended.
        """
        now, journal = self._mariadb.values(), self._journal()
        left = journal.left(now)
        self._mariadb.set(_in_order(left, now))
        Journal(journal.path).write()
        self._known = self._mariadb.values()
        self._start = dict(self._known)

    def close(self) -> None:
        """Gives back the sensors and the conversation, without changing the server; may be called twice."""
        for sensor in self._sensors:
            sensor.close()
        self._mariadb.close()

    def undo_script(self) -> str:
        """A POSIX shell script that undoes what `apply`, or an earlier run, has done, for a user without trimtab."""
        return undo.script(self._mariadb.server, self._mariadb.link.credentials, self._journal().entries)

    def _journal(self) -> Journal:
        return Journal.of(self._mariadb.server, knobs.ALL, self._journals)

    def _looked_at(self) -> dict[str, int]:
        """What is in force now; what somebody else has set stands down."""
        now = self._mariadb.values()
        for name, value in now.items():
            if value != self._known[name]:
                self._down[name] = f"{name} was set to {value} by somebody else; trimtab leaves it alone now"
                self._known[name] = value
        return now

    def _go_back(self, before: Mapping[str, int], why: BaseException) -> None:
        """Puts back what was before a change that did not take.

        Raises:
            ApplyFailed: that failed too.
        """
        try:
            now = self._mariadb.values()
            self._mariadb.set(_in_order({name: value for name, value in before.items() if now[name] != value}, now))
            self._tidy()
        except PlantGone:
            return
        except PlantError as error:
            raise ApplyFailed(f"{why}; {error}; 'trimtab runs undo' puts it back") from why

    def _tidy(self) -> None:
        """Takes the journal away where nothing of ours is left in force."""
        journal = self._journal()
        if not journal.left(self._mariadb.values()):
            Journal(journal.path).write()

    def _said(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """What the user should know of a change."""
        copied = [name for name in wanted if self._knobs[name].how is How.CONNECTIONS]
        return (f"open connections keep their {', '.join(copied)}",) if copied else ()

    def _grant(self, lacking: Mapping[str, tuple[str, ...]]) -> str:
        """What would let this account set these knobs."""
        name = self._mariadb.link.credentials.user
        needed = sorted({privileges[-1] for privileges in lacking.values()})
        return (
            f"account {name} may not set {', '.join(sorted(lacking))}: "
            f"GRANT {', '.join(needed)} ON *.* TO {name}@localhost"
        )


def _in_order(values: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """The values in an order in which memory is given back before it is taken."""
    return dict(sorted(values.items(), key=lambda one: one[1] > now[one[0]]))
