"""Response time as AQT + BL x ST over time: Eq. (1) of liu2003."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trimtab.drawing import Figure
from trimtab.report.style import BLUE, ORANGE, Picture, columns, headed, legend, svg, width
from trimtab.report.track import Track

_TERMS = ("accept_queue_delay_s", "burst_length", "service_time_s")


def decomposition(tracks: Sequence[Track]) -> str:
    """Waiting to be accepted and being served, one column per run."""

    def draw(figure: Figure) -> None:
        grid = columns(figure, (1,), len(tracks), common=False)
        for axes, track in zip(grid[0], tracks, strict=True):
            whole = [w for w in track.windows if all(name in w.readings for name in _TERMS)]
            edges = [w.start_s + w.duration_s * share for w in whole for share in (0.05, 0.95)]
            waiting = _bars([w.readings["accept_queue_delay_s"] for w in whole])
            service = _bars([w.readings["burst_length"] * w.readings["service_time_s"] for w in whole])
            both = [a + b for a, b in zip(service, waiting, strict=True)]
            if whole:  # each is one path, however long the run
                axes.stairs(service, edges, color=BLUE, fill=True, label="in service, BL x ST")
                axes.stairs(both, edges, baseline=service, color=ORANGE, fill=True, label="accept queue, AQT")
            headed(axes, track)
            axes.set_xlabel("time in s")
        grid[0][0].set_ylabel("response time in s")
        legend(grid[0][0])

    return svg(draw, width(tracks), 2.9)


def _bars(values: Sequence[float]) -> list[float]:
    """Heights between edges, with a gap between two bars."""
    return [v for value in values for v in (value, math.nan)][:-1]


PICTURE = Picture(
    "Where the time goes",
    "Response time per page by Eq. (1) of liu2003: waiting to be accepted, and being served.",
    decomposition,
    4,
    readings=_TERMS,
)
