"""Heap that the connections' buffers take, with as many connections as there were at once so far.

    needed = sum over connectors of connections x (read buffer + write buffer)

maxConnections in it would say of every Tomcat that it cannot fit. The buffers may take half of the heap; the other
half is the application's, of which nothing is known beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab.core.memory import Need
from trimtab.plants.tomcat.knobs import Dial

CONNECTIONS = "connectionCount"
"""The attribute of a connector's endpoint that says how many connections are open."""


def needs(
    dials: Sequence[Dial], values: Mapping[str, int], peaks: Mapping[str, int], heap_bytes: int | None, pid: int
) -> tuple[Need, ...]:
    """The heap that a configuration needs; nothing where Java says no limit of it.

    Args:
        dials: the knobs.
        values: value of each knob.
        peaks: the endpoint of a connector to the most connections at once so far.
        heap_bytes: the most that the heap may take; None where that is not known.
        pid: the server's process.
    """
    if heap_bytes is None:
        return ()
    size_bytes = sum(peaks.get(dial.part, 0) * values[dial.knob.name] for dial in dials if dial.knob.unit == "bytes")
    what = f"the buffers of {sum(peaks.values())} connections, the most there were"
    return (Need(what, size_bytes, f"half of the heap of Tomcat (pid {pid})", heap_bytes // 2),)
