"""Restarts a connector, so that its listening socket is opened anew, with the least harm; or holds all of them.

A restart first takes no more connections, then waits for requests in service, and then opens its socket anew. What
waits in the accept queue at that moment is refused by the kernel, and so is what comes before it listens again: both
are counted and said. Should trimtab be killed meanwhile, a connector serves again all the same (`jmx`). Idle
connections are ended, which a client that keeps them has to bear with at any time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from trimtab.core import Clock
from trimtab.errors import ApplyFailed
from trimtab.plants.tomcat.attached import Attached
from trimtab.plants.tomcat.layout import Pool
from trimtab.processes import sockets

DRAIN_S = 10.0
HELD_S = 2.0
"""How long requests in service are waited for while others are held back for a pool's connections."""
ESTABLISHED = "01"
"""TCP_ESTABLISHED in /proc/net/tcp."""
_POLL_S = 0.02


def restart(tomcat: Attached, endpoint: str, clock: Clock) -> list[str]:
    """Restarts the connector of an endpoint.

    Returns:
        What the user should know, one line each.

    Raises:
        ApplyFailed: it did not come back.
        PlantGone: the server has ended.
    """
    connector = next(one for one in tomcat.layout.connectors if one.endpoint == endpoint)
    began_s = clock.now_s()
    bean = connector.bean
    try:
        tomcat.pause(bean, endpoint)
        busy = _drained(tomcat, endpoint, clock)
        waiting, closed_s = _waiting(tomcat.process.pid, connector.port), clock.now_s()
        tomcat.call((bean, "stop"), (endpoint, "unbind"), (endpoint, "bind"), (bean, "start"))
    except BaseException:
        tomcat.call((bean, "resume"))
        raise
    spot = endpoint, "localPort"
    if tomcat.values([spot])[spot] != connector.port:
        raise ApplyFailed(f"the connector of port {connector.port} does not listen after its restart")
    now_s = clock.now_s()
    tomcat.held_s += now_s - began_s
    late = f"; {busy} requests were still in service and may have been cut" if busy else ""
    return [
        f"the connector of port {connector.port} took nothing for {now_s - began_s:.2f} s; {waiting} connections "
        f"that waited were refused, and any that came in the last {now_s - closed_s:.2f} s of it{late}"
    ]


@contextlib.contextmanager
def held(
    tomcat: Attached, clock: Clock, notes: list[str], pools: Sequence[Pool] | None = None, drain_s: float = DRAIN_S
) -> Iterator[None]:
    """Takes no requests while a server behind this one is restarted; in the end lets go of JDBC connections to it.

    New connections wait in the accept queue, as long as that has room.

    Args:
        tomcat: the running Tomcat.
        clock: for the wait until requests in service have ended.
        notes: to which it adds what the user should know.
        pools: the pools that let go of theirs; None for all.
        drain_s: the most that it waits for requests in service.

    Raises:
        ApplyFailed: a connector cannot be paused, or does not serve again.
        PlantGone: the server has ended.
    """
    began_s, connectors = clock.now_s(), tomcat.layout.connectors
    with contextlib.ExitStack() as stack:
        for one in connectors:
            stack.callback(tomcat.call, (one.bean, "resume"))
            tomcat.pause(one.bean, one.endpoint)
        busy = sum(_drained(tomcat, one.endpoint, clock, drain_s) for one in connectors)
        for pool in tomcat.layout.pools if pools is None else pools:
            stack.callback(purged, tomcat, pool, notes)
        yield
    held_s = clock.now_s() - began_s
    tomcat.held_s += held_s
    late = f", with {busy} requests still in service" if busy else ""
    notes.append(f"Tomcat held requests back for {held_s:.2f} s meanwhile{late}")


def renewed(tomcat: Attached, clock: Clock, notes: list[str]) -> None:
    """Has all pools make their connections anew; requests are held back for those of DBCP, for a moment.

    Those that serve a request for longer than that stay as they are, and the note says how many requests there are.

    Args:
        tomcat: the running Tomcat.
        clock: for the wait until requests in service have ended.
        notes: to which it adds what the user should know.

    Raises:
        ApplyFailed: a connector cannot be paused, or does not serve again.
        PlantGone: the server has ended.
    """
    pools = tomcat.layout.pools
    for pool in pools:
        if not pool.dbcp:
            purged(tomcat, pool, notes)
    if closing := [pool for pool in pools if pool.dbcp]:
        with held(tomcat, clock, notes, closing, HELD_S):
            pass


def purged(tomcat: Attached, pool: Pool, notes: list[str]) -> None:
    """Has a pool close its connections, those that are lent when they come back; or says that it could not.

    One of DBCP keeps those that are lent: so it is for when no request is in service.

    Raises:
        PlantGone: the server has ended.
    """
    try:
        tomcat.empty(pool)
    except ApplyFailed as error:
        notes.append(f"JDBC connections from before may be lent once more by {pool.name}: {error}")


def _waiting(pid: int, port: int) -> int:
    """Connections of somebody that wait in the accept queue of a port: no process has them yet."""
    rows = (row for row in sockets(pid, "tcp", "tcp6") if (row[3], row[9]) == (ESTABLISHED, "0"))
    return sum(int(row[1].partition(":")[2], 16) == port for row in rows)


def _drained(tomcat: Attached, endpoint: str, clock: Clock, most_s: float = DRAIN_S) -> int:
    """Waits for requests in service; how many are left."""
    deadline_s, spot = clock.now_s() + most_s, (endpoint, "currentThreadsBusy")
    while (busy := tomcat.values([spot])[spot] or 0) and clock.now_s() < deadline_s:
        clock.sleep(_POLL_S)
    return busy
