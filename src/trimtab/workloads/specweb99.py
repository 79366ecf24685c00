"""SPECweb99's static files asked for by people who read: the load of sugiki2005 (Section 5.2, Table 2).

A user is one endless loop: click, fetch a page's objects one after the other on one connection, think, click again.
The connection is kept for as long as the server lets it be, thought included.

    files and their popularity             see `_specweb99_files.py`
    objects of a page                      ~ Normal(4, 2), rounded, at least 1
    seconds from a reply to the next       ~ LogNormal(0.2, 0.08), by the moments of the value itself
    seconds from a page to the next click  ~ Pareto(k 1 s, alpha 1.5), at most 300 s
    round trip of the network              100 ms

| paper                       | here                       | unit    | shape  | default    |
|-----------------------------|----------------------------|---------|--------|------------|
| clients                     | users                      | users   | scalar | 400        |
| load (a), (b) of Table 2    | mix                        |         |        | standard   |
| objects of a page           | objects_mean, _sigma       | objects | scalar | 4, 2       |
| intervals within a burst    | gap_mean_s, _sigma_s + round_trip_s | s | scalar | 0.2, 0.08; 0.1 |
| think time, Pareto          | think_least_s, think_shape | s       | scalar | 1, 1.5     |

The server sees an interval of a gap and a round trip: a hill around 300 ms that is over at 450 ms, as in the paper's
Fig. 7, then nothing until the think times begin at 1 s. A new connection costs the client one more round trip.

Departures from the paper
- It does not say how many requests are between two thoughts. SPECweb99 asks for 10 per connection on average; here it
  is 4, with which 1200 users at a keep-alive time of 400 ms are nearly what 512 workers can hold, as in Fig. 9.
- Its intervals within a burst come from SPECweb99's clients, which hold every connection back to a modem's rate, and
  grow with the files (Fig. 11). Here they are drawn, independently of the file; whoever asks for large files widens
  them (`testbed/sugiki2005.py` does).
- Its clients sit beside the server. Loopback has no round trip, and this one is the load generator's own: it holds
  every request back by one, and by one more where it needs a new connection. TCP's slow start is left out.
- Think times end at `think_most_s`: for alpha 1.5 Pareto's variance is infinite, and two runs differ by who left.
- No dynamic pages, as in the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trimtab.workloads._distribution import BoundedPareto, Gaussian, Lognormal
from trimtab.workloads._population import ENDLESS, ROOT, Closed, Population, required
from trimtab.workloads._specweb99_files import Mix, SpecFileSet
from trimtab.workloads._traffic import Traffic


@dataclass(frozen=True, kw_only=True)
class SpecWeb99(Traffic):
    """Users who fetch pages and think; the defaults are load (a).

    Args:
        users: how many.
        mix: how often each class of files is asked for: standard or large.
        directories: directories of the set under /file_set/ that is asked for when no URL is given.
        objects_mean: mean objects of a page, its first one included.
        objects_sigma: standard deviation of the objects of a page.
        gap_mean_s: mean time from a reply to the client's next request of the page.
        gap_sigma_s: standard deviation of the time from a reply to the next request of the page.
        round_trip_s: round trip of the network that the load generator stands in for; 0 for none.
        think_least_s: least think time; Pareto.
        think_shape: tail index of the think time.
        think_most_s: longest think time.
    """

    users: int = 400
    mix: Mix = Mix.STANDARD
    directories: int = 20
    objects_mean: float = 4.0
    objects_sigma: float = 2.0
    gap_mean_s: float = 0.2
    gap_sigma_s: float = 0.08
    round_trip_s: float = 0.1
    think_least_s: float = 1.0
    think_shape: float = 1.5
    think_most_s: float = 300.0

    def check(self) -> None:
        """Refuses what no population can be made of."""
        required(1 <= self.users <= 1_000_000, "users", self.users, "1 to 1000000")
        required(0 < self.gap_mean_s < math.inf, "gap_mean_s", f"{self.gap_mean_s:g}", "more than 0 and finite")

    def population(self) -> Population:
        """The population of the users."""
        shared = self.shared()
        if self.urls == ROOT:
            shared["pages"] = SpecFileSet(self.directories, self.mix).urls
        return Population(
            arrivals=Closed(self.users),
            session_pages=ENDLESS,
            burst_requests=Gaussian(self.objects_mean, self.objects_sigma),
            object_gap_s=Lognormal(self.gap_mean_s, self.gap_sigma_s),
            think_s=BoundedPareto(self.think_least_s, self.think_shape, self.think_most_s),
            round_trip_s=self.round_trip_s,
            **shared,
        )


WORKLOAD = SpecWeb99
