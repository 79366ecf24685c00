"""The delay of every class against its guarantee, and the ratios of neighbours: as lu2001, Fig. 7 to 9."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trimtab.drawing import Figure
from trimtab.guarantee import ABSOLUTE, RELATIVE, WITHIN, DelayGuarantee
from trimtab.report.figures._classes import GROUND, colours, promised, shade, wide
from trimtab.report.style import Picture, by_factors, columns, headed, legend, logarithmic, svg
from trimtab.report.text import plain
from trimtab.report.track import Track


def delays(tracks: Sequence[Track]) -> str:
    """The delay of every class against its guarantee, one column per run; ratios below where they count."""
    guarantee = promised(tracks)
    rows = (1.0,) if guarantee.kind == ABSOLUTE else (1.0, 1.0)

    def draw(figure: Figure) -> None:
        grid = columns(figure, rows, len(tracks))
        for column, track in enumerate(tracks):
            _delays(grid[0][column], track, guarantee)
            headed(grid[0][column], track)
            if len(rows) > 1:
                _ratios(grid[1][column], track, guarantee)
            grid[-1][column].set_xlabel("time in s")
        grid[0][0].set_ylabel("connection delay in s")
        legend(grid[0][0])
        if len(rows) > 1:
            grid[1][0].set_ylabel("ratio of delays")
            if by_factors([v for track in tracks for v in _all_ratios(track, guarantee)]):
                logarithmic(grid[1][0], plain)
            legend(grid[1][0])

    return svg(draw, wide(tracks), 2.6 * len(rows) + 0.4)


def _delays(axes: Any, track: Track, guarantee: DelayGuarantee) -> None:
    """C_k, and W_k where it is a delay."""
    shade(axes, track)
    for k, (name, colour) in enumerate(zip(guarantee.classes, colours(guarantee), strict=True)):
        label = f"{name} {guarantee.percentile(k)}".strip()
        axes.plot(*track.series(guarantee.delays[k]), ".-", color=colour, linewidth=1.2, markersize=4, label=label)
        if guarantee.kind != RELATIVE:
            axes.axhline(guarantee.desired[k], color=colour, linewidth=1.0, linestyle="--", label=f"{name}, desired")


def _ratios(axes: Any, track: Track, guarantee: DelayGuarantee) -> None:
    """V_k, and W_k / W_(k-1) with a tenth on both sides."""
    shade(axes, track)
    for k, colour in list(enumerate(colours(guarantee)))[1:]:
        seen = [(w.start_s + w.duration_s / 2, guarantee.ratio(w, k)) for w in track.windows]
        points = [(t, v) for t, v in seen if v is not None]
        label = f"{guarantee.classes[k]} : {guarantee.classes[k - 1]}"
        axes.plot([t for t, _ in points], [v for _, v in points], ".-", color=colour, linewidth=1.2, label=label)
        desired = guarantee.desired_ratio(k)
        axes.axhline(desired, color=colour, linewidth=1.0, linestyle="--", label=f"desired ± {WITHIN:.0%}")
        axes.axhspan((1 - WITHIN) * desired, (1 + WITHIN) * desired, color=colour, alpha=0.12)


def _all_ratios(track: Track, guarantee: DelayGuarantee) -> list[float]:
    """The ratios of all neighbours that are drawn, with those that are desired."""
    pairs = range(1, len(guarantee.classes))
    seen = [v for k in pairs for w in track.windows if (v := guarantee.ratio(w, k)) is not None]
    return [*seen, *map(guarantee.desired_ratio, pairs)]


PICTURE = Picture("What each class waited", f"Dashed lines are what is desired. {GROUND}", delays, 0, guarantee=True)
