"""Restarts a connector, so that its listening socket is opened anew, with the least harm.

It first takes no more connections, then waits for requests in service, and then opens its socket anew. What waits in
the accept queue at that moment is refused by the kernel, and so is what comes before it listens again: both are
counted and said. Idle connections are ended, which a client that keeps them has to bear with at any time.
"""

from __future__ import annotations

from trimtab.core import Clock
from trimtab.errors import ApplyFailed
from trimtab.plants.tomcat.attached import Attached

DRAIN_S = 10.0
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
    tomcat.call(connector.bean, "pause")
    try:
        busy = _drained(tomcat, endpoint, clock)
        tomcat.call(connector.bean, "stop")
        for operation in ("unbind", "bind"):
            tomcat.call(endpoint, operation)
    finally:
        tomcat.call(connector.bean, "start")
    spot = endpoint, "localPort"
    if tomcat.values([spot])[spot] != connector.port:
        raise ApplyFailed(f"the connector of port {connector.port} does not listen after its restart")
    late = f"; {busy} requests were still in service and may have been cut" if busy else ""
    return [f"the connector of port {connector.port} took nothing for {clock.now_s() - began_s:.2f} s{late}"]


def _drained(tomcat: Attached, endpoint: str, clock: Clock) -> int:
    """Waits for requests in service; how many are left."""
    deadline_s, spot = clock.now_s() + DRAIN_S, (endpoint, "currentThreadsBusy")
    while (busy := tomcat.values([spot])[spot] or 0) and clock.now_s() < deadline_s:
        clock.sleep(_POLL_S)
    return busy
