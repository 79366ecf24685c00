"""How well, how fast and how evenly a method came to the best setting: pure functions of stored runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.report.track import Estimate, Track, estimate

SETTLED = 10
"""The first window that counts as settled: the time that methods have to converge."""
SMOOTHED = 5
"""Windows in a running mean: one window holds too few pages to be compared with a mean."""


@dataclass(frozen=True)
class Score:
    """A method's repeats against the reference of their seeds.

    Args:
        label: the method.
        settled_s: mean response time of the settled windows, over repeats.
        times_best: that mean as a multiple of the reference of the repeat's own seed, over repeats.
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


def settled_s(track: Track) -> float | None:
    """Mean response time of a run from `SETTLED` on, or of its second half where that is more; None if unknown."""
    first = min(SETTLED, len(track.windows) // 2)
    times = [w.readings["response_time_s"] for w in track.windows[first:] if "response_time_s" in w.readings]
    return statistics.fmean(times) if times else None


def score(label: str, repeats: Sequence[Track], best_s: Mapping[int, float], tolerance: float) -> Score:
    """Scores a method.

    Args:
        label: the method's name.
        repeats: its runs.
        best_s: response time of the reference by seed, in seconds; a run of another seed is left out.
        tolerance: ratio above the best within which it has converged, such as 0.1.

    Raises:
        ValueError: no run measured a response time once it had settled.
    """
    known = [t for t in repeats if t.run.plan.settings.seed in best_s]
    pairs = [(v, best_s[t.run.plan.settings.seed]) for t in known if (v := settled_s(t)) is not None]
    if not pairs:
        raise ValueError(f"{label}: no response time once settled")
    half = [len(t.windows) // 2 for t in known]
    return Score(
        label,
        estimate([v for v, _ in pairs]),
        estimate([v / best for v, best in pairs]),
        tuple(reached(t, best_s[t.run.plan.settings.seed] * (1 + tolerance)) for t in known),
        tuple(t.windows[-1].configuration.get(t.knob, 0) for t in known if t.windows),
        tuple(sum(m.index >= h for m in t.changes()) for t, h in zip(known, half, strict=True)),
        max(v for v, _ in pairs) / min(v for v, _ in pairs),
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
