"""Memory that a configuration of MariaDB takes at most, with as many connections as there were, or a few more.

    needed = buffer pool + other caches + connections x (stack + sort + join + read + packet buffers)

The classic sum with max_connections in it says of almost every server that it cannot fit, and of Debian's too in half
a GiB; it is of no use as a rule. So connections are those to plan for (`trimtab.core.memory.foreseen`) by the most
that the server has seen at once since its start (Max_used_connections), as far as max_connections lets them.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.core.memory import Need, foreseen

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


def need(values: Mapping[str, int], most: int, where: str, limit_bytes: int) -> Need:
    """Memory that a configuration takes.

    Args:
        values: `SHARED`, `EACH` and max_connections by name; what a MariaDB does not have is absent.
        most: most connections at once so far.
        where: what limits the memory.
        limit_bytes: how much there is.
    """
    connections = min(values["max_connections"], foreseen(max(1, most)))
    shared = sum(values.get(name, 0) for name in SHARED)
    each = sum(values.get(name, 0) for name in EACH)
    what = f"caches and the buffers of {connections} connections ({most} were the most so far)"
    return Need(what, shared + connections * each, where, limit_bytes)
