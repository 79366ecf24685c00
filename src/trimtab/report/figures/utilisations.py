"""CPU, memory and busy workers over time."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.core import Role, of_role
from trimtab.drawing import Figure
from trimtab.report.style import BLUE, GREEN, GREY, RED, Picture, columns, headed, legend, svg, width
from trimtab.report.track import Track

_SHARES = (("cpu_ratio", BLUE, "CPU"), ("memory_ratio", RED, "memory demand"))


def utilisations(tracks: Sequence[Track]) -> str:
    """Utilisation of each resource and busy workers over time, one column per run."""

    def draw(figure: Figure) -> None:
        grid = columns(figure, (1, 1), len(tracks))
        for column, track in enumerate(tracks):
            upper, lower = grid[0][column], grid[1][column]
            for name, colour, text in _SHARES:
                t, values = track.series(name)
                percent = [100 * v for v in values]
                upper.plot(t, percent, ".-", color=colour, linewidth=1.2, markersize=3, label=text)
            upper.axhline(100, color=GREY, linewidth=0.8)
            headed(upper, track)
            limit = of_role(track.run.plan.knobs, Role.WORKER_LIMIT)
            if limit is not None:
                lower.step(*track.series(limit.name), where="mid", color=GREY, linewidth=1.2, label="limit")
            lower.plot(*track.series("busy_workers"), ".-", color=GREEN, linewidth=1.2, markersize=3, label="busy")
            lower.set_xlabel("time in s")
        grid[0][0].set_ylabel("% of what it may use")
        grid[1][0].set_ylabel("workers")
        for row in grid:
            legend(row[0])

    return svg(draw, width(tracks), 4.0)


PICTURE = Picture(
    "What binds",
    "Memory demand counts what is swapped out: above 100 % the server swaps.",
    utilisations,
    5,
    any_of=("cpu_ratio", "memory_ratio"),
)
