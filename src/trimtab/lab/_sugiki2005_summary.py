"""The summary of sugiki2005's experiments, from stored runs: tables in Markdown, figures as SVG."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from trimtab.controllers.keep_alive import greatest_interval
from trimtab.lab import _sugiki2005_figures as figures
from trimtab.lab import _sugiki2005_more as more
from trimtab.lab._results import write_raw
from trimtab.lab._sugiki2005_more import BINS_TO_END, LEARNED_S
from trimtab.lab._sugiki2005_points import Table, histogram, points, steady, table
from trimtab.lab._sugiki2005_scenes import AUTO, WARM_S
from trimtab.lab._sugiki2005_tables import interval, settings_table, verdict_table
from trimtab.report.figures import plain, seconds
from trimtab.report.track import Track, tracks
from trimtab.store import Store

TABLE_1 = {"400 ms": (18.79, 0.8809), "1 s": (17.29, 0.9559), "2 s": (11.68, 0.8823), "15 s": (7.51, 1.0164)}
"""The paper's Table 1: MB/s and mean response time in s with 1200 clients of load (a)."""
TABLE_1_CLIENTS = 1200
FIGURES = {"standard": (7, 8, 9, 10), "large": (11, 0, 12, 13)}
"""By part: intervals, the time over time, throughput, response time; the paper has no figure 0."""


def write(folder: Path, store: Store, run_ids: Sequence[int]) -> None:
    """Writes raw data, figures and `summary.md` into a results folder.

    Args:
        folder: an empty folder.
        store: where the runs are.
        run_ids: their numbers.
    """
    found = tracks(store, run_ids)
    write_raw(folder, found)
    parts: dict[str, list[Track]] = {}
    for track in found:
        parts.setdefault(track.run.plan.group, []).append(track)
    text = ["# sugiki2005 on the real testbed", "", *_conditions(found, tuple(parts)), ""]
    writers: dict[str, Callable[[Path, str, list[Track]], list[str]]] = {
        **dict.fromkeys(("standard", "large"), _sweep),
        **dict.fromkeys(("event", "nginx"), more.others),
        "switch": more.switch,
        "joint": more.joint,
        "production": more.production,
    }
    for part, members in parts.items():
        text += writers[part](folder, part, members)
    (folder / "summary.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def _conditions(found: Sequence[Track], parts: tuple[str, ...]) -> list[str]:
    """What a reader needs to judge and repeat the figures."""
    seeds = sorted({t.run.plan.settings.seed for t in found})
    host = found[-1].run.plan.host
    facts = {k: host[k] for k in host if k not in ("clients", "processing", "keep-alive")}
    named = " ".join(f"--part {part}" for part in parts)
    lost = [t for t in found if t.run.status.value != "done"]
    return [
        "Real servers, real load; nothing here is simulated. The network's round trip is the load generator's own.",
        "Repeat with",
        "",
        f"    trimtab lab run sugiki2005 {named} --seeds {','.join(map(str, seeds))} --results FOLDER",
        "",
        f"- seeds {', '.join(map(str, seeds))}; {len(found)} runs, of which {len(lost)} did not come to their end",
        f"- {WARM_S:g} s of load before the first window, where nothing else is said",
        "- response time: from when a client wants an object until it has it, connecting included; with those who "
        "still wait, as requests outstanding over replies per second",
        *(f"- {name.replace('_', ' ')}: {value}" for name, value in facts.items()),
    ]


def _sweep(folder: Path, part: str, found: list[Track]) -> list[str]:
    """Fig. 7 to 10, or 11 to 13, and the verdict."""
    rows = table(points(found), part)
    numbers = FIGURES[part]
    paper = TABLE_1 if part == "standard" else {}
    for number, index, value, axis in (
        (numbers[2], 0, lambda p: p.mbytes_hz, "throughput in MB/s"),
        (numbers[3], 1, lambda p: p.response_s, "mean response time"),
    ):
        given = {label: values[index] for label, values in paper.items()}
        drawn = figures.curves(rows, value, axis, given, TABLE_1_CLIENTS, times=index == 1)
        (folder / f"fig{number}.svg").write_text(drawn, encoding="utf-8")
    name = f"Load ({'a' if part == 'standard' else 'b'}), {part} (Fig. {numbers[0]} to {numbers[3]})"
    lines = [f"## {name}", "", *settings_table(rows)]
    if part == "standard":
        lines += _table_1(rows)
    return [*lines, *verdict_table(rows), *_seen(folder, part, found, rows)]


def _table_1(rows: Table) -> list[str]:
    """The paper's Table 1 beside ours."""
    there = rows.get(TABLE_1_CLIENTS, {})
    known = [label for label in TABLE_1 if label in there]
    if not known:
        return []
    lines = [
        f"### Table 1, {TABLE_1_CLIENTS} clients",
        "",
        "| keep-alive time | MB/s | paper | response time | paper |",
        "|---|---:|---:|---:|---:|",
    ]
    for label in known:
        mbytes = interval([p.mbytes_hz for p in there[label]], plain)
        times = interval([p.response_s for p in there[label]], seconds)
        lines.append(f"| {label} | {mbytes} | {TABLE_1[label][0]} | {times} | {seconds(TABLE_1[label][1])} |")
    return [*lines, ""]


def _seen(folder: Path, part: str, found: list[Track], rows: Table) -> list[str]:
    """Fig. 7 or 11 and Fig. 8: intervals under the server's own 15 s, and the learned times over time."""
    numbers, lines = FIGURES[part], []
    most = max((t for t in found if t.label in AUTO), key=_near, default=None)
    clients = int(most.run.plan.host["clients"]) if most is not None else TABLE_1_CLIENTS
    own = [t for t in found if t.label == "15 s" and int(t.run.plan.host["clients"]) == min(rows, default=0)]
    counts = histogram(w for t in own for _, windows in steady(t) for w in windows)
    autos = [t for t in found if t.label in AUTO and int(t.run.plan.host["clients"]) == clients]
    settled = {
        label: statistics.fmean(p.keep_alive_s for p in repeats)
        for label, repeats in rows.get(clients, {}).items()
        if label in AUTO
    }
    if counts:
        marks = {**settled, figures.PAPER: LEARNED_S[part]}
        (folder / f"fig{numbers[0]}.svg").write_text(figures.intervals(counts, marks, 2.0), encoding="utf-8")
        where = greatest_interval(counts, BINS_TO_END, 0.05, 5.0).greatest
        ends = "nowhere" if where is None else seconds(where * 0.05)
        lines.append(
            f"Intervals under the server's own 15 s fall below 5 % at {ends} (paper's controller: "
            f"{seconds(LEARNED_S[part])}). Settled with {clients} clients: "
            + "; ".join(f"{label} {seconds(value)}" for label, value in settled.items())
            + "."
        )
    if autos:
        name = "fig8.svg" if part == "standard" else f"learned-{part}.svg"
        (folder / name).write_text(figures.learned(autos, [LEARNED_S[part]]), encoding="utf-8")
    return [*lines, ""]


def _near(track: Track) -> int:
    """How near its clients are to the paper's 1200."""
    return -abs(int(track.run.plan.host["clients"]) - TABLE_1_CLIENTS)
