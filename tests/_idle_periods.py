"""Idle periods of known mixture, and a server of formulas that ends them at a keep-alive time: not a real one.

A period is an interval within a burst, a thought that ends with a request, or the client leaves. The server ends it
at the keep-alive time, but one in 32 is a trial and is given more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.core import Controller, Domain, How, Knob, Move, Readings, Role, Trial, Window

NAME = "keep_alive_ms"
Floats = npt.NDArray[np.float64]
TRIAL_EVERY = 32


def time_knob(minimum: int = 1, maximum: int = 3_600_000) -> Knob:
    """The keep-alive time."""
    domain = Domain(minimum, maximum)
    return Knob(
        NAME, "KeepAliveTimeout", "ms", domain, 15_000, How.LIVE, "nothing", "keep-alive time", Role.KEEP_ALIVE
    )


def window_at(time_ms: int, readings: Readings, index: int = 0, duration_s: float = 5.0) -> Window:
    """A window with this keep-alive time in force."""
    return Window(index, index * duration_s, duration_s, {NAME: time_ms}, readings)


def bins_of(times_s: Floats) -> npt.NDArray[np.int64]:
    """The logarithmic bins of times from 8 ns on, eight to the octave of nanoseconds."""
    mantissa, octave = np.frexp(np.floor(times_s * 1e9))
    bins: npt.NDArray[np.int64] = ((octave - 3) * 8 + np.floor(mantissa * 16) - 8).astype(np.int64)
    return bins


def bin_of(time_s: float) -> int:
    """The logarithmic bin of one time."""
    return int(bins_of(np.array([time_s]))[0])


@dataclass(frozen=True)
class Mixture:
    """What clients do between two requests.

    Args:
        burst_s: median interval within a burst.
        spread: standard deviation of its logarithm.
        thought: share of periods that are thoughts or ends.
        think_s: least time of thought; Pareto.
        shape: of the Pareto distribution.
        leaves: share of the thoughts in which the client leaves instead of asking again.
        early: share of the bursts that is a hill of its own, at 3 ms.
    """

    burst_s: float = 0.3
    spread: float = 0.2
    thought: float = 0.2
    think_s: float = 1.0
    shape: float = 1.5
    leaves: float = 0.2
    early: float = 0.0

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Lengths of periods, and which of them a request would end."""
        bursts = self.burst_s * np.exp(self.spread * rng.standard_normal(count))
        bursts = np.where(rng.random(count) < self.early, 0.003 * rng.random(count), bursts)
        thoughts = self.think_s * (1 + rng.pareto(self.shape, count))
        thinks = rng.random(count) < self.thought
        return np.where(thinks, thoughts, bursts), ~(thinks & (rng.random(count) < self.leaves))

    def truth(self, times_s: Floats) -> tuple[Floats, Floats]:
        """F and E at some times, from many periods: what an estimate should come to."""
        lengths, asks = self.draw(np.random.default_rng(99), 200_000)
        asked = np.array([np.mean(asks & (lengths <= time_s)) for time_s in times_s])
        return asked, np.array([np.mean(np.minimum(lengths, time_s)) for time_s in times_s])


def ended(lengths: Floats, asks: npt.NDArray[np.bool_], time_s: float, rng: np.random.Generator) -> Readings:
    """What a server counts of these periods at a keep-alive time."""
    trial_s = max(2 * time_s, time_s + 0.5)
    limits = np.where(rng.random(len(lengths)) < 1 / TRIAL_EVERY, trial_s, time_s)
    seen, cut = np.minimum(lengths, limits), lengths > limits
    readings: dict[str, float] = {}
    for name, which in (("intervals", asks & ~cut), ("intervals_left", ~asks & ~cut), ("intervals_ended", cut)):
        readings |= counts_of(name, bins_of(seen[which]))
    linear = np.minimum(1023, (seen[asks & ~cut] / 0.05).astype(np.int64))
    return readings | counts_of("intervals_50ms", linear)


def counts_of(name: str, bins: npt.NDArray[np.int64]) -> dict[str, float]:
    """The readings of a histogram whose bins occur so often."""
    return {f"{name}@{at}": float(n) for at, n in zip(*np.unique(bins, return_counts=True), strict=True)}


@dataclass
class Loop:
    """A controller in a loop with clients of a mixture.

    Args:
        controller: what decides.
        mixture: what the clients do.
        time_ms: keep-alive time to begin with.
        rate_hz: idle periods per second.
        wait_s: mean wait for a worker, from the workers that idle connections hold.
        holding: share of an idle connection's time in which it holds a worker.
        service_s: a worker's time for a request; None where it is not measured.
        own_s: the server's own keep-alive time; 0 where it is not seen.
    """

    controller: Controller
    mixture: Mixture = field(default_factory=Mixture)
    time_ms: int = 15_000
    rate_hz: float = 300.0
    wait_s: Callable[[float], float] = lambda held: 0.001
    holding: float = 1.0
    service_s: float | None = None
    own_s: float = 0.0
    seed: int = 0
    duration_s: float = 5.0
    knob: Knob = field(default_factory=time_knob)
    times_ms: list[int] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    state: Any = None

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.state = self.controller.start((self.knob,), self.seed)

    def run(self, windows: int, mixture: Mixture | None = None, rate_hz: float | None = None) -> Loop:
        """Goes on for some windows, with other clients from here on where they are given."""
        mixture, rate_hz = mixture or self.mixture, rate_hz or self.rate_hz
        for _ in range(windows):
            lengths, asks = mixture.draw(self.rng, round(rate_hz * self.duration_s))
            readings = dict(ended(lengths, asks, self.time_ms / 1e3, self.rng))
            if self.own_s:
                readings["server_keep_alive_s"] = self.own_s
            idle = rate_hz * float(np.mean(np.minimum(lengths, self.time_ms / 1e3)))
            readings |= {"idle_connections": idle, "idle_held_workers": idle * self.holding}
            readings |= {"connection_setup_s": 0.01, "accept_queue_delay_s": self.wait_s(idle * self.holding)}
            if self.service_s is not None:
                readings |= {"request_rate_hz": rate_hz, "service_time_s": self.service_s}
            window = window_at(self.time_ms, readings, len(self.moves), self.duration_s)
            self.state, move = self.controller.step(self.state, Trial(window))
            self.moves.append(move)
            self.time_ms = move.changes.get(NAME, self.time_ms)
            self.times_ms.append(self.time_ms)
        return self
