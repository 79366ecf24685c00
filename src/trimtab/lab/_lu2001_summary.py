"""The summary of lu2001's experiments, from stored runs: tables in Markdown, figures as SVG."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from trimtab.core import of_class
from trimtab.identification.result import PAPER, Identified
from trimtab.identification.signals import Kind
from trimtab.lab import _lu2001_figures as figures
from trimtab.lab._lu2001_scenes import SCALE, WARM_S
from trimtab.lab._results import write_raw
from trimtab.report.figures import plain, seconds
from trimtab.report.identification import comparison, errors, parameters
from trimtab.report.track import Track, estimate, tracks
from trimtab.store import Store
from trimtab.testbed.lu2001 import STEP_S

BAND = 0.1
"""What counts as at the reference: the paper's 10 %."""
SMOOTHED = 5
"""Windows in a running mean: one window holds too few connections to be compared with a reference."""
SETTLE_S = 300.0 / SCALE
"""The settling time that the controllers are designed for."""
RELATIVE = ("relative", "three", "renewed", "unscaled")
CHANGE = {"relative": "load step", "unscaled": "load step", "renewed": "change of pages"}
"""What happens in mid-run."""


def write(folder: Path, store: Store, run_ids: Sequence[int], found: Mapping[Kind, Identified] | None) -> None:
    """Writes raw data, figures and `summary.md` into a results folder.

    Args:
        folder: an empty folder.
        store: where the runs are.
        run_ids: their numbers.
        found: the models that were identified; None when only stored runs are at hand.
    """
    all_tracks = tracks(store, run_ids)
    write_raw(folder, all_tracks)
    groups: dict[str, dict[str, list[Track]]] = {}
    for track in all_tracks:
        groups.setdefault(track.run.plan.group, {}).setdefault(track.label, []).append(track)
    text = ["# lu2001 on the real testbed", "", *_conditions(all_tracks), ""]
    if "delay" in groups:
        text += _delay(folder, groups["delay"])
    for kind, identified in (found or {}).items():
        text += _model(folder, kind, identified)
    for part, labels in groups.items():
        if part in RELATIVE:
            text += _relative(folder, part, labels)
        elif part in ("absolute", "hybrid"):
            text += _absolute(folder, part, labels)
    (folder / "summary.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def _conditions(found: Sequence[Track]) -> list[str]:
    """What a reader needs to judge and repeat the figures."""
    plan = next((t for t in reversed(found) if t.run.plan.plant == "gate"), found[-1]).run.plan
    seeds = sorted({t.run.plan.settings.seed for t in found if t.run.plan.group != "identification"})
    facts = {k: v for k, v in plan.host.items() if k not in ("model", "design", "time divided by")}
    return [
        "Real Apache under the gate, real load; what is simulated says so in its label. Repeat with",
        "",
        f"    trimtab lab run lu2001 --seeds {','.join(map(str, seeds))} --results FOLDER",
        "",
        f"- sampling period {plan.settings.window_s:g} s where nothing else is said: the paper's times divided by "
        f"{SCALE:g}; seeds {', '.join(map(str, seeds))}; {len(found)} runs",
        *(f"- {name.replace('_', ' ')}: {value}" for name, value in facts.items()),
    ]


def _delay(folder: Path, labels: Mapping[str, Sequence[Track]]) -> list[str]:
    """Fig. 4 and the table behind it."""
    points: dict[int, tuple[list[float], list[float]]] = {}
    lines = ["## Connection delay and response time (Fig. 4)", ""]
    lines += ["| users | connection delay | response time per request | delay / response |", "|---:|---:|---:|---:|"]
    for label, repeats in labels.items():
        name = figures.classes_of(repeats[0])[0]
        delay = [v for t in repeats if (v := _mean(t, of_class("connection_delay_s", name))) is not None]
        times = [v for t in repeats if (v := _mean(t, "client_request_time_s")) is not None]
        if not delay or not times:
            continue
        points[int(label.split()[0])] = (delay, times)
        ratio = statistics.fmean(delay) / statistics.fmean(times)
        cells = (seconds(statistics.fmean(delay)), seconds(statistics.fmean(times)), plain(ratio))
        lines.append(f"| {label.split()[0]} | {' | '.join(cells)} |")
    (folder / "fig4.svg").write_text(figures.delay_and_response(points), encoding="utf-8")
    return [*lines, ""]


def _model(folder: Path, kind: Kind, found: Identified) -> list[str]:
    """Fig. 5 and 6, and the models by order."""
    number = 6 if kind is Kind.ABSOLUTE else 5
    (folder / f"fig{number}a-{kind}.svg").write_text(parameters(found), encoding="utf-8")
    (folder / f"fig{number}bcd-{kind}.svg").write_text(comparison(found), encoding="utf-8")
    (folder / f"orders-{kind}.svg").write_text(errors(found), encoding="utf-8")
    found.file().write(folder / f"model-{kind}.json")
    lines = [f"## Model of the {kind} delay (Fig. {number})", ""]
    lines += ["| order | model | prediction error (rms) on the second seed | fit |", "|---:|---|---:|---:|"]
    for one in found.candidates:
        lines.append(f"| {one.model.order} | {one.model} | {one.rms:.3g} | {one.fit_ratio:.2f} |")
    paper = f" The paper's: {PAPER[kind]}, for its own server." if kind in PAPER else ""
    return [*lines, "", f"Chosen: order {found.model.order}.{paper}", ""]


def _relative(folder: Path, part: str, labels: Mapping[str, Sequence[Track]]) -> list[str]:
    """Fig. 7 and 8: the ratios before and after the load step."""
    desired = _desired(labels)
    step_s = (STEP_S - WARM_S) / (1.0 if part == "unscaled" else SCALE)
    scale = 1.0 if part == "unscaled" else SCALE
    steps = part in CHANGE
    _pictures(folder, part, labels, desired, True, step_s if steps else None)
    names = figures.classes_of(next(iter(labels.values()))[0])
    lines = [f"## Relative guarantee, {part}", ""]
    lines += [
        f"Desired {':'.join(plain(w) for w in desired)}. Ratio of mean delays, over repeats; settled: seconds after "
        f"the {CHANGE.get(part, 'start')} until the running mean of {SMOOTHED} windows of every ratio stays "
        f"within 10 % for as many, by repeat; designed for {seconds(SETTLE_S * SCALE / scale)}.",
        "",
        "| run | pair | desired | before the change (95 %) | at the end (95 %) | settled | designed anew |",
        "|---|---|---:|---:|---:|---|---|",
    ]
    for label, repeats in labels.items():
        for k, (upper, lower) in enumerate(pairwise(names), 1):
            reference = desired[k] / desired[k - 1]
            before = [_ratio(t, upper, lower, step_s / 2, step_s) for t in repeats] if steps else []
            ends = [_ratio(t, upper, lower, t.windows[-1].start_s * 0.6, float("inf")) for t in repeats]
            settled = [_settled(t, upper, lower, reference, step_s if steps else 0.0) for t in repeats]
            shown = ", ".join("never" if s is None else f"{s:.1f} s" for s in settled)
            anew = ", ".join(str(sum("redesigned to" in m.proposed.reason for m in t.moves)) for t in repeats)
            pair = f"{lower} / {upper}"
            cells = (label, pair, plain(reference), _span(before), _span(ends), shown, anew)
            lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _absolute(folder: Path, part: str, labels: Mapping[str, Sequence[Track]]) -> list[str]:
    """Fig. 9 and the hybrid guarantee: delays before and after the load step."""
    desired = _desired(labels)
    step_s = (STEP_S - WARM_S) / SCALE
    _pictures(folder, part, labels, desired, False, step_s if part == "absolute" else None)
    names = figures.classes_of(next(iter(labels.values()))[0])
    lines = [f"## {'Absolute guarantee' if part == 'absolute' else 'Hybrid guarantee under a rising overload'}", ""]
    lines += ["| run | class | desired | before the step (95 %) | at the end (95 %) |", "|---|---|---:|---:|---:|"]
    for label, repeats in labels.items():
        for name, wanted in zip(names, desired, strict=True):
            metric = of_class("connection_delay_s", name)
            before = [_mean(t, metric, step_s / 2, step_s) for t in repeats]
            ends = [_mean(t, metric, t.windows[-1].start_s * 0.6) for t in repeats]
            lines.append(f"| {label} | {name} | {seconds(wanted)} | {_span(before, True)} | {_span(ends, True)} |")
    return [*lines, ""]


def _pictures(
    folder: Path,
    part: str,
    labels: Mapping[str, Sequence[Track]],
    desired: Sequence[float],
    relative: bool,
    step_s: float | None,
) -> None:
    """One figure for each repeat, with a column for each label."""
    for number in range(max(len(repeats) for repeats in labels.values())):
        drawn = [repeats[number] for repeats in labels.values() if number < len(repeats)]
        picture = figures.guarantee(drawn, desired, relative, step_s)
        (folder / f"{part}-{number + 1}.svg").write_text(picture, encoding="utf-8")


def _desired(labels: Mapping[str, Sequence[Track]]) -> tuple[float, ...]:
    """W_k of the closed loops of a part."""
    options = (t.run.plan.controller_options for repeats in labels.values() for t in repeats)
    return next(tuple(map(float, one["desired"])) for one in options if one.get("desired"))


def _mean(track: Track, metric: str, since_s: float = 0.0, until_s: float = float("inf")) -> float | None:
    """Mean of a metric over the windows of a stretch; None where it was not measured."""
    values = [w.readings[metric] for w in track.windows if since_s <= w.start_s < until_s and metric in w.readings]
    return statistics.fmean(values) if values else None


def _ratio(track: Track, upper: str, lower: str, since_s: float, until_s: float) -> float | None:
    """Ratio of two classes' mean delays over a stretch."""
    above, below = (_mean(track, of_class("connection_delay_s", n), since_s, until_s) for n in (upper, lower))
    return below / above if above and below is not None else None


def _settled(track: Track, upper: str, lower: str, reference: float, since_s: float) -> float | None:
    """Seconds after a moment until the running mean of the ratio is within the band, and stays there as long."""
    times, values = figures.ratios(track, upper, lower)
    after = [(t, v) for t, v in zip(times, values, strict=True) if t >= since_s]
    means = [statistics.fmean(v for _, v in after[i : i + SMOOTHED]) for i in range(len(after) - SMOOTHED + 1)]
    inside = [abs(m / reference - 1) <= BAND for m in means]
    for i in range(len(inside) - SMOOTHED + 1):
        if all(inside[i : i + SMOOTHED]):
            return after[i][0] - since_s
    return None


def _span(values: Sequence[float | None], time: bool = False) -> str:
    """A mean over repeats with its interval."""
    known = [v for v in values if v is not None]
    if not known:
        return "-"
    shown = seconds if time else plain
    e = estimate(known)
    if e.low is None or e.high is None:
        return shown(e.mean)
    return f"{shown(e.mean)} ({shown(max(0.0, e.low))} to {shown(e.high)})"
