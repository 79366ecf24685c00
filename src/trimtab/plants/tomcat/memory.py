"""Memory that a configuration of Tomcat takes: buffers of connections in the heap, stacks of threads beside it.

    in the heap      = sum over connectors of connections x (read buffer + write buffer)
    beside it        = spare threads x stack

Connections are those to plan for by the most there were at once so far (`trimtab.core.memory.foreseen`):
maxConnections would say of every Tomcat that it cannot fit. The buffers may take half of the heap; the other half is
the application's, of which nothing is known beforehand. Threads are those that are kept whether there is work for
them or not (minSpareThreads), each with Java's usual stack of 1 MiB, which few fill. Of maxThreads nothing follows:
they come when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trimtab.core.memory import MIB, Need, Room, foreseen, under
from trimtab.plants.tomcat.knobs import MIN_THREADS, Dial

CONNECTIONS = "connectionCount"
"""The attribute of a connector's endpoint that says how many connections are open."""
_STACK_BYTES = MIB


def in_heap(
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
    sizes = ((dial.part, values[dial.knob.name]) for dial in dials if dial.knob.unit == "bytes")
    size_bytes = sum(foreseen(peaks.get(part, 0)) * size for part, size in sizes)
    count, most = sum(map(foreseen, peaks.values())), sum(peaks.values())
    what = f"the buffers of {count} connections ({most} were the most so far)"
    return (Need(what, size_bytes, f"half of the heap of Tomcat (pid {pid})", heap_bytes // 2),)


def beside(dials: Sequence[Dial], values: Mapping[str, int], rooms: Iterable[Room]) -> tuple[Need, ...]:
    """The memory that the threads which are kept need, beside all that Tomcat holds.

    Args:
        dials: the knobs.
        values: value of each knob.
        rooms: the limits that bind Tomcat.
    """
    threads = sum(values[dial.knob.name] for dial in dials if dial.kind == MIN_THREADS)
    none_held = (room._replace(held_bytes=0) for room in rooms)  # what it holds is its heap
    return under(f"the stacks of {threads} spare threads", threads * _STACK_BYTES, none_held)
