"""Sensor: Apache's own figures on the status page of mod_status.

How it is asked for without ever being waited for is in `_polled_page`.

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
  and its worker from the busy ones. Its time (0.2 ms and more: it walks the whole scoreboard) is subtracted as what
  one took in the mean that ended alone between two replies. A busy server may never show that; there it is next to
  nothing of the total.
- With mod_logio (built in on Debian) the bytes include the replies' headers.

ExtendedStatus must be on (it is by default with mod_status) for all but the workers.
"""

from __future__ import annotations

from trimtab.core.finding import Finding
from trimtab.core.sensor import Clock
from trimtab.core.window import Readings
from trimtab.sensors._metrics import (
    BUSY_WORKERS,
    BYTE_RATE,
    IDLE_HELD_WORKERS,
    IDLE_WORKERS,
    REQUEST_RATE,
    SERVICE_TIME,
)
from trimtab.sensors._polled_page import PolledPage, Reply, probed
from trimtab.sensors._status_page import Page, parse
from trimtab.trust import printable

_STOPS = {"prefork": 2, "worker": 2}


class ServerStatus(PolledPage[Page]):
    """The status page of one Apache.

    Args:
        url: the page, such as "http://127.0.0.1:80/server-status".
        clock: the loop's clock.
        patience_s: longest time that one call may wait for a reply, in seconds.

    Raises:
        UsageError: the URL is not one of http, has no address, or is not on this machine.
    """

    name = "server-status"
    metrics = (BUSY_WORKERS, IDLE_WORKERS, IDLE_HELD_WORKERS, REQUEST_RATE, BYTE_RATE, SERVICE_TIME)
    sampling_period_s = 0.04

    def __init__(self, url: str, clock: Clock, patience_s: float = 0.02) -> None:
        super().__init__(url, clock, patience_s, "?auto")
        self._previous: tuple[Reply[Page], float] | None = None
        self._own_ms = 0.0
        self._own = 0

    def understood(self, reply: bytes) -> Page:
        """Parses a whole reply.

        Raises:
            NotMeasured: it is no reply, an error, or not the page of mod_status.
        """
        return parse(reply, self.url)

    def came(self, page: Page) -> None:
        """Learns how long our own requests take: the one before this, where nothing else has ended since."""
        before, now = self._previous, self._within[-1]
        self._previous = now, self._latency_s
        if before is None or now.number != before[0].number + 1 or self.reset(before[0].page, page):
            return
        taken_ms = _change(before[0], now, "Total Duration")
        # What took longer than we have waited was a user's request, and ours is yet to be counted.
        known = taken_ms is not None and taken_ms <= 1 + 1000 * max(_STOPS.values()) * before[1]
        if known and _change(before[0], now, "Total Accesses") == 1:
            self._own_ms, self._own = self._own_ms + (taken_ms or 0.0), self._own + 1

    @property
    def own_s(self) -> float:
        """Time that the server takes for one of our requests; 0 before that was seen."""
        stops = 1 if self._previous is None else _stops(self._previous[0].page)
        return self._own_ms / 1000 / stops / self._own if self._own else 0.0

    @staticmethod
    def reset(first: Page, last: Page) -> bool:
        """Whether the server was restarted between two pages."""
        was, now = (page.number("Total Accesses") or 0 for page in (first, last))
        return first.text.get("RestartTime") != last.text.get("RestartTime") or now < was

    def between(self, first: Reply[Page], last: Reply[Page]) -> Readings:
        """The readings from two replies of the same server."""
        return _difference(first, last, self._own_ms / self._own if self._own else 0.0)


def _stops(page: Page) -> int:
    """How often the server adds the time of a request to its total."""
    return _STOPS.get(page.text.get("ServerMPM", ""), 1)


def _change(first: Reply[Page], last: Reply[Page], name: str) -> float | None:
    """By how much a field has grown; None where one of the pages does not have it."""
    was, now = first.page.number(name), last.page.number(name)
    return None if was is None or now is None else now - was


def _difference(first: Reply[Page], last: Reply[Page], own_ms: float = 0.0) -> Readings:
    """The readings from two replies of the same server.

    Args:
        first: the earlier one.
        last: the later one.
        own_ms: what one request of ours adds to Total Duration.
    """
    readings: dict[str, float] = {}
    elapsed_s = last.at_s - first.at_s
    ours = last.number - first.number
    for name, field, our_own in (("busy_workers", "BusyWorkers", 1), ("idle_workers", "IdleWorkers", 0)):
        counts = [r.page.number(field) for r in (first, last)]
        known = [max(0.0, n - our_own) for n in counts if n is not None]
        if known:
            readings[name] = sum(known) / len(known)
    # A worker in K waits for the next request of a connection; our own request is in W.
    held = [board.count("K") for r in (first, last) if (board := r.page.text.get("Scoreboard")) is not None]
    if held:  # with event an idle connection holds none
        readings["idle_held_workers"] = 0.0 if last.page.text.get("ServerMPM") == "event" else sum(held) / len(held)
    accesses, kibibytes, duration_ms = (
        _change(first, last, f"Total {n}") for n in ("Accesses", "kBytes", "Duration")
    )
    if accesses is None:
        return readings
    requests = max(0.0, accesses - ours)
    readings["request_rate_hz"] = requests / elapsed_s
    if kibibytes is not None:
        readings["byte_rate_bytes_hz"] = max(0.0, kibibytes * 1024 - ours * first.page.size_bytes) / elapsed_s
    taken_ms = None if duration_ms is None else duration_ms - ours * own_ms
    if taken_ms is not None and requests > 0 and (taken_ms > 0 or not own_ms):  # else too short to be told from ours
        readings["service_time_s"] = taken_ms / 1000 / _stops(last.page) / requests
    return readings


def probe(url: str, clock: Clock) -> tuple[Finding, ...]:
    """Whether a status page can be read here.

    Args:
        url: the page.
        clock: the loop's clock.
    """
    busy = "all workers are busy: give the page time"
    return (probed(ServerStatus(url, clock, patience_s=1.0), busy, _said),)


def _said(page: Page) -> tuple[str, str]:
    if page.number("Total Duration") is None:
        return "workers only", "'ExtendedStatus On' adds requests and service time"
    return f"workers, requests, bytes and service time, {printable(page.text.get('ServerMPM', ''))}", ""


SENSOR = ServerStatus
