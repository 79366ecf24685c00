"""Vegas of Netflix's concurrency-limits, after TCP Vegas. A peer for the lab; it promises nothing.

Equations (VegasLimit and its documentation), for each window with latency w and N requests in flight:

    w0    = least latency; taken anew every 30 limit requests
    queue = ceil(limit (1 - w0 / w))
    limit + 6 log10 limit    where queue <= log10 limit
    limit + log10 limit      where queue <  3 log10 limit
    limit - log10 limit      where queue >  6 log10 limit;    as it is else, and while N < limit / 2

| symbol | here | unit | shape |
|---|---|---|---|
| w, N | service_time_s, busy_workers | s, workers | scalar |
| w0 | least_s | s | scalar |

Departures: the time of the probe has no jitter; a logarithm below 1 counts as 1, as there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from trimtab.controllers._knob import integer_knob, unjudged
from trimtab.controllers._peer import seen
from trimtab.core import Knob, Move, Objective, Trial

PROBE = 30


@dataclass(frozen=True)
class VegasState:
    """State of the limiter.

    Args:
        knob: the limit.
        limit: estimate of the limit, not rounded; 0 before the first window.
        least_s: least latency since the last probe; infinite before there was one.
        requests: requests since that probe.
    """

    knob: Knob
    limit: float = 0.0
    least_s: float = math.inf
    requests: int = 0


@dataclass(frozen=True)
class Vegas:
    """The limiter.

    Args:
        objective: the objective, reported only.
    """

    objective: Objective
    peer: ClassVar[bool] = True

    def start(self, knobs: tuple[Knob, ...], seed: int) -> VegasState:
        """The state before the first window; the seed is not used."""
        return VegasState(integer_knob(knobs, "vegas"))

    def step(self, state: VegasState, trial: Trial) -> tuple[VegasState, Move]:
        """The limit that follows from one more window."""
        window, knob = trial.window, state.knob
        found = seen(window)
        if (missing := unjudged(self.objective, window, knob, 1)) or found is None:
            return state, Move.hold(f"vegas: {missing or 'the time in a worker was not measured'}")
        now_s, inflight = found
        limit = state.limit or float(window.configuration[knob.name])
        requests = state.requests + (window.samples or 1)
        if requests >= PROBE * limit or now_s < state.least_s:
            state = replace(state, least_s=now_s, requests=0 if requests >= PROBE * limit else requests)
        elif inflight >= limit / 2:
            limit = _next(limit, math.ceil(limit * (1 - state.least_s / now_s)))
            state = replace(state, requests=requests)
        limit = min(float(knob.domain.maximum), max(float(knob.domain.minimum), limit))
        said = f"vegas: {now_s:.3g} s, at least {state.least_s:.3g} s"
        return replace(state, limit=limit), Move({knob.name: knob.domain.clip(limit)}, said)


def _next(limit: float, queue: int) -> float:
    step = max(1.0, math.log10(max(1.0, limit)))
    if queue <= step:
        return limit + 6 * step
    if queue < 3 * step:
        return limit + step
    return limit - step if queue > 6 * step else limit


CONTROLLER = Vegas
