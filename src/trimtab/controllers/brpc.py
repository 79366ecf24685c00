"""The auto concurrency limiter of Apache bRPC. A peer for the lab; it promises nothing.

Equations (bRPC, docs/en/auto_concurrency_limiter.md), for each window with latency w and X requests per second:

    w0    = exponential average of latencies below it; X0 = greatest X, falling slowly
    e     = e + 0.02 where w <= w0 (1 + 0.06) or X <= X0 (1 + 0.06), else e - 0.02; within 0.06 .. 0.3
    limit = X0 w0 (1 + e);    every 50 s 0.9 X0 w0 for one window, after which w0 is measured anew

| symbol | here | unit | shape |
|---|---|---|---|
| w, X | service_time_s, request_rate_hz | s, Hz | scalar |
| w0, X0, e | least_s, most_hz, explore | s, Hz, 1 | scalar |

Departures: a window is trimtab's, not 100 to 200 requests or a second. Idle connections count as in service, so w is
busy_workers / request_rate_hz: the limit here is one of connections.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from trimtab.controllers._knob import integer_knob, unjudged
from trimtab.controllers._peer import seen
from trimtab.core import Knob, Move, Objective, Trial

LEAST, MOST, STEP = 0.06, 0.3, 0.02
SMOOTH, REMEASURE_S, REDUCED = 0.1, 50.0, 0.9


@dataclass(frozen=True)
class BrpcState:
    """State of the limiter.

    Args:
        knob: the limit.
        least_s: latency without load; infinite while it is to be measured.
        most_hz: greatest rate.
        explore: share by which the limit exceeds what both need.
        measured_s: when the latency was last measured anew, on the run's clock.
    """

    knob: Knob
    least_s: float = math.inf
    most_hz: float = 0.0
    explore: float = MOST
    measured_s: float = 0.0


@dataclass(frozen=True)
class Brpc:
    """The limiter.

    Args:
        objective: the objective, reported only.
    """

    objective: Objective
    peer: ClassVar[bool] = True

    def start(self, knobs: tuple[Knob, ...], seed: int) -> BrpcState:
        """The state before the first window; the seed is not used."""
        return BrpcState(integer_knob(knobs, "brpc"))

    def step(self, state: BrpcState, trial: Trial) -> tuple[BrpcState, Move]:
        """The limit that follows from one more window."""
        window, knob = trial.window, state.knob
        found, rate_hz = seen(window), window.readings.get("request_rate_hz", 0.0)
        if (missing := unjudged(self.objective, window, knob, 1)) or found is None or rate_hz <= 0:
            return state, Move.hold(f"brpc: {missing or 'the time in a worker was not measured'}")
        now_s = found[1] / rate_hz
        least_s = state.least_s
        if now_s < least_s:
            least_s = now_s if math.isinf(least_s) else least_s + SMOOTH * (now_s - least_s)
        falling = state.most_hz + SMOOTH / 10 * (rate_hz - state.most_hz)
        most_hz = rate_hz if rate_hz > state.most_hz else falling
        calm = now_s <= least_s * (1 + LEAST) or rate_hz <= most_hz * (1 + LEAST)
        explore = min(MOST, max(LEAST, state.explore + (STEP if calm else -STEP)))
        limit, said = most_hz * least_s * (1 + explore), f"brpc: {most_hz:.3g}/s x {least_s:.3g} s"
        state = replace(state, least_s=least_s, most_hz=most_hz, explore=explore)
        if window.start_s - state.measured_s >= REMEASURE_S:
            limit, said = most_hz * least_s * REDUCED, "brpc: measuring the latency anew"
            state = replace(state, least_s=math.inf, measured_s=window.start_s)
        limit = min(float(knob.domain.maximum), math.ceil(limit))
        return state, Move({knob.name: knob.domain.clip(limit)}, said)


CONTROLLER = Brpc
