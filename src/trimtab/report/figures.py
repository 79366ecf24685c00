"""The figures of a report as SVG text: pure functions of tracks."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

from trimtab.drawing import Figure, FuncFormatter, LogLocator, NullFormatter, rc_context
from trimtab.metrics import metric as metric_of
from trimtab.report.track import Track

INK, GRID = "#1f2933", "#d9dee4"
BLUE, ORANGE, GREEN, RED, GREY = "#1d6fb8", "#d9741a", "#2d8a4e", "#b3261e", "#8a94a0"
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GRID,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "trimtab",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


def svg(draw: Callable[[Figure], None], width_in: float, height_in: float) -> str:
    """What `draw` draws, as an SVG element that can stand in HTML beside others.

    The same drawing gives the same text, and different ones share no ids: matplotlib counts axes and lines from 1
    in every figure.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        draw(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = out.getvalue()
    text = text[text.index("<svg") :]
    mark = hashlib.sha256(text.encode()).hexdigest()[:10]
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>f{mark}-", text)


def seconds(value: float, _: object = None) -> str:
    """A time as a person reads it."""
    if value == 0:
        return "0"
    return f"{plain(value * 1000)} ms" if value < 1 else f"{plain(value)} s"


def plain(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def columns(figure: Figure, heights: Sequence[float], runs: int, common: bool = True) -> Any:
    """A grid of axes: one row per height, one column per run; `common` gives a row one scale."""
    grid: Any = figure.subplots(
        len(heights),
        runs,
        sharex="col",
        sharey="row" if common else "none",
        squeeze=False,
        height_ratios=heights,
    )
    return grid


def logarithmic(axes: Any, shown: Callable[[float, object], str]) -> None:
    """A logarithmic scale with ticks that a person reads, at 1, 2 and 5."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(shown))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _mark_moves(axes: Any, track: Track) -> None:
    """A thin line where the configuration was changed."""
    at = {w.index: w.start_s + w.duration_s for w in track.windows}
    for move in track.applied():
        axes.axvline(at.get(move.index, 0.0), color=GREY, linewidth=0.7, linestyle=":", zorder=0)


def trajectories(tracks: Sequence[Track], metric: str) -> str:
    """Knob and objective over time, one column per run, on common axes: as Fig. 13 to 15 of liu2003."""

    def draw(figure: Figure) -> None:
        grid = columns(figure, (1, 1.25), len(tracks))
        for column, track in enumerate(tracks):
            upper, lower = grid[0][column], grid[1][column]
            t, values = track.series(track.knob)
            upper.step(t, values, where="mid", color=BLUE, linewidth=1.8)
            upper.plot(t, values, ".", color=BLUE, markersize=3)
            upper.set_title(track.label)
            t, values = track.series(metric)
            lower.plot(t, values, ".-", color=ORANGE, linewidth=1.2, markersize=4)
            for axes in (upper, lower):
                _mark_moves(axes, track)
            lower.set_xlabel("time in s")
        grid[0][0].set_ylabel(f"{tracks[0].knob}")
        logarithmic(grid[0][0], lambda v, _: f"{v:g}")
        grid[1][0].set_ylabel(_axis_label(metric))
        if metric.endswith("_s") and any(v > 0 for t in tracks for v in t.series(metric)[1]):
            logarithmic(grid[1][0], seconds)

    return svg(draw, width(tracks), 4.6)


def _axis_label(metric: str) -> str:
    """A metric's name with its unit; a time has its unit at the ticks."""
    known = metric_of(metric).unit
    words = metric.removesuffix("_s").removesuffix("_hz").replace("_", " ")
    return words if known == "s" else f"{words} in {known}"


def decomposition(tracks: Sequence[Track]) -> str:
    """Response time as AQT + BL x ST, Eq. (1) of liu2003, one column per run."""

    def draw(figure: Figure) -> None:
        grid = columns(figure, (1,), len(tracks), common=False)
        for axes, track in zip(grid[0], tracks, strict=True):
            names = ("accept_queue_delay_s", "burst_length", "service_time_s")
            whole = [w for w in track.windows if all(n in w.readings for n in names)]
            t = [w.start_s + w.duration_s / 2 for w in whole]
            bar = [w.duration_s * 0.9 for w in whole]
            waiting = [w.readings["accept_queue_delay_s"] for w in whole]
            service = [w.readings["burst_length"] * w.readings["service_time_s"] for w in whole]
            axes.bar(t, service, bar, color=BLUE, label="in service, BL x ST")
            axes.bar(t, waiting, bar, bottom=service, color=ORANGE, label="accept queue, AQT")
            axes.set_title(track.label)
            axes.set_xlabel("time in s")
        grid[0][0].set_ylabel("response time in s")
        grid[0][0].legend(loc="upper right")

    return svg(draw, width(tracks), 2.9)


def utilisations(tracks: Sequence[Track]) -> str:
    """CPU, memory and busy workers over time, one column per run."""

    def draw(figure: Figure) -> None:
        grid = columns(figure, (1, 1), len(tracks))
        for column, track in enumerate(tracks):
            upper, lower = grid[0][column], grid[1][column]
            for name, colour, text in (("cpu_ratio", BLUE, "CPU"), ("memory_ratio", RED, "memory demand")):
                t, values = track.series(name)
                upper.plot(t, [100 * v for v in values], ".-", color=colour, linewidth=1.2, markersize=3, label=text)
            upper.axhline(100, color=GREY, linewidth=0.8)
            upper.set_title(track.label)
            t, values = track.series(track.knob)
            lower.step(t, values, where="mid", color=GREY, linewidth=1.2, label="limit")
            t, values = track.series("busy_workers")
            lower.plot(t, values, ".-", color=GREEN, linewidth=1.2, markersize=3, label="busy")
            lower.set_xlabel("time in s")
        grid[0][0].set_ylabel("% of what it may use")
        grid[1][0].set_ylabel("workers")
        grid[0][0].legend(loc="upper right")
        grid[1][0].legend(loc="upper right")

    return svg(draw, width(tracks), 4.0)


def width(tracks: Sequence[Track]) -> float:
    """Figure width in inches: half a page for one run, a page for two or more."""
    return 5.6 if len(tracks) == 1 else min(11.0, max(9.5, 3.2 * len(tracks)))
