"""Open arrivals: sessions start at a given rate, whatever the server does.

Each is one page of one request on its own connection unless told otherwise. A server that falls behind is asked
no less often, so its queue and its response times grow as they would before real users.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import ConstantRate, Poisson, Population
from trimtab.workloads._traffic import Traffic


@dataclass(frozen=True, kw_only=True)
class OpenArrivals(Traffic):
    """Sessions at a given rate.

    Args:
        rate: sessions started per second.
        poisson: draw the gaps from an exponential distribution; without it all are equal.
        pages: pages per session.
        burst: requests per page.
        think_s: time from a page's completion to the next page.
    """

    rate: float = 10.0
    poisson: bool = False
    pages: int = 1
    burst: int = 1
    think_s: float = 0.0

    def population(self) -> Population:
        """The population of the arriving sessions."""
        return Population(
            arrivals=Poisson(self.rate) if self.poisson else ConstantRate(self.rate),
            session_pages=Constant(float(self.pages)),
            burst_requests=Constant(float(self.burst)),
            think_s=Constant(self.think_s),
            **self.shared(),
        )


WORKLOAD = OpenArrivals
