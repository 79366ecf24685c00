"""The figures of sugiki2005 from stored runs on the testbed: pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trimtab.drawing import Figure, LogLocator
from trimtab.lab._sugiki2005_points import Point, Table
from trimtab.lab.sugiki2005 import AUTO, SETTINGS
from trimtab.plants.keep_alive.knobs import KEEP_ALIVE
from trimtab.report.style import BLUE, GREY, INK, RED, svg
from trimtab.report.text import seconds
from trimtab.report.track import Track

SHADES = ("#c6cfd8", "#f3c08a", "#2d8a4e", "#8fc7a1", "#9ec3e6", "#5b9bd5", "#a58bc4", "#8a94a0")
COLOURS = {**dict(zip(SETTINGS, SHADES, strict=True)), **dict(zip(AUTO, (BLUE, RED), strict=True))}
PAPER = "paper"


def curves(
    rows: Table, value: Callable[[Point], float], axis: str, paper: Mapping[str, float], at: int, times: bool
) -> str:
    """Fig. 9, 10, 12, 13: a value against the number of clients for every setting, with the range over repeats.

    Args:
        rows: the points of one load.
        value: the value to draw.
        axis: its name.
        paper: the paper's own values by setting; crosses.
        at: the number of clients they belong to.
        times: whether it is a time, drawn on a logarithmic axis.
    """

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        for label, colour in COLOURS.items():
            users = [n for n, labels in rows.items() if label in labels]
            repeats = [[value(p) for p in rows[n][label]] for n in users]
            if not users:
                continue
            means = [sum(v) / len(v) for v in repeats]
            low = [m - min(v) for m, v in zip(means, repeats, strict=True)]
            high = [max(v) - m for m, v in zip(means, repeats, strict=True)]
            style = "o-" if label in AUTO else "o--"
            axes.errorbar(
                users, means, yerr=[low, high], fmt=style, color=colour, capsize=2, markersize=3.5, label=label
            )
            if label in paper:
                axes.plot([at], [paper[label]], "x", color=colour, markersize=8, markeredgewidth=2)
        if paper:
            axes.plot([], [], "x", color=GREY, label=PAPER)
        axes.set_xlabel("clients")
        axes.set_ylabel(axis)
        if times:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
            axes.yaxis.set_major_formatter(lambda v, _: seconds(v))
            axes.yaxis.set_minor_formatter(lambda v, _: "")
        else:
            axes.set_ylim(bottom=0)
        axes.legend(ncols=2, fontsize=8)

    return svg(draw, 7.2, 4.2)


def intervals(counts: Mapping[int, float], marks: Mapping[str, float], until_s: float) -> str:
    """Fig. 2, 7 and 11: request intervals in bins of 50 ms, with times marked.

    Args:
        counts: by bin.
        marks: names and times of marks, in seconds.
        until_s: end of the axis.
    """

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        total = sum(counts.values()) or 1.0
        bins = range(round(until_s / 0.05))
        axes.bar([0.05 * k for k in bins], [counts.get(k, 0.0) / total for k in bins], 0.05, align="edge", color=GREY)
        for name, at_s in marks.items():
            axes.axvline(
                at_s, color=COLOURS.get(name, INK), linewidth=1.4, linestyle="--", label=f"{name}: {seconds(at_s)}"
            )
        axes.set_xlabel("time from a reply to the next request in s")
        axes.set_ylabel("share of the intervals, per 50 ms")
        if marks:
            axes.legend()

    return svg(draw, 7.2, 3.2)


def learned(tracks: Sequence[Track], paper_s: Sequence[float], switch_s: float | None = None) -> str:
    """Fig. 8: the keep-alive time in force over time, one line for each repeat.

    Args:
        tracks: runs with a controller.
        paper_s: time at which the paper's settled.
        switch_s: when the load changed; None where it did not.
    """

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        named: set[str] = set()
        for track in tracks:
            t, values = track.series(KEEP_ALIVE)
            label = "" if track.label in named else track.label
            named.add(track.label)
            axes.step(
                t, [v / 1e3 for v in values], where="mid", color=COLOURS[track.label], linewidth=1.2, label=label
            )
        for value in paper_s:
            axes.axhline(value, color=GREY, linewidth=1.0, linestyle="--", label=f"{PAPER}: {seconds(value)}")
        if switch_s is not None:
            axes.axvline(switch_s, color=GREY, linewidth=0.9, linestyle=":")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda v, _: seconds(v))
        axes.set_xlabel("time in s")
        axes.set_ylabel("keep-alive time")
        axes.legend()

    return svg(draw, 7.2, 3.4)
