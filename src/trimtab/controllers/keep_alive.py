"""The keep-alive time as the greatest interval within a burst (sugiki2005, section 3.2, Fig. 4).

Promises to bring the time from any start to where the histogram of request intervals first falls off: connections are
kept through a burst and ended in thought. It needs nothing but the intervals; neither load nor price is asked for,
so it takes as short a time on an idle server as on a full one. One strange batch of intervals moves it by a tenth.

    ratio = hist[t] / sum of hist[j] over j <= t                                            Eq. (1)
    err   = (ratio - target) / target                                                       Eq. (2)
    t_ka  = alpha t_ka + (1 - alpha) t_max                                                  Eq. (3)

| paper | here | unit | shape |
|---|---|---|---|
| arr, N | hist with its total, `intervals` | intervals | scalar |
| hist, T | hist | intervals | bins of 50 ms, 1024 |
| t, t_max | t, greatest | bins of 50 ms | scalar |
| t_ka | keep_alive_s; keep_alive in bins | s; bins | scalar |
| ratio, target, err, alpha | ratio, target, err, alpha | 1 | scalar |

Departures from the paper
- It gives no N; here 500. A bin that holds the target then has about 25 intervals in it, known to a fifth.
- The intervals come by windows and not one by one, so a control uses all of the window that completes N, and there
  is one control in a window at most.
- Line 19 asks for t >= t_ka, the text of 3.2.2 for the interval just before t_ka. The bin that holds t_ka is cut off
  and those beyond are empty, which would make err -1 always. So here it is the last whole bin before t_ka, and t_max
  is counted from that bin's end.
- Line 21 says to enlarge t_max "according to err", the text: by a value proportional to it. Here `gain` bins for each
  unit, 5: with alpha 0.9 half a bin per control where the ratio is twice the target; and from 50 ms, where the ratio
  is 1 and err 19, one control leads to half a second, where the hill of Fig. 2 ends.
- Line 21 only enlarges: where the ratio in that last bin is below target, lines 24 and 25 hold.
- Eq. (1) has no value before the first interval: those bins are passed over, and if there is none before the
  keep-alive time either, the ratio is 1. If no bin is below target, which takes a time beyond the histogram, the
  time stays.
- t_ka stays in the knob's domain, and is set in whole milliseconds; the state keeps it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trimtab.controllers._intervals import LINEAR_S, counted, keep_alive_knob
from trimtab.controllers._knob import require
from trimtab.core import Knob, Move, Objective, Trial

BINS = 1024
"""T: bins of the linear histogram."""


@dataclass(frozen=True)
class Found:
    """Result of lines 15 to 28 of Fig. 4.

    Args:
        greatest: t_max, the greatest interval within a burst, in bins; None when the histogram does not say.
        t: the bin at which the search ended.
        ratio: Eq. (1) at that bin.
        err: Eq. (2) where the search ended at the keep-alive time; None where a bin below target ended it.
    """

    greatest: float | None
    t: int
    ratio: float
    err: float | None = None


def greatest_interval(hist: Mapping[int, float], keep_alive: float, target: float, gain: float) -> Found:
    """Searches the histogram from 0 upward for the end of the bursts.

    Args:
        hist: intervals by bins.
        keep_alive: the time in force, in bins.
        target: share of all intervals so far below which a bin is no part of a burst.
        gain: bins by which a unit of err lengthens the greatest interval beyond the keep-alive time.
    """
    total, ratio = 0.0, 0.0
    last = max(0, int(keep_alive) - 1)
    for t in range(BINS):  # line 16
        total += hist.get(t, 0.0)
        if total <= 0 and t < last:
            continue
        ratio = hist.get(t, 0.0) / total if total > 0 else 1.0  # line 17, Eq. (1)
        if t >= last and ratio >= target:  # line 19
            err = (ratio - target) / target  # line 20, Eq. (2)
            return Found(t + 1 + gain * err, t, ratio, err)  # lines 21 and 22
        if ratio < target:  # line 24
            return Found(t, t, ratio)  # lines 25 and 26
    return Found(None, BINS - 1, ratio)


@dataclass(frozen=True)
class KeepAliveState:
    """State of the method.

    Args:
        knob: the keep-alive time.
        keep_alive_s: t_ka as Eq. (3) gave it, in seconds; None before the first window.
        hist: intervals since the last control, by bins of 50 ms.
    """

    knob: Knob
    keep_alive_s: float | None = None
    hist: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class KeepAlive:
    """Fig. 4 of sugiki2005.

    Args:
        objective: the objective, reported only.
        target: share of all intervals so far below which a bin of the histogram is no part of a burst.
        alpha: weight of the time in force in the new one.
        intervals: N, intervals that one control needs.
        gain: bins of 50 ms by which a unit of err lengthens the time to strive for.

    Raises:
        UsageError: an option has a value that cannot be used.
    """

    objective: Objective
    target: float = 0.05
    alpha: float = 0.9
    intervals: int = 500
    gain: float = 5.0

    def __post_init__(self) -> None:
        require(0 < self.target < 1, "target", self.target, "a share between 0 and 1")
        require(0 <= self.alpha < 1, "alpha", self.alpha, "0 or more, less than 1")
        require(self.intervals >= 1, "intervals", self.intervals, "1 or more")
        require(0 < self.gain < BINS, "gain", self.gain, f"more than 0, less than {BINS}")

    def start(self, knobs: tuple[Knob, ...], seed: int) -> KeepAliveState:
        """The state before the first window; the seed is not used.

        Raises:
            UsageError: the keep-alive time is not among the knobs.
        """
        return KeepAliveState(keep_alive_knob(knobs, "keep-alive"))

    def withdraw(self, state: KeepAliveState, knob: str) -> KeepAliveState:
        """The state as it is, unless the knob is the time itself.

        Raises:
            UsageError: it is.
        """
        if knob == state.knob.name:
            keep_alive_knob((), "keep-alive")
        return state

    def step(self, state: KeepAliveState, trial: Trial) -> tuple[KeepAliveState, Move]:
        """`control()` for the intervals of one window."""
        window = trial.window
        knob, in_force = state.knob, window.configuration.get(state.knob.name)
        if in_force is None:
            return state, Move.hold(f"the value of {knob.name} in force is not known")
        now_s = state.keep_alive_s
        if now_s is None or knob.domain.clip(now_s * 1e3) != in_force:
            now_s = in_force / 1e3
        hist = dict(state.hist)
        for t, count in counted(window.readings, "intervals_50ms", BINS).items():  # lines 9 and 13
            hist[t] = hist.get(t, 0.0) + count
        state, total = replace(state, keep_alive_s=now_s, hist=hist), sum(hist.values())
        if total < self.intervals:  # line 11
            return state, Move.hold(f"{total:.0f} request intervals so far, {self.intervals} are needed", "gather")
        found = greatest_interval(hist, now_s / LINEAR_S, self.target, self.gain)
        state = replace(state, hist={})  # line 14
        if found.greatest is None:
            return state, Move.hold(f"none of {BINS} bins of 50 ms is below {self.target:.0%}: nothing to go by")
        next_s = self.alpha * now_s + (1 - self.alpha) * found.greatest * LINEAR_S  # line 30, Eq. (3)
        next_s = min(max(next_s, knob.domain.minimum / 1e3), knob.domain.maximum / 1e3)
        there = knob.domain.clip(next_s * 1e3)
        changes = {} if there == in_force else {knob.name: there}
        move = Move(changes, self._reason(found, in_force, there, total), self._evidence(found, total, next_s))
        return replace(state, keep_alive_s=next_s), replace(move, phase="adjust" if found.err is None else "grow")

    def _reason(self, found: Found, now: int, there: int, total: float) -> str:
        """Reason for the operator: where bursts end, and the move that follows."""
        edge_ms = found.t * LINEAR_S * 1e3
        if found.err is not None:
            seen = (
                f"the last 50 ms before the keep-alive time, from {edge_ms:.0f} ms, hold {found.ratio:.1%} of the "
                f"intervals up to there, more than {self.target:.0%}: bursts are cut"
            )
        else:
            seen = (
                f"intervals within a burst end at {edge_ms:.0f} ms: {found.ratio:.1%} of those so far in the next 50"
            )
        does = f"{now} ms to {there} ms" if now != there else f"{now} ms is there"
        return f"{seen}, of {total:.0f} intervals; {does}"

    def _evidence(self, found: Found, total: float, next_s: float) -> dict[str, float]:
        """The figures behind a control."""
        greatest_s = (found.greatest or 0.0) * LINEAR_S
        figures = {
            "greatest_interval_s": greatest_s,
            "ratio": found.ratio,
            "keep_alive_s": next_s,
            "intervals": total,
        }
        return figures if found.err is None else {**figures, "err": found.err}


CONTROLLER = KeepAlive
