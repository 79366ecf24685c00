"""The figures of lu2001 from stored runs on the testbed: pure functions."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from trimtab.core import of_class
from trimtab.drawing import Figure
from trimtab.plants.gate.knobs import PROCESS_BUDGET
from trimtab.report.style import BLUE, GREEN, GREY, ORANGE, RED, svg
from trimtab.report.text import seconds
from trimtab.report.track import Track

TITLE_CHARACTERS = 96
"""Characters of a title that fit above all columns together."""
COLOURS = (BLUE, ORANGE, GREEN)
_MOST_RATIO = 2.0
"""The axis of a ratio ends at this multiple of the largest reference; what lies above is in the raw data."""


def classes_of(track: Track) -> tuple[str, ...]:
    """The classes whose budgets were in force, in order of priority."""
    names = [knob.name for knob in track.run.plan.knobs]
    return tuple(name.partition("@")[2] for name in names if name.startswith(f"{PROCESS_BUDGET}@"))


def ratios(track: Track, upper: str, lower: str) -> tuple[list[float], list[float]]:
    """Window centres in s, and the delay of the lower class over that of the upper one, where both were measured."""
    above, below = (of_class("connection_delay_s", name) for name in (upper, lower))
    found = [w for w in track.windows if w.readings.get(above, 0.0) > 0 and below in w.readings]
    return [w.start_s + w.duration_s / 2 for w in found], [w.readings[below] / w.readings[above] for w in found]


def guarantee(tracks: Sequence[Track], desired: Sequence[float], relative: bool, step_s: float | None) -> str:
    """Fig. 7, 8 and 9: delays, their ratios (relative guarantees) and budgets over time, one column per run.

    Args:
        tracks: runs of the same classes.
        desired: W_k: weights, or delays in seconds.
        relative: whether the ratios are what is guaranteed.
        step_s: when the workload changed, on the run's clock; None where it did not.
    """
    rows = 3 if relative else 2

    def draw(figure: Figure) -> None:
        grid: Any = figure.subplots(rows, len(tracks), sharex="col", sharey="row", squeeze=False)
        for column, track in enumerate(tracks):
            names = classes_of(track)
            delays, shares = grid[0][column], grid[rows - 1][column]
            delays.set_title(textwrap.fill(track.label, TITLE_CHARACTERS // len(tracks)))
            for number, name in enumerate(names):
                colour = COLOURS[number % len(COLOURS)]
                t, values = track.series(of_class("connection_delay_s", name))
                delays.plot(t, values, ".-", color=colour, linewidth=1.2, markersize=3, label=name)
                if not relative:
                    delays.axhline(desired[number], color=colour, linewidth=0.9, linestyle="--")
                t, values = track.series(of_class(PROCESS_BUDGET, name))
                shares.step(t, values, where="mid", color=colour, linewidth=1.4, label=name)
            if relative:
                _ratios(grid[1][column], track, names, desired)
            for axes in (row[column] for row in grid):
                if step_s is not None:
                    axes.axvline(step_s, color=GREY, linewidth=0.9, linestyle=":")
            shares.set_xlabel("time in s")
        grid[0][0].set_ylabel("connection delay in s")
        grid[rows - 1][0].set_ylabel("process budget")
        grid[0][0].legend(loc="upper left")
        if relative:
            grid[1][0].set_ylabel("ratio of delays")

    return svg(draw, min(11.0, max(6.0, 3.6 * len(tracks))), 2.1 * rows + 0.6)


def _ratios(axes: Any, track: Track, names: Sequence[str], desired: Sequence[float]) -> None:
    """The delay of every class over that of the one before it, with the desired ratio."""
    references = [desired[k] / desired[k - 1] for k in range(1, len(names))]
    for k, reference in enumerate(references, 1):
        colour = COLOURS[k % len(COLOURS)]
        t, values = ratios(track, names[k - 1], names[k])
        axes.plot(t, values, ".-", color=colour, linewidth=1.2, markersize=3)
        axes.axhline(reference, color=colour, linewidth=0.9, linestyle="--")
        axes.axhspan(0.9 * reference, 1.1 * reference, color=colour, alpha=0.12, linewidth=0)
    axes.set_ylim(0, _MOST_RATIO * max(references))


def delay_and_response(points: Mapping[int, tuple[Sequence[float], Sequence[float]]]) -> str:
    """Fig. 4: connection delay and response time per request against the number of users, by repeat."""

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        users = sorted(points)
        for index, (colour, text) in enumerate(((RED, "connection delay"), (BLUE, "response time per request"))):
            means = [sum(points[u][index]) / len(points[u][index]) for u in users]
            low = [m - min(points[u][index]) for u, m in zip(users, means, strict=True)]
            high = [max(points[u][index]) - m for u, m in zip(users, means, strict=True)]
            axes.errorbar(users, means, yerr=[low, high], fmt="o-", color=colour, capsize=3, label=text)
        axes.set_xlabel("users")
        axes.yaxis.set_major_formatter(lambda value, _: seconds(value))
        axes.set_ylabel("mean time")
        axes.legend()

    return svg(draw, 6.8, 3.8)
