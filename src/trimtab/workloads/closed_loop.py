"""Closed loop: a fixed number of users, each of whom sends the next request when the last one is answered.

This is what ab and wrk do. The rate follows the server: a slow server is asked less often, so its response times
look better than what an open stream of users would see. Use it to find a capacity, not a delay.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import ENDLESS, Closed, Population
from trimtab.workloads._traffic import Traffic


@dataclass(frozen=True, kw_only=True)
class ClosedLoop(Traffic):
    """A fixed number of users, one page of one request after the other.

    Args:
        connections: users, each with one connection at a time.
        think_s: pause between a reply and the next request.
    """

    connections: int = 10
    think_s: float = 0.0

    def population(self) -> Population:
        """The population of the users."""
        return Population(
            arrivals=Closed(self.connections),
            session_pages=ENDLESS,
            think_s=Constant(self.think_s),
            **self.shared(),
        )


WORKLOAD = ClosedLoop
