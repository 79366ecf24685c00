"""A status page that is asked for all the time and never waited for, and its replies near the edges of a window.

The page is asked for at both edges of a window and now and then within it, and never waited for longer than 20 ms.
When the server is saturated the request waits behind everybody else; the reply is then collected when it comes, and
meanwhile the page is asked for again, four times per wait at most, so that replies come all the time, however late.
One that has begun and is not whole ten seconds later counts as none. Counters on such pages are cumulative: the
difference of two replies, over the time between them, is exact. The interval of the readings is that between the
first and the last reply in the window; when those are less than half the window apart, it reaches back to the last
reply before it.

A reply that came between two windows, as while a change was made, is passed over: nobody looked, so its time is not
known. Taken for one of the new window's start it would count what was served before that as served in the window.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from trimtab.core.finding import Finding
from trimtab.core.sensor import Clock, Precedence, Sensor
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured, UsageError
from trimtab.sensors._inet_diag import NLM_F_REQUEST
from trimtab.sensors._status_page import Endpoint, Fetch
from trimtab.sensors._unix_diag import ATTRIBUTE, HEADER, require_no_error
from trimtab.trust import printable

P = TypeVar("P")
_ROUTE = struct.Struct("=BBBBBBBBI")
_NETLINK_ROUTE, _RTM_GETROUTE, _RTA_DST, _RTN_LOCAL = 0, 26, 1, 2
_MOST_ROUTE_BYTES = 1 << 14
_FRESH_S = 0.02
_MOST_UNDER_WAY = 8


@dataclass(frozen=True)
class Reply(Generic[P]):
    """One reply.

    Args:
        at_s: time at which it was collected, on the loop's clock.
        number: count of replies so far, this one included.
        page: the parsed page.
    """

    at_s: float
    number: int
    page: P


class Polled(Sensor, ABC, Generic[P]):
    """A page of one server: the part of a sensor that asks for it and collects.

    Args:
        addresses: where to connect, family and address, the best first.
        request: the bytes to send; the server ends the connection after its reply.
        clock: the loop's clock.
        patience_s: longest time that one call may wait for a reply, in seconds.

    Attributes:
        connections: connections made so far.
        received_bytes: bytes of the replies so far.
    """

    precedence = Precedence.STATUS_PAGE
    period_s = 0.35
    """Distance of the requests within a window, in seconds."""
    reset_by = "the server was restarted"
    """What resets its counters, in a message."""

    def __init__(self, addresses: list[Endpoint], request: bytes, clock: Clock, patience_s: float) -> None:
        self.connections = 0
        self.received_bytes = 0
        self._addresses = addresses
        self._request = request
        self._clock = clock
        self._patience_s = patience_s
        self._under_way: list[tuple[float, Fetch]] = []
        self._replies = 0
        self._latency_s = 0.0
        self._asked_s = -self.period_s
        self._began_s = clock.now_s()
        self._before: Reply[P] | None = None
        self._last: Reply[P] | None = None
        self._within: list[Reply[P]] = []
        self._seen: list[Any] = []

    @abstractmethod
    def understood(self, reply: bytes) -> P | None:
        """Parses a whole reply; None for one to be passed over.

        Raises:
            NotMeasured: it is not the page.
        """

    def begin(self) -> None:
        """Marks the start of a window.

        Raises:
            NotMeasured: the page is off, forbidden or not there.
        """
        self._seen = []
        self._collect()
        last = self._last  # none that came since: between two windows nobody looks
        self._began_s = self._clock.now_s()
        if last is not None and self._began_s - last.at_s < _FRESH_S:
            self._before, self._within = None, [last]
            return
        self._before, self._within = last, []
        self._ask()

    def sample(self) -> None:
        """Collects replies; asks again when it is time.

        Raises:
            NotMeasured: the page is off, forbidden or not there.
        """
        if self._under_way:
            self._collect()
        now_s = self._clock.now_s()
        latency_s = max(self._latency_s, now_s - self._under_way[0][0] if self._under_way else 0.0)
        if now_s - self._asked_s >= max(self.period_s, latency_s / 4):
            self._send(now_s)

    def read(self) -> Readings:
        """The readings between two replies near the edges of the window.

        Raises:
            NotMeasured: no new reply came, the counters were reset or are too large, or the page is off.
        """
        first, last = self._ends()
        if self.reset(first.page, last.page):
            self._before, self._within = None, [last]
            raise NotMeasured(f"{self.reset_by} within the window, which resets its counters")
        try:
            return self.between(first, last)
        except OverflowError:
            raise NotMeasured("numbers on the status page are too large to be true") from None

    @staticmethod
    def reset(first: P, last: P) -> bool:
        """Whether the counters were reset between two pages."""
        return False

    def between(self, first: Reply[P], last: Reply[P]) -> Readings:
        """The readings from two replies of the same server; none of a page that is only looked at."""
        return {}

    def _ends(self) -> tuple[Reply[P], Reply[P]]:
        """Two replies near the edges of the window, the first one first.

        Raises:
            NotMeasured: no new reply came, or the page is off.
        """
        self._ask()
        now_s = self._clock.now_s()
        if not self._within:
            raise self._silent(now_s)
        first, last = self._within[0], self._within[-1]
        self._last = last
        if last.at_s - first.at_s < (now_s - self._began_s) / 2:
            if self._before is None:
                raise self._silent(now_s)
            first = self._before
        return first, last

    def latest(self) -> P | None:
        """The newest page since `begin`; None when there is none."""
        return self._within[-1].page if self._within else None

    @property
    def own_s(self) -> float:
        """Time that the server takes for one of our requests; 0 where it is not known, or next to nothing."""
        return 0.0

    def ours(self) -> int:
        """Our requests that wait now: those that the server has not answered yet."""
        with contextlib.suppress(NotMeasured):  # said at the next call of this sensor itself
            self._collect()
        return len(self._under_way)

    def close(self) -> None:
        """Gives up the requests under way; may be called twice."""
        while self._under_way:
            self._under_way.pop()[1].close()

    def came(self, page: P) -> None:
        """Called for each reply of a window, to add to `_seen` what is averaged over all of them."""

    def _ask(self) -> None:
        """Sends a request, and waits a moment for its reply unless earlier ones are still waited for."""
        self._collect()
        now_s = self._clock.now_s()
        late = bool(self._under_way) and now_s - self._under_way[0][0] > self._patience_s
        if now_s - self._asked_s > _FRESH_S:
            self._send(now_s)
        self._collect(0.0 if late else self._patience_s)

    def _send(self, now_s: float) -> None:
        """Sends a request unless too many are under way."""
        if len(self._under_way) < _MOST_UNDER_WAY:
            self.connections += 1
            self._asked_s = now_s
            fetch = Fetch(self._addresses, self._request, self._clock)
            self._under_way.append((now_s, fetch))
            try:
                # A connection without a request would hold a worker until the next sample.
                fetch.advance()
            except NotMeasured:
                self.close()
                raise

    def _collect(self, patience_s: float = 0.0) -> None:
        """Takes the replies that are there."""
        for pending in tuple(self._under_way):
            try:
                reply = pending[1].advance(patience_s)
                if reply is None:
                    continue
                pending[1].close()
                self._under_way.remove(pending)
                page = self._page(reply)
            except NotMeasured:
                self.close()
                raise
            self._replies += 1
            self.received_bytes += len(reply)
            if page is not None:
                now_s = self._clock.now_s()
                self._latency_s = now_s - pending[0]
                self._within.append(Reply(now_s, self._replies, page))
                self.came(page)
        # Only the two ends matter.
        del self._within[1:-1]

    def _page(self, reply: bytes) -> P | None:
        """A whole reply, parsed; None for one to be passed over.

        Raises:
            NotMeasured: it is not the page.
        """
        try:
            return self.understood(reply)
        except (ValueError, RecursionError) as error:
            # A worker that was broken into may send a number of thousands of digits, or as many brackets.
            raise NotMeasured(f"the status page cannot be understood: {printable(str(error)[:200])}") from None

    def _silent(self, now_s: float) -> NotMeasured:
        if self._within or not self._under_way:
            return NotMeasured("the status page answered only once so far, and a difference needs two replies")
        return NotMeasured(
            f"the status page did not answer within {now_s - self._under_way[0][0]:.2g} s: its request waits in the "
            "accept queue of a saturated server"
        )


def ask(page: Polled[P]) -> P | None:
    """The page as it is now; None when it does not come within its patience. It is closed.

    Raises:
        NotMeasured: it is off, forbidden or not there.
    """
    try:
        page.begin()
        return page.latest()
    finally:
        page.close()


class PolledPage(Polled[P]):
    """The status page of one server, over HTTP.

    Args:
        url: the page, such as "http://127.0.0.1:80/server-status".
        clock: the loop's clock.
        patience_s: longest time that one call may wait for a reply, in seconds.
        query: query added to its path, with its question mark.
        host: name of the virtual host; None for the URL's.

    Attributes:
        url: as given.
        port: the port of the page.

    Raises:
        UsageError: the URL is not one of http, has no address or port, or is not on this machine.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        patience_s: float = 0.02,
        query: str = "",
        host: str | None = None,
    ) -> None:
        try:
            parts = urlsplit(url)
            self.port = parts.port or 80
        except ValueError as error:
            raise UsageError(f"status page {url!r}: {error}") from None
        if parts.scheme != "http" or not parts.hostname:
            raise UsageError(f"status page {url!r} must be an http:// URL")
        if not url.isascii():
            raise UsageError(f"status page {url!r}: what is not ASCII in it has to be escaped (%..)")
        self.url = url
        path = f"{parts.path or '/server-status'}{query}"
        # HTTP/1.0, so that the reply ends the connection and frees the worker.
        request = f"GET {path} HTTP/1.0\r\nHost: {host or parts.netloc}\r\nUser-Agent: trimtab\r\n\r\n"
        addresses = _resolved(url, parts.hostname, self.port)
        super().__init__(addresses, request.encode("latin-1"), clock, patience_s)


def probed(page: PolledPage[P], busy: str, said: Callable[[P], tuple[str, str]]) -> Finding:
    """Whether a status page can be read here.

    Args:
        page: the page, with the patience of a user.
        busy: advice where it does not come in time.
        said: description of a page, and what would make it more complete.
    """
    subject = f"status page {page.url}"
    try:
        found = ask(page)
    except NotMeasured as error:
        reason, _, enable = str(error).partition(": ")
        return Finding(subject, False, reason, enable or "start the server, or name another page")
    if found is None:
        return Finding(subject, False, "it did not answer in time", busy)
    return Finding(subject, True, *said(found))


def _resolved(url: str, host: str, port: int) -> list[Endpoint]:
    """The addresses of a host, those of IPv4 first.

    Raises:
        UsageError: it has none, or is not on this machine.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"status page {url}: {getattr(error, 'strerror', None) or error}") from None
    addresses = sorted({(int(f[0]), (str(f[4][0]), port)) for f in found})
    remote = [a for family, (a, _) in addresses if not is_here(family, a)]
    if remote:
        raise UsageError(f"status page {url} is at {remote[0]}, outside this machine: name it by a loopback address")
    return list(addresses)


def is_here(family: int, address: str) -> bool:
    """Whether an address is one of this machine's, by the kernel's way there (rtnetlink(7)); nothing is sent to it.

    What is sent to one of several of an interface may be sent from another, so where from it would be does not tell.

    Args:
        family: AF_INET or AF_INET6.
        address: a numeric address.
    """
    if ipaddress.ip_address(address).is_loopback:
        return True
    try:
        to = socket.inet_pton(family, address)
        body = _ROUTE.pack(family, 8 * len(to), 0, 0, 0, 0, 0, 0, 0)
        body += ATTRIBUTE.pack(ATTRIBUTE.size + len(to), _RTA_DST) + to
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_ROUTE) as asked:
            asked.settimeout(1.0)
            asked.connect((0, 0))  # to the kernel alone
            asked.send(HEADER.pack(HEADER.size + len(body), _RTM_GETROUTE, NLM_F_REQUEST, 1, 0) + body)
            answer = asked.recv(_MOST_ROUTE_BYTES)
        require_no_error(answer)
        return bool(_ROUTE.unpack_from(answer, HEADER.size)[7] == _RTN_LOCAL)
    except (OSError, struct.error):
        return False
