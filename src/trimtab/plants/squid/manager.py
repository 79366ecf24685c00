"""Sensors: Squid's own figures on the pages of its cache manager.

| reading             | page       | from                                                                        |
|---------------------|------------|-----------------------------------------------------------------------------|
| request_rate_hz     | histograms | requests in the histogram of all service times; ours are subtracted         |
| service_time_s      | histograms | its mean; ours are left out as the fastest                                  |
| service_time_p95_s  | histograms | its 95th percentile                                                         |
| miss_time_s         | histograms | mean time of those for which the origin was asked (missSvcTime)             |
| requests_under_way  | histograms | request_rate_hz x service_time_s (Little's law)                             |
| hit_ratio           | histograms | hits and revalidated hits (in memory, on disk, not modified), of requests   |
| byte_hit_ratio      | counters   | client_http.hit_kbytes_out of client_http.kbytes_out; ours are subtracted    |
| byte_rate_bytes_hz  | counters   | client_http.kbytes_out, headers included; our pages are subtracted          |
| error_rate_hz       | counters   | client_http.errors                                                          |
| thread_cpu_ratio    | counters   | cpu_time, which is that of the one thread that serves                       |
| cache_bytes         | info       | Storage Mem size                                                            |

Squid counts a request when its reply is out; its times are whole milliseconds, cut off, in bins of 6 % (300 bins, by
logarithm, up to 3 hours: src/stat.cc). So a mean of a few milliseconds is up to one too small. Squid serves in one
thread: a page waits for whatever that does, and is asked for as every status page is (`_polled_page`).

A tunnel (CONNECT, Upgrade) is one request that takes until it is closed, minutes or hours, and stands in the
histogram of all alone. So where Squid may make any, times and hit ratio are those of hits and misses, which have
histograms of their own; refused requests, errors and pages that the origin had changed are then in neither.

The page `config` is never asked for: Squid 5.7's worker dies of it (tried: a segmentation fault, with the whole
cache).
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trimtab.core import Clock, Metric, Readings, Sensor
from trimtab.errors import NotMeasured, UsageError
from trimtab.sensors._metrics import BYTE_RATE, ERROR_RATE, REQUEST_RATE, REQUESTS_UNDER_WAY, SERVICE_TIME
from trimtab.sensors._polled_page import PolledPage, Reply, ask
from trimtab.sensors._status_page import answer, comes_from
from trimtab.sensors._tcp_listeners import Listener
from trimtab.trust import printable

P = TypeVar("P")
MENU = "/squid-internal-mgr/"
_ALLOW = "'http_access allow {} manager' before 'http_access deny manager', then reload Squid"
_FREE = "'cachemgr_passwd none info histograms counters' before any other cachemgr_passwd, then reload Squid"
_KEPT = ("401", "404")
"""What it answers where cachemgr_passwd asks for a password, or disables a page."""
_PATIENCE_S = 2.0
"""For one listener."""
_ALL_PATIENCE_S = 20.0
_MOST_ASKED = 32
"""Listeners that are asked for the manager's pages."""
_SHOWN = 4
"""Reasons that are shown."""
_LONGEST = 300
"""Characters of one that are shown."""
_ALL = "client_http.allSvcTime"
_MISSES = "client_http.missSvcTime"
_HITS = ("client_http.hitSvcTime", "client_http.nearHitSvcTime", "client_http.nearMissSvcTime")
_BIN = re.compile(r"\s*\d{1,3}/(\d{1,9}\.\d+)\s+(\d{1,15})\s+\d+\.\d+")
_SIZE = re.compile(r"Storage Mem size:\s+(\d+) KB")
_USED = re.compile(r"Storage Mem capacity:\s+(\d+\.\d)% used")
_FIELDS = {
    "kbytes_out": "client_http.kbytes_out",
    "hit_kbytes_out": "client_http.hit_kbytes_out",
    "errors": "client_http.errors",
    "cpu_s": "cpu_time",
}
_LARGEST = 10**15


@dataclass(frozen=True)
class Times:
    """The histograms of service times, as they have grown since Squid's start.

    Args:
        bins: histogram to the time that a bin stands for, in milliseconds, to the requests in it.
        ours: requests of trimtab's that were answered until then.
    """

    bins: Mapping[str, Mapping[float, int]]
    ours: int

    def requests(self) -> int:
        """Requests so far."""
        return sum(self.bins[_ALL].values())

    def hits(self) -> int:
        """Requests among them that needed nothing, or a confirmation at most, of the origin."""
        return sum(sum(self.bins.get(name, {}).values()) for name in _HITS)


@dataclass(frozen=True)
class Memory:
    """Use of the memory cache.

    Args:
        used_bytes: bytes in it.
        used_percent: these as a percentage of its limit.
    """

    used_bytes: int
    used_percent: float

    def agrees(self, cache_mem_bytes: int) -> bool:
        """Whether this may be its limit, as far as the rounding of both figures tells; of none 0 % is used."""
        if not cache_mem_bytes:
            return self.used_percent == 0  # what is under way is counted all the same
        percent = 100 * self.used_bytes / cache_mem_bytes
        return abs(percent - self.used_percent) <= 0.051 + 100 * 1024 / cache_mem_bytes


@dataclass
class Visits:
    """Squid's replies to us, whatever was asked for: requests, and their bytes with their headers."""

    answered: int = 0
    sent_bytes: int = 0


class Visitor:
    """The connections of several pages at one port, as the sensor of the accept queue leaves them out.

    Args:
        pages: the pages, all at one port.
    """

    def __init__(self, pages: Sequence[ManagerPage[Any]]) -> None:
        self._pages = pages
        self.port = pages[0].port

    @property
    def connections(self) -> int:
        """Connections that they have made so far."""
        return sum(page.connections for page in self._pages)

    @property
    def received_bytes(self) -> int:
        """Bytes of the replies so far."""
        return sum(page.received_bytes for page in self._pages)

    @property
    def own_s(self) -> float:
        """Not known."""
        return 0.0

    def ours(self) -> int:
        """Those of them that wait now to be served."""
        return sum(page.ours() for page in self._pages)


class ManagerPage(PolledPage[P], Generic[P]):
    """One page of the cache manager.

    Args:
        url: the manager's pages, up to the last slash.
        clock: the loop's clock.
        visits: replies to all sensors of this Squid so far.
        patience_s: longest time that one call may wait for a reply, in seconds.
    """

    page = ""
    reset_by = "Squid was restarted"

    def __init__(self, url: str, clock: Clock, visits: Visits | None = None, patience_s: float = 0.02) -> None:
        super().__init__(f"{url}{self.page}", clock, patience_s)
        self.visits = visits or Visits()

    def understood(self, reply: bytes) -> P:
        """Parses a whole reply.

        Raises:
            NotMeasured: it is not this page.
        """
        status, _, body = answer(reply, self.url)
        if status != "200":
            mend = _FREE if status in _KEPT else _allow(self.url)
            raise NotMeasured(f"{self.url} answered {printable(status)}: allow it: {mend}")
        page = self.parsed(body.decode("latin-1"))
        # Squid counts a page once it is out, so not in itself.
        self.visits.answered += 1
        self.visits.sent_bytes += len(reply)
        return page

    def parsed(self, body: str) -> P:
        """Parses the page.

        Raises:
            NotMeasured: it is not this page.
        """
        raise NotImplementedError

    def unlike(self) -> NotMeasured:
        """Error for a body that is not this page."""
        return NotMeasured(f"{self.url} is not a page of Squid's manager")


class ServiceTimes(ManagerPage[Times]):
    """Requests, their times and the hits among them."""

    name = "squid-times"
    page = "histograms"
    metrics = (
        REQUEST_RATE,
        SERVICE_TIME,
        Metric("service_time_p95_s", "s", "95th percentile of the time from a request's start to its reply's end"),
        Metric("miss_time_s", "s", "mean time of the requests for which a cache had to ask its origin"),
        REQUESTS_UNDER_WAY,
        Metric("hit_ratio", "ratio", "requests that a cache answered, of all"),
    )
    sampling_period_s = 0.1
    tunnels = False
    """Whether there may be tunnels among the requests."""

    def parsed(self, body: str) -> Times:
        """Parses the page of service times."""
        bins: dict[str, dict[float, int]] = {}
        for line in body.splitlines():
            if line.endswith(" histogram:"):
                current = bins.setdefault(line.removesuffix(" histogram:"), {})
            elif bins and (found := _BIN.fullmatch(line)):
                current[float(found[1])] = int(found[2])
        if _ALL not in bins:
            raise self.unlike()
        return Times(bins, self.visits.answered)

    @staticmethod
    def reset(first: Times, last: Times) -> bool:
        """Whether Squid was restarted between two pages."""
        return last.requests() < first.requests()

    def between(self, first: Reply[Times], last: Reply[Times]) -> Readings:
        """The readings from two replies."""
        return times(first.page, last.page, last.at_s - first.at_s, self.tunnels)


class Counters(ManagerPage[Mapping[str, float]]):
    """Bytes and errors."""

    name = "squid-counters"
    page = "counters"
    metrics = (
        BYTE_RATE,
        Metric("byte_hit_ratio", "ratio", "bytes of requests that a cache answered, of all"),
        ERROR_RATE,
        Metric("thread_cpu_ratio", "ratio", "CPU time of the one thread that serves, of a whole core"),
    )
    sampling_period_s = 0.1

    def parsed(self, body: str) -> Mapping[str, float]:
        """Parses the page of counters."""
        fields = dict(line.partition(" = ")[::2] for line in body.splitlines())
        try:
            found = {name: float(fields[field]) for name, field in _FIELDS.items()}
        except (KeyError, ValueError):
            raise self.unlike() from None
        if not all(0 <= value < _LARGEST for value in found.values()):
            raise self.unlike()
        return {**found, "ours": self.visits.sent_bytes / 1024}

    @staticmethod
    def reset(first: Mapping[str, float], last: Mapping[str, float]) -> bool:
        """Whether Squid was restarted between two pages."""
        return any(value < first[name] for name, value in last.items())

    def between(self, first: Reply[Mapping[str, float]], last: Reply[Mapping[str, float]]) -> Readings:
        """The readings from two replies."""
        grown = {name: value - first.page[name] for name, value in last.page.items()}
        elapsed_s, sent = last.at_s - first.at_s, max(0.0, grown["kbytes_out"] - grown["ours"])
        readings = {
            "byte_rate_bytes_hz": 1024 * sent / elapsed_s,
            "error_rate_hz": grown["errors"] / elapsed_s,
            "thread_cpu_ratio": grown["cpu_s"] / elapsed_s,
        }
        if sent >= 1:
            readings["byte_hit_ratio"] = min(1.0, grown["hit_kbytes_out"] / sent)
        return readings


class CacheMemory(ManagerPage[Memory]):
    """The memory cache."""

    name = "squid-memory"
    page = "info"
    metrics = (Metric("cache_bytes", "bytes", "memory that a cache holds at the end of the window"),)
    sampling_period_s = 0.5

    def parsed(self, body: str) -> Memory:
        """Parses the page of the memory cache."""
        size, used = _SIZE.search(body), _USED.search(body)
        if size is None or used is None or len(size[1]) > 12:
            raise self.unlike()
        return Memory(1024 * int(size[1]), float(used[1]))

    def read(self) -> Readings:
        """The readings of the window.

        Raises:
            NotMeasured: no reply came, or the page is off.
        """
        self._ask()
        page = self.latest()
        if page is None:
            raise NotMeasured("the manager's page did not answer within the window")
        return {"cache_bytes": float(page.used_bytes)}


SENSORS: tuple[type[Sensor], ...] = (ServiceTimes, Counters, CacheMemory)


def times(first: Times, last: Times, elapsed_s: float, tunnels: bool = False) -> dict[str, float]:
    """The readings from two pages.

    Args:
        first: the earlier one.
        last: the later one.
        elapsed_s: the time between them.
        tunnels: whether there may be tunnels among the requests.
    """
    timed, misses = _grown(first, last, _ALL), _grown(first, last, _MISSES)
    readings = {"request_rate_hz": sum(timed.values()) / elapsed_s}
    if tunnels:
        timed = dict(sum((Counter(_grown(first, last, name, 0)) for name in _HITS), Counter(misses)))
    requests = sum(timed.values())
    if requests > 0:
        readings["hit_ratio"] = min(1.0, max(0.0, (last.hits() - first.hits()) / requests))
        readings["service_time_s"] = _mean(timed) / 1000
        readings["service_time_p95_s"] = _percentile(timed, 0.95) / 1000
        readings["requests_under_way"] = requests / elapsed_s * readings["service_time_s"]
    if any(misses.values()):
        readings["miss_time_s"] = _mean(misses) / 1000
    return readings


def _grown(first: Times, last: Times, name: str, ours: int | None = None) -> dict[float, int]:
    """Growth of each bin of a histogram that counts our pages too, without them; 0 of `ours` for one that does not.

    Squid calls them misses. Each takes less than a millisecond of its own, and more where it waits for the thread or
    a core: they are taken to be the fastest.
    """
    before, ours = first.bins.get(name, {}), last.ours - first.ours if ours is None else ours
    grown = {}
    for ms, count in sorted(last.bins.get(name, {}).items()):
        new = count - before.get(ms, 0)
        grown[ms] = new - min(new, ours)
        ours -= new - grown[ms]
    return grown


def _mean(counts: Mapping[float, int]) -> float:
    return sum(count * value for value, count in counts.items()) / sum(counts.values())


def _percentile(counts: Mapping[float, int], share: float) -> float:
    """The least value that this share of all does not exceed."""
    left = math.ceil(share * sum(counts.values()))
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    return 0.0


def find(listeners: Sequence[Listener], clock: Clock, url: str | None = None) -> tuple[str, Memory]:
    """URL of the manager's pages, and the use of the memory cache.

    Args:
        listeners: where Squid listens.
        clock: the loop's clock.
        url: where the user says that they are; None to look at each listener.

    Raises:
        UsageError: none answers; the message says what is needed.
    """
    urls = [url.rstrip("/") + "/"] if url else [_local(address, port) for address, port in listeners[:_MOST_ASKED]]
    reasons, until_s = [], clock.now_s() + _ALL_PATIENCE_S
    for one in urls:
        if clock.now_s() > until_s:
            reasons.append("the others were not asked in time")
            break
        try:
            memory = ask(CacheMemory(one, clock, patience_s=_PATIENCE_S))
        except (NotMeasured, UsageError) as error:  # a port outside the loopback too
            reasons.append(str(error)[:_LONGEST])
            continue
        if memory is not None:
            return one, memory
        reasons.append(f"{one}info did not answer within {_PATIENCE_S:g} s")
    said = "; ".join((*reasons[:_SHOWN], *(["..."] if reasons[_SHOWN:] else []))) or "it listens nowhere"
    mend = "" if "allow it: " in said else f" allow it: {_ALLOW.format('localhost')}, or"
    raise UsageError(f"Squid's manager cannot be read ({said}):{mend} name its pages with --manager-url")


def _allow(url: str) -> str:
    """What lets us read the manager's pages, which Squid sees asked for from its own address at one of a network."""
    ours = comes_from(url)
    if ipaddress.ip_address(ours).is_loopback:
        return _ALLOW.format("localhost")
    return f"'acl trimtab src {ours}' and {_ALLOW.format('trimtab')}"


def _local(address: str, port: int) -> str:
    """The manager's pages at a listener, over the loopback where it listens everywhere."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(address, f"[{address}]" if ":" in address else address)
    return f"http://{host}:{port}{MENU}"


def sensors(
    url: str, clock: Clock, tunnels: bool
) -> tuple[ManagerPage[Times], ManagerPage[Mapping[str, float]], ManagerPage[Memory]]:
    """The sensors of one Squid, which may make tunnels or not."""
    visits = Visits()
    served = ServiceTimes(url, clock, visits)
    served.tunnels = tunnels
    return served, Counters(url, clock, visits), CacheMemory(url, clock, visits)
