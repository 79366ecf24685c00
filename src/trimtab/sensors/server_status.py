"""Sensor: what Apache says of itself on the status page of mod_status.

The page is asked for at both edges of a window and every 0.35 s within it, and never waited for longer than 20 ms.
When the server is saturated the request waits in the accept queue behind everybody else; the reply is then collected
when it comes, and meanwhile the page is asked for again, four times per wait at most, so that replies come all the
time, however late. The counters on the page are cumulative: the difference of two replies, over the time between
them, is exact. The interval of the readings is that between the first and the last reply in the window; when those
are less than half the window apart, it reaches back to the last reply before it.

How Apache 2.4 counts, from server/scoreboard.c and modules/http/http_request.c and checked by experiment:

- `Total Duration` adds, for each request, the time from the moment its header has been read (START_PREQUEST) to its
  end (STOP_PREQUEST): neither the wait in the accept queue, nor for the request line, nor for the next request of a
  kept connection is in it. It counts in microseconds and is shown in milliseconds.
- prefork and worker run STOP_PREQUEST twice for each request, once when the reply is handed to the output filters and
  once when they have been flushed, and both add the time since the start: the total is twice the service time, less
  the time of the flush. It is halved here (`_STOPS`). event runs it once, before an asynchronous write.
- A request counts when it ends, so one that is under way is in no reading until then.
- A graceful restart keeps all counters, with fewer or more workers too; a full restart resets them, which changes
  RestartTime, and the difference across it is dropped.
- A status request is not yet in its own reply and is in the next: it is subtracted from the requests and the bytes,
  and its worker from the busy ones. Its service time (0.2 ms) stays in the total.
- With mod_logio (built in on Debian) the bytes include the replies' headers.

ExtendedStatus must be on (it is by default with mod_status) for all but the workers.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from trimtab.core.finding import Finding
from trimtab.core.plant import Clock
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured, UsageError
from trimtab.sensors._status_page import Fetch, Page, parse

_STOPS = {"prefork": 2, "worker": 2}
_FRESH_S = 0.02
_MOST_UNDER_WAY = 8
_PERIOD_S = 0.35


@dataclass(frozen=True)
class _Reply:
    """One reply.

    Args:
        at_s: when it was collected, on the loop's clock.
        number: how many replies we had had, this one included.
        page: what it says.
    """

    at_s: float
    number: int
    page: Page


class ServerStatus:
    """The status page of one Apache.

    Args:
        url: the page, such as "http://127.0.0.1:80/server-status".
        clock: the loop's clock.
        patience_s: longest time that one call may wait for a reply, in seconds.
        allow_remote: whether the page may be on another machine.

    Attributes:
        port: the port of the page.
        connections: connections made so far.

    Raises:
        UsageError: the URL is not one of http, has no address, or is not on this machine.
    """

    name = "server-status"
    sampling_period_s = 0.04
    cheap = True

    def __init__(self, url: str, clock: Clock, patience_s: float = 0.02, allow_remote: bool = False) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise UsageError(f"status page {url!r} must be an http:// URL")
        self.url = url
        self.port = parts.port or 80
        self.connections = 0
        self._addresses = _resolved(url, parts.hostname, self.port, allow_remote)
        path = f"{parts.path or '/server-status'}?auto"
        # HTTP/1.0, so that the reply ends the connection and frees the worker.
        self._request = f"GET {path} HTTP/1.0\r\nHost: {parts.netloc}\r\nUser-Agent: trimtab\r\n\r\n".encode(
            "latin-1"
        )
        self._clock = clock
        self._patience_s = patience_s
        self._under_way: list[tuple[float, Fetch]] = []
        self._replies = 0
        self._latency_s = 0.0
        self._asked_s = -_PERIOD_S
        self._began_s = clock.now_s()
        self._before: _Reply | None = None
        self._within: list[_Reply] = []

    def begin(self) -> None:
        """Marks the start of a window.

        Raises:
            NotMeasured: the page is off, forbidden or not there.
        """
        self._collect()
        last = self._within[-1] if self._within else self._before
        self._began_s = self._clock.now_s()
        if last is not None and self._began_s - last.at_s < _FRESH_S:
            self._before, self._within = None, [last]
            return
        self._before, self._within = last, []
        self._ask()

    def sample(self) -> None:
        """Collects what has come; asks again when it is time.

        Raises:
            NotMeasured: the page is off, forbidden or not there.
        """
        if self._under_way:
            self._collect()
        now_s = self._clock.now_s()
        latency_s = max(self._latency_s, now_s - self._under_way[0][0] if self._under_way else 0.0)
        if now_s - self._asked_s >= max(_PERIOD_S, latency_s / 4):
            self._send(now_s)

    def read(self) -> Readings:
        """The readings between two replies near the edges of the window.

        Raises:
            NotMeasured: no new reply came, the server was restarted, or the page is off.
        """
        self._ask()
        now_s = self._clock.now_s()
        if not self._within:
            raise self._silent(now_s)
        first, last = self._within[0], self._within[-1]
        if last.at_s - first.at_s < (now_s - self._began_s) / 2:
            if self._before is None:
                raise self._silent(now_s)
            first = self._before
        if _restarted(first, last):
            self._before, self._within = None, [last]
            raise NotMeasured("the server was restarted within the window, which resets its counters")
        return _difference(first, last)

    def latest(self) -> Page | None:
        """The newest page since `begin`; None when there is none."""
        return self._within[-1].page if self._within else None

    def close(self) -> None:
        """Gives up the requests under way; may be called twice."""
        while self._under_way:
            self._under_way.pop()[1].close()

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
            self._under_way.append((now_s, Fetch(self._addresses, self._request)))

    def _collect(self, patience_s: float = 0.0) -> None:
        """Takes the replies that are there."""
        for pending in tuple(self._under_way):
            try:
                reply = pending[1].advance(patience_s)
                page = None if reply is None else parse(reply, self.url)
            except NotMeasured:
                self.close()
                raise
            if page is not None:
                pending[1].close()
                self._under_way.remove(pending)
                self._replies += 1
                now_s = self._clock.now_s()
                self._latency_s = now_s - pending[0]
                self._within.append(_Reply(now_s, self._replies, page))
        # Only the two ends matter.
        del self._within[1:-1]

    def _silent(self, now_s: float) -> NotMeasured:
        if self._within or not self._under_way:
            return NotMeasured("the status page answered only once so far, and a difference needs two replies")
        return NotMeasured(
            f"the status page did not answer within {now_s - self._under_way[0][0]:.2g} s: its request waits in the "
            "accept queue of a saturated server"
        )


def _restarted(first: _Reply, last: _Reply) -> bool:
    """Whether the counters were reset between two replies."""
    if first.page.text.get("RestartTime") != last.page.text.get("RestartTime"):
        return True
    was, now = (r.page.number("Total Accesses") or 0 for r in (first, last))
    return now < was


def _difference(first: _Reply, last: _Reply) -> Readings:
    """The readings from two replies of the same server."""
    readings: dict[str, float] = {}
    elapsed_s = last.at_s - first.at_s
    ours = last.number - first.number

    def change(name: str) -> float | None:
        was, now = first.page.number(name), last.page.number(name)
        return None if was is None or now is None else now - was

    for name, field, our_own in (("busy_workers", "BusyWorkers", 1), ("idle_workers", "IdleWorkers", 0)):
        counts = [r.page.number(field) for r in (first, last)]
        known = [max(0.0, n - our_own) for n in counts if n is not None]
        if known:
            readings[name] = sum(known) / len(known)
    # A worker in K waits for the next request of a connection; our own request is in W.
    held = [board.count("K") for r in (first, last) if (board := r.page.text.get("Scoreboard")) is not None]
    if held and last.page.text.get("ServerMPM") != "event":
        readings["idle_held_workers"] = sum(held) / len(held)
    accesses, kibibytes, duration_ms = (change(f"Total {n}") for n in ("Accesses", "kBytes", "Duration"))
    if accesses is None:
        return readings
    requests = max(0.0, accesses - ours)
    readings["request_rate_hz"] = requests / elapsed_s
    if kibibytes is not None:
        readings["byte_rate_bytes_hz"] = max(0.0, kibibytes * 1024 - ours * first.page.size_bytes) / elapsed_s
    if duration_ms is not None and requests > 0:
        stops = _STOPS.get(last.page.text.get("ServerMPM", ""), 1)
        readings["service_time_s"] = duration_ms / 1000 / stops / requests
    return readings


def _resolved(url: str, host: str, port: int, allow_remote: bool) -> list[tuple[int, tuple[str, int]]]:
    """The addresses of a host, those of IPv4 first.

    Raises:
        UsageError: it has none, or is not on this machine.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise UsageError(f"status page {url}: {error.strerror}") from None
    addresses = sorted({(int(f[0]), (str(f[4][0]), port)) for f in found})
    remote = [a for _, (a, _) in addresses if not ipaddress.ip_address(a).is_loopback]
    if remote and not allow_remote:
        raise UsageError(f"status page {url} is at {remote[0]}, outside this machine; allow it with --allow-remote")
    return addresses


def probe(url: str, clock: Clock) -> tuple[Finding, ...]:
    """Whether a status page can be read here.

    Args:
        url: the page.
        clock: the loop's clock.
    """
    subject = f"status page {url}"
    sensor = ServerStatus(url, clock, patience_s=1.0)
    try:
        sensor.begin()
        page = sensor.latest()
    except NotMeasured as error:
        reason, _, enable = str(error).partition(": ")
        return (Finding(subject, False, reason, enable or "start the server, or name another page"),)
    finally:
        sensor.close()
    if page is None:
        return (Finding(subject, False, "no answer within 1 s", "all workers are busy: give the page time"),)
    if page.number("Total Duration") is None:
        return (Finding(subject, True, "workers only", "'ExtendedStatus On' adds requests and service time"),)
    return (Finding(subject, True, f"workers, requests, bytes and service time, {page.text.get('ServerMPM')}"),)


SENSOR = ServerStatus
