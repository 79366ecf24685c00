"""The parts of sugiki2005's summary that the paper has no experiment for, and the intervals of its Fig. 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trimtab.controllers.keep_alive import greatest_interval
from trimtab.core import Window
from trimtab.lab import _sugiki2005_figures as figures
from trimtab.lab._arm import WARM_S as JOINT_WARM_S
from trimtab.lab._sugiki2005_joint import STEADY_S
from trimtab.lab._sugiki2005_points import histogram, mean, points, steady, table
from trimtab.lab._sugiki2005_scenes import AUTO, SWITCH_S
from trimtab.lab._sugiki2005_tables import interval, settings_table, verdict_table
from trimtab.plants._names import KEEP_ALIVE
from trimtab.report.figures import plain, seconds
from trimtab.report.track import Track

BINS_TO_END = 300.0
"""The server's own 15 s in bins of 50 ms: up to there intervals are seen as they come."""
LEARNED_S = {"standard": 0.45, "large": 0.85}
"""Where the paper's controller settled (Sections 5.3 and 5.4)."""


def others(folder: Path, part: str, found: list[Track]) -> list[str]:
    """The event MPM or nginx."""
    rows = table(points(found), "standard")
    held = {
        label: mean((w for t in found if t.label == label for _, ws in steady(t) for w in ws), "idle_held_workers")
        for label in ("15 s", *AUTO)
    }
    seen = "; ".join(f"{label}: {plain(value)}" for label, value in held.items() if value is not None)
    drawn = figures.curves(rows, lambda p: p.response_s, "mean response time", {}, 0, times=True)
    (folder / f"{part}.svg").write_text(drawn, encoding="utf-8")
    lines = [f"## Load (a) on {part}", "", *settings_table(rows), *verdict_table(rows)]
    return [*lines, f"Workers held by idle connections: {seen or 'not measured'}.", ""]


def switch(folder: Path, part: str, found: list[Track]) -> list[str]:
    """Load (a), then (b)."""
    moving = [t for t in found if t.label in AUTO]
    if moving:
        drawn = figures.learned(moving, list(LEARNED_S.values()), SWITCH_S)
        (folder / "switch.svg").write_text(drawn, encoding="utf-8")
    lines = ["## From load (a) to load (b) in mid-run", ""]
    for load in LEARNED_S:
        rows = table(points(found), load)
        lines += [
            f"{'Before' if load == 'standard' else 'After'}: load {load}.",
            "",
            *settings_table(rows),
            *verdict_table(rows),
        ]
    return lines


def joint(folder: Path, part: str, found: list[Track]) -> list[str]:
    """MaxRequestWorkers and the keep-alive time."""
    lines = [
        "## MaxRequestWorkers and keep-alive time",
        "",
        f"On liu2003's dynamic set-up, after {JOINT_WARM_S:g} s of load. The last {STEADY_S:g} s of each run, by "
        "repeat: M and the keep-alive time in force; means with 95 % intervals.",
        "",
        "| what moves | M | keep-alive time | page time | pages/s | errors/s |",
        "|---|---|---|---:|---:|---:|",
    ]
    labels: dict[str, list[Track]] = {}
    for track in found:
        labels.setdefault(track.label, []).append(track)
    for label, repeats in labels.items():
        ends = [windows for t in repeats for _, windows in steady(t)[-1:] if windows]
        if not ends:
            lines.append(f"| {label} | - | - | - | - | - |")
            continue
        last = [windows[-1].configuration for windows in ends]
        cells = [
            ", ".join(str(one.get("max_request_workers", "-")) for one in last),
            ", ".join(seconds(one[KEEP_ALIVE] / 1e3) for one in last),
            _metric(ends, "client_page_time_s", seconds),
            _metric(ends, "client_page_rate_hz", plain),
            _metric(ends, "client_error_rate_hz", plain),
        ]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return [*lines, ""]


def _metric(ends: Sequence[Sequence[Window]], metric: str, shown: Callable[[float], str]) -> str:
    """A metric over the ends of repeats."""
    values = [v for windows in ends if (v := mean(windows, metric)) is not None]
    return interval(values, shown) if values else "-"


def production(folder: Path, part: str, found: list[Track]) -> list[str]:
    """Fig. 2: intervals where no connection is ended early."""
    by_load: dict[str, list[Track]] = {}
    for track in found:
        by_load.setdefault(track.run.plan.workload.partition(",")[0], []).append(track)
    lines = [
        "## Request intervals where nothing ends a connection early (Fig. 2)",
        "",
        "| load | intervals | up to 0.5 s | falls below 5 % at |",
        "|---|---:|---:|---:|",
    ]
    for load, repeats in by_load.items():
        counts = histogram(w for t in repeats for _, windows in steady(t) for w in windows)
        total = sum(counts.values())
        if not total:
            continue
        where = greatest_interval(counts, BINS_TO_END, 0.05, 5.0).greatest
        marks: Mapping[str, float] = {} if where is None else {"falls below 5 %": where * 0.05}
        name = "fig2.svg" if load == "SURGE" else "fig2-load-a.svg"
        (folder / name).write_text(figures.intervals(counts, marks, 5.0), encoding="utf-8")
        short = sum(v for k, v in counts.items() if k < 10) / total
        lines.append(f"| {load} | {total:.0f} | {short:.0%} | {'-' if where is None else seconds(where * 0.05)} |")
    return [*lines, ""]
