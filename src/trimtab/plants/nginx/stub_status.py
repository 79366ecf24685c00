"""Sensor: nginx's own figures on the page of its module stub_status.

    Active connections: 291
    server accepts handled requests
     16630948 16630948 31070465
    Reading: 6 Writing: 179 Waiting: 106

How nginx counts, from src/http/ngx_http_request.c and ngx_http_stub_status_module.c and checked by experiment: a
request counts in `requests` and in `Reading` from its first byte, goes over to `Writing` when its header is there,
and leaves at its end. So Reading + Writing are the requests under way, the very ones that `requests` counts, and by
Little's law

    W = N / lambda = (mean of Reading + Writing) / (requests per second)

| symbol | here                  | unit        | meaning                                                   |
|--------|-----------------------|-------------|-----------------------------------------------------------|
| N      | requests_under_way    | requests    | mean over the replies, every 0.1 s                        |
| lambda | request_rate_hz       | Hz          | difference of `requests` between two replies              |
| W      | service_time_s        | s           | mean time from a request's first byte to its reply's end  |

nginx gives no time of its own, so this is how `service_time_s` is had. How far it is right:

- What nginx serves within one turn of its event loop (a file from the page cache) is never seen under way by a page
  that the same process serves, so of such requests W reads near 0. Their true time is some tens of microseconds. What
  waits, for an upstream, a slow client or a disk in a thread pool, is seen for all the time it waits.
- N is a mean of samples: with n replies its standard error is sqrt(N / n) where requests come independently, so 3 %
  at N = 10 and 100 replies, and 30 % at N = 0.1.
- A request that ended early (499, or of a client that was slow to send it) counts as any other.

The request for the page is counted by itself: it is taken off Writing, `requests` and Active. With several servers in
one nginx the counters are of all of them, and of all worker processes; a reload keeps them, a restart resets them. In
an upgrade of the program (USR2) old and new processes answer in turn, each with counters of its own.

What nginx drops because its worker_connections are used up is not on the page: it closes connections that have not
sent a request yet, and counts them as handled. So trimtab leaves room for twice the most that it has seen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from trimtab.core import Clock, Finding, Readings
from trimtab.errors import NotMeasured
from trimtab.sensors._metrics import (
    IDLE_CONNECTIONS,
    OPEN_CONNECTIONS,
    REQUEST_RATE,
    REQUESTS_UNDER_WAY,
    SERVICE_TIME,
)
from trimtab.sensors._polled_page import PolledPage, Reply, probed
from trimtab.sensors._status_page import answer, comes_from
from trimtab.trust import printable

HOW_TO = (
    "add 'server { listen 127.0.0.1:8081; access_log off; location = /nginx_status { stub_status; allow 127.0.0.1; "
    "deny all; } }' to its http {} and reload nginx"
)
_PAGE = re.compile(
    rb"Active connections: (\d+) *\n"
    rb"server accepts handled requests\n *(\d+) \d+ (\d+) *\n"
    rb"Reading: (\d+) Writing: (\d+) Waiting: (\d+)"
)


@dataclass(frozen=True)
class Counts:
    """Figures of the page, the request for it included.

    Args:
        active: connections that are open.
        accepts: connections accepted so far.
        requests: requests so far.
        reading: requests whose header is being read.
        writing: requests whose reply is being made or sent.
        waiting: connections idle between requests.
    """

    active: int
    accepts: int
    requests: int
    reading: int
    writing: int
    waiting: int


def parse(reply: bytes, url: str) -> Counts:
    """The page from a whole HTTP reply.

    Raises:
        NotMeasured: it is no reply, an error, or not this page; the message says how to turn the page on.
    """
    status, _, body = answer(reply, url)
    if status in ("401", "403"):
        allow = f"'allow {comes_from(url)};' in its location"
        raise NotMeasured(f"{url} is forbidden ({status}): {allow}, then reload nginx")
    if status in ("429", "503"):
        raise NotMeasured(
            f"{url} answered {status}: where limit_req or limit_conn did, add 'limit_req_dry_run on; "
            "limit_conn_dry_run on;' to its location and reload nginx"
        )
    found = _PAGE.match(body)
    if status != "200" or found is None:
        raise NotMeasured(f"no page of stub_status at {url} ({printable(status)}): {HOW_TO}")
    return Counts(*map(int, found.groups()))


class StubStatus(PolledPage[Counts]):
    """The page of stub_status of one nginx.

    Args:
        url: the page, such as "http://127.0.0.1:8081/nginx_status".
        clock: the loop's clock.
        host: the server_name under which it is; None for what the URL says.
        patience_s: longest time that one call may wait for a reply, in seconds.

    Raises:
        UsageError: the URL is not one of http, has no address, or is not on this machine.
    """

    name = "stub-status"
    metrics = (
        OPEN_CONNECTIONS,
        IDLE_CONNECTIONS,
        REQUESTS_UNDER_WAY,
        REQUEST_RATE,
        SERVICE_TIME,
    )
    sampling_period_s = 0.05
    period_s = 0.1
    reset_by = "nginx was restarted"
    most_open = 0
    """The most connections that were open at a time, as far as the page was seen."""
    _seen: list[Counts]

    def __init__(self, url: str, clock: Clock, host: str | None = None, patience_s: float = 0.02) -> None:
        super().__init__(url, clock, patience_s, host=host)

    def understood(self, reply: bytes) -> Counts:
        """Parses a whole reply.

        Raises:
            NotMeasured: it is no reply, an error, or not this page.
        """
        return parse(reply, self.url)

    def came(self, page: Counts) -> None:
        """Keeps a reply for the means over the window."""
        self._seen.append(page)
        self.most_open = max(self.most_open, page.active)

    @staticmethod
    def reset(first: Counts, last: Counts) -> bool:
        """Whether nginx was restarted between two pages."""
        return last.requests < first.requests or last.accepts < first.accepts

    def between(self, first: Reply[Counts], last: Reply[Counts]) -> Readings:
        """The readings from two replies, and from all in the window.

        Raises:
            NotMeasured: replies of two programs are among them.
        """
        # By half: replies under way at a time may come in another order than they were made.
        if any(2 * later.requests < earlier.requests for earlier, later in pairwise(self._seen)):
            raise NotMeasured("an upgrade of nginx is under way: two programs answer, each with its own counters")
        return readings(first, last, self._seen or [first.page, last.page])


def readings(first: Reply[Counts], last: Reply[Counts], seen: list[Counts]) -> dict[str, float]:
    """The readings from two replies and from all replies of the window.

    Args:
        first: the earlier one.
        last: the later one.
        seen: the pages of the window.
    """
    elapsed_s, ours = last.at_s - first.at_s, last.number - first.number
    was, now, n = first.page, last.page, len(seen)
    under_way = sum(max(0, page.reading + page.writing - 1) for page in seen) / n
    requests_hz = max(0, now.requests - was.requests - ours) / elapsed_s
    found = {
        "open_connections": sum(max(0, page.active - 1) for page in seen) / n,
        "idle_connections": sum(page.waiting for page in seen) / n,
        "requests_under_way": under_way,
        "request_rate_hz": requests_hz,
    }
    if requests_hz > 0:
        found["service_time_s"] = under_way / requests_hz  # Little's law: N / lambda
    return found


def probe(url: str, clock: Clock, host: str | None = None) -> tuple[Finding, ...]:
    """Whether a page can be read here.

    Args:
        url: the page.
        clock: the loop's clock.
        host: the server_name under which it is; None for what the URL says.
    """
    busy = "all its processes are busy: give the page time"
    return (probed(StubStatus(url, clock, host, patience_s=1.0), busy, _said),)


def _said(page: Counts) -> tuple[str, str]:
    return f"stub_status: {page.active - 1} connections, {page.requests - 1} requests so far", ""
