"""Sensor: FPM's status page of a pool, fetched from the pool's own socket without a web server.

| reading                 | from                                                                              |
|-------------------------|-----------------------------------------------------------------------------------|
| request_rate_hz         | "accepted conn", which counts requests as they begin; ours are subtracted           |
| busy_workers            | "active processes", mean over the replies in the window; ours is counted as idle      |
| idle_workers            | "idle processes", mean over the replies in the window                             |
| slow_request_rate_hz    | "slow requests", which FPM counts where request_slowlog_timeout is set            |
| children_limit_rate_hz  | "max children reached": how often the pool would have grown and was not allowed to |

The page is answered by a worker of the pool, so under overload its request waits in the listen queue with all others,
and it takes the place of one of them. So the worker that answers is not counted as busy, unless somebody waits
at that moment, whom it would serve otherwise. With `pm.status_listen` (PHP 8.0) the page has a socket and a process
of its own, waits for nobody and takes no place. "listen queue" on the page is 0 for a Unix socket whatever waits
there, and up to a second old for TCP: the queue is read from the kernel (`unix_queue`, `accept_queue`).

A worker of an ondemand pool ends once nobody has asked it for a while (pm.process_idle_timeout), and each question is
answered by the worker that has waited longest. So where most are idle there the page is asked for seldom, or none of
them would end while trimtab looks.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trimtab.core import Clock, Metric, Readings
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants.php_fpm import fastcgi
from trimtab.plants.php_fpm.configuration import Configuration
from trimtab.sensors import _polled_page
from trimtab.sensors._metrics import BUSY_WORKERS, IDLE_WORKERS, REQUEST_RATE
from trimtab.sensors._polled_page import Polled, Reply
from trimtab.sensors._status_page import Endpoint

_COUNTED = ("accepted conn", "idle processes", "active processes", "max children reached", "slow requests")
_FIELDS = (*_COUNTED, "start time")
_LARGEST = 10**15
_SELDOM_S = 5.0
"""Distance of the requests where each keeps a worker from ending: half of pm.process_idle_timeout as it ships."""
_ANYWHERE = {"", "*", "0.0.0.0", "[::]"}


@dataclass(frozen=True)
class Page:
    """One reply of the status page.

    Args:
        pm: the process manager, such as "dynamic".
        numbers: its figures by name.
        longest_s: for how long the oldest request that a script works at is under way; 0 where the page was not asked
            for its processes.
    """

    pm: str
    numbers: Mapping[str, int]
    longest_s: float = 0.0

    @property
    def started_s(self) -> int:
        """Time at which FPM was started or reloaded, in seconds since 1970."""
        return self.numbers["start time"]


@dataclass(frozen=True)
class StatusPage:
    """Address and path of a pool's status page.

    Args:
        address: the socket.
        path: its path, such as "/status".
        apart: whether it has a socket and a process of its own.
    """

    address: str
    path: str
    apart: bool

    @property
    def endpoints(self) -> list[Endpoint]:
        """Addresses to connect to, the best first; everywhere may be IPv6 alone (net.ipv6.bindv6only)."""
        family, address = endpoint(self.address)
        own = [(family, address)]
        everywhere = not isinstance(address, str) and self.address.rpartition(":")[0] in _ANYWHERE
        return [*own, (socket.AF_INET6, ("::1", int(address[1])))] if everywhere else own


def endpoint(address: str) -> Endpoint:
    """Address of FPM's `listen`: a path, a port, or an address or a name with a port.

    Of the addresses of a name FPM takes the first that it can (`fpm_socket_af_inet_listening_socket` in
    sapi/fpm/fpm/fpm_sockets.c).

    Raises:
        UsageError: it cannot be understood, or the name is not known.
    """
    if address.startswith("/"):
        return socket.AF_UNIX, address
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        raise UsageError(f"listen = {address!r} cannot be understood")
    local = "127.0.0.1" if host in _ANYWHERE else host.strip("[]")
    try:
        family, _, _, _, found = socket.getaddrinfo(local, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(f"listen = {address!r}: {getattr(error, 'strerror', None) or error}") from None
    return family, (str(found[0]), int(port))


def status_page(configuration: Configuration, pool: str) -> StatusPage:
    """The status page of a pool.

    Raises:
        UsageError: it has none; the message says how to turn it on.
    """
    path = configuration.text(pool, "pm.status_path")
    if not path:
        raise UsageError(
            f"pool {pool} has no status page: add 'pm.status_path = /status' to [{pool}] and reload PHP-FPM"
        )
    apart = configuration.text(pool, "pm.status_listen")
    return StatusPage(apart or configuration.text(pool, "listen"), path, bool(apart))


class PoolStatus(Polled[Page]):
    """The status page of one pool.

    Args:
        status_page: where it is.
        clock: the loop's clock.
        waiting: how many connections wait at the pool's socket at this moment.
        patience_s: longest time that one call may wait for a reply, in seconds.
        query: what the page is asked for.

    Attributes:
        status_page: as given.
        port: of the pool, where its connections are ours too; 0 where they are not over TCP, or elsewhere.
    """

    name = "fpm-status"
    metrics = (
        REQUEST_RATE,
        BUSY_WORKERS,
        IDLE_WORKERS,
        Metric("slow_request_rate_hz", "Hz", "requests per second that the server itself counts as slow"),
        Metric("children_limit_rate_hz", "Hz", "times per second that a pool would have grown and was at its limit"),
    )
    sampling_period_s = 0.04
    period_s = 0.1
    reset_by = "PHP-FPM was reloaded"
    _seen: list[tuple[float, float]]

    def __init__(
        self,
        status_page: StatusPage,
        clock: Clock,
        waiting: Callable[[], int] = lambda: 0,
        patience_s: float = 0.02,
        query: str = "json",
    ) -> None:
        endpoints = status_page.endpoints
        _, address = endpoints[0]
        self.port = 0 if isinstance(address, str) or status_page.apart else address[1]
        super().__init__(endpoints, fastcgi.page(status_page.path, query), clock, patience_s)
        self.status_page = status_page
        self._waiting = waiting

    def understood(self, reply: bytes) -> Page | None:
        """Parses a whole reply; None for one that a reload or an idle worker's end has spoiled.

        Raises:
            NotMeasured: it is not the status page.
        """
        return parse(reply) if reply else None

    def ours(self) -> int:
        """Our requests that wait at the pool's socket now."""
        return 0 if self.status_page.apart else super().ours()

    def came(self, page: Page) -> None:
        """Adds one reply to the means of the window."""
        busy, idle = page.numbers["active processes"], page.numbers["idle processes"]
        if not self.status_page.apart and busy and not self._somebody_waits():
            busy, idle = busy - 1, idle + 1
        self._seen.append((float(busy), float(idle)))
        spares = page.pm == "ondemand" and idle > busy and not self.status_page.apart
        self.period_s = _SELDOM_S if spares else type(self).period_s

    @staticmethod
    def reset(first: Page, last: Page) -> bool:
        """Whether FPM was reloaded between two pages."""
        was, now = first.numbers, last.numbers
        return now["start time"] != was["start time"] or now["accepted conn"] < was["accepted conn"]

    def between(self, first: Reply[Page], last: Reply[Page]) -> Readings:
        """The readings from two replies, and from all in the window."""
        elapsed_s, ours = last.at_s - first.at_s, 0 if self.status_page.apart else last.number - first.number

        def rate_hz(name: str) -> float:
            return (last.page.numbers[name] - first.page.numbers[name]) / elapsed_s

        readings = {
            "request_rate_hz": max(0.0, rate_hz("accepted conn") - ours / elapsed_s),
            "slow_request_rate_hz": rate_hz("slow requests"),
            "children_limit_rate_hz": rate_hz("max children reached"),
        }
        if self._seen:
            readings["busy_workers"] = sum(busy for busy, _ in self._seen) / len(self._seen)
            readings["idle_workers"] = sum(idle for _, idle in self._seen) / len(self._seen)
        return readings

    def _somebody_waits(self) -> bool:
        try:
            return self._waiting() > len(self._under_way)
        except NotMeasured:
            return False


def parse(reply: bytes) -> Page | None:
    """The page from a whole FastCGI reply; None where FPM has none in the moment of a reload.

    Raises:
        NotMeasured: it is not the status page of a pool.
    """
    status, body = fastcgi.reply(reply)
    if status == 500:
        return None  # its scoreboard is being made anew, in a reload
    try:
        # Not by the codec: each version of FPM has other keys here, and most are of no use to us.
        fields = json.loads(body) if status == 200 else None
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise NotMeasured(f"the pool answered with status {status} and not with its status page")
    # Whoever may write to the pool's socket directory may have taken its place, so nothing is taken on trust.
    numbers = {name: fields.get(name) for name in _FIELDS}
    wrong = [name for name, value in numbers.items() if type(value) is not int or not 0 <= value < _LARGEST]
    if wrong:
        raise NotMeasured(f"the pool's status page has no number for {wrong[0]!r}")
    known = {name: int(value or 0) for name, value in numbers.items()}
    return Page(str(fields.get("process manager")), known, _longest_s(fields.get("processes")))


def _longest_s(processes: object) -> float:
    """For how long the oldest of the running requests is under way, by the page's list of processes."""
    listed = [one for one in processes if isinstance(one, dict)] if isinstance(processes, list) else []
    running = (one.get("request duration") for one in listed if one.get("state") == "Running")
    return max((us for us in running if type(us) is int and 0 <= us < _LARGEST), default=0) / 1e6


def ask(status_page: StatusPage, clock: Clock, patience_s: float, query: str = "json") -> Page | None:
    """The page as it is now; None when it does not come in time.

    Raises:
        NotMeasured: it is off, or nothing listens there.
    """
    return _polled_page.ask(PoolStatus(status_page, clock, patience_s=patience_s, query=query))
