"""One running MariaDB: the values in force, the privileges of this account, and how values are set."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from trimtab.core import Clock, Knob
from trimtab.core.memory import Need
from trimtab.errors import ApplyFailed, ApplyLater, NotMeasured, PlantError, PlantGone, UsageError
from trimtab.plants.mariadb import backup, knobs, memory, variables
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.link import Link, Rejected, shaped
from trimtab.plants.mariadb.process import MariadbServer
from trimtab.sensors._memory import rooms
from trimtab.trust import printable

_PATIENCE_S = 60.0
"""For one answer: a buffer pool is shrunk within its statement."""
_RESIZE_S = 120.0
_MOST_VARIABLES = 1024
"""MariaDB 10.11 has some 700."""
_KEPT = frozenset({"gtid_slave_pos", "gtid_binlog_state", "wsrep_cluster_address", "wsrep_start_position"})
"""How far replication has come, which MariaDB keeps on disk and a restart does not forget: set again it would go back
to transactions that were done. And what has a node of Galera leave its cluster, or found another, once it is set."""
_IN_MEMORY = (
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES "
    "WHERE ENGINE = 'MEMORY' AND TABLE_TYPE = 'BASE TABLE' LIMIT 1"
)
_REPLICA_THREADS = slice(12, 14)
"""Columns of SHOW ALL SLAVES STATUS that say of each of a replica's two threads whether it runs."""
_RELAY_LOG = slice(9, 10)
"""Its file of what is still to be executed; none after RESET SLAVE, of which a restart starts nothing."""
_STOPPED, _RUNNING = "No", ("Yes", "Connecting", "Preparing")
_VERSION_LENGTH = 100
"""Characters of a version that are shown."""
_OURS = "zz-trimtab%.cnf"
"""Pattern of the names of trimtab's own files (`restart.NAME`), as MariaDB has it."""
_NOT_RESTARTED = re.compile(r"(?:\d|10\.[0-4])\.")
"""Versions that do not say what they have read in our file (GLOBAL_VALUE_PATH, 10.5). Those before 10.4 do not read
its group, [mariadbd], nor tell of a backup (BACKUP STAGE)."""
_GRANT = re.compile(r"GRANT (.+?) ON \*\.\* TO ")
Answer = TypeVar("Answer")


class Attached:
    """A running MariaDB.

    Args:
        server: its process.
        credentials: our account.
        clock: for the wait until a buffer pool has its new size.
        rows: the variables that may become knobs.

    Attributes:
        server: as given.
        link: the conversation.
        there: its variables by name, as at the start.
        version: its version as it says.
        rooms: the limits of its memory and what is there, as when it was looked at last.
        peak: most connections at once that it has told of so far.
        privileges: the account's global privileges, in MariaDB's words.
        notes: what the user is told of this release.
        counts_time: whether it counts the time of its statements (Query_time).
        held_s: for how long it served nothing for our restarts so far.

    Raises:
        UsageError: it cannot be read from here; the message says what is needed.
        PlantGone: it has ended.
    """

    def __init__(
        self, server: MariadbServer, credentials: Credentials, clock: Clock, rows: Mapping[str, knobs.Row]
    ) -> None:
        self.server = server
        self.clock = clock
        self.link = Link(server, credentials, _PATIENCE_S, clock)
        self.notes: tuple[str, ...] = ()
        self.held_s = 0.0
        try:
            self._read(rows)
        except (NotMeasured, Rejected) as error:
            self.link.close()
            raise UsageError(str(error)) from None
        except BaseException:
            self.link.close()
            raise

    def _read(self, rows: Mapping[str, knobs.Row]) -> None:
        """Reads its version, variables and privileges."""
        ((said,),) = shaped(self.link.ask("SELECT VERSION()"), 1, 1)
        self.version = str(said)[:_VERSION_LENGTH]
        names = {*knobs.ALL, *knobs.CONTEXT, *memory.SHARED, *memory.EACH, *memory.TABLE}
        self.there = variables.read(self.link, names | {knobs.CLUSTERED, knobs.CHUNK, knobs.LARGEST_POOL})
        if missing := sorted({*knobs.CONTEXT} - self.there.keys()):
            raise UsageError(f"{self.server} has no {', '.join(missing)}, by which its knobs are judged")
        self.peak, self.rooms = 1, rooms(self.server.pid)
        self.look_around()
        self.knobs: tuple[Knob, ...] = knobs.knobs(self.there, rows, min(one.limit_bytes for one in self.rooms))
        self._asked = {name: self.there[name] for name in knobs.ALL if name in self.there}
        self.privileges = self._privileges()
        self.counts_time = bool(self.link.ask("SHOW GLOBAL STATUS LIKE 'Query_time'"))
        if not self.counts_time:
            self.notes = (
                f"{self.version} counts no time of its statements (Query_time), so there is no "
                "response_time_s here, nor service_time_s or requests_under_way: name another objective, or tune a "
                "stack by what its clients see",
            )

    def values(self) -> dict[str, int]:
        """Values in force of all variables that may be knobs, as an earlier run may have moved more of them.

        Raises:
            PlantError: it did not answer.
            PlantGone: it has ended.
        """
        return self._answered(lambda: variables.values(self.link, self._asked))

    def unprivileged(self, names: Collection[str]) -> dict[str, str]:
        """Those of these knobs that the account may not set, each with the privilege that it lacks."""
        return knobs.unprivileged(names, self.privileges, self.version)

    def grant(self, lacking: Mapping[str, str]) -> str:
        """Statement that would let this account set these knobs.

        Args:
            lacking: knob to the privileges that it lacks.
        """
        name = self.link.credentials.user
        needed = sorted({word for one in lacking.values() for word in one.split(", ")})
        return (
            f"account {name} may not set {', '.join(sorted(lacking))}: "
            f"GRANT {', '.join(needed)} ON *.* TO {name}@localhost"
        )

    def look_around(self) -> None:
        """Learns how many connections there were so far, and what else needs memory now.

        Raises:
            PlantError: it did not answer.
            PlantGone: it has ended.
        """
        most = self._counter("Max_used_connections")
        self.peak = max(self.peak, most)  # FLUSH STATUS forgets it
        with contextlib.suppress(NotMeasured):  # what was known stands
            self.rooms = rooms(self.server.pid)

    def needs(self, configuration: Mapping[str, int]) -> tuple[Need, ...]:
        """Memory that a configuration takes."""
        start = {name: one.value for name, one in self.there.items()}
        return memory.needs({**start, **configuration}, self.peak, self.rooms, start)

    def set(self, values: Mapping[str, int]) -> None:
        """Sets values, one after the other, and makes sure that they are in force.

        Raises:
            ApplyFailed: one is not, because MariaDB refuses it or takes another; some may be set.
            PlantGone: it has ended.
        """
        for name, value in sorted(values.items(), key=lambda one: one[0] == knobs.REDO_LOG):
            try:
                with self.no_backup([name]):
                    self.link.ask(f"SET GLOBAL {name} = {int(value)}")
            except (ApplyLater, Rejected, UsageError, NotMeasured) as error:
                raise ApplyFailed(f"{name} {value}: {error}") from error
        if knobs.BUFFER_POOL in values:
            self._await_resize(values[knobs.BUFFER_POOL])
        now = self.values()
        for name, value in values.items():
            if now[name] != value:
                raise ApplyFailed(f"{name} is {now[name]} after it was set to {value}: MariaDB takes no such value")

    @contextlib.contextmanager
    def no_backup(self, changed: Collection[str]) -> Iterator[None]:
        """No backup is under way meanwhile, and one that begins waits, where a change would end it.

        mariadb-backup copies the redo log from the file that it has opened, and fails where another takes its place.
        One that takes no locks neither waits nor is seen but by what it has opened.

        Raises:
            ApplyLater: one is under way, and takes what it takes.
            NotMeasured: it did not answer.
            UsageError: we may not ask any more.
            PlantGone: it has ended.
        """
        ends = ", ".join(sorted(knobs.END_BACKUPS.intersection(changed)))
        if not ends:
            yield
            return
        try:
            self.link.ask("SET STATEMENT lock_wait_timeout = 0 FOR BACKUP STAGE START")
        except Rejected as error:
            raise ApplyLater(f"a backup is under way, and would fail if {ends} were changed: {error}") from error
        try:
            if (pid := backup.copied_by(self.server)) is not None:
                has = f"pid {pid} has the redo log or the system tablespace open"
                raise ApplyLater(f"a backup is under way, and would fail if {ends} were changed: {has}")
            yield
        finally:
            with contextlib.suppress(PlantGone):  # what has ended holds no backup up
                self.tell("BACKUP STAGE END")

    def tell(self, statement: str) -> None:
        """Sends a statement of which it is not known whether it is taken.

        Raises:
            PlantGone: it has ended.
        """
        with contextlib.suppress(Rejected, UsageError, NotMeasured):
            self.link.ask(statement)

    def require_restartable(self) -> None:
        """Makes sure that a restart is a matter of this server alone, and can be followed.

        Raises:
            UsageError: it is a node of a Galera cluster, or too old to be restarted from here.
        """
        if _NOT_RESTARTED.match(self.version):
            raise UsageError(
                f"{self.server} is {printable(self.version)}, and is restarted from here from 10.5 on, as older ones "
                "do not say what they have read in which file: tune without --allow-restart"
            )
        clustered = self.there.get(knobs.CLUSTERED)
        if clustered is not None and clustered.value:
            raise UsageError(
                f"{self.server} is a node of a Galera cluster, so it is not restarted from here: the last one does "
                "not start again by itself, and another may have to copy all data"
            )

    def require_data_kept(self) -> None:
        """Makes sure that a restart empties no table in memory that this account sees, and lets nobody write.

        What was set live is set again only once the new server takes connections.

        Raises:
            UsageError: it does.
            PlantError: it did not answer.
            PlantGone: it has ended.
        """
        if table := self._in_memory():
            raise UsageError(
                f"table {table} is in memory (ENGINE=MEMORY), and a restart would empty it: tune without "
                "--allow-restart, or give it another engine"
            )
        if str(self.set_live().get("read_only", 0)) not in ("0", "OFF"):
            raise UsageError(
                "read_only was set while MariaDB ran, and a restart would let clients write until it is set again: "
                "tune without --allow-restart, or write it in MariaDB's files and restart it"
            )

    def require_tables_kept(self) -> None:
        """Makes sure that a restart back to what was there empties no table in memory that this account sees.

        Raises:
            ApplyLater: it does, or it is not known.
        """
        try:
            table = self._in_memory()
        except PlantGone:
            return  # and so have the tables
        except PlantError as error:
            raise ApplyLater(str(error)) from (error.__cause__ or error)
        if table:
            raise ApplyLater(
                f"table {table} is in memory (ENGINE=MEMORY), and the restart back to what was there would empty it: "
                "drop it or give it another engine, then 'trimtab runs undo' restarts"
            )

    def replicates(self) -> tuple[bool, bool]:
        """Whether any of the threads by which it is a replica runs, and whether any is stopped.

        An account that may not see them is told only whether one executes what was done elsewhere.

        Raises:
            PlantError: it did not answer.
            PlantGone: it has ended.
        """
        with contextlib.suppress(Rejected, UsageError, NotMeasured):
            rows = self.link.ask("SHOW ALL SLAVES STATUS")
            said = {str(word) for row in rows if any(row[_RELAY_LOG]) for word in row[_REPLICA_THREADS]}
            if said <= {_STOPPED, *_RUNNING}:
                return bool(said - {_STOPPED}), _STOPPED in said
        return self._counter("Slaves_running") > 0, False

    def word(self, name: str, value: int) -> str:
        """A value as MariaDB writes it.

        Raises:
            UsageError: it is none of the choices that this MariaDB has.
        """
        choices = self.there[name].choices
        if choices and not 0 <= value < len(choices):
            raise UsageError(f"{name} {value} is none of MariaDB's choices: {', '.join(choices)}")
        return choices[value] if choices else str(value)

    def literal(self, name: str, value: int) -> str:
        """A value as a statement has it.

        Raises:
            UsageError: it is none of the choices that this MariaDB has.
        """
        return f"'{self.word(name, value)}'" if self.there[name].choices else str(value)

    def follow(self, server: MariadbServer) -> None:
        """Goes on with the server that a restart has put in its place."""
        self.server = server
        self.link.follow(server)

    def set_live(self) -> dict[str, object]:
        """Variables that somebody has set since the server's start, which a restart would forget, with their values.

        But for those of replication that are no settings.

        Raises:
            PlantError: it did not answer, or says more of them than there can be.
            PlantGone: it has ended.
        """
        asked = (
            "SELECT VARIABLE_NAME FROM information_schema.SYSTEM_VARIABLES "
            "WHERE GLOBAL_VALUE_ORIGIN = 'SQL' AND READ_ONLY = 'NO'"
        )
        names = self._answered(lambda: [variables.named(name) for (name,) in shaped(self.link.ask(asked), 1)])
        if len(names) > _MOST_VARIABLES:
            raise PlantError(f"{self.server} says that {len(names)} variables were set, more than there are")
        return self._globals([name for name in names if name not in _KEPT])

    def forgotten(self, values: Mapping[str, Answer]) -> dict[str, Answer]:
        """Those of these variables that have another value now, which nobody has set since the server's start.

        Raises:
            PlantError: it did not answer.
            PlantGone: it has ended.
        """
        since = self.set_live() if values else {}
        now = self._globals([name for name in values if name not in since and name not in _KEPT])
        return {name: values[name] for name in now if self._plain(name, values[name]) != self._plain(name, now[name])}

    def read_from(self, name: str) -> list[str]:
        """The variables whose value in force was read, when MariaDB was started, in a file of this name.

        Raises:
            PlantError: it did not answer.
            PlantGone: it has ended.
        """
        asked = "SELECT VARIABLE_NAME FROM information_schema.SYSTEM_VARIABLES WHERE GLOBAL_VALUE_PATH LIKE %s"
        rows = self._answered(lambda: shaped(self.link.ask(asked, (f"%/{name}",)), 1))
        return [variables.named(one) for (one,) in rows]

    def read_from_ours(self) -> list[str]:
        """The same of trimtab's own files, whatever instance's; none where it does not say."""
        with contextlib.suppress(PlantError):  # one before 10.5 knows of no files
            return self.read_from(_OURS)
        return []

    def set_again(self, values: Mapping[str, object]) -> list[str]:
        """Sets again the variables that a restart has forgotten, in a minute or two at most.

        Returns:
            The names of those that could not be set.
        """
        left, until_s = [], self.clock.now_s() + _PATIENCE_S
        for name, value in values.items():
            if self.clock.now_s() > until_s:  # requests may be held back meanwhile
                left.append(name)
                continue
            try:
                self.link.ask(f"SET GLOBAL {name} = %s", (value,))
            except (Rejected, UsageError, NotMeasured):
                left.append(name)
        return left

    def clients(self) -> int:
        """Connections of others that are open.

        Raises:
            PlantError: it did not answer.
            PlantGone: it has ended.
        """
        return max(0, self._counter("Threads_connected") - 1)

    def close(self) -> None:
        """Ends the conversation; may be called twice."""
        self.link.close()

    def _in_memory(self) -> str:
        """A table in memory, which a restart would empty; empty where this account sees none."""
        rows = self._answered(lambda: shaped(self.link.ask(_IN_MEMORY), 2))
        return printable(".".join(map(str, rows[0]))) if rows else ""

    def _globals(self, names: Sequence[str]) -> dict[str, object]:
        """The global values of variables."""
        if not names:
            return {}
        every = ", ".join(f"@@GLOBAL.{name}" for name in names)
        (row,) = self._answered(lambda: shaped(self.link.ask(f"SELECT {every}"), len(names), 1))
        return dict(zip(names, row, strict=True))

    def _plain(self, name: str, value: object) -> object:
        """A value; of one of several choices its number."""
        choices = self.there[name].choices if name in self.there else ()
        return choices.index(str(value)) if str(value) in choices else value

    def _await_resize(self, wanted_bytes: int) -> None:
        """Waits until the buffer pool has its new size, by its pages: older versions resize it in the background.

        Raises:
            ApplyFailed: it has not in time.
        """
        deadline_s = self.clock.now_s() + _RESIZE_S
        while not _near(pages_bytes := self._pool_bytes(), wanted_bytes):
            if self.clock.now_s() > deadline_s:
                raise ApplyFailed(f"the buffer pool has {pages_bytes} bytes of pages, not about {wanted_bytes}")
            self.clock.sleep(0.1)

    def _pool_bytes(self) -> int:
        """Memory in the pages of the buffer pool."""
        return self._counter("Innodb_buffer_pool_pages_total") * self._counter("Innodb_page_size")

    def _counter(self, name: str) -> int:
        """One of the counters of SHOW GLOBAL STATUS."""

        def ask() -> int:
            ((_, value),) = shaped(self.link.ask(f"SHOW GLOBAL STATUS LIKE '{name}'"), 2, 1)
            return variables.number(value)

        return self._answered(ask)

    def _privileges(self) -> frozenset[str]:
        """Global privileges of the account, by itself or by its role."""
        found = (_GRANT.match(str(said)) for (said,) in shaped(self.link.ask("SHOW GRANTS"), 1))
        return frozenset(word.strip() for one in found if one for word in one[1].split(","))

    def _answered(self, ask: Callable[[], Answer]) -> Answer:
        """Answer to a question.

        Raises:
            PlantError: it did not answer, or we may not ask any more.
            PlantGone: it has ended.
        """
        try:
            return ask()
        except (NotMeasured, UsageError) as error:
            raise PlantError(str(error)) from error


def _near(pages_bytes: int, wanted_bytes: int) -> bool:
    """Whether a buffer pool has its size: its pages and what describes them, about a hundredth."""
    return 0.95 * wanted_bytes - (1 << 20) <= pages_bytes <= 1.001 * wanted_bytes
