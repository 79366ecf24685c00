"""Sensor: MariaDB's own counters (SHOW GLOBAL STATUS).

| reading                      | from                                                                             |
|------------------------------|----------------------------------------------------------------------------------|
| request_rate_hz              | Questions: statements that clients have sent                                     |
| service_time_s               | Query_time / Questions: mean time of a statement, waits for locks and disk in it |
| requests_under_way           | Query_time / length: statements in progress, by Little's law                     |
| transaction_rate_hz          | Com_commit + Com_rollback: statements that end a transaction; not autocommit     |
| open_connections             | Threads_connected, at the window's ends                                          |
| thread_start_rate_hz         | Threads_created: threads that the cache did not have                             |
| failed_connection_rate_hz    | Aborted_connects; most of those that max_connections refuses are only in there   |
| broken_connection_rate_hz    | Aborted_clients                                                                  |
| buffer_pool_hit_ratio        | 1 - Innodb_buffer_pool_reads / Innodb_buffer_pool_read_requests                  |
| row_lock_wait_rate_hz        | Innodb_row_lock_waits                                                            |
| row_lock_wait_s              | Innodb_row_lock_time / Innodb_row_lock_waits                                     |
| table_open_rate_hz           | Opened_tables                                                                    |
| disk_temporary_table_rate_hz | Created_tmp_disk_tables                                                          |
| slow_statement_rate_hz       | Slow_queries: those longer than long_query_time                                  |
| disk_read_bytes_hz, ...      | Innodb_data_read, Innodb_data_written                                            |

One question at each edge of a window, over a connection of its own that stays; what that connection itself adds to
the counters is asked for in the same statement (SESSION_STATUS) and taken away, also that of one which MariaDB has
ended (wait_timeout). What the plant asks between two windows is in neither. A statement counts when it ends.
Query_time came with MariaDB 10.11's later releases; where it is not there, what follows from it is absent. In a
thread pool a statement that waits for a thread is not yet in it. What MariaDB sends to a replica is one statement,
which ends after days, when the replica goes: so what follows from Query_time is absent in a window in which one ends,
as far as we are shown them (PROCESS).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from trimtab.core.metric import Metric
from trimtab.core.sensor import Clock, Precedence
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured, PlantGone, UsageError
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.link import Link, Rejected, shaped
from trimtab.plants.mariadb.process import MariadbServer
from trimtab.sensors._counter_window import CounterWindow
from trimtab.sensors._metrics import OPEN_CONNECTIONS, REQUEST_RATE, REQUESTS_UNDER_WAY, SERVICE_TIME

_RATES = {
    "request_rate_hz": ("QUESTIONS",),
    "transaction_rate_hz": ("COM_COMMIT", "COM_ROLLBACK"),
    "thread_start_rate_hz": ("THREADS_CREATED",),
    "failed_connection_rate_hz": ("ABORTED_CONNECTS",),
    "broken_connection_rate_hz": ("ABORTED_CLIENTS",),
    "row_lock_wait_rate_hz": ("INNODB_ROW_LOCK_WAITS",),
    "table_open_rate_hz": ("OPENED_TABLES",),
    "disk_temporary_table_rate_hz": ("CREATED_TMP_DISK_TABLES",),
    "slow_statement_rate_hz": ("SLOW_QUERIES",),
    "disk_read_bytes_hz": ("INNODB_DATA_READ",),
    "disk_write_bytes_hz": ("INNODB_DATA_WRITTEN",),
    "requests_under_way": ("QUERY_TIME",),
}
"""Reading to the counters that it is the rate of."""
_OTHERS = (
    "INNODB_BUFFER_POOL_READS",
    "INNODB_BUFFER_POOL_READ_REQUESTS",
    "INNODB_ROW_LOCK_TIME",
    "THREADS_CONNECTED",
)
_OF_TIME = (SERVICE_TIME, REQUESTS_UNDER_WAY)
"""Metrics that follow from QUERY_TIME."""
_COUNTERS = (*(name for names in _RATES.values() for name in names), *_OTHERS)
_OWN = ("QUESTIONS", "QUERY_TIME", "OPENED_TABLES", "CREATED_TMP_DISK_TABLES", "SLOW_QUERIES")
"""Counters that our own question adds to; others of SESSION_STATUS are the server's totals."""
_LISTED = ", ".join(f"'{name}'" for name in _COUNTERS)
_OWN_LISTED = ", ".join(f"'{name}'" for name in _OWN)
_QUESTION = (
    f"SELECT 1, VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS "
    f"WHERE VARIABLE_NAME IN ({_LISTED}) UNION ALL "
    f"SELECT -1, VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.SESSION_STATUS "
    f"WHERE VARIABLE_NAME IN ({_OWN_LISTED}) UNION ALL "
    "SELECT 0, ID, 0 FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"
)
_REPLICA = "REPLICA "
"""Before the number of a connection over which a replica is sent what was done."""
OURS = 2
"""Connections of trimtab's: this one, and the one over which it sets values."""
_PATIENCE_S = 5.0
_MOST = 2.0**64
"""No counter can be more."""
_SHOWN = 50
"""Characters that are shown of what is refused."""
Totals = Mapping[str, float]
"""Counter to value, without what we have added."""


class MariadbStatus(CounterWindow[Totals]):
    """Counters of one MariaDB.

    Args:
        server: its process.
        credentials: our account.
        clock: the loop's clock.
        timed: whether it counts the time of its statements.
    """

    name = "mariadb-status"
    precedence = Precedence.STATUS_PAGE
    metrics: tuple[Metric, ...] = (
        REQUEST_RATE,
        SERVICE_TIME,
        REQUESTS_UNDER_WAY,
        OPEN_CONNECTIONS,
        Metric("transaction_rate_hz", "Hz", "transactions ended by COMMIT or ROLLBACK per second", asked=True),
        Metric("thread_start_rate_hz", "Hz", "threads started per second because none was kept for a new connection"),
        Metric(
            "failed_connection_rate_hz",
            "Hz",
            "connections per second that were refused, or came to nothing",
            failed=True,
        ),
        Metric("broken_connection_rate_hz", "Hz", "connections per second that ended without a goodbye"),
        Metric("buffer_pool_hit_ratio", "ratio", "reads of a page that found it in the buffer pool"),
        Metric("row_lock_wait_rate_hz", "Hz", "waits for a row's lock per second"),
        Metric("row_lock_wait_s", "s", "mean wait for a row's lock"),
        Metric("table_open_rate_hz", "Hz", "tables opened per second because no open one was kept"),
        Metric("disk_temporary_table_rate_hz", "Hz", "temporary tables per second that went to disk"),
        Metric(
            "slow_statement_rate_hz", "Hz", "statements per second longer than the server's own limit for slow ones"
        ),
        Metric("disk_read_bytes_hz", "bytes/s", "bytes that the database read from disk per second"),
        Metric("disk_write_bytes_hz", "bytes/s", "bytes that the database wrote to disk per second"),
    )

    def __init__(self, server: MariadbServer, credentials: Credentials, clock: Clock, timed: bool = True) -> None:
        super().__init__(clock)
        if not timed:
            self.metrics = tuple(one for one in self.metrics if one not in _OF_TIME)
        self._link = Link(server, credentials, _PATIENCE_S, clock)
        self._conversation = 0
        self._own: Totals = {}
        self._ended: Totals = {}

    def begin(self) -> None:
        """Marks the start of a window: a moment of its own, for the plant has asked since the end of the last.

        Raises:
            NotMeasured: MariaDB did not answer, or something else.
        """
        self.forget()
        super().begin()

    def follow(self, server: MariadbServer) -> None:
        """Asks another server from the next window on: the one that a restart has put in its place."""
        self._link.follow(server)
        self._own = self._ended = {}
        self.forget()

    def close(self) -> None:
        """Ends the conversation; may be called twice."""
        self._link.close()
        self.forget()

    def state(self) -> Totals:
        """The counters as they are now.

        Raises:
            NotMeasured: MariaDB did not answer, or something else.
        """
        try:
            rows = shaped(self._link.ask(_QUESTION), 3)
        except (Rejected, UsageError, PlantGone) as error:
            raise NotMeasured(str(error)) from None
        if self._link.begun != self._conversation:  # what an earlier one has asked is in the server's totals alone
            self._ended = _summed(self._ended, self._own)
            self._conversation = self._link.begun
        totals: dict[str, float] = {}
        own: dict[str, float] = {}
        for sign, name, value in rows:
            if sign == 0:
                totals[f"{_REPLICA}{name}"] = 0.0
            else:
                (totals if sign == 1 else own)[name] = _counted(sign, name, value)
        self._own = own
        ours = _summed(own, self._ended)
        return {name: value - ours.get(name, 0.0) for name, value in totals.items()}

    @staticmethod
    def differences(elapsed_s: float, first: Totals, last: Totals) -> Readings:
        """The readings between two moments; those whose counter is missing or was reset (FLUSH STATUS) are absent."""

        gone = any(name.startswith(_REPLICA) for name in first.keys() - last.keys())

        def change(*names: str) -> float | None:
            if gone and "QUERY_TIME" in names:
                return None
            pairs = [(first.get(name), last.get(name)) for name in names]
            grown = [after - before for before, after in pairs if before is not None and after is not None]
            # Our own share is asked for a moment later than the whole: a counter may seem to go back by that little.
            return max(0.0, sum(grown)) if len(grown) == len(names) and min(grown) > -1 else None

        readings = {}
        for reading, names in _RATES.items():
            grown = change(*names)
            if grown is not None:
                readings[reading] = grown / elapsed_s
        for reading, over, under, unit in (
            ("service_time_s", "QUERY_TIME", "QUESTIONS", 1.0),
            ("row_lock_wait_s", "INNODB_ROW_LOCK_TIME", "INNODB_ROW_LOCK_WAITS", 1e-3),
        ):
            top, bottom = change(over), change(under)
            if top is not None and bottom:
                readings[reading] = unit * top / bottom
        missed, asked = change("INNODB_BUFFER_POOL_READS"), change("INNODB_BUFFER_POOL_READ_REQUESTS")
        if missed is not None and asked:
            readings["buffer_pool_hit_ratio"] = max(0.0, 1 - missed / asked)
        ends = [one.get("THREADS_CONNECTED") for one in (first, last)]
        if None not in ends:
            readings["open_connections"] = max(0.0, sum(filter(None, ends)) / 2 - OURS)
        return readings


def _summed(one: Totals, other: Totals) -> Totals:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in (*one, *other)}


def _counted(sign: object, name: object, value: Any) -> float:
    """A counter in a row of the answer.

    Raises:
        NotMeasured: it is no such row.
    """
    with contextlib.suppress(TypeError, ValueError):
        if sign in (1, -1) and name in _COUNTERS and 0 <= (counted := float(value)) <= _MOST:
            return counted
    raise NotMeasured(f"MariaDB says {str(name)[:_SHOWN]!r} {str(value)[:_SHOWN]!r} where a counter was expected")
