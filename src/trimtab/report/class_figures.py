"""The figures of a guarantee to classes of clients as SVG text: pure functions of tracks, as lu2001, Fig. 7 to 9."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trimtab.core import of_class
from trimtab.drawing import Figure
from trimtab.guarantee import ABSOLUTE, RELATIVE, WITHIN, DelayGuarantee
from trimtab.plants._names import PROCESS_BUDGET
from trimtab.report.figures import BLUE, GREEN, GREY, ORANGE, RED, columns, svg, width
from trimtab.report.track import Track

COLOURS = (BLUE, ORANGE, GREEN, "#7b4fa3", "#8c6d1f")
SATURATED = "saturated"
"""The phase of a move that says that a guarantee cannot be met."""


def delays(tracks: Sequence[Track]) -> str:
    """The delay of every class against what it is promised, one column per run; ratios below where they count."""
    guarantee = _guarantee(tracks)
    rows = (1.0,) if guarantee.kind == ABSOLUTE else (1.0, 1.0)

    def draw(figure: Figure) -> None:
        grid = columns(figure, rows, len(tracks))
        for column, track in enumerate(tracks):
            _delays(grid[0][column], track, guarantee)
            grid[0][column].set_title(track.label)
            if len(rows) > 1:
                _ratios(grid[1][column], track, guarantee)
            grid[-1][column].set_xlabel("time in s")
        grid[0][0].set_ylabel("connection delay in s")
        _legend(grid[0][0])
        if len(rows) > 1:
            grid[1][0].set_ylabel("ratio of delays")
            _legend(grid[1][0])

    return svg(draw, _width(tracks), 2.6 * len(rows) + 0.4)


def budgets(tracks: Sequence[Track]) -> str:
    """Budget, connections in service and queue of every class over time, one column per run."""
    guarantee = _guarantee(tracks)

    def draw(figure: Figure) -> None:
        grid = columns(figure, (1.2, 1.0), len(tracks))
        for column, track in enumerate(tracks):
            upper, lower = grid[0][column], grid[1][column]
            upper.set_title(track.label)
            _shade(upper, track)
            for name, colour in zip(guarantee.classes, _colours(guarantee), strict=True):
                t, values = track.series(of_class(PROCESS_BUDGET, name))
                upper.step(t, values, where="mid", color=colour, linewidth=1.8, label=f"{name}, budget")
                t, values = track.series(of_class("in_service", name))
                upper.plot(t, values, ":", color=colour, linewidth=1.3, label=f"{name}, in service")
                t, values = track.series(of_class("queue_length", name))
                lower.plot(t, values, ".-", color=colour, linewidth=1.2, markersize=3, label=name)
            lower.set_xlabel("time in s")
        grid[0][0].set_ylabel("processes")
        _legend(grid[0][0])
        grid[1][0].set_ylabel("connections queued")
        _legend(grid[1][0])

    return svg(draw, _width(tracks), 5.4)


def _delays(axes: Any, track: Track, guarantee: DelayGuarantee) -> None:
    """C_k, and W_k where it is a delay."""
    _shade(axes, track)
    for k, (name, colour) in enumerate(zip(guarantee.classes, _colours(guarantee), strict=True)):
        t, values = track.series(guarantee.delays[k])
        axes.plot(t, values, ".-", color=colour, linewidth=1.2, markersize=4, label=name)
        if guarantee.kind != RELATIVE:
            axes.axhline(guarantee.desired[k], color=colour, linewidth=1.0, linestyle="--", label=f"{name}, desired")


def _ratios(axes: Any, track: Track, guarantee: DelayGuarantee) -> None:
    """V_k, and W_k / W_(k-1) with a tenth on both sides."""
    _shade(axes, track)
    for k, colour in list(enumerate(_colours(guarantee)))[1:]:
        seen = [(w.start_s + w.duration_s / 2, guarantee.ratio(w, k)) for w in track.windows]
        points = [(t, v) for t, v in seen if v is not None]
        label = f"{guarantee.classes[k]} : {guarantee.classes[k - 1]}"
        axes.plot([t for t, _ in points], [v for _, v in points], ".-", color=colour, linewidth=1.2, label=label)
        desired = guarantee.desired_ratio(k)
        axes.axhline(desired, color=colour, linewidth=1.0, linestyle="--", label=f"desired ± {WITHIN:.0%}")
        axes.axhspan((1 - WITHIN) * desired, (1 + WITHIN) * desired, color=colour, alpha=0.12)


def _legend(axes: Any) -> None:
    """A legend in the room that is made for it above the lines; the scale begins at 0."""
    axes.set_ylim(0, 1.25 * axes.get_ylim()[1])
    axes.legend(loc="upper left", ncols=4, fontsize=8)


def _width(tracks: Sequence[Track]) -> float:
    """Figure width in inches: a page, because a run has many windows."""
    return max(9.5, width(tracks))


def _shade(axes: Any, track: Track) -> None:
    """A red ground where a guarantee could not be met."""
    stuck = {move.index for move in track.moves if move.move.phase == SATURATED}
    for window in track.windows:
        if window.index in stuck:
            axes.axvspan(window.start_s, window.start_s + window.duration_s, color=RED, alpha=0.08, linewidth=0)
    axes.axhline(0, color=GREY, linewidth=0.4)


def _guarantee(tracks: Sequence[Track]) -> DelayGuarantee:
    """What all of these runs guarantee."""
    guarantee = tracks[0].run.plan.guarantee
    assert guarantee is not None
    return guarantee


def _colours(guarantee: DelayGuarantee) -> tuple[str, ...]:
    """A colour for each class, the same in every figure."""
    return tuple(COLOURS[k % len(COLOURS)] for k in range(len(guarantee.classes)))
