"""Workers held by idle connections over time: as sugiki2005, Fig. 8, below the keep-alive time."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.drawing import Figure
from trimtab.report.style import GREEN, GREY, Picture, columns, headed, legend, mark_moves, svg, width
from trimtab.report.track import Track

_LINES = (("idle_connections", GREY, "idle connections"), ("idle_held_workers", GREEN, "workers that wait for one"))


def idle(tracks: Sequence[Track]) -> str:
    """Idle connections and the workers that they hold, one column per run."""

    def draw(figure: Figure) -> None:
        (row,) = columns(figure, (1,), len(tracks))
        for axes, track in zip(row, tracks, strict=True):
            for name, colour, text in _LINES:
                if (seen := track.series(name))[0]:
                    axes.plot(*seen, ".-", color=colour, linewidth=1.2, markersize=3, label=text)
            mark_moves(axes, track)
            headed(axes, track)
            axes.set_xlabel("time in s")
        row[0].set_ylabel("time average")
        legend(row[0])

    return svg(draw, width(tracks), 2.6)


PICTURE = Picture(
    "What idle connections hold",
    "Dotted lines mark changes.",
    idle,
    2,
    any_of=("idle_connections", "idle_held_workers"),
)
