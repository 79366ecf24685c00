"""Memory that a configuration of MariaDB takes at most, with as many connections as there were, or a few more.

    needed = buffer pool + other caches
           + connections x (stack + sort + join + read + packet buffers + what a temporary table may have more)

A temporary table in memory is as large as the lesser of tmp_table_size and max_heap_table_size lets it be. Few
connections have one at a time, and few of these are so large: what the server had at the start it has shown that it
can bear, so that only what it may have beyond that counts.

The classic sum with max_connections in it says of almost every server that it cannot fit, and of Debian's too in half
a GiB; it is of no use as a rule. So connections are those to plan for (`trimtab.core.memory.foreseen`) by the most
that the server has seen at once since its start (Max_used_connections), as far as max_connections lets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trimtab.core.memory import Need, Room, foreseen, under

SHARED = ("innodb_buffer_pool_size", "innodb_log_buffer_size", "query_cache_size")
"""Caches that MariaDB has once. Those of MyISAM and Aria are address space until such a table is used."""
EACH = (
    "thread_stack",
    "sort_buffer_size",
    "join_buffer_size",
    "read_buffer_size",
    "read_rnd_buffer_size",
    "net_buffer_length",
)
"""Memory that each connection may take."""
TABLE = ("tmp_table_size", "max_heap_table_size")
"""The lesser of these bounds a temporary table in memory, of which each connection may have one."""


def needs(values: Mapping[str, int], most: int, rooms: Iterable[Room], start: Mapping[str, int]) -> tuple[Need, ...]:
    """Memory that a configuration takes, under each limit that binds it.

    Args:
        values: `SHARED`, `EACH`, `TABLE` and max_connections by name; what a MariaDB does not have is absent.
        most: most connections at once so far.
        rooms: the limits.
        start: `TABLE` at the start.
    """
    connections = min(values["max_connections"], foreseen(max(1, most)))
    shared = sum(values.get(name, 0) for name in SHARED)
    more = min(values.get(name, 0) for name in TABLE) - min(start.get(name, 0) for name in TABLE)
    each = sum(values.get(name, 0) for name in EACH) + max(0, more)
    what = f"caches and the buffers of {connections} connections ({most} were the most so far)"
    return under(what, shared + connections * each, rooms)
