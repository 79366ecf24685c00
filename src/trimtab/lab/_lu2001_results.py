"""The summary of lu2001's experiments, from stored runs: tables in Markdown, figures as SVG."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from trimtab.core import of_class
from trimtab.drawing import Figure
from trimtab.identification.model import PAPER
from trimtab.identification.result import Identified
from trimtab.identification.signals import Kind
from trimtab.lab import Claim, Page
from trimtab.lab._lu2001_scenes import MODEL_SEEDS, MODELS, NAMES, SCALE, SETTLE_S, WARM_S, identified
from trimtab.lab._tables import Shown, interval, mean, means, side_by_side, table
from trimtab.lab.lu2001 import CLOSED
from trimtab.plants.gate.knobs import PROCESS_BUDGET
from trimtab.report.identification import comparison, errors, parameters
from trimtab.report.style import BLUE, GREEN, GREY, ORANGE, RED, svg
from trimtab.report.text import plain, seconds
from trimtab.report.track import Track
from trimtab.testbed.lu2001 import STEP_S

BAND = 0.1
"""So near counts as at the reference: the paper's 10 %."""
SMOOTHED = 5
"""Windows in a running mean: one window holds too few connections to be compared with a reference."""
RELATIVE = ("relative", "three", "renewed", "unscaled")
CHANGE = {"relative": "load step", "unscaled": "load step", "renewed": "change of pages"}
"""The event in mid-run."""
LAST = 0.6
"""The end of a run begins at this share of it."""

Labels = Mapping[str, Sequence[Track]]
"""Label to repeats."""
TITLE_CHARACTERS = 96
"""Characters of a title that fit above all columns together."""
COLOURS = (BLUE, ORANGE, GREEN)
_MOST_RATIO = 2.0
"""The axis of a ratio ends at this multiple of the largest reference; what lies above is in the raw data."""


def classes_of(track: Track) -> tuple[str, ...]:
    """The classes whose budgets were in force, in order of priority."""
    names = [knob.name for knob in track.run.plan.knobs]
    return tuple(name.partition("@")[2] for name in names if name.startswith(f"{PROCESS_BUDGET}@"))


def ratios(track: Track, upper: str, lower: str) -> tuple[list[float], list[float]]:
    """Window centres in s, and the delay of the lower class over that of the upper one, where both were measured."""
    above, below = (of_class("connection_delay_s", name) for name in (upper, lower))
    found = [w for w in track.windows if w.readings.get(above, 0.0) > 0 and below in w.readings]
    return [w.start_s + w.duration_s / 2 for w in found], [w.readings[below] / w.readings[above] for w in found]


def guarantee(tracks: Sequence[Track], desired: Sequence[float], relative: bool, step_s: float | None) -> str:
    """Fig. 7, 8 and 9: delays, their ratios (relative guarantees) and budgets over time, one column per run.

    Args:
        tracks: runs of the same classes.
        desired: W_k: weights, or delays in seconds.
        relative: whether the ratios are what is guaranteed.
        step_s: when the workload changed, on the run's clock; None where it did not.
    """
    rows = 3 if relative else 2

    def draw(figure: Figure) -> None:
        grid: Any = figure.subplots(rows, len(tracks), sharex="col", sharey="row", squeeze=False)
        for column, track in enumerate(tracks):
            names = classes_of(track)
            delays, shares = grid[0][column], grid[rows - 1][column]
            delays.set_title(textwrap.fill(track.label, TITLE_CHARACTERS // len(tracks)))
            for number, name in enumerate(names):
                colour = COLOURS[number % len(COLOURS)]
                t, values = track.series(of_class("connection_delay_s", name))
                delays.plot(t, values, ".-", color=colour, linewidth=1.2, markersize=3, label=name)
                if not relative:
                    delays.axhline(desired[number], color=colour, linewidth=0.9, linestyle="--")
                t, values = track.series(of_class(PROCESS_BUDGET, name))
                shares.step(t, values, where="mid", color=colour, linewidth=1.4, label=name)
            if relative:
                _ratios(grid[1][column], track, names, desired)
            for axes in (row[column] for row in grid):
                if step_s is not None:
                    axes.axvline(step_s, color=GREY, linewidth=0.9, linestyle=":")
            shares.set_xlabel("time in s")
        grid[0][0].set_ylabel("connection delay in s")
        grid[rows - 1][0].set_ylabel("process budget")
        grid[0][0].legend(loc="upper left")
        if relative:
            grid[1][0].set_ylabel("ratio of delays")

    return svg(draw, min(11.0, max(6.0, 3.6 * len(tracks))), 2.1 * rows + 0.6)


def _ratios(axes: Any, track: Track, names: Sequence[str], desired: Sequence[float]) -> None:
    """The delay of every class over that of the one before it, with the desired ratio."""
    references = [desired[k] / desired[k - 1] for k in range(1, len(names))]
    for k, reference in enumerate(references, 1):
        colour = COLOURS[k % len(COLOURS)]
        t, values = ratios(track, names[k - 1], names[k])
        axes.plot(t, values, ".-", color=colour, linewidth=1.2, markersize=3)
        axes.axhline(reference, color=colour, linewidth=0.9, linestyle="--")
        axes.axhspan(0.9 * reference, 1.1 * reference, color=colour, alpha=0.12, linewidth=0)
    axes.set_ylim(0, _MOST_RATIO * max(references))


def delay_and_response(points: Mapping[int, tuple[Sequence[float], Sequence[float]]]) -> str:
    """Fig. 4: connection delay and response time per request against the number of users, by repeat."""

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        users = sorted(points)
        for index, (colour, text) in enumerate(((RED, "connection delay"), (BLUE, "response time per request"))):
            means = [sum(points[u][index]) / len(points[u][index]) for u in users]
            low = [m - min(points[u][index]) for u, m in zip(users, means, strict=True)]
            high = [max(points[u][index]) - m for u, m in zip(users, means, strict=True)]
            axes.errorbar(users, means, yerr=[low, high], fmt="o-", color=colour, capsize=3, label=text)
        axes.set_xlabel("users")
        axes.yaxis.set_major_formatter(lambda value, _: seconds(value))
        axes.set_ylabel("mean time")
        axes.legend()

    return svg(draw, 6.8, 3.8)


def summary(page: Page) -> list[str]:
    """The sections of `summary.md`; draws its figures."""
    text = _delay(page, page.parts["delay"]) if "delay" in page.parts else []
    excited = page.parts.get(MODELS, {})
    if len(excited) == len(MODEL_SEEDS):
        for kind, found in identified([repeats[-1] for repeats in excited.values()]).items():
            text += _model(page, kind, found)
    for part, labels in page.parts.items():
        if part in RELATIVE:
            text += _relative(page, part, labels)
        elif part in ("absolute", "hybrid"):
            text += _absolute(page, part, labels)
    return text


def _at_end(part: str) -> Claim:
    """Fig. 7 and 8: the ratio of the last two classes' delays at the end, over the desired one."""

    def measured(page: Page) -> float | None:
        repeats = page.parts.get(part, {}).get(CLOSED, [])
        if not repeats:
            return None
        names, desired = classes_of(repeats[0]), _desired({CLOSED: repeats})
        ratios = [v for t in repeats if (v := _ratio(t, names[-2], names[-1], _end_s(t), math.inf)) is not None]
        return statistics.fmean(ratios) / (desired[-1] / desired[-2]) if ratios else None

    return Claim(f"{part}: ratio of delays at the end over the desired one", "within 10 % of 1", 0.9, 1.1, measured)


def _delay_over_response(page: Page) -> float | None:
    """Fig. 4: connection delay over response time with 400 users."""
    repeats = page.parts.get("delay", {}).get("400 users", [])
    delay = means(repeats, of_class("connection_delay_s", NAMES[0]))
    times = means(repeats, "client_request_time_s")
    return statistics.fmean(delay) / statistics.fmean(times) if delay and times else None


CLAIMS = (
    Claim("connection delay over response time, 400 users", "4.9", 1.0, math.inf, _delay_over_response),
    *map(_at_end, ("relative", "three", "unscaled")),
)


def _delay(page: Page, labels: Labels) -> list[str]:
    """Fig. 4 and the table behind it."""
    points: dict[int, tuple[list[float], list[float]]] = {}
    for label, repeats in labels.items():
        delay = means(repeats, of_class("connection_delay_s", classes_of(repeats[0])[0]))
        times = means(repeats, "client_request_time_s")
        if delay and times:
            points[int(label.split()[0])] = (delay, times)
    page.figure("fig4", delay_and_response(points))
    middles = {users: tuple(map(statistics.fmean, pair)) for users, pair in points.items()}
    rows = [(str(users), seconds(d), seconds(t), plain(d / t)) for users, (d, t) in middles.items()]
    titles = (">users", ">connection delay", ">response time per request", ">delay / response")
    return ["## Connection delay and response time (Fig. 4)", "", *table(titles, rows)]


def _model(page: Page, kind: Kind, found: Identified) -> list[str]:
    """Fig. 5 and 6, and the models by order."""
    number = 6 if kind is Kind.ABSOLUTE else 5
    page.figure(f"fig{number}a-{kind}", parameters(found))
    page.figure(f"fig{number}bcd-{kind}", comparison(found))
    page.figure(f"orders-{kind}", errors(found))
    found.file().write(page.folder / f"model-{kind}.json")
    rows = [(str(c.model.order), str(c.model), f"{c.rms:.3g}", f"{c.fit_ratio:.2f}") for c in found.candidates]
    paper = f" The paper's: {PAPER[kind]}, for its own server." if kind in PAPER else ""
    return [
        f"## Model of the {kind} delay (Fig. {number})",
        "",
        *table((">order", "model", ">prediction error (rms) on the second seed", ">fit"), rows),
        f"Chosen: order {found.model.order}.{paper}",
        "",
    ]


def _relative(page: Page, part: str, labels: Labels) -> list[str]:
    """Fig. 7 and 8: the ratios before and after the load step."""
    desired, steps = _desired(labels), part in CHANGE
    scale = 1.0 if part == "unscaled" else SCALE
    step_s = (STEP_S - WARM_S) / scale
    for number, drawn in side_by_side(labels):
        page.figure(f"{part}-{number}", guarantee(drawn, desired, True, step_s if steps else None))
    names = classes_of(next(iter(labels.values()))[0])
    rows = []
    for label, repeats in labels.items():
        for k, (upper, lower) in enumerate(pairwise(names), 1):
            reference = desired[k] / desired[k - 1]
            before = [_ratio(t, upper, lower, step_s / 2, step_s) for t in repeats] if steps else []
            ends = [_ratio(t, upper, lower, _end_s(t), math.inf) for t in repeats]
            settled = [_settled(t, upper, lower, reference, step_s if steps else 0.0) for t in repeats]
            shown = ", ".join("never" if s is None else f"{s:.1f} s" for s in settled)
            anew = ", ".join(str(sum("redesigned to" in m.proposed.reason for m in t.moves)) for t in repeats)
            pair = f"{lower} / {upper}"
            rows.append((label, pair, plain(reference), _span(before, plain), _span(ends, plain), shown, anew))
    text = (
        f"Desired {':'.join(plain(w) for w in desired)}. Ratio of mean delays, over repeats; settled: seconds after "
        f"the {CHANGE.get(part, 'start')} until the running mean of {SMOOTHED} windows of every ratio stays "
        f"within 10 % for as many, by repeat; designed for {seconds(SETTLE_S / scale)}."
    )
    titles = (
        "run",
        "pair",
        ">desired",
        ">before the change (95 %)",
        ">at the end (95 %)",
        "settled",
        "designed anew",
    )
    return [f"## Relative guarantee, {part}", "", text, "", *table(titles, rows)]


def _absolute(page: Page, part: str, labels: Labels) -> list[str]:
    """Fig. 9 and the hybrid guarantee: delays before and after the load step."""
    desired, step_s = _desired(labels), (STEP_S - WARM_S) / SCALE
    for number, drawn in side_by_side(labels):
        at_s = step_s if part == "absolute" else None
        page.figure(f"{part}-{number}", guarantee(drawn, desired, False, at_s))
    rows = []
    for label, repeats in labels.items():
        for name, wanted in zip(classes_of(repeats[0]), desired, strict=True):
            metric = of_class("connection_delay_s", name)
            before = [_mean(t, metric, step_s / 2, step_s) for t in repeats]
            ends = [_mean(t, metric, _end_s(t)) for t in repeats]
            rows.append((label, name, seconds(wanted), _span(before, seconds), _span(ends, seconds)))
    heading = "Absolute guarantee" if part == "absolute" else "Hybrid guarantee under a rising overload"
    titles = ("run", "class", ">desired", ">before the step (95 %)", ">at the end (95 %)")
    return [f"## {heading}", "", *table(titles, rows)]


def _end_s(track: Track) -> float:
    return track.windows[-1].start_s * LAST


def _span(values: Sequence[float | None], shown: Shown) -> str:
    return interval([v for v in values if v is not None], shown)


def _desired(labels: Labels) -> tuple[float, ...]:
    """W_k of the closed loops of a part."""
    options = (t.run.plan.controller_options for repeats in labels.values() for t in repeats)
    return next(tuple(map(float, one["desired"])) for one in options if one.get("desired"))


def _mean(track: Track, metric: str, since_s: float = 0.0, until_s: float = math.inf) -> float | None:
    """Mean of a metric over the windows of a stretch; None where it was not measured."""
    return mean((w for w in track.windows if since_s <= w.start_s < until_s), metric)


def _ratio(track: Track, upper: str, lower: str, since_s: float, until_s: float) -> float | None:
    """Ratio of two classes' mean delays over a stretch."""
    above, below = (_mean(track, of_class("connection_delay_s", n), since_s, until_s) for n in (upper, lower))
    return below / above if above and below is not None else None


def _settled(track: Track, upper: str, lower: str, reference: float, since_s: float) -> float | None:
    """Seconds after a moment until the running mean of the ratio is within the band, and stays there as long."""
    times, values = ratios(track, upper, lower)
    after = [(t, v) for t, v in zip(times, values, strict=True) if t >= since_s]
    running = [statistics.fmean(v for _, v in after[i : i + SMOOTHED]) for i in range(len(after) - SMOOTHED + 1)]
    inside = [abs(m / reference - 1) <= BAND for m in running]
    for i in range(len(inside) - SMOOTHED + 1):
        if all(inside[i : i + SMOOTHED]):
            return after[i][0] - since_s
    return None
