"""Restarts a connector, so that its listening socket is opened anew, with the least harm; or holds all of them.

A restart first takes no more connections, then waits for requests in service, and then opens its socket anew. What
waits in the accept queue at that moment is refused by the kernel, and so is what comes before it listens again: both
are counted and said. Should trimtab be killed meanwhile, a connector serves again all the same (`jmx`); should its
program be killed too, an undo has it serve again by what stands in the journal. Idle connections are ended, which a
client that keeps them has to bear with at any time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from trimtab.core import Clock
from trimtab.errors import ApplyFailed, UsageError
from trimtab.plants.tomcat.attached import Attached, Spot
from trimtab.plants.tomcat.journal import Paused
from trimtab.plants.tomcat.layout import BUSY, NOT_COUNTED, Connector, Pool, name_of, native
from trimtab.processes import sockets

DRAIN_S = 10.0
HELD_S = 2.0
"""How long requests in service are waited for while others are held back for a pool's connections."""
LIMIT, REQUESTS = "maxConnections", "maxKeepAliveRequests"
"""What a pause changes for a moment, to 0 and 1 (`Jmx.java`)."""
_WAITING = "waitingProcessorCount"
"""Asynchronous requests that no thread serves just now, and what lasts too long to be waited for (`_lasting`)."""
_WEBSOCKETS = "*:type=GlobalRequestProcessor,Upgrade=websocket,*"
"""Connectors that have had any."""
_AJP = "ajp-"
"""How the name of such a connector's endpoint begins."""
DEAF = "while a connector is paused requests on kept connections may be lost, as Tomcat 8 ends those, in use too"
"""What is said of a pause where `Layout.deaf` is so."""
UNLIMITED = -1
"""A limit that is raised wakes nobody who waits at it; none does."""
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
    # An executor counts the requests of all its connectors together: while one serves, the others seem to.
    beside = [
        one for one in tomcat.layout.connectors if one != connector and one.executor == connector.executor != ""
    ]
    with _counted(tomcat, clock), contextlib.ExitStack() as stack:
        paused = [stack.enter_context(_paused(tomcat, one)) for one in (*beside, connector)]
        counted = [(endpoint, BUSY), (connector.handler, _WAITING)]
        lasting = _lasting(tomcat, endpoint)
        _drained(tomcat, counted[:1] if lasting else counted, clock)
        left = _drained(tomcat, counted, clock, 0.0)
        waiting, closed_s = _waiting(tomcat.process.pid, connector.port), clock.now_s()
        anew = [(endpoint, "unbind"), (endpoint, "bind")] if _binds_early(tomcat, endpoint) else []
        tomcat.call((bean, "stop"), *anew, (bean, "start"))
    spot = endpoint, "localPort"
    if tomcat.values([spot])[spot] != connector.port:
        raise ApplyFailed(f"the connector of port {connector.port} does not listen after its restart")
    now_s = clock.now_s()
    kind = " or ".join(("requests", *lasting))
    late = f"; {left} {kind} were still in service and may have been cut" if left else ""
    ports = ", ".join(str(one.port) for one in beside)
    others = f" and those that share its Executor ({ports})" if beside else ""
    return [
        f"the connector of port {connector.port}{others} took nothing for {now_s - began_s:.2f} s; {waiting} "
        f"connections that waited were refused, and any that came in the last {now_s - closed_s:.2f} s of "
        f"it{late}{_lost(tomcat.layout.deaf, *paused)}"
    ]


def _lasting(tomcat: Attached, endpoint: str) -> list[str]:
    """What its connector has had and Tomcat does not tell from asynchronous requests; none where it has had none.

    A connection over HTTP/2 counts as one, idle or not (`addWaitingProcessor` in org.apache.coyote.AbstractProtocol).
    """
    found, own = list[str](), name_of(endpoint)
    if own in map(name_of, tomcat.names(_WEBSOCKETS)):
        found.append("WebSockets")
    counting = [(one, "requestCount") for one in tomcat.layout.multiplexed if name_of(one) == own]
    if any(count != 0 for count in tomcat.values(counting).values()):
        found.append("connections over HTTP/2")
    return found


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
    with _counted(tomcat, clock), contextlib.ExitStack() as stack:
        paused = [stack.enter_context(_paused(tomcat, one)) for one in connectors]
        busy = sum(_drained(tomcat, [(one.endpoint, BUSY)], clock, drain_s) for one in connectors)
        for pool in tomcat.layout.pools if pools is None else pools:
            stack.callback(purged, tomcat, pool, notes)
        yield
    held_s = clock.now_s() - began_s
    late = f", with {busy} requests still in service" if busy else ""
    notes.append(f"Tomcat held requests back for {held_s:.2f} s meanwhile{late}{_lost(tomcat.layout.deaf, *paused)}")


@contextlib.contextmanager
def _counted(tomcat: Attached, clock: Clock) -> Iterator[None]:
    """Counts for how long requests are held back, also where the change fails."""
    began_s = clock.now_s()
    try:
        yield
    finally:
        tomcat.held_s += clock.now_s() - began_s


@contextlib.contextmanager
def _paused(tomcat: Attached, connector: Connector) -> Iterator[Paused]:
    """A connector that takes no connections, once it is on disk what has it serve again.

    One without a limit of connections cannot be led to take no more: it is paused in the middle of taking them. One
    that does not say how many requests are in service is not paused: what is done then could cut them.

    Raises:
        ApplyFailed: it cannot be paused, or does not serve again.
        PlantGone: the server has ended.
    """
    one = _written(tomcat, connector)
    try:
        tomcat.pause(one)
        yield one
    finally:
        if tomcat.revived():
            serve_again(tomcat, one)
        else:
            tomcat.call((one.connector, "resume"))
            _served(tomcat, one)


def _lost(deaf: bool, *paused: Paused) -> str:
    """What a pause may have cost; as `Layout.deaf` says, also on kept connections."""
    lossy = any(one.limit == UNLIMITED for one in paused)
    said = f"; a request that came just then may be lost, as {LIMIT} has no limit" if lossy else ""
    if any(native(one.endpoint) for one in paused):
        said += f"; a request that came just then may be lost, as APR takes no {LIMIT} while it runs"
    if deaf:
        said += f"; {DEAF}"
    # It takes no count of requests after which one is ended, as HTTP does.
    if any(name_of(one.endpoint).startswith(_AJP) for one in paused):
        said += "; requests that came on kept connections of AJP may be lost, as Tomcat ends those, in use too"
    return said


def _written(tomcat: Attached, connector: Connector) -> Paused:
    """A connector that may be paused, in the journal.

    Raises:
        ApplyFailed: it may not; nothing was paused.
        PlantGone: the server has ended.
    """
    try:
        for left in tomcat.journal.paused():
            if left.connector == connector.bean:
                serve_again(tomcat, left)
        spots = [(connector.endpoint, name) for name in (LIMIT, REQUESTS, BUSY)]
        limit, requests, busy = tomcat.values(spots).values()
        if not limit or requests is None:
            raise ApplyFailed(f"the connector of port {connector.port} is not paused: its {LIMIT} is {limit}")
        if busy == NOT_COUNTED:
            raise ApplyFailed(
                f"the connector of port {connector.port} is not paused: it has virtual threads, of which Tomcat does "
                "not say how many serve a request"
            )
        one = Paused(connector.bean, connector.endpoint, limit, requests)
        tomcat.journal.pausing(one)
    except UsageError as error:
        raise ApplyFailed(f"{error}; nothing was paused") from None
    return one


def serve_again(tomcat: Attached, one: Paused) -> None:
    """Has a connector serve that a pause was left in, whatever of it had been done; its own values stay.

    Raises:
        ApplyFailed: it could not be done.
        PlantGone: the server has ended, or does not answer.
    """
    spots = [(one.endpoint, name) for name in (LIMIT, REQUESTS, "localPort")]
    limit, requests, port = tomcat.values(spots).values()
    if limit is None:  # the connector itself has gone
        return _served(tomcat, one)
    if limit == 0:
        tomcat.set((one.endpoint, LIMIT), UNLIMITED)
        tomcat.set((one.endpoint, LIMIT), one.limit)
    if requests == 1 != one.requests:
        tomcat.set((one.endpoint, REQUESTS), one.requests)
    closed = [(one.endpoint, "bind")] if port == -1 and _binds_early(tomcat, one.endpoint) else []
    tomcat.call(*closed, (one.connector, "resume"), (one.connector, "start"))
    _served(tomcat, one)


def _binds_early(tomcat: Attached, endpoint: str) -> bool:
    """Whether a connector has its socket before it starts, as it usually does (bindOnInit).

    One that has not opens it at its start: had it one by then, that would fail, and nothing would serve any more.

    Raises:
        PlantGone: the server has ended, or does not answer.
    """
    spot = endpoint, "bindOnInit"
    return tomcat.values([spot])[spot] != 0


def _served(tomcat: Attached, one: Paused) -> None:
    # A journal that cannot be written says more than is, and an undo is still right.
    with contextlib.suppress(UsageError):
        tomcat.journal.resumed(one)


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


def _drained(tomcat: Attached, spots: Sequence[Spot], clock: Clock, most_s: float = DRAIN_S) -> int:
    """Waits for requests in service, which these count together; how many are left."""
    deadline_s = clock.now_s() + most_s
    while (busy := sum(max(0, count or 0) for count in tomcat.values(spots).values())) and clock.now_s() < deadline_s:
        clock.sleep(_POLL_S)
    return busy
