"""The summary of sugiki2005's experiments, from stored runs: tables in Markdown, figures as SVG."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trimtab.controllers.keep_alive import greatest_interval
from trimtab.core import Window
from trimtab.drawing import Figure, LogLocator
from trimtab.lab import Claim, Page
from trimtab.lab._beds import WARM_S as JOINT_WARM_S
from trimtab.lab._sugiki2005_points import Point, Table, clients, histogram, points, steady, table_of, verdicts
from trimtab.lab._tables import Shown, interval, mean, spread, table
from trimtab.lab.sugiki2005 import AUTO, JOINT_STEADY_S, PAPERS, SETTINGS, SWITCH_S
from trimtab.plants.keep_alive.knobs import KEEP_ALIVE
from trimtab.report.style import BLUE, GREY, INK, RED, svg
from trimtab.report.text import plain, seconds
from trimtab.report.track import Track

TABLE_1 = {"400 ms": (18.79, 0.8809), "1 s": (17.29, 0.9559), "2 s": (11.68, 0.8823), "15 s": (7.51, 1.0164)}
"""The paper's Table 1: MB/s and mean response time in s with 1200 clients of load (a)."""
TABLE_1_CLIENTS = 1200
FIGURES = {"standard": (7, 8, 9, 10), "large": (11, 0, 12, 13)}
"""By part: intervals, the time over time, throughput, response time; the paper has no figure 0."""
BINS_TO_END = 300.0
"""The server's own 15 s in bins of 50 ms: up to there intervals are seen as they come."""
LEARNED_S = {"standard": 0.45, "large": 0.85}
"""Where the paper's controller settled (Sections 5.3 and 5.4)."""
SHADES = ("#c6cfd8", "#f3c08a", "#2d8a4e", "#8fc7a1", "#9ec3e6", "#5b9bd5", "#a58bc4", "#8a94a0")
COLOURS = {**dict(zip(SETTINGS, SHADES, strict=True)), **dict(zip(AUTO, (BLUE, RED), strict=True))}
PAPER = "paper"


def curves(
    rows: Table, value: Callable[[Point], float], axis: str, paper: Mapping[str, float], at: int, times: bool
) -> str:
    """Fig. 9, 10, 12, 13: a value against the number of clients for every setting, with the range over repeats.

    Args:
        rows: the points of one load.
        value: the value to draw.
        axis: its name.
        paper: the paper's own values by setting; crosses.
        at: the number of clients they belong to.
        times: whether it is a time, drawn on a logarithmic axis.
    """

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        for label, colour in COLOURS.items():
            users = [n for n, labels in rows.items() if label in labels]
            repeats = [[value(p) for p in rows[n][label]] for n in users]
            if not users:
                continue
            means = [sum(v) / len(v) for v in repeats]
            low = [m - min(v) for m, v in zip(means, repeats, strict=True)]
            high = [max(v) - m for m, v in zip(means, repeats, strict=True)]
            style = "o-" if label in AUTO else "o--"
            axes.errorbar(
                users, means, yerr=[low, high], fmt=style, color=colour, capsize=2, markersize=3.5, label=label
            )
            if label in paper:
                axes.plot([at], [paper[label]], "x", color=colour, markersize=8, markeredgewidth=2)
        if paper:
            axes.plot([], [], "x", color=GREY, label=PAPER)
        axes.set_xlabel("clients")
        axes.set_ylabel(axis)
        if times:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
            axes.yaxis.set_major_formatter(lambda v, _: seconds(v))
            axes.yaxis.set_minor_formatter(lambda v, _: "")
        else:
            axes.set_ylim(bottom=0)
        axes.legend(ncols=2, fontsize=8)

    return svg(draw, 7.2, 4.2)


def intervals(counts: Mapping[int, float], marks: Mapping[str, float], until_s: float) -> str:
    """Fig. 2, 7 and 11: request intervals in bins of 50 ms, with times marked.

    Args:
        counts: by bin.
        marks: names and times of marks, in seconds.
        until_s: end of the axis.
    """

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        total = sum(counts.values()) or 1.0
        bins = range(round(until_s / 0.05))
        axes.bar([0.05 * k for k in bins], [counts.get(k, 0.0) / total for k in bins], 0.05, align="edge", color=GREY)
        for name, at_s in marks.items():
            axes.axvline(
                at_s, color=COLOURS.get(name, INK), linewidth=1.4, linestyle="--", label=f"{name}: {seconds(at_s)}"
            )
        axes.set_xlabel("time from a reply to the next request in s")
        axes.set_ylabel("share of the intervals, per 50 ms")
        if marks:
            axes.legend()

    return svg(draw, 7.2, 3.2)


def learned(tracks: Sequence[Track], paper_s: Sequence[float], switch_s: float | None = None) -> str:
    """Fig. 8: the keep-alive time in force over time, one line for each repeat.

    Args:
        tracks: runs with a controller.
        paper_s: time at which the paper's settled.
        switch_s: when the load changed; None where it did not.
    """

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        named: set[str] = set()
        for track in tracks:
            t, values = track.series(KEEP_ALIVE)
            label = "" if track.label in named else track.label
            named.add(track.label)
            axes.step(
                t, [v / 1e3 for v in values], where="mid", color=COLOURS[track.label], linewidth=1.2, label=label
            )
        for value in paper_s:
            axes.axhline(value, color=GREY, linewidth=1.0, linestyle="--", label=f"{PAPER}: {seconds(value)}")
        if switch_s is not None:
            axes.axvline(switch_s, color=GREY, linewidth=0.9, linestyle=":")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda v, _: seconds(v))
        axes.set_xlabel("time in s")
        axes.set_ylabel("keep-alive time")
        axes.legend()

    return svg(draw, 7.2, 3.4)


def summary(page: Page) -> list[str]:
    """The sections of `summary.md`; draws its figures."""
    sections = {"switch": _switch, "joint": _joint, "production": _production, "event": _others, "nginx": _others}
    text: list[str] = []
    for part in page.parts:
        text += sections.get(part, _sweep)(page, part, page.tracks(part))
    return text


def _reached(part: str, ratio: str, low: float, high: float) -> Claim:
    """Fig. 9, 10, 12 and 13: the paper's controller against the best fixed time, at the worst number of clients."""

    def measured(page: Page) -> float | None:
        found = points(page.tracks(part))
        ratios = [float(getattr(v, ratio)) for v in verdicts(table_of(found, part)) if v.label == PAPERS]
        if not ratios:
            return None
        return min(ratios) if low > 0 else max(ratios)

    what = f"{part}: {ratio.replace('_ratio', '')} of the paper's controller over the best fixed time"
    return Claim(what, "close to it", low, high, measured)


CLAIMS = tuple(
    _reached(part, ratio, low, high)
    for part in ("standard", "large")
    for ratio, low, high in (("throughput_ratio", 0.95, math.inf), ("response_ratio", 0.0, 1.05))
)


def _sweep(page: Page, part: str, found: list[Track]) -> list[str]:
    """Fig. 7 to 10, or 11 to 13, and the verdict."""
    rows = table_of(points(found), part)
    numbers = FIGURES[part]
    paper = TABLE_1 if part == "standard" else {}
    for number, index, value, axis in (
        (numbers[2], 0, lambda p: p.mbytes_hz, "throughput in MB/s"),
        (numbers[3], 1, lambda p: p.response_s, "mean response time"),
    ):
        given = {label: values[index] for label, values in paper.items()}
        drawn = curves(rows, value, axis, given, TABLE_1_CLIENTS, times=index == 1)
        page.figure(f"fig{number}", drawn)
    name = f"Load ({'a' if part == 'standard' else 'b'}), {part} (Fig. {numbers[0]} to {numbers[3]})"
    lines = [f"## {name}", "", *settings_table(rows)]
    if part == "standard":
        lines += _table_1(rows)
    return [*lines, *verdict_table(rows), *_seen(page, part, found, rows)]


def _table_1(rows: Table) -> list[str]:
    """The paper's Table 1 beside ours."""
    there = rows.get(TABLE_1_CLIENTS, {})
    known = [label for label in TABLE_1 if label in there]
    if not known:
        return []
    cells = []
    for label in known:
        mbytes = interval([p.mbytes_hz for p in there[label]], plain)
        times = interval([p.response_s for p in there[label]], seconds)
        cells.append((label, mbytes, str(TABLE_1[label][0]), times, seconds(TABLE_1[label][1])))
    titles = ("keep-alive time", ">MB/s", ">paper", ">response time", ">paper")
    return [f"### Table 1, {TABLE_1_CLIENTS} clients", "", *table(titles, cells)]


def _seen(page: Page, part: str, found: list[Track], rows: Table) -> list[str]:
    """Fig. 7 or 11 and Fig. 8: intervals under the server's own 15 s, and the learned times over time."""
    numbers, lines = FIGURES[part], list[str]()
    controlled = [t for t in found if t.label in AUTO]
    near = min(map(clients, controlled), key=lambda n: abs(n - TABLE_1_CLIENTS), default=TABLE_1_CLIENTS)
    own = [t for t in found if t.label == "15 s" and clients(t) == min(rows, default=0)]
    counts = histogram(w for t in own for _, windows in steady(t) for w in windows)
    autos = [t for t in controlled if clients(t) == near]
    settled = {
        label: statistics.fmean(p.keep_alive_s for p in repeats)
        for label, repeats in rows.get(near, {}).items()
        if label in AUTO
    }
    if counts:
        marks = {**settled, PAPER: LEARNED_S[part]}
        page.figure(f"fig{numbers[0]}", intervals(counts, marks, 2.0))
        where = greatest_interval(counts, BINS_TO_END, 0.05, 5.0).greatest
        ends = "nowhere" if where is None else seconds(where * 0.05)
        lines.append(
            f"Intervals under the server's own 15 s fall below 5 % at {ends} (paper's controller: "
            f"{seconds(LEARNED_S[part])}). Settled with {near} clients: "
            + "; ".join(f"{label} {seconds(value)}" for label, value in settled.items())
            + "."
        )
    if autos:
        name = "fig8" if part == "standard" else f"learned-{part}"
        page.figure(name, learned(autos, [LEARNED_S[part]]))
    return [*lines, ""]


def _others(page: Page, part: str, found: list[Track]) -> list[str]:
    """The event MPM or nginx."""
    rows = table_of(points(found), "standard")
    held = {
        label: mean((w for t in found if t.label == label for _, ws in steady(t) for w in ws), "idle_held_workers")
        for label in ("15 s", *AUTO)
    }
    seen = "; ".join(f"{label}: {plain(value)}" for label, value in held.items() if value is not None)
    drawn = curves(rows, lambda p: p.response_s, "mean response time", {}, 0, times=True)
    page.figure(part, drawn)
    lines = [f"## Load (a) on {part}", "", *settings_table(rows), *verdict_table(rows)]
    return [*lines, f"Workers held by idle connections: {seen or 'not measured'}.", ""]


def _switch(page: Page, part: str, found: list[Track]) -> list[str]:
    """Load (a), then (b)."""
    moving = [t for t in found if t.label in AUTO]
    if moving:
        drawn = learned(moving, list(LEARNED_S.values()), SWITCH_S)
        page.figure("switch", drawn)
    lines = ["## From load (a) to load (b) in mid-run", ""]
    for load in LEARNED_S:
        rows = table_of(points(found), load)
        lines += [
            f"{'Before' if load == 'standard' else 'After'}: load {load}.",
            "",
            *settings_table(rows),
            *verdict_table(rows),
        ]
    return lines


def _joint(page: Page, part: str, found: list[Track]) -> list[str]:
    """MaxRequestWorkers and the keep-alive time."""
    rows = []
    for label, repeats in page.parts[part].items():
        ends = [windows for t in repeats for _, windows in steady(t)[-1:] if windows]
        last = [windows[-1].configuration for windows in ends]
        rows.append(
            (
                label,
                ", ".join(str(one.get("max_request_workers", "-")) for one in last) or "-",
                ", ".join(seconds(one[KEEP_ALIVE] / 1e3) for one in last) or "-",
                _metric(ends, "client_page_time_s", seconds),
                _metric(ends, "client_page_rate_hz", plain),
                _metric(ends, "client_error_rate_hz", plain),
            )
        )
    return [
        "## MaxRequestWorkers and keep-alive time",
        "",
        f"On liu2003's dynamic set-up, after {JOINT_WARM_S:g} s of load. The last {JOINT_STEADY_S:g} s of each run, "
        "by repeat: M and the keep-alive time in force; means with 95 % intervals.",
        "",
        *table(("what moves", "M", "keep-alive time", ">page time", ">pages/s", ">errors/s"), rows),
    ]


def _metric(ends: Sequence[Sequence[Window]], metric: str, shown: Shown) -> str:
    """A metric over the ends of repeats."""
    return interval([v for windows in ends if (v := mean(windows, metric)) is not None], shown)


def _production(page: Page, part: str, found: list[Track]) -> list[str]:
    """Fig. 2: intervals where no connection is ended early."""
    by_load: dict[str, list[Track]] = {}
    for track in found:
        by_load.setdefault(track.run.plan.workload.partition(",")[0], []).append(track)
    rows = []
    for load, repeats in by_load.items():
        counts = histogram(w for t in repeats for _, windows in steady(t) for w in windows)
        total = sum(counts.values())
        if not total:
            continue
        where = greatest_interval(counts, BINS_TO_END, 0.05, 5.0).greatest
        marks: Mapping[str, float] = {} if where is None else {"falls below 5 %": where * 0.05}
        page.figure("fig2" if load == "SURGE" else "fig2-load-a", intervals(counts, marks, 5.0))
        short = sum(v for k, v in counts.items() if k < 10) / total
        rows.append((load, f"{total:.0f}", f"{short:.0%}", "-" if where is None else seconds(where * 0.05)))
    heading = "## Request intervals where nothing ends a connection early (Fig. 2)"
    return [heading, "", *table(("load", ">intervals", ">up to 0.5 s", ">falls below 5 % at"), rows)]


def settings_table(rows: Table) -> list[str]:
    """Every setting for every number of clients: mean, and the range over repeats."""
    cells = [
        (
            str(number),
            label if label in SETTINGS else f"{label}: {', '.join(seconds(p.keep_alive_s) for p in repeats)}",
            str(len(repeats)),
            spread([p.requests_hz for p in repeats], plain),
            spread([p.mbytes_hz for p in repeats], plain),
            spread([p.response_s for p in repeats], seconds),
            seconds(statistics.fmean(p.reply_s for p in repeats)),
            plain(statistics.fmean(p.errors_hz for p in repeats)),
        )
        for number, labels in rows.items()
        for label in (*SETTINGS, *AUTO)
        if (repeats := labels.get(label))
    ]
    times = (">response time", ">of those answered", ">errors/s")
    return table((">clients", "keep-alive time", ">repeats", ">replies/s", ">MB/s", *times), cells)


def verdict_table(rows: Table) -> list[str]:
    """The controllers against the best fixed times."""
    found = [
        (
            str(one.clients),
            one.label,
            ", ".join(map(seconds, one.learned_s)),
            f"{one.throughput_ratio:.1%}",
            one.best[0],
            f"{one.response_ratio:.1%}",
            one.best[1],
            "reached" if one.reached else "missed",
        )
        for one in verdicts(rows)
    ]
    if not found:
        return []
    text = (
        "Against the best fixed times, each number of clients by itself. Throughput in replies per second: megabytes "
        "swing with the few large files."
    )
    ratios = (">throughput", "of the best", ">response time", "of the best", "95 % and 105 %")
    return [text, "", *table((">clients", "controller", "settled at, by repeat", *ratios), found)]
