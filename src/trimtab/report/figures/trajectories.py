"""Every knob and the objective over time: as Fig. 13 to 15 of liu2003."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trimtab.core import Knob
from trimtab.drawing import Figure
from trimtab.report.style import (
    BLUE,
    ORANGE,
    Picture,
    axis,
    by_factors,
    columns,
    headed,
    logarithmic,
    mark_moves,
    svg,
    width,
)
from trimtab.report.text import plain, seconds
from trimtab.report.track import Track


def trajectories(tracks: Sequence[Track], *metrics: str) -> str:
    """A row for every knob and for every metric, one column per run, on common axes.

    Args:
        tracks: the runs.
        metrics: what is drawn below the knobs; what the objective of the first run goes by when there is none.
    """
    below = metrics or tracks[0].run.plan.settings.objective.metrics
    knobs = {name: _knob(tracks, name) for track in tracks for name in track.knobs}
    heights = (*(1.0 if len(knobs) == 1 else 0.7 for _ in knobs), *(1.25 for _ in below))

    def draw(figure: Figure) -> None:
        grid = columns(figure, heights, len(tracks))
        for column, track in enumerate(tracks):
            headed(grid[0][column], track, pad=18)  # above the name of the first row
            for row, name in enumerate((*knobs, *below)):
                axes, (t, values) = grid[row][column], track.series(name)
                if name in knobs:
                    axes.step(t, values, where="mid", color=BLUE, linewidth=1.8)
                    axes.plot(t, values, ".", color=BLUE, markersize=3)
                else:
                    axes.plot(t, values, ".-", color=ORANGE, linewidth=1.2, markersize=4)
                mark_moves(axes, track)
            grid[-1][column].set_xlabel("time in s")
        for row, name in enumerate((*knobs, *below)):
            # Above the axes, because beside a low row there is no room for a long name.
            grid[row][0].text(0, 1.02, name if name in knobs else axis(name), transform=grid[row][0].transAxes)
            _scale(grid[row][0], [v for t in tracks for v in t.series(name)[1]], knobs.get(name), name)

    return svg(draw, width(tracks), 0.8 + 1.65 * sum(heights))


def _knob(tracks: Sequence[Track], name: str) -> Knob | None:
    """The knob of that name; None where no run could move it."""
    return next((knob for t in tracks for knob in t.run.plan.knobs if knob.name == name), None)


def _scale(axes: Any, values: Sequence[float], knob: Knob | None, name: str) -> None:
    """The names of a choice, a logarithmic scale where values differ by factors, else a linear one."""
    if knob is not None and knob.domain.choices:
        axes.set_yticks(range(len(knob.domain.choices)), knob.domain.choices)
        return
    shown = seconds if knob is None and name.partition("@")[0].endswith("_s") else plain
    if by_factors(values):
        logarithmic(axes, shown)
    else:
        axes.yaxis.set_major_formatter(shown)


PICTURE = Picture(
    "What was set, and what came of it",
    "Dotted lines mark changes. On a logarithmic scale equal distances are equal factors.",
    trajectories,
    1,
    guarantee=False,
)
