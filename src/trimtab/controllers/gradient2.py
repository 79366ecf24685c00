"""Gradient2 of Netflix's concurrency-limits. A peer for the lab; it promises nothing.

Equations (Gradient2Limit and its documentation), for each window with latency w and N requests in flight:

    long     = exponential average of w over 600 samples; x 0.95 where long > 2 w
    gradient = max(0.5, min(1, tolerance long / w))
    limit    = (1 - s) limit + s (gradient limit + 4);    as it is while N < limit / 2

| symbol | here | unit | shape |
|---|---|---|---|
| w, N | service_time_s, busy_workers | s, workers | scalar |
| tolerance, s | tolerance, smoothing | 1 | scalar |

Departures: the limit's bounds are the knob's domain, not 20 to 200.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from trimtab.controllers._knob import integer_knob, unjudged
from trimtab.controllers._peer import seen
from trimtab.core import Knob, Move, Objective, Trial

LONG, WARM_UP, HEADROOM = 600, 10, 4


@dataclass(frozen=True)
class Gradient2State:
    """State of the limiter.

    Args:
        knob: the limit.
        limit: estimate of the limit, not rounded; 0 before the first window.
        long_s: long average of the latency.
        samples: windows in that average.
    """

    knob: Knob
    limit: float = 0.0
    long_s: float = 0.0
    samples: int = 0


@dataclass(frozen=True)
class Gradient2:
    """The limiter.

    Args:
        objective: the objective, reported only.
        tolerance: how much longer than usual a request may take before the limit falls.
        smoothing: share of the new limit.
    """

    objective: Objective
    tolerance: float = 1.5
    smoothing: float = 0.2
    peer: ClassVar[bool] = True

    def start(self, knobs: tuple[Knob, ...], seed: int) -> Gradient2State:
        """The state before the first window; the seed is not used."""
        return Gradient2State(integer_knob(knobs, "gradient2"))

    def step(self, state: Gradient2State, trial: Trial) -> tuple[Gradient2State, Move]:
        """The limit that follows from one more window."""
        window, knob = trial.window, state.knob
        found = seen(window)
        if (missing := unjudged(self.objective, window, knob, 1)) or found is None:
            return state, Move.hold(f"gradient2: {missing or 'the time in a worker was not measured'}")
        now_s, inflight = found
        count, limit = state.samples + 1, state.limit or float(window.configuration[knob.name])
        factor = 1 / count if count <= WARM_UP else 2 / (LONG + 1)
        long_s = state.long_s + factor * (now_s - state.long_s)
        long_s *= 0.95 if long_s > 2 * now_s else 1.0
        if inflight >= limit / 2:
            gradient = max(0.5, min(1.0, self.tolerance * long_s / now_s))
            limit += self.smoothing * (gradient * limit + HEADROOM - limit)
        limit = min(float(knob.domain.maximum), max(float(knob.domain.minimum), limit))
        state = replace(state, limit=limit, long_s=long_s, samples=count)
        return state, Move({knob.name: knob.domain.clip(limit)}, f"gradient2: {now_s:.3g} s, usually {long_s:.3g} s")


CONTROLLER = Gradient2
