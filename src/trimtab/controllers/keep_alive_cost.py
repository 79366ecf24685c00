"""The keep-alive time that costs least: the price of a held worker against that of a new connection.

What it promises. Where an idle connection holds a worker (prefork, worker) and workers are scarce, the time comes
down to the point from which a held worker earns less than its price: to the end of the bursts at first, and into them
only where workers stay scarce there and idle connections still hold a good part of them. Where workers are plenty it
stays long, and connections are reused. Where an idle connection holds no worker (event MPM, nginx) the server keeps
its own time, as long as it has capacity for more connections (`_capacity`). Bursts that are cut are seen within a few
windows, from however short a time, and what one crowd does in a window or two does not move it.

Each window gives idle periods by how they ended, of which those ended by the keep-alive time are cut short; their
distribution is `_survival`'s, Eq. (S1) to (S4), over a memory of about `memory` periods. The prices are
`_held_worker`'s: s and q of p_new, Eq. (C1), are measured, mu is found by dual ascent on the wait for a worker. Then

    tau  = argmin cost(tau) = mu E[min(period, tau)] - p_new F(tau),  burst end <= tau <= longest      Eq. (C2)

The burst end is asked for by sugiki2005's ratio, on these estimates instead of raw counts, so that it sees beyond the
time in force by what the trials bring: one idle period in so many is given more time.

Bursts are cut when for CRAMPED_S, with tau at the burst end, clients have waited longer for workers than cutting
would cost them (a round trip for each new connection), the wait has not come down any more (the queue that a long
time leaves behind takes a while to clear), and idle connections have held GIVE of the time of occupied workers. A
worker must then bring more than it does within a burst, and the bound of Eq. (C2) is `shortest_s` until a time beyond
the bursts costs least again. Where workers are busy with requests instead, as when the processor is what is short,
nothing would be gained, and the bound stays.

While workers are scarce the time never becomes longer, but out of the bursts: a long wait makes new connections dear,
and connections that are kept for it would make it longer still.

A move is made when tau is more than BAND away and saves `worthwhile` new connections per idle period, or when it
ends the cutting of bursts; and in both cases when it was on that side in two windows in a row.

| here | unit | shape |
|---|---|---|
| mu, p_new: price of a held worker, of a new connection | 1, s | scalar |
| tau: the keep-alive time | s (the knob: ms) | scalar |
| F, E: see `_survival` | 1, s | edges of bins |

Departures from the paper: it is our own method. sugiki2005 knows no prices: it ends every idle connection after the
bursts, also where that gains nothing. Its ratio is here the lower bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from trimtab.controllers._capacity import Capacity, Pressure
from trimtab.controllers._cost_reasons import at_prices, cutting_bursts, for_free, in_burst
from trimtab.controllers._held_worker import Prices, cheapest_s, idle_share, is_free, most_earned_hz
from trimtab.controllers._intervals import Tally, keep_alive_knob
from trimtab.controllers._knob import require
from trimtab.controllers._survival import Survival
from trimtab.core import Knob, Move, Objective, Readings, Trial, Window

AGAIN = 2
"""Windows in a row in which the best time has to lie on the same side."""
ONWARD = 1.25
"""Where bursts reach to the longest period seen, near the time in force, a time this much longer is tried."""
AMPLE = 2.0
"""At this multiple of what a worker can earn beyond the bursts, it is surely not held beyond them."""
EASING = 0.1
"""While the wait is still becoming shorter, by this share at least, an earlier backlog is still draining."""
OUTGROWN = 0.4
"""Fraction of history kept when bursts outgrow the time: most of it was of other clients."""
CRAMPED_S = 8.0
"""For how long the evidence must favour cutting bursts: several times a client's handshake and request."""
GIVE = 0.2
"""Share of the time of occupied workers that idle connections have to hold before bursts are cut for it: at less than
a fifth, cutting all of them would bring less than a quarter more capacity."""
MOST = 0.04
"""Share of the memory that a second of a window may take: a crowd has to last 25 s to be all that is remembered."""
INTERVALS = 200
"""Idle periods below which nothing is decided: with them the standard error of a share is at most 3.5 %."""
BAND = 0.1
"""Relative distance from the best time within which nothing is moved: the precision that INTERVALS periods allow."""
USUAL_S = 15.0
"""The longest time that is set where the server's own is not seen: sugiki2005 starts from it."""
SETUP_S = 0.01
"""Worker time of a new connection until it is measured: a handshake on a local network and a fork's share."""


@dataclass(frozen=True)
class CostState:
    """State of the method.

    Args:
        knob: the keep-alive time.
        prices: prices of a held worker and a new connection.
        tally: idle periods in memory.
        longest_s: longest time that was in force, in seconds.
        free: whether idle connections hold no worker here.
        cramped: for how long the evidence has favoured cutting bursts, in seconds.
        least_wait_s: shortest wait for a worker since then, in seconds.
        cutting: whether bursts may be cut.
        places: connection capacity of a server on which idle connections hold no worker.
        side: which way the best time lies: 1 longer, -1 shorter, 0 within the band.
        since: windows in a row on that side.
        own_s: the server's own time, in seconds; 0 where it was not seen.
    """

    knob: Knob
    prices: Prices
    tally: Tally = field(default_factory=Tally)
    longest_s: float = 0.0
    free: bool = False
    cramped: float = 0.0
    least_wait_s: float = math.inf
    cutting: bool = False
    places: Capacity = field(default_factory=Capacity)
    side: int = 0
    since: int = 0
    own_s: float = 0.0


@dataclass(frozen=True)
class Wanted:
    """The time to set.

    Args:
        phase: "grow" out of a burst, "shorten", "lengthen" or "free".
        time_s: the best time, in seconds.
        burst_end_s: where bursts end, in seconds.
        worth: new connections saved per idle period by going there, the held workers paid for.
        why: the reason for the operator.
    """

    phase: str
    time_s: float
    burst_end_s: float
    worth: float
    why: str


@dataclass(frozen=True)
class KeepAliveCost:
    """Least expected cost of idle connections.

    Args:
        objective: the objective, reported only.
        target: share of the intervals so far below which the next 50 ms are not of a burst; at 1 bursts may be cut.
        wait_s: mean wait for a worker above which workers are scarce.
        fall_s: time in which the price of a held worker falls by half while nobody waits.
        round_trip_s: assumed cost of a new connection to its client beside the wait, which is not measured here.
        memory: idle periods that are remembered at most.
        worthwhile: new connections per idle period that a move has to save.
        shortest_s: shortest time that it sets.
        longest_s: longest time that it sets where none longer was in force; 0 for the server's own, for which there
            is memory, or 15 s where that is not seen.

    Raises:
        UsageError: an option has a value that cannot be used.
    """

    objective: Objective
    target: float = 0.05
    wait_s: float = 0.02
    fall_s: float = 300.0
    round_trip_s: float = 0.1
    memory: float = 10_000.0
    worthwhile: float = 0.01
    shortest_s: float = 0.05
    longest_s: float = 0.0

    def __post_init__(self) -> None:
        require(0 < self.target <= 1, "target", self.target, "a share above 0, to 1")
        for name in ("wait_s", "fall_s", "round_trip_s", "shortest_s"):
            require(getattr(self, name) > 0, name, getattr(self, name), "more than 0")
        fits = self.longest_s == 0 or self.longest_s >= self.shortest_s
        require(fits, "longest_s", self.longest_s, "0, or shortest_s or more")
        require(self.memory >= INTERVALS, "memory", self.memory, f"{INTERVALS} or more")
        require(self.worthwhile >= 0, "worthwhile", self.worthwhile, "0 or more")

    def start(self, knobs: tuple[Knob, ...], seed: int) -> CostState:
        """The state before the first window; the seed is not used.

        Raises:
            UsageError: the keep-alive time is not among the knobs.
        """
        knob = keep_alive_knob(knobs, "keep-alive-cost")
        return CostState(knob, Prices(0.0, SETUP_S))

    def withdraw(self, state: CostState, knob: str) -> CostState:
        """The state as it is, unless the knob is the time itself.

        Raises:
            UsageError: it is.
        """
        if knob == state.knob.name:
            keep_alive_knob((), "keep-alive-cost")
        return state

    def step(self, state: CostState, trial: Trial) -> tuple[CostState, Move]:
        """One window; see `Controller.step`."""
        window = trial.window
        now = window.configuration.get(state.knob.name)
        if now is None:
            return state, Move.hold(f"the value of {state.knob.name} in force is not known")
        r = window.readings
        most = min(1.0, MOST * window.duration_s)
        tally = state.tally.seen(r, now / 1e3, self.memory, most)
        if tally is state.tally:
            return state, Move.hold("no idle period ended, so nothing is known of the time between requests")
        state = replace(state, tally=tally, prices=state.prices.measured(r), free=is_free(r, state.free))
        own_s = r.get("server_keep_alive_s", state.own_s)
        state = replace(state, longest_s=max(state.longest_s, now / 1e3), own_s=own_s)
        if tally.total < INTERVALS:
            return state, Move.hold(f"{tally.total:.0f} idle periods so far, {INTERVALS} are needed", "gather")
        curve = Survival(tally)
        floor_s, end_s = self._floor(curve, now / 1e3, max(self.longest_s or USUAL_S, state.longest_s))
        least_s = self.shortest_s if state.cutting else floor_s
        state = replace(state, prices=self._ascended(state, window, curve, least_s))
        state = self._cramped(state, window, curve, (now / 1e3, floor_s, end_s))
        state = replace(state, places=self._capacity(state, window, curve, (now / 1e3, floor_s)))
        least_s = self.shortest_s if state.cutting else floor_s
        wanted = self._wanted(state, curve, r, now / 1e3, least_s, end_s)
        if state.cutting and wanted.time_s >= end_s > 0:
            state = replace(state, cutting=False)
        return self._moved(state, now, wanted)

    def _longest(self, state: CostState) -> float:
        """The longest time that may be set where bursts end sooner, in seconds."""
        return max(self.longest_s or state.own_s or USUAL_S, self.shortest_s, state.longest_s)

    def _floor(self, curve: Survival, now_s: float, longest_s: float) -> tuple[float, float]:
        """The shortest time that may be set, and where bursts end, in seconds."""
        if self.target >= 1:
            return self.shortest_s, 0.0
        end_s = curve.burst_end_s(self.target)
        onward = end_s >= curve.horizon_s and end_s < ONWARD * now_s
        return min(max(ONWARD * end_s if onward else end_s, self.shortest_s), longest_s), end_s

    def _ascended(self, state: CostState, window: Window, curve: Survival, floor_s: float) -> Prices:
        """The prices after one step of the dual ascent."""
        scarcity = None if state.free else state.prices.scarcity(window.readings, self.wait_s)
        most_hz = AMPLE * most_earned_hz(curve, floor_s)
        return state.prices.ascended(scarcity, self.fall_s, window.duration_s, most_hz)

    def _cramped(
        self, state: CostState, window: Window, curve: Survival, times_s: tuple[float, float, float]
    ) -> CostState:
        """The state after asking whether bursts have to be cut.

        Args:
            times_s: the time in force, the shortest that cuts none, and where bursts end, in seconds.
        """
        now_s, floor_s, end_s = times_s
        wait_s, held = window.readings.get("accept_queue_delay_s"), idle_share(window.readings)
        if wait_s is None:
            return state
        # Per idle period: its client's wait for a worker now, and the cost to it of cutting bursts.
        waits_s = wait_s * (1 - curve.asked(end_s))
        costs_s = self.round_trip_s * (curve.asked(end_s) - curve.asked(self.shortest_s))
        gives = not state.free and held is not None and held >= GIVE
        if not gives or waits_s <= costs_s or now_s > floor_s * (1 + BAND):
            return replace(state, cramped=0.0, least_wait_s=math.inf)
        eases = wait_s < (1 - EASING) * state.least_wait_s
        cramped = 0.0 if eases else state.cramped + window.duration_s
        state = replace(state, cramped=cramped, least_wait_s=min(wait_s, state.least_wait_s))
        if state.cutting or cramped < CRAMPED_S:
            return state
        asked_hz = max(state.prices.earning_hz, AMPLE * curve.earned_hz(0.0, end_s))
        return replace(state, cramped=0.0, cutting=True, prices=state.prices.asking(asked_hz))

    def _capacity(self, state: CostState, window: Window, curve: Survival, times_s: tuple[float, float]) -> Capacity:
        """Capacity after this window; times: the one in force and the shortest that cuts no bursts, in seconds."""
        if not state.free:
            return Capacity()
        wait_s = window.readings.get("accept_queue_delay_s")
        seen = Pressure(wait_s, self.wait_s, *times_s, window.duration_s)
        return state.places.after(seen, curve, CRAMPED_S, self.fall_s)

    def _wanted(
        self, state: CostState, curve: Survival, readings: Readings, now_s: float, floor_s: float, end_s: float
    ) -> Wanted:
        """The best time with its reason; while workers are scarce none longer than out of the bursts."""
        p = state.prices
        longest_s = max(now_s, floor_s) if p.scarce_s > 0 else self._longest(state)
        most_s = max(min(state.longest_s, state.places.ceiling_s), floor_s)
        time_s = most_s if state.free else cheapest_s(curve, p, floor_s, longest_s)
        more = curve.asked(time_s) - curve.asked(now_s)
        if now_s < floor_s:
            return Wanted("grow", time_s, end_s, more, in_burst(curve, now_s, end_s))
        if state.free:
            return Wanted("free", time_s, end_s, more, for_free(readings, state.places))
        worth = (p.cost(curve, now_s) - p.cost(curve, time_s)) / p.connection_s
        phase = "shorten" if time_s < now_s else "lengthen"
        why = at_prices(p, curve, readings, self.wait_s, (now_s, time_s))
        if state.cutting and time_s < end_s:
            why = f"{cutting_bursts(end_s, idle_share(readings))}; {why}"
        return Wanted(phase, time_s, end_s, worth, why)

    def _moved(self, state: CostState, now: int, wanted: Wanted) -> tuple[CostState, Move]:
        """The move, once it is far enough, worth it and seen again."""
        there = state.knob.domain.clip(wanted.time_s * 1e3)
        far = abs(there - now) > BAND * now and (wanted.phase == "free" or wanted.worth >= self.worthwhile)
        side = 0
        if far or (wanted.phase == "grow" and there > now):
            side = 1 if there > now else -1
        state = replace(state, side=side, since=state.since + 1 if side == state.side else 1)
        figures = self._evidence(state, wanted)
        if side == 0:
            near = f"{now} ms stays: the best time is {there} ms" if there != now else f"{now} ms is the best time"
            return state, Move({}, f"{near}; {wanted.why}", figures, "free" if state.free else "hold")
        if state.since < AGAIN:
            return state, Move(
                {}, f"{wanted.why}; once more before moving from {now} ms to {there} ms", figures, "hold"
            )
        if wanted.phase == "grow" and state.tally.total > self.memory / 4:
            state = replace(state, tally=state.tally.faded(OUTGROWN))
        return state, Move({state.knob.name: there}, f"{wanted.why}; {now} ms to {there} ms", figures, wanted.phase)

    def _evidence(self, state: CostState, wanted: Wanted) -> dict[str, float]:
        """The figures behind a decision."""
        p = state.prices
        return {
            "best_s": wanted.time_s,
            "burst_end_s": wanted.burst_end_s,
            "worth": wanted.worth,
            "mu": p.mu,
            "new_connection_s": p.connection_s,
            "earning_hz": p.earning_hz,
            "intervals": state.tally.total,
        }


CONTROLLER = KeepAliveCost
