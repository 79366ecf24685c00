"""The knobs of a MariaDB: those that were tuned in 2004, as far as they exist today, and those that matter today.

"The paper" is Chung and Hollingsworth, Automated Cluster-Based Web Service Performance Tuning (2004), Table 3.

Each is one system variable. MariaDB says itself what it takes (`variables`): a value that it would clip is outside of
the domain. Steps are the paper's grid; where MariaDB rounds to a coarser one (binlog_cache_size), that. A grid goes
through the value in force, so that where a search starts is on it.

MariaDB's own largest values are mostly those of the integers. So a domain ends where there is a reason to, or at four
times the largest value that the paper has found.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from trimtab.core import Domain, How, Knob, Role
from trimtab.plants.mariadb.variables import Variable

_BEYOND_PAPER = "four times the largest value that the paper has found"
_MIB = 1 << 20
_LIVE = "nothing: it is in force at once"
_NEW = "nothing: open connections keep the old value, but for those of a stack's JDBC pools, which are made anew"
_RESTART = "a restart: every connection ends, and the buffer pool begins empty"
_NONE_KNOWN = "Nothing is known to act here: a control that a search should find to be without effect."
_SUPER = "SUPER"
_RELOAD = "RELOAD"
"""By which an account may ask whether a backup is under way."""
_ALONE = re.compile(r"(?:1[1-9]|[2-9]\d)\.")
"""Versions in which SUPER does not let an account do what another privilege is for (MDEV-29668, 11.0)."""
_UNDIVIDED = re.compile(r"(?:5|10\.[0-4])\.")
"""Versions in which SUPER is the one privilege for all of them (MDEV-21743, 10.5)."""
DURABILITY = "innodb_flush_log_at_trx_commit"
BUFFER_POOL = "innodb_buffer_pool_size"
REDO_LOG = "innodb_log_file_size"
GONE = {"thread_concurrency": "MariaDB 10.5 removed it, and on Linux it never did anything"}
"""Variables of the paper's table that there are no more, and why."""


@dataclass(frozen=True)
class Row:
    """Definition of a variable's knob.

    Args:
        unit: unit of its value.
        default: Debian's default.
        step: distance of neighbouring values; of the paper's grid where it gives one.
        most: largest value of the domain, of choices the last; 0 for the largest that MariaDB takes.
        limited_by: what sets that largest value.
        how: how a change comes into force.
        description: its effect, in one sentence.
        role: its role.
        least: smallest value of the domain; 0 for the smallest that MariaDB takes.
        logarithmic: whether a search walks by ratios.
        privilege: the privilege that lets an account set it.
        where: the variable and its choice without which it does nothing, and is left out; None for always.
    """

    unit: str
    default: int
    step: int
    most: int
    limited_by: str
    how: How
    description: str
    role: Role = Role.OTHER
    least: int = 0
    logarithmic: bool = False
    privilege: str = _SUPER
    where: tuple[str, str] | None = None


_AS_MANY = "as many as MariaDB takes"
TABLE: Mapping[str, Row] = {
    "max_connections": Row(
        "connections",
        151,
        50,
        4 * 701,
        _BEYOND_PAPER,
        How.LIVE,
        "How many connections there may be; those beyond it are refused.",
        Role.CONNECTION_LIMIT,
        privilege="CONNECTION ADMIN",
    ),
    BUFFER_POOL: Row(
        "bytes",
        128 * _MIB,
        8 * _MIB,
        0,
        "the memory that MariaDB may use",
        How.LIVE,
        "Memory for pages of tables and indexes; what is not in it is read from disk.",
        Role.CACHE,
        least=8 * _MIB,
        logarithmic=True,
    ),
    "table_open_cache": Row(
        "tables",
        2000,
        8,
        4 * 905,
        _BEYOND_PAPER,
        How.LIVE,
        "Open tables that are kept, one for each connection that uses one; below that, statements open them anew.",
    ),
    "thread_cache_size": Row(
        "threads",
        151,
        1,
        1024,
        "more than as many connections as ever end at once are never kept",
        How.LIVE,
        "Threads of ended connections that are kept for new ones.",
    ),
    "thread_pool_size": Row(
        "groups",
        os.cpu_count() or 1,
        1,
        16 * (os.cpu_count() or 1),
        "16 for each CPU: a group runs one statement at a time, but for those that wait",
        How.LIVE,
        "Groups of the thread pool, which are about the statements that run at a time.",
        Role.WORKER_LIMIT,
        privilege="CONNECTION ADMIN",
        where=("thread_handling", "pool-of-threads"),
    ),
    "innodb_io_capacity": Row(
        "operations/s",
        200,
        100,
        0,
        "innodb_io_capacity_max, which MariaDB would raise with it",
        How.LIVE,
        "Disk operations per second that InnoDB's background work keeps to.",
        logarithmic=True,
    ),
    REDO_LOG: Row(
        "bytes",
        96 * _MIB,
        4 * _MIB,
        16 * 96 * _MIB,
        "16 times what Debian ships: recovery after a crash takes as much longer",
        How.LIVE,
        "The redo log: the smaller it is, the sooner changed pages must be written.",
        logarithmic=True,
    ),
    "join_buffer_size": Row(
        "bytes",
        256 << 10,
        1 << 10,
        32 * _MIB,
        "four times what the paper starts from; every join without an index takes it",
        How.CONNECTIONS,
        "Memory for each join without an index, of each connection.",
        logarithmic=True,
    ),
    "sort_buffer_size": Row(
        "bytes",
        2 * _MIB,
        32 << 10,
        32 * _MIB,
        "16 times what Debian ships; every sort may take it",
        How.CONNECTIONS,
        "Memory for each sort, of each connection.",
        logarithmic=True,
    ),
    "tmp_table_size": Row(
        "bytes",
        16 * _MIB,
        256 << 10,
        256 * _MIB,
        "16 times what Debian ships; every temporary table may take it",
        How.CONNECTIONS,
        "Largest temporary table in memory; of this and max_heap_table_size the smaller one counts.",
        least=256 << 10,
        logarithmic=True,
    ),
    "max_heap_table_size": Row(
        "bytes",
        16 * _MIB,
        256 << 10,
        256 * _MIB,
        "16 times what Debian ships; every temporary table may take it",
        How.CONNECTIONS,
        "Largest table of the MEMORY engine; of this and tmp_table_size the smaller one bounds temporary tables.",
        least=256 << 10,
        logarithmic=True,
    ),
    "query_cache_size": Row(
        "bytes",
        _MIB,
        256 << 10,
        256 * _MIB,
        "beyond a few MiB its one lock costs more than its hits bring",
        How.LIVE,
        "Memory for answers that are kept; it does nothing where query_cache_type is OFF.",
        Role.CACHE,
    ),
    "query_cache_type": Row(
        "choice",
        0,
        1,
        1,
        _AS_MANY,
        How.CONNECTIONS,
        "Whether answers are kept, until one of their tables is written to: much where the same is read again and "
        "again, and worse than nothing where much is written.",
        Role.ANSWERS,
    ),
    "binlog_cache_size": Row(
        "bytes",
        32 << 10,
        2048,
        4 * 284672,
        _BEYOND_PAPER,
        How.CONNECTIONS,
        "Memory of each connection for its transaction's part of the binary log. Where that is off, as Debian ships "
        f"it: {_NONE_KNOWN[0].lower()}{_NONE_KNOWN[1:]}",
        privilege="BINLOG ADMIN",
    ),
    "net_buffer_length": Row(
        "bytes",
        16 << 10,
        1024,
        0,
        _AS_MANY,
        How.CONNECTIONS,
        "First size of each connection's buffer for packets, which grows by itself to max_allowed_packet.",
        logarithmic=True,
    ),
    "delayed_insert_limit": Row(
        "rows",
        100,
        100,
        4 * 700,
        _BEYOND_PAPER,
        How.LIVE,
        f"Rows that INSERT DELAYED writes before it lets readers in. Without such statements: {_NONE_KNOWN}",
    ),
    "delayed_queue_size": Row(
        "rows",
        1000,
        500,
        4 * 9100,
        _BEYOND_PAPER,
        How.LIVE,
        f"Rows of INSERT DELAYED that wait for a table. Without such statements: {_NONE_KNOWN}",
    ),
}
"""Definitions by MariaDB's name; the first is tuned where none is named."""
LESS_DURABLE: Mapping[str, Row] = {
    DURABILITY: Row(
        "choice",
        1,
        1,
        0,
        _AS_MANY,
        How.LIVE,
        "When commits reach the disk: at each (1), or some of the last second's are lost in a crash (0, 2).",
    )
}
"""Listed only where the operator accepts that commits may be lost."""
AT_RESTART: Mapping[str, Row] = {
    "thread_stack": Row(
        "bytes",
        299008,
        5120,
        4 * 1018880,
        _BEYOND_PAPER,
        How.RESTART,
        "Address space of each connection's stack; too little of it and statements fail.",
    ),
    "thread_handling": Row(
        "choice",
        0,
        1,
        0,
        _AS_MANY,
        How.RESTART,
        "Whether each connection has a thread of its own, or all share a pool of them.",
    ),
}
"""Listed only where the operator lets MariaDB be restarted."""
ALL: Mapping[str, Row] = {**TABLE, **LESS_DURABLE, **AT_RESTART}
END_BACKUPS = frozenset({REDO_LOG, *AT_RESTART})
"""A change of one makes a backup of mariadb-backup fail that is under way."""
CONTEXT = (
    "max_connections",
    "open_files_limit",
    "table_open_cache",
    "table_open_cache_instances",
    "innodb_io_capacity_max",
    "innodb_log_buffer_size",
    "max_allowed_packet",
    "thread_handling",
    "log_bin",
)
"""Variables that the domains and rules of knobs depend on."""
CLUSTERED = "wsrep_on"
"""Whether it is a node of a Galera cluster."""
CHUNK = "innodb_buffer_pool_chunk_size"
"""Of which a buffer pool is a multiple, before the releases from which the next is known: these no longer need it."""
LARGEST_POOL = "innodb_buffer_pool_size_max"
"""What bounds the buffer pool while MariaDB runs, from 10.11.12, 11.4.6 and 11.8.2 on; in some releases its first
size."""


def knobs(there: Mapping[str, Variable], rows: Mapping[str, Row], memory_bytes: int) -> tuple[Knob, ...]:
    """The knobs that this MariaDB has.

    Args:
        there: its variables by name.
        rows: definitions of the wanted ones.
        memory_bytes: the memory that it may use.
    """
    found = []
    for name, row in rows.items():
        if name in there and _acts(there[name], there, row):
            limits = _most(there, name, row, memory_bytes)
            domain = _domain(there[name], _least(there, name, row), _step(there, name, row), *limits, row.logarithmic)
            cost = _LIVE if row.how is How.LIVE else _NEW if row.how is How.CONNECTIONS else _RESTART
            found.append(Knob(name, name, row.unit, domain, row.default, row.how, cost, row.description, row.role))
    return tuple(found)


def unprivileged(names: Collection[str], granted: frozenset[str], version: str) -> dict[str, str]:
    """The knobs that an account may not set, each with the privilege that it lacks.

    Args:
        names: the knobs.
        granted: the account's privileges.
        version: MariaDB's version, as it says.
    """
    if "ALL PRIVILEGES" in granted:
        return {}
    every = _SUPER in granted and not _ALONE.match(version)
    needed = {name: _SUPER if _UNDIVIDED.match(version) else ALL[name].privilege for name in names}
    lacking = {name: one for name, one in needed.items() if not every and one not in granted}
    for name in END_BACKUPS.intersection(() if _RELOAD in granted else names):
        lacking[name] = f"{lacking[name]}, {_RELOAD}" if name in lacking else _RELOAD
    return lacking


def _acts(one: Variable, there: Mapping[str, Variable], row: Row) -> bool:
    """Whether a variable can be set so, and does anything as this MariaDB was started."""
    if one.fixed and row.how is not How.RESTART:
        return False
    if row.where is None:
        return True
    name, needed = row.where
    return name in there and there[name].choices[there[name].value :][:1] == (needed,)


def _step(there: Mapping[str, Variable], name: str, row: Row) -> int:
    """The step of a knob: the paper's, made a multiple of MariaDB's own."""
    chunk = there[CHUNK].value if name == BUFFER_POOL and CHUNK in there else 0
    return math.lcm(row.step, there[name].block, chunk or 1)


def _most(there: Mapping[str, Variable], name: str, row: Row, memory_bytes: int) -> tuple[int, str]:
    """The largest value of a knob here, and what limits it."""
    most, why = row.most or there[name].most, row.limited_by
    if name == BUFFER_POOL:
        most = memory_bytes
        if LARGEST_POOL in there and 0 < (pool := there[LARGEST_POOL].value) < most:
            most, why = pool, f"{LARGEST_POOL} = {pool}, which only a restart changes"
    if name == "innodb_io_capacity":
        most = there["innodb_io_capacity_max"].value
    if name == "max_connections" and (files := there["open_files_limit"].value - _OTHER_FILES) < most:
        most, why = files, f"open_files_limit = {there['open_files_limit'].value}"
    if name == "net_buffer_length" and (packet := there["max_allowed_packet"].value) < most:
        most, why = packet, f"max_allowed_packet = {packet}"
    return min(most, there[name].most), why


_OTHER_FILES = 30
"""Descriptors that MariaDB keeps for itself when it shares out open_files_limit at its start."""


def _least(there: Mapping[str, Variable], name: str, row: Row) -> int:
    """The smallest value of a knob here."""
    if name == REDO_LOG:
        return there["innodb_log_buffer_size"].value
    if name == "max_heap_table_size":  # a table that is made or emptied meanwhile keeps its limit for good
        return there[name].value
    return max(there[name].least, row.least, 1 if row.step > 1 else 0)


def _domain(variable: Variable, least: int, step: int, most: int, limited_by: str, logarithmic: bool) -> Domain:
    """The values of a knob, on a grid through the one in force."""
    now = variable.value
    if variable.choices:
        return Domain.choice(*variable.choices[: max(most, now) + 1])
    minimum = now - step * max(0, (now - least) // step)
    maximum = now + step * max(0, (most - now) // step)
    return Domain(minimum, maximum, step, limited_by, (), logarithmic)


def files_needed(configuration: Mapping[str, int], there: Mapping[str, Variable]) -> int:
    """Descriptors that MariaDB sets aside for a configuration when it starts: connections, and two for each table."""
    instances = there["table_open_cache_instances"].value
    return _OTHER_FILES + configuration["max_connections"] + 2 * configuration["table_open_cache"] * instances


def lacking_files(configuration: Mapping[str, int], chosen: Mapping[str, int], there: Mapping[str, Variable]) -> str:
    """Why there are too few descriptors for a configuration; empty where there are, or were too few before.

    Args:
        configuration: it.
        chosen: what the operator has chosen.
        there: MariaDB's variables.
    """
    needed, files = files_needed(configuration, there), there["open_files_limit"].value
    if needed <= max(files, files_needed(chosen, there)):
        return ""
    return (
        f"max_connections {configuration['max_connections']} and table_open_cache "
        f"{configuration['table_open_cache']} need {needed} descriptors, more than open_files_limit {files}"
    )
