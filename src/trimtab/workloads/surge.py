"""SURGE: user equivalents who fetch pages with embedded files and read them, as lu2001 loads its server.

Barford and Crovella, "Generating Representative Web Workloads for Network and Server Performance Evaluation",
SIGMETRICS 1998. Built from the published distributions alone. A user equivalent is one endless loop: click, fetch a
page's first file and the files embedded in it one after the other, read, click again.

    embedded files per page          ~ Pareto(k 1, alpha 2.43), rounded
    active OFF, s between its files  ~ Weibull(a 1.46, b 0.382) / time_scale: P(X > x) = exp(-(x / a) ** b)
    inactive OFF, s between pages    ~ Pareto(k 1 s, alpha 1.5) / time_scale
    sizes and popularity of files    see `_surge_files.py`

| paper                | here                                | unit  | shape  | default   |
|----------------------|-------------------------------------|-------|--------|-----------|
| user equivalents     | users                               | users | scalar | 100       |
| embedded references  | embedded_least, embedded_shape      | files | scalar | 1, 2.43   |
| active OFF           | active_off_scale_s, _shape          | s     | scalar | 1.46, 0.382 |
| inactive OFF         | inactive_off_least_s, _shape        | s     | scalar | 1, 1.5    |

Departures from the paper
- OFF times end at `active_off_most_s` and `inactive_off_most_s`, embedded files at 100. Pareto's variance is infinite
  for alpha 1.5: without a bound a few users leave a run of half an hour for good, and two runs differ by whom.
- A page's first file and its embedded files are drawn from the same set; the paper tells base, embedded and single
  files apart.
- `time_scale` divides the OFF times and nothing else; whoever scales time sets KeepAliveTimeout to match. The
  timeout and the schedule are not scaled.
- SURGE's users have no patience to lose; here a request fails after ten minutes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trimtab.workloads._distribution import BoundedPareto, BoundedWeibull
from trimtab.workloads._population import ENDLESS, ROOT, Closed, Connection, Population, required
from trimtab.workloads._surge_files import FileSet
from trimtab.workloads._traffic import Traffic

_MOST_EMBEDDED = 100.0


@dataclass(frozen=True, kw_only=True)
class Surge(Traffic):
    """User equivalents; the defaults are the published parameters.

    Args:
        users: user equivalents.
        files: files of the set under /surge/ that is asked for when no URL is given.
        embedded_least: least embedded files of a page; Pareto.
        embedded_shape: tail index of the embedded files of a page.
        active_off_scale_s: scale of the time between the files of a page; Weibull.
        active_off_shape: shape of the time between the files of a page.
        active_off_most_s: longest time between the files of a page, before it is scaled.
        inactive_off_least_s: least time between pages; Pareto.
        inactive_off_shape: tail index of the time between pages.
        inactive_off_most_s: longest time between pages, before it is scaled.
        time_scale: divides the OFF times.
        connection: when the client closes: until-server-closes, per-page or per-request.
        timeout_s: time after which a request without a complete reply has failed.
    """

    users: int = 100
    files: int = 1000
    embedded_least: float = 1.0
    embedded_shape: float = 2.43
    active_off_scale_s: float = 1.46
    active_off_shape: float = 0.382
    active_off_most_s: float = 300.0
    inactive_off_least_s: float = 1.0
    inactive_off_shape: float = 1.5
    inactive_off_most_s: float = 300.0
    time_scale: float = 1.0
    connection: Connection = Connection.UNTIL_SERVER_CLOSES
    timeout_s: float = 600.0

    def check(self) -> None:
        """Refuses what no population can be made of."""
        required(1 <= self.users <= 1_000_000, "users", self.users, "1 to 1000000")
        required(0 < self.time_scale < math.inf, "time_scale", f"{self.time_scale:g}", "more than 0 and finite")

    def population(self) -> Population:
        """The population of the user equivalents."""
        scale, shared = self.time_scale, self.shared()
        if self.urls == ROOT:
            shared["pages"] = FileSet(self.files).urls
        return Population(
            arrivals=Closed(self.users),
            session_pages=ENDLESS,
            # One more than the embedded files: the page's first one.
            burst_requests=BoundedPareto(self.embedded_least, self.embedded_shape, _MOST_EMBEDDED, 1.0),
            object_gap_s=BoundedWeibull(
                self.active_off_scale_s / scale, self.active_off_shape, self.active_off_most_s / scale
            ),
            think_s=BoundedPareto(
                self.inactive_off_least_s / scale, self.inactive_off_shape, self.inactive_off_most_s / scale
            ),
            **shared,
        )


WORKLOAD = Surge
