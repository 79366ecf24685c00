"""Request intervals with the learned time marked: as sugiki2005, Fig. 7 and 11."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trimtab.controllers._intervals import EDGES_S, LINEAR_S, counted
from trimtab.controllers.keep_alive import BINS
from trimtab.core import Role, Window, of_role
from trimtab.drawing import Figure, FuncFormatter
from trimtab.gate.keep_alive import TRIAL_EVERY
from trimtab.report.style import BLUE, GREY, ORANGE, RED, Picture, columns, headed, svg, width
from trimtab.report.text import seconds
from trimtab.report.track import Track

_SHOWN_SHARE = 0.99
_LEAST_SHOWN_S = 1.0
_BEYOND_S = 1.0


def intervals(tracks: Sequence[Track]) -> str:
    """Request intervals with the learned time marked, one column per run: as Fig. 7 and 11.

    Of the second half of each run. Idle periods that were ended, and of which only a lower bound is known, stand
    below.
    """

    def draw(figure: Figure) -> None:
        grid = columns(figure, (1.6, 1.0), len(tracks), common=False)
        for column, track in enumerate(tracks):
            upper, lower = grid[0][column], grid[1][column]
            windows = track.windows[len(track.windows) // 2 :]
            asked = summed(windows, "intervals_50ms", BINS)
            _bars(upper, asked, BLUE, "until the next request")
            _bars(lower, spread(summed(windows, "intervals_ended")), ORANGE, "ended: longer than this")
            _bars(lower, spread(summed(windows, "intervals_left")), GREY, "until the client left")
            time_s = _time_s(track)
            for axes in (upper, lower):
                axes.axvline(time_s, color=RED, linewidth=1.5, label=f"keep-alive time, {seconds(time_s)}")
            lower.set_xlim(0, shown_s(asked, time_s))
            lower.xaxis.set_major_formatter(FuncFormatter(seconds))
            headed(upper, track)
            lower.set_xlabel("request interval")
        grid[0][0].set_ylabel("intervals in 50 ms")
        grid[1][0].set_ylabel("other idle periods")
        for row in grid:
            row[0].legend(loc="upper right", fontsize=8)

    return svg(draw, width(tracks), 4.6)


def summed(windows: Sequence[Window], name: str, bins: int = len(EDGES_S) - 1) -> Counter[int]:
    """One histogram of several windows together: index of a bin to its count.

    Args:
        windows: the windows.
        name: the histogram, such as `intervals_ended`.
        bins: how many bins it has.
    """
    total: Counter[int] = Counter()
    for window in windows:
        for index, count in counted(window.readings, name, bins).items():
            total[index] += round(count)
    return total


def spread(logarithmic_bins: Mapping[int, int]) -> dict[int, float]:
    """Counts of logarithmic bins in bins of 50 ms, each spread evenly over those that it covers."""
    found: dict[int, float] = {}
    for index, count in logarithmic_bins.items():
        for covered, share in _covered(EDGES_S[index], EDGES_S[index + 1]):
            found[covered] = found.get(covered, 0.0) + share * count
    return found


def shown_s(asked: Mapping[int, float], time_s: float) -> float:
    """How far the axis goes, in s: well beyond the time, and to where nearly all intervals are.

    Args:
        asked: request intervals by bins of 50 ms.
        time_s: the keep-alive time.
    """
    total, sofar, last = sum(asked.values()), 0.0, 0
    for index in sorted(asked):
        sofar += asked[index]
        last = index
        if sofar >= _SHOWN_SHARE * total:
            break
    return max(_LEAST_SHOWN_S, time_s + min(time_s, _BEYOND_S), (last + 1) * LINEAR_S)


def _time_s(track: Track) -> float:
    """The keep-alive time that was in force last, in s."""
    knob = of_role(track.run.plan.knobs, Role.KEEP_ALIVE)
    assert knob is not None
    return track.windows[-1].configuration[knob.name] / 1000


def _covered(start_s: float, end_s: float) -> Iterator[tuple[int, float]]:
    """The bins of 50 ms that a span covers, and the share of the span in each."""
    first, last = int(start_s / LINEAR_S), int(end_s / LINEAR_S)
    for index in range(first, last + 1):
        part_s = min(end_s, (index + 1) * LINEAR_S) - max(start_s, index * LINEAR_S)
        if part_s > 0:
            yield index, part_s / (end_s - start_s)


def _bars(axes: Any, counts: Mapping[int, float], colour: str, label: str) -> None:
    """Bars of 50 ms, where there is something to draw."""
    at = sorted(counts)
    if not at:
        return
    axes.bar(
        [i * LINEAR_S for i in at],
        [counts[i] for i in at],
        LINEAR_S,
        align="edge",
        color=colour,
        label=label,
        alpha=0.8,
    )


PICTURE = Picture(
    "Request intervals",
    "Of the second half of each run. Beyond the time only trials are seen, one idle period in "
    f"{TRIAL_EVERY}, so that each of them there stands for about as many.",
    intervals,
    3,
    readings=("intervals_50ms",),
    role=Role.KEEP_ALIVE,
)
