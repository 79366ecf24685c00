"""Memory that a configuration of MariaDB takes at most, with as many connections as there were at once so far.

    needed = buffer pool + other caches + connections x (stack + sort + join + read + packet buffers)

The classic sum with max_connections in it says of almost every server that it cannot fit, and of Debian's too in half
a GiB; it is of no use as a rule. So connections are those that the server has seen at once since its start
(Max_used_connections), as far as max_connections lets them.
"""

from __future__ import annotations

from collections.abc import Mapping

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


def needed_bytes(values: Mapping[str, int], connections: int) -> int:
    """Memory that a configuration takes.

    Args:
        values: `SHARED`, `EACH` and max_connections by name; what a MariaDB does not have is absent.
        connections: most connections at once so far.
    """
    shared = sum(values.get(name, 0) for name in SHARED)
    each = sum(values.get(name, 0) for name in EACH)
    return shared + min(values["max_connections"], max(1, connections)) * each
