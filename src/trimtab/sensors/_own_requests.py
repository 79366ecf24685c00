"""What trimtab's own questions for a status page add to the counters of the shim, which counts every request.

They are in them unless `trimtab run --ports` has left out the port of the page. Of that nothing tells but the counts:
requests counted less those of ours that were answered never become fewer where ours are counted, and else with each
of ours that no user's came before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trimtab.sensors._arrivals import Visitor
from trimtab.sensors._shared_file import Counters

_SLACK = 2
"""Requests of ours whose reply is here and that the server may have yet to count."""


@dataclass(frozen=True)
class Own:
    """Our own requests so far.

    Args:
        answered: requests, each with a connection of its own.
        received_bytes: bytes of the replies.
    """

    answered: int = 0
    received_bytes: int = 0


class OwnRequests:
    """Our own requests among those that a shim counts.

    Args:
        visitor: who asks; None when nobody does.
    """

    def __init__(self, visitor: Visitor | None) -> None:
        self._visitor = visitor
        self._most: int | None = None
        self._apart = False

    def look(self, requests: int) -> Own:
        """Our requests so far.

        Args:
            requests: how many the shim has counted by now.
        """
        visitor = self._visitor
        if visitor is None:
            return Own()
        waiting = visitor.ours()
        own = Own(visitor.connections - waiting, visitor.received_bytes)
        users = requests - own.answered
        self._most = users if self._most is None else max(self._most, users)
        self._apart = self._apart or users < self._most - _SLACK
        return own

    def without(self, first: Counters, last: Counters, began: Own, ended: Own) -> Counters:
        """The counters at the end of a window less what our own requests have added to them in it.

        Our connections wait as long as those of users do, in the mean.

        Args:
            first: the counters at its start.
            last: the counters at its end.
            began: our requests until its start.
            ended: our requests until its end.
        """
        came = last.connections - first.connections
        ours = min(ended.answered - began.answered, came, last.requests - first.requests)
        if self._visitor is None or self._apart or ours <= 0:
            return last
        sent = ended.received_bytes - began.received_bytes
        return replace(
            last,
            connections=last.connections - ours,
            delay_ns=last.delay_ns - round(ours / came * (last.delay_ns - first.delay_ns)),
            requests=last.requests - ours,
            service_ns=max(first.service_ns, last.service_ns - round(1e9 * ours * self._visitor.own_s)),
            sent_bytes=max(first.sent_bytes, last.sent_bytes - sent),
        )
