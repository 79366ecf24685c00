"""WAGON: sessions of pages with embedded objects, as liu2003 generates them (Fig. 3, Table II).

A session is one user: pages follow one another after a think time. A page is a first request and its embedded
objects, one after the other on one persistent connection: a burst.

    sessions started per second = rate_scale / SessionRate                                    Table II, row 1
    pages per session           ~ LogNormal(SessionLength), rounded, at least 1                Table II, row 2
    requests per page           ~ Normal(BurstLength), rounded, at least 1                     Table II, row 3
    seconds between pages       ~ LogNormal(ThinkTime) / time_scale                            Table II, row 4

| paper           | here                                     | unit     | shape  | default |
|-----------------|------------------------------------------|----------|--------|---------|
| SessionRate     | session_gap_mean_s                       | s        | scalar | 0.1     |
| SessionLength   | session_pages_mean, session_pages_sigma  | pages    | scalar | 8, 3    |
| BurstLength     | burst_mean, burst_sigma                  | requests | scalar | 7, 3    |
| ThinkTime       | think_mean_s, think_sigma_s              | s        | scalar | 30, 30  |

Departures from the paper
- Table II calls the first row a rate, with mean 0.1 and an exponential distribution. An exponential distribution
  belongs to the gaps between arrivals, so it is read as a mean gap of 0.1 s: 10 sessions, and about 80 pages, per
  second.
- Mean and sigma of a lognormal are read as those of the value itself, not of its logarithm.
- The paper does not say how the Gaussian is truncated; here it is rounded and raised to 1, which lifts its mean
  from 7 to 7.02 requests.
- Objects follow without a gap; the paper's log gives none.
- `time_scale` divides the think time and nothing else: 30 s at scale 30 is 1 s. Sessions get shorter while
  their arrival rate and the requests per second stay as they are, so there are fewer of them at a time. To keep
  the number of concurrent sessions instead, raise `rate_scale` with it. Service times, the timeout, the schedule
  and the server's KeepAliveTimeout are not scaled; whoever scales time sets the last one to match.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trimtab.workloads._distribution import Gaussian, Lognormal
from trimtab.workloads._population import Poisson, Population, required
from trimtab.workloads._traffic import Traffic


@dataclass(frozen=True, kw_only=True)
class Wagon(Traffic):
    """Sessions as in liu2003; the defaults are its Table II.

    Args:
        session_gap_mean_s: mean time between session starts; exponential.
        session_pages_mean: mean pages per session; lognormal.
        session_pages_sigma: standard deviation of the pages per session.
        burst_mean: mean requests per page, embedded objects included; Gaussian.
        burst_sigma: standard deviation of the requests per page.
        think_mean_s: mean time from a page's completion to the next click; lognormal.
        think_sigma_s: standard deviation of the think time.
        time_scale: divides the think time; leaves the session rate as it is.
        rate_scale: multiplies the session rate.
    """

    session_gap_mean_s: float = 0.1
    session_pages_mean: float = 8.0
    session_pages_sigma: float = 3.0
    burst_mean: float = 7.0
    burst_sigma: float = 3.0
    think_mean_s: float = 30.0
    think_sigma_s: float = 30.0
    time_scale: float = 1.0
    rate_scale: float = 1.0

    def check(self) -> None:
        """Refuses what no population can be made of."""
        for name in ("session_gap_mean_s", "time_scale", "rate_scale", "think_mean_s"):
            value = getattr(self, name)
            required(0 < value < math.inf, name, f"{value:g}", "more than 0 and finite")

    def population(self) -> Population:
        """The population of WAGON sessions."""
        return Population(
            arrivals=Poisson(self.rate_scale / self.session_gap_mean_s),
            session_pages=Lognormal(self.session_pages_mean, self.session_pages_sigma),
            burst_requests=Gaussian(self.burst_mean, self.burst_sigma),
            think_s=Lognormal(self.think_mean_s / self.time_scale, self.think_sigma_s / self.time_scale),
            **self.shared(),
        )


WORKLOAD = Wagon
