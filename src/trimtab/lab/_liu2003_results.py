"""The summary of liu2003's experiments, from stored runs: tables in Markdown, figures as SVG."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from trimtab.core import Window
from trimtab.drawing import Figure
from trimtab.lab import FIXED, Claim, Page
from trimtab.lab._convergence import SETTLED, SMOOTHED, Score, reached, score, settled_s
from trimtab.lab._gated import SPARE_FACT
from trimtab.lab._tables import interval, listed, mean, means, side_by_side, table
from trimtab.lab.liu2003 import SWITCHED_S
from trimtab.queueing.liu2003 import Sessions, fig6, held_lognormal_s
from trimtab.report.figures.trajectories import trajectories
from trimtab.report.style import BLUE, GREEN, GREY, ORANGE, RED, logarithmic, svg
from trimtab.report.text import plain, seconds
from trimtab.report.track import Track
from trimtab.testbed.setups import SETUPS, Setup

DEFAULT = 150
TOLERANCES = {"fuzzy": 0.25, "fuzzy with guards": 0.25, "saturation": 0.25, "saturation with guards": 0.25}
SWITCH_TOLERANCE = 0.15
CAUSES = ("accept_queue_delay_s", "service_time_s", "burst_length", "cpu_ratio", "memory_ratio", "client_page_time_s")

Labels = Mapping[str, Sequence[Track]]
"""Label to repeats."""
Sweep = Mapping[int, Sequence[Track]]
"""MaxRequestWorkers to its repeats."""


def curve(sweep: Sweep, metric: str) -> tuple[list[int], list[float], list[float]]:
    """Settings, means and standard deviations over repeats of a metric, where it was measured."""
    found = {m: means(r, metric) for m, r in sorted(sweep.items())}
    found = {m: v for m, v in found.items() if v}
    spread = [statistics.stdev(v) if len(v) > 1 else 0.0 for v in found.values()]
    return list(found), [statistics.fmean(v) for v in found.values()], spread


def response_times(sweep: Sweep, default: int) -> str:
    """Fig. 4: response time against MaxRequestWorkers, mean and standard deviation over repeats."""

    def draw(figure: Figure) -> None:
        axes = _response_axes(figure, sweep, "server side, Eq. (1)")
        m, mean, _ = curve(sweep, "client_page_time_s")
        axes.plot(m, mean, "s--", color=GREY, markersize=4, label="client side")
        axes.axvline(default, color=RED, linewidth=0.9, linestyle=":", label=f"shipped default {default}")
        axes.legend()

    return svg(draw, 6.8, 3.8)


def causes(sweep: Sweep) -> str:
    """Fig. 10 and 11: accept-queue time, service time, CPU and memory against MaxRequestWorkers."""

    def draw(figure: Figure) -> None:
        grid: Any = figure.subplots(2, 1, sharex=True, squeeze=False)
        upper, lower = grid[0][0], grid[1][0]
        lines = (("response_time_s", ORANGE, "RT"), ("accept_queue_delay_s", BLUE, "AQT"))
        for name, colour, text in (*lines, ("service_time_s", GREEN, "ST (one request)")):
            m, mean, _ = curve(sweep, name)
            positive = [(a, b) for a, b in zip(m, mean, strict=True) if b > 0]
            upper.plot(
                [a for a, _ in positive], [b for _, b in positive], "o-", color=colour, markersize=4, label=text
            )
        for name, colour, text in (("cpu_ratio", BLUE, "CPU"), ("memory_ratio", RED, "memory demand")):
            m, mean, spread = curve(sweep, name)
            percent = [100 * v for v in mean]
            error = [100 * v for v in spread]
            lower.errorbar(m, percent, yerr=error, fmt="o-", color=colour, markersize=4, capsize=3, label=text)
        lower.axhline(100, color=GREY, linewidth=0.8)
        logarithmic(upper, seconds)
        _worker_axis(lower, list(sweep))
        upper.set_ylabel("time")
        lower.set_ylabel("% of what it may use")
        upper.legend()
        lower.legend()

    return svg(draw, 6.8, 5.4)


def model(measured: Sweep, predicted: Mapping[int, float]) -> str:
    """Fig. 6: response time measured and predicted by M/M/m/K/N."""

    def draw(figure: Figure) -> None:
        axes = _response_axes(figure, measured, "measured")
        axes.plot(list(predicted), list(predicted.values()), "^--", color=BLUE, label="M/M/m/K/N")
        axes.legend()

    return svg(draw, 6.8, 3.8)


def _response_axes(figure: Figure, sweep: Sweep, label: str) -> Any:
    """Axes with the response time measured at each setting, mean and standard deviation over repeats."""
    axes: Any = figure.subplots()
    m, mean, spread = curve(sweep, "response_time_s")
    low = [min(s, 0.9 * v) for v, s in zip(mean, spread, strict=True)]
    axes.errorbar(m, mean, yerr=[low, spread], fmt="o-", color=ORANGE, capsize=3, label=label)
    _worker_axis(axes, list(sweep))
    logarithmic(axes, seconds)
    axes.set_ylabel("response time per page")
    return axes


def _worker_axis(axes: Any, settings: Sequence[int]) -> None:
    """The axis of MaxRequestWorkers, logarithmic, with the settings that were tried as ticks."""
    axes.set_xscale("log")
    axes.set_xticks(settings, [str(m) for m in settings])
    axes.minorticks_off()
    axes.set_xlabel("MaxRequestWorkers")


def summary(page: Page) -> list[str]:
    """The sections of `summary.md`; draws its figures."""
    text, bests = list[str](), dict[str, float]()
    for part in (p for p in page.parts if p.startswith("sweep-")):
        name = part.removeprefix("sweep-")
        lines, bests[name] = _sweep(page, name, swept(page, name))
        text += lines
    for part in (p for p in page.parts if p.startswith(("compare-", "debian-", "long-", "live-"))):
        name = part.partition("-")[2]
        text += _comparison(page, part, page.parts[part], bests.get(name))
        if part.startswith("live-"):
            text += live(page.parts[part], page.parts.get(f"compare-{name}", {}))
    if "switch" in page.parts:
        labels = page.parts["switch"]
        known = labels if FIXED in labels else page.parts.get("compare-static", {})
        moving = {label: repeats for label, repeats in labels.items() if label != FIXED}
        text += _switch(page, moving, _reference(known, bests.get("static"), moving))
    return text


def swept(page: Page, name: str) -> Sweep:
    """MaxRequestWorkers to its repeats, of the sweep of a set-up."""
    return {int(label): repeats for label, repeats in page.parts.get(f"sweep-{name}", {}).items()}


def _worst_over_best(name: str, at: int | None = None) -> Claim:
    """Table I: how much worse the worst setting, or one of them, is than the best."""

    def measured(page: Page) -> float | None:
        settings, times, _ = curve(swept(page, name), "response_time_s")
        if not times or (at is not None and at not in settings):
            return None
        return (max(times) if at is None else times[settings.index(at)]) / min(times)

    what = "worst setting" if at is None else f"the default of {at}"
    paper = "more than 10" if at is None else "worse than the best"
    return Claim(
        f"{name}: response time at {what} over the best", paper, 10 if at is None else 1.1, math.inf, measured
    )


CLAIMS = (*(_worst_over_best(name, at) for name in ("dynamic", "static") for at in (None, DEFAULT)),)


def _sweep(page: Page, name: str, sweep: Sweep) -> tuple[list[str], float]:
    """Fig. 4, 6, 10 and 11 and the table behind them; the best mean response time in seconds."""
    settings, times, spread = curve(sweep, "response_time_s")
    best = times.index(min(times))
    worst = times.index(max(times))
    page.figure(f"fig4-{name}", response_times(sweep, DEFAULT))
    page.figure(f"fig10-{name}", causes(sweep))
    forecast = predicted(SETUPS[name], sweep)
    page.figure(f"fig6-{name}", model(sweep, forecast))
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
    titles = (">workers", ">RT", ">sd", ">AQT", ">ST", ">BL", ">CPU", ">memory", ">client page time", ">M/M/m/K/N")
    rows = [
        (
            str(m),
            seconds(mean),
            seconds(sd),
            *(_mean(sweep[m], c) for c in CAUSES),
            seconds(forecast[m]) if m in forecast else "-",
        )
        for m, mean, sd in zip(settings, times, spread, strict=True)
    ]
    return [*lines, "", *table(titles, rows)], times[best]


def _mean(repeats: Sequence[Track], metric: str) -> str:
    """The mean over repeats as a person reads it."""
    values = means(repeats, metric)
    if not values:
        return "-"
    value = statistics.fmean(values)
    if metric.endswith("_s"):
        return seconds(value)
    return f"{value:.0%}" if metric.endswith("_ratio") else plain(value)


def _comparison(page: Page, part: str, labels: Labels, best_s: float | None) -> list[str]:
    """Fig. 13 to 15 and Table IV, of one part."""
    kind, _, name = part.partition("-")
    shown = name if kind == "compare" else part
    for number, drawn in side_by_side(labels):
        page.figure(f"trajectories-{shown}-{number}", trajectories(drawn, "response_time_s"))
    window_s = next(iter(labels.values()))[0].run.plan.settings.window_s
    known = {
        "compare": "Methods",
        "debian": "From Debian's own pool",
        "live": "M of a gate moved live, in place of reloads",
    }
    title = known.get(kind, f"With time, windows of {window_s:g} s")
    heading = [f"## {title}, {name} (Fig. {'13, 14' if name == 'dynamic' else '15'}, Table IV)", ""]
    fixed = FIXED in labels
    reference = _reference(labels, best_s, labels)
    if not reference:
        return [*heading, "Neither a sweep nor a fixed reference in these results, so nothing to compare with.", ""]
    what = "the sweep's best setting, fixed, with the same seed and for as long" if fixed else "the sweep's best"
    scores = [score(label, r, reference, TOLERANCES.get(label, 0.10)) for label, r in labels.items()]
    shipped = next((s for s in scores if s.label == "static"), None)
    text = (
        f"Against {what}; settled means from window {SETTLED} on, or of the second half of a run of few windows. "
        f"Windows to: first window from which the running mean of {SMOOTHED} is within 10 % of it (25 % for fuzzy "
        "and saturation), by repeat. Changes: those of the second half."
    )
    titles = ("method", ">settled RT (95 %)", ">times best (95 %)", ">default / this", "windows to", "end", "changes")
    return [*heading, text, "", *table((*titles, ">spread"), (_row(s, shipped) for s in scores))]


def _reference(labels: Labels, best_s: float | None, judged: Labels) -> dict[int, float]:
    """Response time to compare with, by seed: of the fixed best setting, else of the sweep; empty without both."""
    fixed = {t.run.plan.settings.seed: s for t in labels.get(FIXED, ()) if (s := settled_s(t)) is not None}
    if fixed or best_s is None:
        return fixed
    return {t.run.plan.settings.seed: best_s for repeats in judged.values() for t in repeats}


def _row(s: Score, shipped: Score | None) -> tuple[str, ...]:
    """One method's line."""
    gain = plain(shipped.settled_s.mean / s.settled_s.mean) if shipped else "-"
    found = (interval(s.settled_s, seconds), interval(s.times_best, plain), gain)
    return (s.label, *found, *map(listed, (s.windows_to, s.ends, s.changes)), f"{s.spread_ratio:.2f}")


def _switch(page: Page, labels: Labels, best_s: Mapping[int, float]) -> list[str]:
    """Windows until a method is back at the new best after the workload has changed."""
    for number, drawn in side_by_side(labels):
        page.figure(f"trajectories-switch-{number}", trajectories(drawn, "response_time_s"))
    heading = ["## Switch from dynamic to static", ""]
    if not best_s:
        return [*heading, "Neither a static sweep nor a fixed reference here, so there is no new best.", ""]
    what = ", ".join(seconds(value) for value in dict.fromkeys(best_s.values()))
    text = (
        f"At {SWITCHED_S:g} s. Windows after it until the running mean of {SMOOTHED} is within 15 % of the static "
        f"best of the same seed where there is one ({what}), and the settings before it and at the end, by repeat."
    )
    rows = []
    for label, repeats in labels.items():
        after = [next((w.index for w in t.windows if w.start_s >= SWITCHED_S), len(t.windows)) for t in repeats]
        goals = [best_s[t.run.plan.settings.seed] * (1 + SWITCH_TOLERANCE) for t in repeats]
        found = [reached(t, goal, since) for t, goal, since in zip(repeats, goals, after, strict=True)]
        before = [t.windows[i - 1].configuration[t.knob] for t, i in zip(repeats, after, strict=True)]
        ends = [t.windows[-1].configuration[t.knob] for t in repeats]
        rows.append((label, listed(found), listed(before), listed(ends)))
    return [*heading, text, "", *table(("method", "windows", "before", "end"), rows)]


def predicted(setup: Setup, sweep: Mapping[int, Sequence[Track]]) -> dict[int, float]:
    """Response time in s that the model gives for each setting of a sweep.

    Args:
        setup: its workload and keep-alive time.
        sweep: MaxRequestWorkers to its repeats.
    """
    load = setup.workload
    think_s, sigma_s = load.think_mean_s / load.time_scale, load.think_sigma_s / load.time_scale
    sessions = Sessions(
        session_rate_hz=load.rate_scale / load.session_gap_mean_s,
        session_pages=load.session_pages_mean,
        burst_length=load.burst_mean,
        think_s=think_s,
        held_s=held_lognormal_s(think_s, sigma_s, setup.spec.keep_alive_timeout_ms / 1000),
    )
    windows = [w for repeats in sweep.values() for t in repeats for w in t.windows]
    return {p.servers: p.response_time_s for p in fig6(windows, "max_request_workers", sessions)}


def live(labels: Labels, reloads: Labels) -> list[str]:
    """How long a change took with and without a reload, and when the memory of workers without work was back.

    Args:
        labels: label to repeats of the runs in which M moved live; there is one at least.
        reloads: label to repeats of the same methods with reloads; may be empty.

    Returns:
        Lines of Markdown.
    """
    facts = next(iter(labels.values()))[0].run.plan.host
    kept = f" (it keeps {facts[SPARE_FACT]})" if SPARE_FACT in facts else ""
    text = (
        "Since 23 November 2026 a change of M ends idle processes beyond it. Before, it ended nobody: the server "
        f"lets idle ones go{kept}, one a second, which hold their memory until then. By method: the time that a "
        "change took, here and by reload where those runs are in these results (medians); from when on memory demand "
        "stayed within its limit, and the mean response time since then, by repeat."
    )
    rows = []
    for label, repeats in labels.items():
        found = [within_memory(t) for t in repeats]
        since = ", ".join(f"{windows[0].start_s:.0f} s" if windows else "never" for windows in found)
        times = ", ".join("-" if (v := mean(ws, "response_time_s")) is None else seconds(v) for ws in found)
        rows.append((label, _took(repeats), _took(reloads.get(label, ())), since, times))
    titles = ("method", ">a change, live", ">by reload", "memory within its limit from", "RT since then")
    return [text, "", *table(titles, rows)]


def within_memory(track: Track) -> tuple[Window, ...]:
    """The windows at a run's end in which memory demand was never above its limit, nor unknown."""
    above = [i for i, w in enumerate(track.windows) if w.readings.get("memory_ratio", math.inf) > 1.0]
    return track.windows[above[-1] + 1 if above else 0 :]


def _took(repeats: Sequence[Track]) -> str:
    """The median time of a change."""
    times = [m.took_s for t in repeats for m in t.applied() if m.took_s is not None]
    return seconds(statistics.median(times)) if times else "-"
