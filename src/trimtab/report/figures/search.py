"""The path of a search: the objective by window, the incumbent, and start and winner measured again in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trimtab.core import Configuration
from trimtab.drawing import Figure
from trimtab.report.style import BLUE, GREEN, GREY, ORANGE, Picture, axis, columns, headed, svg
from trimtab.report.text import plain, seconds
from trimtab.report.track import Track
from trimtab.trials import MEASURE


def path(tracks: Sequence[Track]) -> str:
    """One column for each run.

    Args:
        tracks: the runs, each of a search.
    """
    name = tracks[0].run.plan.settings.objective.metric

    def draw(figure: Figure) -> None:
        grid = columns(figure, (1.0,), len(tracks))
        for axes, track in zip(grid[0], tracks, strict=True):
            _column(axes, track, name)
            headed(axes, track)
            axes.set_xlabel("window")
        grid[0][0].set_ylabel(axis(name))
        grid[0][0].yaxis.set_major_formatter(seconds if name.partition("@")[0].endswith("_s") else plain)

    return svg(draw, 7.5 if len(tracks) == 1 else 11.0, 3.4)


def _column(axes: Any, track: Track, name: str) -> None:
    """The windows of one run."""
    state = track.search
    assert state is not None
    again = {move.index + 1 for move in track.moves if move.move.phase == MEASURE}
    known = [(w.index, w.readings[name], w) for w in track.windows if name in w.readings]
    first = [(i, v) for i, v, _ in known if not again or i < min(again)]
    warming = [(i, v) for i, v in first if i < state.warming]
    trials = [(i, v) for i, v in first if i >= state.warming]
    said = [(move.index, move.proposed.evidence) for move in track.moves if move.index >= state.warming]
    incumbents = [(index, evidence["incumbent"]) for index, evidence in said if "incumbent" in evidence]
    axes.plot(*_xy(trials), ".-", color=BLUE, linewidth=0.8, markersize=5, label="trial")
    if warming:
        axes.plot(*_xy(warming), ".", color=GREY, markersize=5, label="before the trials, still warming up")
    for wanted, colour, label in ((state.start, GREY, "start, again"), (state.winner, GREEN, "winner, again")):
        if points := [(i, v) for i, v, w in known if i in again and _is(w.configuration, wanted)]:
            axes.plot(*_xy(points), "o", color=colour, markersize=5, label=label)
    axes.step(*_xy(incumbents), where="post", color=ORANGE, linewidth=1.5, label="incumbent, mean so far")
    axes.legend(loc="best", fontsize=8)


def _xy(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _is(configuration: Configuration, wanted: Configuration) -> bool:
    """Whether a configuration has all wanted values."""
    return bool(wanted) and all(configuration.get(name) == value for name, value in wanted.items())


PICTURE = Picture(
    "The path of the search",
    "The incumbent's mean is of few noisy trials, and flatters; what counts is start and winner measured in turn.",
    path,
    0,
    guarantee=False,
    search=True,
)
