"""Prices of a held worker and a new connection, and the keep-alive time that costs least at these prices.

An idle period that is kept for up to tau holds a worker for E[min(period, tau)], and saves a new connection with
probability F(tau). All is in seconds of a client's time; a second of a worker is worth mu of them:

    p_new = (1 + mu) s + q                                                                  (C1)
    cost(tau) = mu E[min(period, tau)] - p_new F(tau)                                       (C2)
    theta = mu / p_new                                                                      (C3)

with s the worker time that a new connection costs (its client waits as long) and q its wait for a worker. Where the
curve is smooth the least cost is where the hazard of a request falls to theta: a worker is held as long as it earns
its price, theta requests per second. As mu grows theta comes to 1 / s: never is so much asked of a worker that
setting up the connection anew would cost less of it.

mu is the multiplier of the constraint that workers are there for those who wait, found by dual ascent in steps of
theta: it rises while connections wait, and falls by half in `fall_s` while none does. Between a quarter of the wait
aimed at and all of it, it stays. A longer wait raises p_new and mu alike: the wait is what the price of a worker is
there to end, so it must not make it worth less to end it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trimtab.controllers._survival import Survival
from trimtab.core import Readings

RISE, RISE_S = 10.0, 5.0
"""Largest factor on theta in so many seconds; at most the wait over the wait aimed at."""
SLACK = 0.25
"""Below this share of the wait aimed at, no worker is scarce."""
NEAREST = 0.999
"""theta comes this near to 1 / s."""
CONFIRM_S = 12.0
"""Workers have to be scarce for so long before their price rises: longer than the queue that a reload leaves."""
PATIENCE_S = 60.0
"""Worker time that a saved connection is worth while no worker is scarce: the longest time that servers ship."""
FREE_RATIO = 0.1
"""Idle connections are free when they hold a worker for less than this share of their time."""
SMOOTH = 0.3
"""Weight of a window's price of a new connection in the price that is used."""


@dataclass(frozen=True)
class Prices:
    """The prices in force.

    Args:
        mu: price of a second of a worker, in seconds of a client's time.
        setup_s: s, worker time that a new connection costs, in seconds.
        wait_s: q, mean wait for a worker, in seconds.
        scarce_s: for how long workers have been scarce, in seconds.
        known: whether s has been measured.
    """

    mu: float
    setup_s: float
    wait_s: float = 0.0
    scarce_s: float = 0.0
    known: bool = False

    @property
    def connection_s(self) -> float:
        """Price of a new connection, in seconds of a client's time."""
        return (1 + self.mu) * self.setup_s + self.wait_s  # Eq. (C1)

    @property
    def earning_hz(self) -> float:
        """Requests per second that a held worker has to bring to be worth it."""
        return self.mu / self.connection_s  # Eq. (C3)

    def asking(self, earning_hz: float) -> Prices:
        """These prices with mu such that a held worker has to bring so many requests per second, below 1 / s."""
        bounded_hz = min(earning_hz, NEAREST / self.setup_s)
        mu = bounded_hz * (self.setup_s + self.wait_s) / (1 - bounded_hz * self.setup_s)  # Eq. (C1) and (C3)
        return replace(self, mu=mu)

    def cost(self, curve: Survival, time_s: float) -> float:
        """Cost of an idle period that is kept for up to `time_s`, in seconds of a client's time."""
        return self.mu * curve.held_s(time_s) - self.connection_s * curve.asked(time_s)  # Eq. (C2)

    def measured(self, readings: Readings) -> Prices:
        """The prices after one more window: a dearer setup asks less of a worker, a longer wait as much as before.

        What was not measured stays. The first setup that is measured replaces the one assumed, and asks as much.
        """
        setup_s = readings.get("connection_setup_s")
        wait_s = readings.get("accept_queue_delay_s", self.wait_s)
        after = self
        if setup_s is not None:
            smooth = SMOOTH if self.known else 1.0
            after = replace(self, setup_s=max(1e-6, self.setup_s + smooth * (setup_s - self.setup_s)), known=True)
        asked_hz = after.earning_hz if self.known else self.earning_hz
        return replace(after, wait_s=self.wait_s + SMOOTH * (wait_s - self.wait_s)).asking(asked_hz)

    def scarcity(self, readings: Readings, target_s: float) -> float | None:
        """How scarce workers are: the wait over the one aimed at; None when it was not measured.

        Where idle workers are counted, and there are some, what connections wait for is not a worker.

        Args:
            readings: the window's.
            target_s: mean wait for a worker that is aimed at, in seconds.
        """
        wait_s, idle = readings.get("accept_queue_delay_s"), readings.get("idle_workers")
        ratio = None if wait_s is None else wait_s / target_s
        if idle is None:
            return ratio
        return max(RISE, ratio or 0.0) if idle < 1 else min(1.0, ratio or 0.0)

    def ascended(self, scarcity: float | None, fall_s: float, duration_s: float, most_hz: float) -> Prices:
        """The prices with mu moved by one step of the dual ascent.

        Args:
            scarcity: see `scarcity`; None leaves mu.
            fall_s: time in which mu falls by half while nobody waits, in seconds.
            duration_s: length of the window, in seconds.
            most_hz: requests per second, more than which need not be asked of a worker: nothing would follow, and it
                would take long to come back.
        """
        scarce_s, least_hz = self.scarce_s, 1 / PATIENCE_S
        if scarcity is not None:
            scarce_s = scarce_s + duration_s if scarcity > 1 else 0.0
        asked_hz = max(self.earning_hz, least_hz)
        if scarcity is not None and scarcity > 1 and scarce_s >= CONFIRM_S:
            asked_hz *= min(RISE, min(RISE, scarcity) ** (duration_s / RISE_S))
        elif scarcity is not None and scarcity < SLACK:
            asked_hz *= 0.5 ** (duration_s / fall_s)
        return replace(self, scarce_s=scarce_s).asking(max(least_hz, min(asked_hz, most_hz)))


def cheapest_s(curve: Survival, prices: Prices, shortest_s: float, longest_s: float) -> float:
    """The time of least cost: the shortest of those that cost the same.

    Args:
        curve: how long idle periods last and how they end.
        prices: the prices.
        shortest_s: no shorter one is wanted, in seconds.
        longest_s: no longer one is wanted, in seconds.

    Returns:
        One of both ends or an edge between them that has been seen, in seconds.
    """
    end_s = max(shortest_s, min(longest_s, curve.horizon_s))
    between = (edge for edge in curve.edges_s if shortest_s < edge < end_s)
    return min((shortest_s, *between, end_s), key=lambda time_s: (prices.cost(curve, time_s), time_s))


def most_earned_hz(curve: Survival, shortest_s: float) -> float:
    """The most requests per second that keeping idle connections beyond a time brings, for however long; 0 for none.

    A worker of which more is asked is not held beyond that time.
    """
    beyond = (curve.earned_hz(shortest_s, edge) for edge in curve.edges_s if edge > shortest_s)
    return max(beyond, default=0.0)


def idle_share(readings: Readings) -> float | None:
    """Share of the occupied workers' time that idle connections hold; None when it was not measured."""
    held, rate_hz = readings.get("idle_held_workers"), readings.get("request_rate_hz")
    service_s = readings.get("service_time_s")
    if held is None or rate_hz is None or service_s is None:
        return None
    occupied = held + rate_hz * service_s
    return held / occupied if occupied > 0 else None


def is_free(readings: Readings, before: bool) -> bool:
    """Whether idle connections hold no worker; as before when that was not measured."""
    idle, held = readings.get("idle_connections", 0.0), readings.get("idle_held_workers")
    return before if held is None or idle < 1 else held < FREE_RATIO * idle
