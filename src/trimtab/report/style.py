"""The style of figures, and the declaration of each."""

from __future__ import annotations

import hashlib
import io
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.core import Role
from trimtab.drawing import Figure, FuncFormatter, LogLocator, rc_context
from trimtab.metrics import metric as metric_of
from trimtab.report.text import words
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


@dataclass(frozen=True)
class Picture:
    """A figure of stored runs, with the readings it needs; its module names it in `PICTURE`.

    Args:
        title: its heading.
        caption: text that explains it.
        draw: draws it, a column for each run.
        position: on the page, from 0.
        readings: metrics, or histograms, each of which some window of some run must have.
        any_of: metrics of which some window must have one at least; none when empty.
        role: role of a knob that every run must have; None for any.
        guarantee: True where it is of runs with one and the same guarantee to classes, False where of all others;
            None for both.
        search: True where every run must be a search by trials.
    """

    title: str
    caption: str
    draw: Callable[[Sequence[Track]], str]
    position: int
    readings: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    role: Role | None = None
    guarantee: bool | None = None
    search: bool = False

    def drawable(self, tracks: Sequence[Track]) -> bool:
        """Whether these runs have all that the figure needs."""
        seen = {name.partition("@")[0] for t in tracks for w in t.windows for name in w.readings}
        promised = tracks[0].run.plan.guarantee
        one = promised is not None and all(t.run.plan.guarantee == promised for t in tracks)
        return (
            set(self.readings) <= seen
            and (not self.any_of or bool(seen & set(self.any_of)))
            and (self.role is None or all(self.role in {k.role for k in t.run.plan.knobs} for t in tracks))
            and self.guarantee in (None, one)
            and (not self.search or all(t.search is not None for t in tracks))
        )


def svg(draw: Callable[[Figure], None], width_in: float, height_in: float) -> str:
    """A drawing as an SVG element that can stand in HTML beside others.

    The same drawing gives the same text, and different ones share no ids: matplotlib counts axes and lines from 1
    in every figure.
    """
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a label may have letters that the font has not
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        draw(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = out.getvalue()
    text = text[text.index("<svg") :]
    mark = hashlib.sha256(text.encode()).hexdigest()[:10]
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>f{mark}-", text)


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


NARROW = 4.0
"""A scale from its least to its most that is less than this factor has few ticks at 1, 2 and 5."""


def logarithmic(axes: Any, shown: Callable[[float, object], str]) -> None:
    """A logarithmic scale with ticks that a person reads, at 1, 2 and 5, and at more where it is `NARROW`."""

    def between(value: float, place: object) -> str:
        low, high = axes.get_ylim()
        return shown(value, place) if high < NARROW * low else ""

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(shown))
    axes.yaxis.set_minor_locator(LogLocator(subs=(1.2, 1.5, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0), numticks=20))
    axes.yaxis.set_minor_formatter(FuncFormatter(between))


def width(tracks: Sequence[Track]) -> float:
    """Figure width in inches: half a page for one run, a page for two or more."""
    return 5.6 if len(tracks) == 1 else min(11.0, max(9.5, 3.2 * len(tracks)))


def mark_moves(axes: Any, track: Track) -> None:
    """A thin line where the configuration was changed."""
    at = {w.index: w.start_s + w.duration_s for w in track.windows}
    for move in track.applied():
        axes.axvline(at.get(move.index, 0.0), color=GREY, linewidth=0.7, linestyle=":", zorder=0)


def axis(metric: str) -> str:
    """A metric's name with its unit; a time has its unit at the ticks."""
    known = metric_of(metric).unit
    return words(metric) if known == "s" else f"{words(metric)} in {known}"


FACTORS = 4.0
"""Greatest over least value from which a scale is logarithmic."""


def by_factors(values: Sequence[float]) -> bool:
    """Whether values differ by factors, so that a linear scale would show only the greatest."""
    return bool(values) and min(values) > 0 and max(values) >= FACTORS * min(values)


_LETTER_IN = 0.11
"""Width of a letter of a title, about."""


def headed(axes: Any, track: Track, **place: float) -> None:
    """A run's label above its column; in a narrow one without its middle, so that it keeps off its neighbours."""
    label, room = track.label, max(3, int(axes.figure.get_figwidth() / _columns(axes) / _LETTER_IN))
    if len(label) > room:
        label = f"{label[: room // 2]}…{label[len(label) - (room - 1) // 2 :]}"
    axes.set_title(label, **place)


def legend(axes: Any) -> None:
    """A legend in the room that is made for it above the lines; a linear scale begins at 0."""
    beside = 4 if _columns(axes) <= _FEW_COLUMNS else 1
    rows = math.ceil(len(axes.get_legend_handles_labels()[0]) / beside)
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":
        axes.set_ylim(low, high * (high / low) ** (0.25 * rows))
    else:
        axes.set_ylim(0, (1 + 0.25 * rows) * high)
    axes.legend(loc="upper left", ncols=beside, fontsize=8).set_in_layout(False)


_FEW_COLUMNS = 3
"""In more columns than these a legend's entries stand below one another."""


def _columns(axes: Any) -> int:
    """How many columns the figure of these axes has."""
    count: int = axes.get_gridspec().ncols
    return count
