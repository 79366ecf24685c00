"""How well, how fast and how evenly a method came to the best setting: pure functions of stored runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.report.track import Estimate, Track, estimate

SMOOTHED = 5
"""Windows in a running mean: one window holds too few pages to be compared with a mean."""


@dataclass(frozen=True)
class Score:
    """A method's repeats against the best value of a sweep.

    Args:
        label: the method.
        settled_s: mean response time from `reach` windows on, over repeats.
        times_best: the same as a multiple of the sweep's best, over repeats.
        windows_to: windows until the running mean first came within a tolerance of the best, by repeat;
            None where it never did.
        ends: setting at the end, by repeat.
        changes: changes made in the second half, by repeat: quiet is none.
        spread_ratio: largest over smallest settled mean of the repeats.
    """

    label: str
    settled_s: Estimate
    times_best: Estimate
    windows_to: tuple[int | None, ...]
    ends: tuple[int, ...]
    changes: tuple[int, ...]
    spread_ratio: float


def score(label: str, repeats: Sequence[Track], best_s: float, tolerance: float, since: int = 10) -> Score:
    """Scores a method.

    Args:
        label: its name.
        repeats: its runs.
        best_s: response time of the sweep's best setting, in seconds.
        tolerance: what counts as there, as a ratio above the best, such as 0.1.
        since: first window that counts as settled.

    Raises:
        ValueError: no run measured a response time from that window on.
    """
    settled = [statistics.fmean(values) for t in repeats if (values := _times(t, since))]
    if not settled:
        raise ValueError(f"{label}: no response time from window {since} on")
    half = [len(t.windows) // 2 for t in repeats]
    return Score(
        label,
        estimate(settled),
        estimate([s / best_s for s in settled]),
        tuple(reached(t, best_s * (1 + tolerance)) for t in repeats),
        tuple(t.windows[-1].configuration.get(t.knob, 0) for t in repeats if t.windows),
        tuple(sum(m.index >= h for m in t.changes()) for t, h in zip(repeats, half, strict=True)),
        max(settled) / min(settled),
    )


def reached(track: Track, goal_s: float, since: int = 0) -> int | None:
    """The first window from which a running mean of `SMOOTHED` windows is at or below a response time.

    Args:
        track: the run.
        goal_s: the response time, in seconds.
        since: the window from which to count.

    Returns:
        Windows after `since`; None when it never was.
    """
    times = [w.readings.get("response_time_s", math.inf) for w in track.windows[since:]]
    for i in range(len(times) - SMOOTHED + 1):
        if statistics.fmean(times[i : i + SMOOTHED]) <= goal_s:
            return i
    return None


def _times(track: Track, since: int) -> list[float]:
    return [w.readings["response_time_s"] for w in track.windows[since:] if "response_time_s" in w.readings]
