"""The traffic as data: clients, rates and URLs; the Python side of the wire's `workload` messages.

All times are seconds, already scaled. A value that the generator could not use is refused when it is built.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from trimtab import codec
from trimtab.errors import UsageError
from trimtab.workloads._distribution import Constant, Distribution
from trimtab.workloads._graph import Graph
from trimtab.workloads._tagged import Tagged

Wire = dict[str, Any]
"""One message as JSON knows it."""

ENDLESS = Constant(1e9)
"""Pages of a session that is longer than any run, and exact in every integer type on the way."""
MOST_USERS = 1_000_000
MOST_HZ = 1e7
MOST_FACTOR = 1e6
LONGEST_S = 1e8
"""Longest time of anything, three years: the load generator counts nanoseconds in 64 bits."""
SHORTEST_INTERVAL_S = 0.001
"""Shortest distance of the load generator's reports."""
_ONE = Constant(1.0)
_NONE = Constant(0.0)


def required(holds: bool, name: str, value: object, allowed: str) -> None:
    """Refuses a value.

    Raises:
        UsageError: it does not hold; the message gives the name, the value and what is allowed.
    """
    if not holds:
        raise UsageError(f"{name} {value} is not allowed: it must be {allowed}")


@dataclass(frozen=True)
class Url:
    """One URL of a mix.

    Args:
        path: path and query, from its first `/`.
        weight: relative frequency, more than 0.
        cpu_s: CPU seconds that one request costs a worker; for the simulator only.
    """

    path: str
    weight: float = 1.0
    cpu_s: float = 0.0

    def __post_init__(self) -> None:
        plain = self.path.startswith("/") and self.path.isascii() and self.path.isprintable() and " " not in self.path
        required(plain, "path", repr(self.path), "ASCII without spaces, starting with /")
        required(0 < self.weight < math.inf, "weight", f"{self.weight:g} of {self.path}", "more than 0 and finite")
        required(0 <= self.cpu_s < math.inf, "cpu_s", f"{self.cpu_s:g} of {self.path}", "at least 0 and finite")


ROOT = (Url("/"),)


def zipf(urls: Sequence[Url], exponent: float) -> tuple[Url, ...]:
    """The same URLs with Zipf popularity: the one of rank r, from 1, has weight r ** -exponent.

    Args:
        urls: most popular first.
        exponent: 1 is Zipf's law; 0 makes all equally popular.

    Raises:
        UsageError: the exponent is negative or not finite.
    """
    required(0 <= exponent < math.inf, "zipf", f"{exponent:g}", "at least 0 and finite")
    return tuple(replace(url, weight=(rank + 1) ** -exponent) for rank, url in enumerate(urls))


class Connection(StrEnum):
    """When the client gives up a connection."""

    UNTIL_SERVER_CLOSES = "until-server-closes"
    PER_PAGE = "per-page"
    PER_REQUEST = "per-request"


class _Rate(Tagged, frozen=True):
    """Sessions arrive by themselves.

    Args:
        rate_hz: sessions per second.
    """

    rate_hz: float

    def __post_init__(self) -> None:
        required(0 < self.rate_hz < math.inf, "rate", f"{self.rate_hz:g}", "more than 0 and finite, in sessions/s")


class Poisson(_Rate, frozen=True):
    """Sessions arrive in a Poisson stream."""


class ConstantRate(_Rate, frozen=True, tag="constant"):
    """Sessions arrive at equal distances."""


class Closed(Tagged, frozen=True):
    """A fixed number of users, each of whom starts a new session when the last one ends.

    Args:
        users: how many.
    """

    users: int

    def __post_init__(self) -> None:
        required(1 <= self.users <= MOST_USERS, "connections", self.users, f"1 to {MOST_USERS}")


Arrivals = Poisson | ConstantRate | Closed


@dataclass(frozen=True)
class Step:
    """A change of a population's intensity in mid-run.

    Args:
        at_s: seconds since the start of the run.
        factor: on the arrival rate or the number of users from then on; 0 stops the population.
    """

    at_s: float
    factor: float

    def __post_init__(self) -> None:
        required(0 <= self.at_s <= LONGEST_S, "step time", f"{self.at_s:g} s", f"0 to {LONGEST_S:g} s")
        required(0 <= self.factor <= MOST_FACTOR, "step factor", f"{self.factor:g}", f"0 to {MOST_FACTOR:g}")


@dataclass(frozen=True, kw_only=True)
class Population:
    """One population of clients.

    Args:
        class_name: the name under which it is reported, with all others of that name.
        arrivals: how load enters.
        session_pages: pages in a session; rounded, at least 1.
        burst_requests: requests in a page, the first one and its embedded objects; rounded, at least 1.
        think_s: time from a page's completion to the next click, in seconds; not below 0.
        object_gap_s: time between a reply and the next request of the same page, in seconds; not below 0.
        pages: mix of the first requests of pages.
        objects: mix of the embedded objects; empty for the same as `pages`.
        connection: when the client closes.
        timeout_s: a request without a complete reply after this many seconds has failed, and its session ends.
        schedule: changes of intensity, in order of time; before the first one the factor is 1.
        source: source address in 127.0.0.0/8; None lets the kernel choose.
        round_trip_s: round trip of the network that the load generator stands in for, in seconds; 0 for none.
        graph: the site that closed users walk, in place of session_pages, burst_requests, object_gap_s, pages and
            objects, which then stay as they are by default.

    Raises:
        UsageError: a value is outside what is allowed.
    """

    class_name: str
    arrivals: Arrivals
    session_pages: Distribution = _ONE
    burst_requests: Distribution = _ONE
    think_s: Distribution = _NONE
    object_gap_s: Distribution = _NONE
    pages: tuple[Url, ...] = ROOT
    objects: tuple[Url, ...] = ()
    connection: Connection = Connection.UNTIL_SERVER_CLOSES
    timeout_s: float = 30.0
    schedule: tuple[Step, ...] = ()
    source: str | None = None
    round_trip_s: float = 0.0
    graph: Graph | None = None

    def __post_init__(self) -> None:
        required(bool(self.class_name.strip()), "class", repr(self.class_name), "a name that is not empty")
        required(bool(self.pages), "pages", "()", "at least one URL")
        allowed = f"more than 0 and at most {LONGEST_S:g} s"
        required(0 < self.timeout_s <= LONGEST_S, "timeout", f"{self.timeout_s:g} s", allowed)
        times = [step.at_s for step in self.schedule]
        required(times == sorted(set(times)), "steps", [f"{at:g} s" for at in times], "in order of time")
        self._require_bounded(max([1.0, *(step.factor for step in self.schedule)]))
        allowed = f"0 to {LONGEST_S:g} s"
        required(0 <= self.round_trip_s <= LONGEST_S, "round trip", f"{self.round_trip_s:g} s", allowed)
        if self.graph is not None:
            required(isinstance(self.arrivals, Closed), "arrivals", self.arrivals, "closed where a graph is walked")
            unused = (self.session_pages, self.burst_requests, self.object_gap_s, self.pages, self.objects)
            required(unused == (_ONE, _ONE, _NONE, ROOT, ()), "pages", unused, "left out where a graph is walked")
        if self.source is not None:
            required(_is_loopback(self.source), "source", repr(self.source), "an IPv4 address in 127.0.0.0/8")

    def _require_bounded(self, factor: float) -> None:
        """Refuses more users or sessions than the generator has memory for, at the highest step."""
        if isinstance(self.arrivals, Closed):
            most = MOST_USERS / self.arrivals.users
            required(factor <= most, "step factor", f"{factor:g}", f"at most {most:g}, for {MOST_USERS} users in all")
        else:
            rate_hz = self.arrivals.rate_hz * factor
            required(rate_hz <= MOST_HZ, "rate", f"{rate_hz:g}", f"at most {MOST_HZ:g} sessions/s at every step")

    def to_wire(self) -> Wire:
        """This population as the native programs read it; a network only where there is to be one."""
        body: Wire = codec.builtins(self)
        body["class"] = body.pop("class_name")
        body["connection"] = self.connection.replace("-", "_")
        if not self.round_trip_s:
            del body["round_trip_s"]
        if self.graph is None:
            del body["graph"]
        else:
            body["pages"] = []
        return body


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.IPv4Address(address).is_loopback
    except ValueError:
        return False
