"""The tables of sugiki2005's summary: settings and controllers, and how the controllers compare."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from trimtab.lab._sugiki2005_points import Table, verdicts
from trimtab.lab._sugiki2005_scenes import AUTO, SETTINGS
from trimtab.report.figures import plain, seconds
from trimtab.report.track import estimate


def settings_table(rows: Table) -> list[str]:
    """Every setting for every number of clients: mean, and the range over repeats."""
    lines = [
        "| clients | keep-alive time | repeats | replies/s | MB/s | response time | of those answered | errors/s |",
        "|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for clients, labels in rows.items():
        for label in (*SETTINGS, *AUTO):
            if label not in labels:
                continue
            repeats = labels[label]
            shown = label
            if label in AUTO:
                shown = f"{label}: {', '.join(seconds(p.keep_alive_s) for p in repeats)}"
            cells = [
                str(len(repeats)),
                spread([p.requests_hz for p in repeats], plain),
                spread([p.mbytes_hz for p in repeats], plain),
                spread([p.response_s for p in repeats], seconds),
                seconds(statistics.fmean(p.reply_s for p in repeats)),
                plain(statistics.fmean(p.errors_hz for p in repeats)),
            ]
            lines.append(f"| {clients} | {shown} | {' | '.join(cells)} |")
    return [*lines, ""]


def verdict_table(rows: Table) -> list[str]:
    """The controllers against the best fixed times."""
    found = verdicts(rows)
    if not found:
        return []
    lines = [
        "Against the best fixed times, each number of clients by itself. Throughput in replies per second: megabytes "
        "swing with the few large files.",
        "",
        "| clients | controller | settled at, by repeat | throughput | of the best | response time | of the best | "
        "95 % and 105 % |",
        "|---:|---|---|---:|---|---:|---|---|",
    ]
    for one in found:
        cells = (
            str(one.clients),
            one.label,
            ", ".join(map(seconds, one.learned_s)),
            f"{one.throughput_ratio:.1%}",
            one.best[0],
            f"{one.response_ratio:.1%}",
            one.best[1],
            "reached" if one.reached else "missed",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def spread(values: Sequence[float], shown: Callable[[float], str]) -> str:
    """A mean and the range over repeats."""
    middle = shown(statistics.fmean(values))
    return middle if len(values) < 2 else f"{middle} ({shown(min(values))} to {shown(max(values))})"


def interval(values: Sequence[float], shown: Callable[[float], str]) -> str:
    """A mean and its 95 % interval."""
    e = estimate(values)
    if e.low is None or e.high is None:
        return shown(e.mean)
    return f"{shown(e.mean)} ({shown(max(0.0, e.low))} to {shown(e.high)})"
