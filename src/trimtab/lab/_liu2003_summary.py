"""The summary of liu2003's experiments, from stored runs: tables in Markdown, figures as SVG."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from trimtab.lab import _liu2003_figures as figures
from trimtab.lab._arm import FIXED
from trimtab.lab._convergence import SETTLED, SMOOTHED, Score, reached, score, settled_s
from trimtab.lab._liu2003_model import predicted
from trimtab.lab._live_summary import live
from trimtab.lab._results import write_raw
from trimtab.report.figures import plain, seconds
from trimtab.report.figures.trajectories import trajectories
from trimtab.report.track import Estimate, Track, tracks
from trimtab.store import Store
from trimtab.testbed.setups import setup

DEFAULT = 150
TOLERANCES = {"fuzzy": 0.25, "fuzzy with guards": 0.25, "saturation": 0.25, "saturation with guards": 0.25}
SWITCH_TOLERANCE = 0.15

Groups = Mapping[str, Mapping[str, Sequence[Track]]]
"""Part to label to repeats."""


def write(folder: Path, store: Store, run_ids: Sequence[int], switch_at_s: float) -> None:
    """Writes raw data, figures and `summary.md` into a results folder.

    Args:
        folder: an empty folder.
        store: where the runs are.
        run_ids: their numbers.
        switch_at_s: when the workload changed in the runs of the switch, on the run's clock, in seconds.
    """
    found = tracks(store, run_ids)
    write_raw(folder, found)
    groups: dict[str, dict[str, list[Track]]] = {}
    for track in found:
        groups.setdefault(track.run.plan.group, {}).setdefault(track.label, []).append(track)
    text = ["# liu2003 on the real testbed", "", *_conditions(found), ""]
    bests: dict[str, float] = {}
    for part in (p for p in groups if p.startswith("sweep-")):
        name = part.removeprefix("sweep-")
        sweep = {int(label): repeats for label, repeats in groups[part].items()}
        lines, best_s = _sweep(folder, name, sweep)
        bests[name] = best_s
        text += lines
    for part in (p for p in groups if p.startswith(("compare-", "long-", "live-"))):
        name = part.partition("-")[2]
        text += _comparison(folder, part, groups[part], bests.get(name))
        if part.startswith("live-"):
            text += live(groups[part], groups.get(f"compare-{name}", {}))
    if "switch" in groups:
        known = groups["switch"] if FIXED in groups["switch"] else groups.get("compare-static", {})
        moving = {label: repeats for label, repeats in groups["switch"].items() if label != FIXED}
        text += _switch(folder, moving, _reference(known, bests.get("static"), moving), switch_at_s)
    (folder / "summary.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def _conditions(found: Sequence[Track]) -> list[str]:
    """What a reader needs to judge and repeat the figures."""
    plan = found[0].run.plan
    seeds = sorted({t.run.plan.settings.seed for t in found})
    return [
        "Real Apache, real load; nothing here is simulated. Repeat with",
        "",
        f"    trimtab lab run liu2003 --seeds {','.join(map(str, seeds))} --results FOLDER",
        "",
        f"- windows of {plan.settings.window_s:g} s where nothing else is said; "
        f"seeds {', '.join(map(str, seeds))}; {len(found)} runs",
        *(f"- {name.replace('_', ' ')}: {value}" for name, value in plan.host.items()),
    ]


def _sweep(folder: Path, name: str, sweep: figures.Sweep) -> tuple[list[str], float]:
    """Fig. 4, 6, 10 and 11 and the table behind them; the best mean response time in seconds."""
    settings, times, spread = figures.curve(sweep, "response_time_s")
    best = times.index(min(times))
    worst = times.index(max(times))
    (folder / f"fig4-{name}.svg").write_text(figures.response_times(sweep, DEFAULT), encoding="utf-8")
    (folder / f"fig10-{name}.svg").write_text(figures.causes(sweep), encoding="utf-8")
    forecast = predicted(setup(name), sweep)
    (folder / f"fig6-{name}.svg").write_text(figures.model(sweep, forecast), encoding="utf-8")
    falls = all(b <= a * 1.1 for a, b in pairwise(times[: best + 1]))
    rises = all(b >= a * 0.9 for a, b in pairwise(times[best:]))
    lines = [
        f"## Sweep, {name} (Table I, Fig. 4, 6, {'10' if name == 'dynamic' else '11'})",
        "",
        f"Best: {settings[best]} workers, {seconds(times[best])}. Worst: {settings[worst]} workers, "
        f"{seconds(times[worst])}, {plain(times[worst] / times[best])} times the best. "
        f"Concave upward within 10 % from setting to setting: {'yes' if falls and rises else 'no'}.",
    ]
    if DEFAULT in settings:
        shipped = times[settings.index(DEFAULT)]
        lines.append(
            f"The shipped default {DEFAULT}: {seconds(shipped)}, {plain(shipped / times[best])} times the best."
        )
    names = (
        "accept_queue_delay_s",
        "service_time_s",
        "burst_length",
        "cpu_ratio",
        "memory_ratio",
        "client_page_time_s",
    )
    lines += ["", "| workers | RT | sd | AQT | ST | BL | CPU | memory | client page time | M/M/m/K/N |"]
    lines.append("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for m, mean, sd in zip(settings, times, spread, strict=True):
        cells = [_mean(sweep[m], metric) for metric in names]
        model = seconds(forecast[m]) if m in forecast else "-"
        lines.append(f"| {m} | {seconds(mean)} | {seconds(sd)} | {' | '.join(cells)} | {model} |")
    return [*lines, ""], times[best]


def _mean(repeats: Sequence[Track], metric: str) -> str:
    """The mean over repeats as a person reads it."""
    values = figures.mean_over_repeats(repeats, metric)
    if not values:
        return "-"
    mean = statistics.fmean(values)
    if metric.endswith("_s"):
        return seconds(mean)
    return f"{mean:.0%}" if metric.endswith("_ratio") else plain(mean)


def _comparison(folder: Path, part: str, labels: Mapping[str, Sequence[Track]], best_s: float | None) -> list[str]:
    """Fig. 13 to 15 and Table IV in figures."""
    kind, _, name = part.partition("-")
    shown = name if kind == "compare" else part
    for number in range(max(len(r) for r in labels.values())):
        drawn = [r[number] for r in labels.values() if number < len(r)]
        picture = trajectories(drawn, "response_time_s")
        (folder / f"trajectories-{shown}-{number + 1}.svg").write_text(picture, encoding="utf-8")
    window_s = next(iter(labels.values()))[0].run.plan.settings.window_s
    titles = {"compare": "Methods", "live": "M of a gate moved live, in place of reloads"}
    title = titles.get(kind, f"With time, windows of {window_s:g} s")
    heading = [f"## {title}, {name} (Fig. {'13, 14' if name == 'dynamic' else '15'}, Table IV)", ""]
    fixed = FIXED in labels
    reference = _reference(labels, best_s, labels)
    if not reference:
        return [*heading, "Neither a sweep nor a fixed reference in these results, so nothing to compare with.", ""]
    what = "the sweep's best setting, fixed, with the same seed and for as long" if fixed else "the sweep's best"
    scores = [score(label, r, reference, TOLERANCES.get(label, 0.10)) for label, r in labels.items()]
    shipped = next((s for s in scores if s.label == "static"), None)
    lines = [
        *heading,
        f"Against {what}; settled means from window {SETTLED} on, or of the second half of a run of few windows. "
        f"Windows to: first window from which the running mean of {SMOOTHED} is within 10 % of it (25 % for fuzzy "
        "and saturation), by repeat. Changes: those of the second half.",
        "",
        "| method | settled RT (95 %) | times best (95 %) | default / this | windows to | end | changes | spread |",
        "|---|---:|---:|---:|---|---|---|---:|",
    ]
    return [*lines, *(_row(s, shipped) for s in scores), ""]


def _reference(
    labels: Mapping[str, Sequence[Track]], best_s: float | None, judged: Mapping[str, Sequence[Track]]
) -> dict[int, float]:
    """Response time to compare with, by seed: of the fixed best setting, else of the sweep; empty without both."""
    fixed = {t.run.plan.settings.seed: s for t in labels.get(FIXED, ()) if (s := settled_s(t)) is not None}
    if fixed or best_s is None:
        return fixed
    return {t.run.plan.settings.seed: best_s for repeats in judged.values() for t in repeats}


def _row(s: Score, shipped: Score | None) -> str:
    """One method's line."""
    gain = plain(shipped.settled_s.mean / s.settled_s.mean) if shipped else "-"
    windows = ", ".join("never" if w is None else str(w) for w in s.windows_to)
    ends, changes = ", ".join(map(str, s.ends)), ", ".join(map(str, s.changes))
    settled = _span(s.settled_s, seconds)
    return (
        f"| {s.label} | {settled} | {_span(s.times_best, plain)} | {gain} | {windows} | {ends} | {changes} "
        f"| {s.spread_ratio:.2f} |"
    )


def _span(e: Estimate, shown: Callable[[float], str]) -> str:
    """A mean with its interval."""
    if e.low is None or e.high is None:
        return f"{shown(e.mean)}"
    return f"{shown(e.mean)} ({shown(max(0.0, e.low))} to {shown(e.high)})"


def _switch(
    folder: Path, labels: Mapping[str, Sequence[Track]], best_s: Mapping[int, float], switch_at_s: float
) -> list[str]:
    """Windows until a method is back at the new best after the workload has changed."""
    for number in range(max(len(r) for r in labels.values())):
        drawn = [r[number] for r in labels.values() if number < len(r)]
        picture = trajectories(drawn, "response_time_s")
        (folder / f"trajectories-switch-{number + 1}.svg").write_text(picture, encoding="utf-8")
    heading = ["## Switch from dynamic to static", ""]
    if not best_s:
        return [*heading, "Neither a static sweep nor a fixed reference here, so there is no new best.", ""]
    what = ", ".join(seconds(value) for value in dict.fromkeys(best_s.values()))
    lines = [
        *heading,
        f"At {switch_at_s:g} s. Windows after it until the running mean of {SMOOTHED} is within 15 % of the static "
        f"best of the same seed where there is one ({what}), and the settings before it and at the end, by repeat.",
        "",
        "| method | windows | before | end |",
        "|---|---|---|---|",
    ]
    for label, repeats in labels.items():
        after = [next((w.index for w in t.windows if w.start_s >= switch_at_s), len(t.windows)) for t in repeats]
        goals = [best_s[t.run.plan.settings.seed] * (1 + SWITCH_TOLERANCE) for t in repeats]
        found = [reached(t, goal, since) for t, goal, since in zip(repeats, goals, after, strict=True)]
        windows = ", ".join("never" if w is None else str(w) for w in found)
        before = ", ".join(str(t.windows[i - 1].configuration[t.knob]) for t, i in zip(repeats, after, strict=True))
        ends = ", ".join(str(t.windows[-1].configuration[t.knob]) for t in repeats)
        lines.append(f"| {label} | {windows} | {before} | {ends} |")
    return [*lines, ""]
