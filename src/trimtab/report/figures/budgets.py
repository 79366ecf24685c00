"""Budget, connections in service and queue of every class over time: as lu2001, Fig. 7 to 9."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.core import Role, of_class
from trimtab.drawing import Figure
from trimtab.report.figures._classes import GROUND, colours, promised, shade, wide
from trimtab.report.style import Picture, columns, headed, legend, svg
from trimtab.report.track import Track


def budgets(tracks: Sequence[Track]) -> str:
    """Budget, connections in service and queue of every class over time, one column per run."""
    guarantee = promised(tracks)

    def draw(figure: Figure) -> None:
        grid = columns(figure, (1.2, 1.0), len(tracks))
        for column, track in enumerate(tracks):
            upper, lower = grid[0][column], grid[1][column]
            headed(upper, track)
            shade(upper, track)
            knobs = {knob.label: knob.name for knob in track.run.plan.knobs if knob.role is Role.PROCESS_BUDGET}
            for name, colour in zip(guarantee.classes, colours(guarantee), strict=True):
                t, values = track.series(knobs.get(name, ""))
                upper.step(t, values, where="mid", color=colour, linewidth=1.8, label=f"{name}, budget")
                t, values = track.series(of_class("in_service", name))
                upper.plot(t, values, ":", color=colour, linewidth=1.3, label=f"{name}, in service")
                t, values = track.series(of_class("queue_length", name))
                lower.plot(t, values, ".-", color=colour, linewidth=1.2, markersize=3, label=name)
            lower.set_xlabel("time in s")
        grid[0][0].set_ylabel("processes")
        legend(grid[0][0])
        grid[1][0].set_ylabel("connections queued")
        legend(grid[1][0])

    return svg(draw, wide(tracks), 5.4)


PICTURE = Picture(
    "What each class was given, and what waited",
    f"Dotted lines are the connections that workers held, averaged over a window. {GROUND}",
    budgets,
    1,
    guarantee=True,
)
