"""Response time as AQT + BL x ST over time: Eq. (1) of liu2003."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.drawing import Figure
from trimtab.report.style import BLUE, ORANGE, Picture, columns, legend, svg, width
from trimtab.report.track import Track

_TERMS = ("accept_queue_delay_s", "burst_length", "service_time_s")


def decomposition(tracks: Sequence[Track]) -> str:
    """Waiting to be accepted and being served, one column per run."""

    def draw(figure: Figure) -> None:
        grid = columns(figure, (1,), len(tracks), common=False)
        for axes, track in zip(grid[0], tracks, strict=True):
            whole = [w for w in track.windows if all(name in w.readings for name in _TERMS)]
            t = [w.start_s + w.duration_s / 2 for w in whole]
            bar = [w.duration_s * 0.9 for w in whole]
            waiting = [w.readings["accept_queue_delay_s"] for w in whole]
            service = [w.readings["burst_length"] * w.readings["service_time_s"] for w in whole]
            axes.bar(t, service, bar, color=BLUE, label="in service, BL x ST")
            axes.bar(t, waiting, bar, bottom=service, color=ORANGE, label="accept queue, AQT")
            axes.set_title(track.label)
            axes.set_xlabel("time in s")
        grid[0][0].set_ylabel("response time in s")
        legend(grid[0][0])

    return svg(draw, width(tracks), 2.9)


PICTURE = Picture(
    "Where the time goes",
    "Response time per page by Eq. (1) of liu2003: waiting to be accepted, and being served.",
    decomposition,
    4,
    readings=_TERMS,
)
