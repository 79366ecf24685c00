"""Measures that the referee takes from a window: its log cost, its load, and whether the server is falling behind.

| here        | from                                                                                        |
|-------------|---------------------------------------------------------------------------------------------|
| log_cost    | the objective; a response time that was not measured is inside / arrivals by Little's law,  |
|             | or else at least the wait in the accept queue                                               |
| log_inside  | inside / connections that entered the accept queue: the time of a connection, by the same   |
| arrivals_hz | connections that entered the accept queue x requests per connection of the reference        |
| demand_s    | cpu_ratio / request_rate_hz: seconds of all CPU that the server may use, for one request     |
| inside      | connections that wait to be accepted, and workers with a request under way                  |
| behind      | more are inside than before by more than chance, or connections are refused                 |
| excess      | how far beyond the objective's limits, as a logarithm; 0 where they are kept                |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from trimtab.core import Objective, Readings, Window
from trimtab.referee.estimate import MOST_UTILISATION, Noise, Seen, noise_of, queue_noise

ALL_BUSY = 0.85
"""Share of the workers, or of the CPU, from which all is busy: the average over a window in which some were not."""
LEAST_REQUESTS = 5
"""A mean of fewer requests is of little use: its own error is a factor of two."""
FEW_CONNECTIONS = 10
"""Fewer in a window differ by chance from one to the next by a third of their number, and more."""
NEXT_TO_NOTHING = 1e-3
"""To the greatest value of a comparison, where less is better: 0 counts as that, since it has no logarithm."""
RESIDENCES = ("request_time_s", "response_time_s")
"""Objectives that are the time inside of what came: of a request, and of all requests of a connection (Eq. (1))."""


KEPT_UP = 0.1
"""Share of a window's requests that may be inside, if as many are to have been completed as came."""
MOVED = 1.5
"""Ratio from which what a workload is made of counts as another one."""


@dataclass(frozen=True)
class Measured:
    """One window as the referee sees it.

    Args:
        index: its index.
        duration_s: its length, in seconds.
        log_cost: natural logarithm of the cost; None when nothing bounds it.
        bound: True when `log_cost` is only a bound from below.
        requests: completed in it.
        request_rate_hz: completed per second; 0 when not known.
        connection_rate_hz: connections per second; None when not measured.
        cpu_ratio: CPU used, of what may be used; None when not measured.
        inside: time average of connections that wait to be accepted and of workers with a request under way, those
            that only an idle connection holds left out; None when the first was not measured.
        refused: whether connections were refused because the queue was full.
        counted: whether the requests that were completed are known.
        saturated: whether work was always waiting: connections wait, and no worker was idle.
        excess: how far it is beyond the limits, 0 where it keeps them; None when one was not measured.
        broken: the limits that it breaks, as the user wrote them.
        missing: names of what the objective needs and was not measured; empty when all was.
        standstill_s: time in which the last change let no new request begin, or the first is expected to.
        standstill_wait_s: time that connections waited longer for it, in sum; None where that is not known.
        log_inside: natural logarithm of the time that a connection is inside, where that is the objective or what it
            can be told from; None when too few came or it is not known.
        inferred: whether `log_cost` is from that.
        byte_rate_bytes_hz: bytes sent per second; None when not measured.
        error_rate_hz: requests per second that the server answered with an error; None when not measured.
        nothing: whether the objective is 0 though requests were served, where less is better: the best there is.
        at_s: its end, on the run's clock.
        opening: what clients wait for connections to be opened, in times of the cost, where that is a request's time.
        reopening: by how much that would be more with a quarter of the keep-alive time.
    """

    index: int
    duration_s: float
    log_cost: float | None
    bound: bool
    requests: float
    request_rate_hz: float
    connection_rate_hz: float | None
    cpu_ratio: float | None
    inside: float | None
    refused: bool
    counted: bool = True
    saturated: bool = False
    excess: float | None = 0.0
    broken: tuple[str, ...] = ()
    missing: str = ""
    standstill_s: float = 0.0
    standstill_wait_s: float | None = None
    log_inside: float | None = None
    inferred: bool = False
    byte_rate_bytes_hz: float | None = None
    error_rate_hz: float | None = None
    nothing: bool = False
    at_s: float = 0.0
    opening: float = 0.0
    reopening: float = 0.0

    @property
    def measured(self) -> bool:
        """Whether the objective itself was measured, over enough requests."""
        return self.nothing or (self.log_cost is not None and not self.bound)

    @property
    def failed(self) -> float:
        """Requests that the server answered with an error, as far as that is known."""
        return (self.error_rate_hz or 0.0) * self.duration_s

    @property
    def connections(self) -> float:
        """Connections that came, as far as that is known."""
        return (self.connection_rate_hz or 0.0) * self.duration_s

    @property
    def deserted(self) -> bool:
        """Whether nobody came: no request was completed, none is inside, and no connection began."""
        inside = math.inf if self.inside is None else self.inside
        return (
            self.counted and self.requests == 0 and inside < 0.5 and not self.connection_rate_hz and not self.refused
        )

    @property
    def kept_up(self) -> bool:
        """Whether as many requests were completed as came: far fewer are inside than were completed."""
        inside = math.inf if self.inside is None else self.inside
        return self.counted and not self.saturated and not self.refused and inside <= KEPT_UP * self.requests

    @property
    def faint(self) -> bool:
        """Whether so little was under way that its cost could not be seen: few came, or each was too short."""
        inside = math.inf if self.inside is None else self.inside
        seen = self.counted and not self.missing and not self.refused
        return seen and self.log_cost is None and self.requests > 0 and inside < 0.5

    @property
    def unseen(self) -> bool:
        """Whether the time of a connection cannot be known as none began, though the server kept up with requests."""
        return self.log_cost is None and self.connection_rate_hz == 0 and self.requests > 0 and self.kept_up

    @property
    def of_a_request(self) -> dict[str, float]:
        """What one request took of what is known, by name: CPU time of all CPUs, in seconds, and bytes."""
        each = {"CPU": self.cpu_ratio, "bytes": self.byte_rate_bytes_hz}
        return {what: rate / self.request_rate_hz for what, rate in each.items() if rate and self.request_rate_hz}

    def on_limits(self) -> Measured:
        """This window with its excess beyond the limits in place of the objective."""
        return replace(self, log_cost=self.excess, bound=False)

    def opened(self) -> Measured:
        """This window with what clients wait for their connections in the cost."""
        log_cost = None if self.log_cost is None else self.log_cost + math.log1p(self.opening)
        return replace(self, log_cost=log_cost)

    def by_inside(self) -> Measured:
        """This window with the time that a connection is inside in place of the objective."""
        return replace(self, log_cost=self.log_inside, bound=False)

    def behind(self, before: Measured | None) -> bool:
        """Whether the server falls behind: more are inside than before, by more than the chance of arrivals."""
        unmeasured = self.log_cost is None and not (self.nothing or self.unseen)
        if self.refused or (unmeasured and (self.inside or 0.0) >= 1):  # or nothing ends, and some wait
            return True
        return self.more_inside(before) > 0

    def drains(self, before: Measured | None) -> bool:
        """Whether a backlog becomes shorter by itself, by more than chance, with no connection refused."""
        return not self.refused and self.more_inside(before) < 0

    def came_otherwise(self, before: Measured, factor: float) -> bool:
        """Whether connections or requests are that many times what they were, or were what they are, not by chance.

        Both, because users who have come ask for more once they are there, with no more connections.
        """
        rates = [(self.request_rate_hz, before.request_rate_hz)]
        if self.connection_rate_hz is not None and before.connection_rate_hz is not None:
            rates.append((self.connection_rate_hz, before.connection_rate_hz))
        counts = [(now * self.duration_s, then * before.duration_s) for now, then in rates]
        return any(max(c) > factor * min(c) and abs(c[0] - c[1]) > 2 * math.sqrt(sum(c)) for c in counts)

    def more_inside(self, before: Measured | None) -> int:
        """Whether more (1) or fewer (-1) are inside than before, by more than chance; 0 where neither."""
        if before is None or self.inside is None or before.inside is None:
            return 0
        arrivals = self.connections
        if arrivals < LEAST_REQUESTS:  # so few, on connections that are kept, could never be more than chance
            arrivals = max(arrivals, self.requests)
        more = self.inside - before.inside
        return 0 if abs(more) <= 2 * math.sqrt(max(1.0, arrivals)) else (1 if more > 0 else -1)


def measured(window: Window, objective: Objective, per_connection: float = 1.0) -> Measured:
    """The window as the referee sees it.

    Args:
        window: the window.
        objective: the objective compared.
        per_connection: requests per connection so far; they share the wait of their connection in the accept queue.
    """
    r = window.readings
    cost, few = objective.value(window), (window.samples or LEAST_REQUESTS) < LEAST_REQUESTS
    excess = objective.excess(window)
    log_cost, bound, inferred = None, False, False
    came_hz = r.get("connection_rate_hz", 0.0)
    known = objective.metric in RESIDENCES and "busy_workers" in r and came_hz * window.duration_s >= LEAST_REQUESTS
    inside = _inside(r) if known else None
    log_inside = math.log(inside / came_hz) if inside else None
    if cost is not None and excess is not None and cost != 0 and not few:
        log_cost = math.log(cost) if cost > 0 else -math.log(-cost)
    elif excess is not None and objective.minimize and objective.metric.endswith("_s"):
        shared = max(1.0, per_connection) if objective.metric == "request_time_s" else 1.0
        if log_inside is not None:
            log_cost, inferred = log_inside - math.log(shared), True
        elif r.get("accept_queue_delay_s", 0.0) > 0:
            log_cost, bound = math.log(r["accept_queue_delay_s"] / shared), True
    rate = r.get("request_rate_hz", 0.0)
    none_left = objective.minimize and cost == 0 and objective.metric not in RESIDENCES  # of these no time is 0
    nothing = none_left and excess is not None and not few and rate > 0
    return Measured(
        window.index,
        window.duration_s,
        log_cost,
        bound,
        rate * window.duration_s,
        rate,
        r.get("connection_rate_hz"),
        r.get("cpu_ratio"),
        _inside(r),
        r.get("listen_overflow_rate_hz", 0.0) > 0,
        "request_rate_hz" in r,
        r.get("idle_workers", 1.0) < 0.5 and r.get("accept_queue_length", 0.0) >= 1,
        excess,
        tuple(map(str, objective.broken(window))),
        objective.missing(window),
        r.get("standstill_s", 0.0),
        r.get("standstill_wait_s"),
        log_inside,
        inferred,
        r.get("byte_rate_bytes_hz"),
        r.get("error_rate_hz"),
        nothing and log_cost is None,
        window.start_s + window.duration_s,
        *(_openings(log_cost, r) if objective.metric == "request_time_s" and objective.minimize else ()),
    )


def _openings(log_cost: float | None, r: Readings) -> tuple[float, float]:
    """What clients wait for connections in times of a request's, as in `Measured.opening` and `reopening`.

    Args:
        log_cost: natural logarithm of a request's time in seconds; None when not known.
        r: the window's readings.
    """
    asked_hz = r.get("request_rate_hz", 0.0)
    if log_cost is None or asked_hz <= 0:
        return 0.0, 0.0
    for_each = r.get("handshake_s", 0.0) / asked_hz / math.exp(log_cost)
    return for_each * r.get("connection_rate_hz", 0.0), for_each * r.get("cut_rate_hz", 0.0)


def alike(windows: tuple[Measured, ...]) -> tuple[Measured, ...]:
    """Windows with costs that can be compared: where some were inferred, all by the time of a connection."""
    return tuple(w.by_inside() for w in windows) if mixed(windows) else windows


def mixed(windows: tuple[Measured, ...]) -> bool:
    """Whether the objective of some was inferred, and the time of a connection is known in all."""
    return any(w.inferred for w in windows) and all(w.log_inside is not None for w in windows)


def ending(r: Readings, limit: float) -> bool:
    """Whether a smaller limit of workers has yet to take effect, because they end with the request in hand.

    Args:
        r: the window's readings.
        limit: the limit in force.
    """
    return r.get("busy_workers", 0.0) + r.get("idle_workers", 0.0) > limit / ALL_BUSY


def growing(r: Readings, limit: float) -> bool:
    """Whether a pool has yet to grow to its limit, as after a reload: all there are busy, and connections wait.

    Args:
        r: the window's readings.
        limit: the limit in force.
    """
    busy, idle = r.get("busy_workers", limit), r.get("idle_workers", 0.0)
    return busy + idle < ALL_BUSY * limit and idle < 0.5 and r.get("accept_queue_length", 0.0) >= 1


def regrowing(r: Readings, limit: float, before: float) -> bool:
    """Whether a pool that has yet to grow has no more workers so far than before its limit was changed.

    Args:
        r: the window's readings.
        limit: the limit in force.
        before: the limit before.
    """
    there = r.get("busy_workers", limit) + r.get("idle_workers", 0.0)
    return growing(r, limit) and ALL_BUSY * there <= before


def _inside(r: Readings) -> float | None:
    """Connections that wait, and workers with a request under way as far as that is measured."""
    waiting = r.get("accept_queue_length")
    held = max(0.0, r.get("busy_workers", 0.0) - r.get("idle_held_workers", 0.0))
    return None if waiting is None else waiting + r.get("requests_under_way", held)


@dataclass(frozen=True)
class Workload:
    """Workload in the reference windows, which a change of a setting is not to change.

    Args:
        arrivals_hz: requests that arrive per second, or 0 where that is not known.
        demand_s: CPU time of one request, in seconds of all CPUs; 0 where that is not known.
        per_connection: requests per connection; 0 where that is not known.
        inside: connections that wait and workers with a request under way; infinite where that is not known.
        by_requests: whether so few connections came in a window that their number says nothing of the load.
    """

    arrivals_hz: float
    demand_s: float
    per_connection: float
    inside: float = math.inf
    by_requests: bool = False

    @staticmethod
    def of(windows: Sequence[Measured]) -> Workload:
        """The workload of the windows of a reference; medians, so that one odd window changes nothing."""
        per = [
            w.request_rate_hz / w.connection_rate_hz for w in windows if w.connection_rate_hz and w.request_rate_hz
        ]
        demand = [w.cpu_ratio / w.request_rate_hz for w in windows if w.cpu_ratio and w.request_rate_hz]
        few = median([w.connections for w in windows]) < FEW_CONNECTIONS if windows else False
        seen = Workload(0.0, median(demand) if demand else 0.0, median(per) if per else 0.0, by_requests=few)
        arrivals = [seen.arrivals(w) for w in windows]
        inside = [w.inside for w in windows if w.inside is not None]
        return replace(
            seen,
            arrivals_hz=median(arrivals) if arrivals else 0.0,
            inside=median(inside) if inside else math.inf,
        )

    def arrivals(self, window: Measured) -> float:
        """Requests that arrived per second, also where they were not completed.

        Connections that proxies keep bring thousands of requests each: how many of these begin in a window is
        chance, so that what was completed says more, unless they have become more by far.
        """
        by_chance = self.by_requests and window.connections < 2 * FEW_CONNECTIONS
        if window.connection_rate_hz is not None and self.per_connection > 0 and not by_chance:
            return window.connection_rate_hz * self.per_connection
        return window.request_rate_hz

    def utilisation(self, window: Measured) -> float:
        """Offered utilisation of the CPU, from arrivals and the reference's demand: not an effect of the change."""
        return self.arrivals(window) * self.demand_s

    def seen(self, window: Measured) -> Seen:
        """The window for the estimator; its log cost must be known.

        Where requests are not counted, nothing is added for their chance: what windows differ by says it too.
        """
        assert window.log_cost is not None
        requests = max(1.0, window.requests) if window.counted else math.inf
        return Seen(window.index, window.log_cost, self.utilisation(window), requests)

    def noise(self, window_s: float) -> Noise:
        """The noise of windows of that length, before any was compared."""
        return queue_noise(self.arrivals_hz * self.demand_s, self.demand_s, window_s)

    def noise_of(self, windows: Sequence[Measured], window_s: float) -> Noise:
        """The noise of windows of that length, by what these windows of one setting show of it."""
        return noise_of([self.seen(w) for w in windows if w.log_cost is not None], self.noise(window_s))

    def cost_of_standstill_s(
        self, stopped_s: float, usual_s: float | None, waited_s: float | None = None, capacity: float = 1.0
    ) -> float:
        """Cost of a time in which no request begins, in seconds of normal operation, Eq. (R8).

        Args:
            stopped_s: that time, in seconds.
            usual_s: usual time of a request, in seconds; None where the cost is no time.
            waited_s: how long connections waited longer for it, in sum, in seconds; None where that is not known.
            capacity: how many times more work is completed afterwards.
        """
        if usual_s and waited_s is not None and self.arrivals_hz > 0:
            return waited_s / (self.arrivals_hz * usual_s)
        rho = min(MOST_UTILISATION, self.arrivals_hz * self.demand_s / capacity)
        each = max(1.0, self.per_connection)
        drains = min(1 / (1 - rho), 1 + self.inside)  # clients who wait for their replies leave few inside at any rho
        return stopped_s if usual_s is None else stopped_s * (1 + stopped_s / (2 * each * usual_s)) * drains

    def moved(self, windows: Sequence[Measured], factor: float) -> str:
        """Property of the workload that differs by that factor in all these windows; empty for none."""
        arrivals = [self.arrivals(w) for w in windows]
        demand = [w.cpu_ratio / w.request_rate_hz for w in windows if w.cpu_ratio and w.request_rate_hz]
        for what, was, now in (("arrivals", self.arrivals_hz, arrivals), ("CPU per request", self.demand_s, demand)):
            ratios = [value / was for value in now if was > 0 and value > 0]
            if len(ratios) == len(windows) and (min(ratios) > factor or max(ratios) < 1 / factor):
                return f"{what} {median(ratios):.2g} times what it was"
        return ""
