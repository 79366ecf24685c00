"""Shared parts of the figures of classes of clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trimtab.guarantee import DelayGuarantee
from trimtab.report.style import BLUE, GREEN, GREY, ORANGE, RED, width
from trimtab.report.track import SATURATED, Track

COLOURS = (BLUE, ORANGE, GREEN, "#7b4fa3", "#8c6d1f")
GROUND = "A red ground: a guarantee could not be met in this window; the reasons below say with how many processes."


def wide(tracks: Sequence[Track]) -> float:
    """Figure width in inches: a page, because a run has many windows."""
    return max(9.5, width(tracks))


def shade(axes: Any, track: Track) -> None:
    """A red ground where a guarantee could not be met."""
    stuck = {move.index for move in track.moves if move.move.phase == SATURATED}
    for window in track.windows:
        if window.index in stuck:
            axes.axvspan(window.start_s, window.start_s + window.duration_s, color=RED, alpha=0.08, linewidth=0)
    axes.axhline(0, color=GREY, linewidth=0.4)


def promised(tracks: Sequence[Track]) -> DelayGuarantee:
    """The guarantee that all of these runs have in common."""
    guarantee = tracks[0].run.plan.guarantee
    assert guarantee is not None
    return guarantee


def colours(guarantee: DelayGuarantee) -> tuple[str, ...]:
    """A colour for each class, the same in every figure."""
    return tuple(COLOURS[k % len(COLOURS)] for k in range(len(guarantee.classes)))
