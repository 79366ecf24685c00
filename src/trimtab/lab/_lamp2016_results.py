"""The summary of lamp2016's factorials, from stored runs: effects with intervals beside the paper's figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trimtab.drawing import Figure
from trimtab.experiments import phoronix
from trimtab.experiments.analysis import Analysis, Contrast, Observation, Term, analyse, by_cell
from trimtab.experiments.design import Factor, repeats, usual
from trimtab.lab import Claim, Page
from trimtab.lab._tables import mean, table
from trimtab.lab.lamp2016 import LEFT, METRIC, ONLINE, P99, PAPER, PARTS, TUNED, label
from trimtab.report.style import BLUE, GREY, ORANGE, svg
from trimtab.report.track import Track, estimate

PAPERS = {
    "apache": {"mean": 10219.10, "sd": 967.98, "most": 11877.68, "least": 7717.33, "default": 10975.5},
    "php": {"mean": 99873.63, "sd": 1339.30, "most": 101581.0, "least": 96620.0, "default": 96620.0},
    "both": {"mean": 202064.66, "sd": 10293.78, "most": 219575.8, "least": 174609.3, "default": 206368.0},
}
"""Tables 1 to 3; the defaults of Apache and of both follow from the increases over them."""
APACHE_WEIGHT = 10.0
"""The combined score is PHP's and ten times Apache's."""
SMALL = 0.05
"""An effect that is worth knowing of."""
ALIKE = 1.001
"""Scores within this ratio are what clients asked for, which no cell changes."""
ENOUGH = 2
"""Blocks below which there is nothing to analyse."""
_LONGEST = 40
"""Cells that still fit; of more the middle ones are left out."""


def summary(page: Page) -> list[str]:
    """The sections of `summary.md`; draws its figures."""
    text: list[str] = []
    for part, labels in page.parts.items():
        if part == ONLINE:
            text += _online(page, labels)
            continue
        tracks = page.tracks(part)
        text += [f"## {part}: {PARTS[part].what}", ""]
        for metric, said in ((METRIC, "score"), (P99, "99th percentile")):
            text += _section(page, part, tracks, metric, said)
    for machine in ("one", "two"):
        text += _combined(page, machine)
    return text


def observations(tracks: Sequence[Track], metric: str) -> list[Observation]:
    """Measurements, each a run with its levels and its block; runs without the metric are left out."""
    return [
        Observation(track.run.plan.extras["levels"], track.run.plan.settings.seed, value)
        for track in tracks
        if (value := mean(track.windows, metric)) is not None and value > 0
    ]


def analysed(seen: Sequence[Observation], factors: Sequence[Factor]) -> Analysis | None:
    """The analysis; None where too little was measured."""
    whole = len(by_cell(seen)) == math.prod(len(f.levels) for f in factors)
    return analyse(seen, factors) if whole and len({one.block for one in seen}) >= ENOUGH else None


def _section(page: Page, part: str, tracks: Sequence[Track], metric: str, said: str) -> list[str]:
    """One metric of a factorial."""
    seen, factors = observations(tracks, metric), PARTS[part].factors
    if not seen or (metric == P99 and part.startswith("php")):
        return []
    values = [one.value for one in seen]
    if max(values) < ALIKE * min(values):
        return [f"### {said}", "", f"{values[0]:,.1f} in every cell: all that came was served.", ""]
    found = analysed(seen, factors)
    lost = len(tracks) - len(seen)
    blocks = len({one.block for one in seen})
    lines = [f"### {said}", "", f"{len(seen)} measurements in {blocks} blocks; {lost} gave none.", ""]
    lines += _cells(part, seen, metric)
    if found is None:
        return [*lines, f"Too little for an analysis: it takes {ENOUGH} blocks, and every cell.", ""]
    name = f"{part}-{'p99' if metric == P99 else 'score'}"
    page.figure(name, cells(found, f"{said}, to the control"))
    lines += [f"![cells against the control]({name}.svg)", ""]
    needed = max(repeats(SMALL, found.noise_ratio, len(seen) // blocks // len(one.levels)) for one in factors)
    lines += [
        f"Noise of one measurement within a block: {found.noise_ratio:.2%}. In four of five experiments {needed} "
        f"blocks would show an effect of {SMALL:.0%} between two levels of each factor alone.",
        "",
        *_variance(found, factors),
    ]
    return [*lines, *_effects(found), *_verdict(found, metric)]


def _cells(part: str, seen: Sequence[Observation], metric: str) -> list[str]:
    """The cells as the paper sums them up, the best of them over the default included."""
    means = {key: statistics.fmean(values) for key, values in by_cell(seen).items()}
    base = means.get(tuple(sorted(usual(PARTS[part].factors).items())))
    kind = part.partition("-")[0]
    paper = PAPERS.get(kind, {}) if metric == METRIC else {}
    rows = [_row(name, of(list(means.values())), paper.get(name)) for name, of in _SUMS.items() if len(means) > 1]
    if base is not None:
        rows.append(_row("default", base, paper.get("default")))
        best = max(means.values()) if metric == METRIC else min(means.values())
        theirs = paper["most"] / paper["default"] - 1 if paper else None
        rows.append(
            ("best cell over the default", f"{best / base - 1:+.2%}", "-" if theirs is None else f"{theirs:+.2%}")
        )
    runs = [_by_phoronix(values) for values in by_cell(seen).values() if len(values) >= phoronix.RUNS]
    if runs and metric == METRIC:
        rows.append(("runs by Phoronix's rule, of those made", f"{statistics.fmean(runs):.1f}", "3 to 9"))
    return table(("over the cells", ">here", ">the paper's"), rows)


_SUMS: Mapping[str, Callable[[list[float]], float]] = {
    "mean": statistics.fmean,
    "sd": statistics.stdev,
    "most": max,
    "least": min,
}


def _row(name: str, here: float, theirs: float | None) -> tuple[str, str, str]:
    shown = f"{here:,.1f}" if here >= 100 else f"{here:.3g}"
    return name, shown, "-" if theirs is None else f"{theirs:,.1f}"


def _by_phoronix(values: Sequence[float]) -> int:
    """After how many of these runs Phoronix would have stopped."""
    count = phoronix.RUNS
    while count < len(values) and phoronix.another(values[:count]):
        count += 1
    return count


def _variance(found: Analysis, factors: Sequence[Factor]) -> list[str]:
    """The analysis of variance."""
    placebos = {factor.name for factor in factors if factor.placebo}
    rows = [
        (
            " x ".join(f"{name} (placebo)" if name in placebos else name for name in term.factors),
            f"{term.share:.1%}",
            f"{term.f:.2f}",
            f"{term.p:.3f}",
            "yes" if term.found else "no",
        )
        for term in found.terms
    ]
    return table(("term", ">share of the variance", ">F", ">p, corrected (Holm)", "told apart"), rows)


def _effects(found: Analysis) -> list[str]:
    """Each level against the usual one."""
    rows = [
        (one.factor, one.level, f"{one.ratio - 1:+.2%}", f"{one.low - 1:+.2%} to {one.high - 1:+.2%}")
        for one in found.contrasts
    ]
    return table(("factor", "level", ">effect", "interval for all levels together"), rows)


def _verdict(found: Analysis, metric: str) -> list[str]:
    """Whether any cell is better than the control, in words."""
    better = [one for one in found.cells if (one.high < 1 if metric == P99 else one.low > 1)]
    worse = [one for one in found.cells if (one.low > 1 if metric == P99 else one.high < 1)]
    ordered = sorted(better, key=lambda one: one.ratio if metric == P99 else -one.ratio)
    if not better:
        said = "No cell is told apart from the control as better"
    else:
        best = ordered[0]
        said = (
            f"{len(better)} cells are better than the control; the best is {label(best.cell)} "
            f"({best.ratio - 1:+.1%}, {best.low - 1:+.1%} to {best.high - 1:+.1%})"
        )
    return [f"{said}; worse: {len(worse)}.", ""]


def _online(page: Page, labels: Mapping[str, Sequence[Track]]) -> list[str]:
    """The stack left alone and tuned, seed by seed, beside the best cell of its factorial."""
    by_seed = {
        name: {track.run.plan.settings.seed: track for track in labels.get(name, ())} for name in (LEFT, TUNED)
    }
    seeds = sorted(set(by_seed[LEFT]) & set(by_seed[TUNED]))
    halves = {name: [_second_half_s(by_seed[name][seed]) for seed in seeds] for name in by_seed}
    pairs = [(left, tuned) for left, tuned in zip(halves[LEFT], halves[TUNED], strict=True) if left and tuned]
    rows = [
        (str(seed), *(f"{v * 1e3:.1f}" if v else "-" for v in (left, tuned)), _ended_with(by_seed[TUNED][seed]))
        for seed, left, tuned in zip(seeds, halves[LEFT], halves[TUNED], strict=True)
    ]
    lines = [f"## {ONLINE}: `tune linux` beside batch jobs", ""]
    lines += table(("seed", f">{LEFT}, p99 (ms)", f">{TUNED}, p99 (ms)", "ended with"), rows)
    if pairs:
        found = estimate([math.log(tuned / left) for left, tuned in pairs])
        ends = [math.exp(end) for end in (found.low, found.high) if end is not None]
        within = f" ({ends[0]:.3f} to {ends[1]:.3f})" if len(ends) == 2 else ""
        lines += [f"99th percentile in the second half, tuned over left alone: {math.exp(found.mean):.3f}{within}."]
    stack = _found(page, "stack", P99)
    if stack is not None:
        best = min(stack.cells, key=lambda one: one.ratio)
        lines += [
            "The best cell of the factorial, over its control: "
            f"{best.ratio:.3f} ({best.low:.3f} to {best.high:.3f}), {label(best.cell)}."
        ]
    return [*lines, ""]


def _second_half_s(track: Track) -> float | None:
    """The mean of the windows' 99th percentiles in the second half of a run."""
    return mean(track.windows[len(track.windows) // 2 :], P99)


def _ended_with(track: Track) -> str:
    """The configuration of the last window, as far as it is another than the first's."""
    last = track.windows[-1].configuration if track.windows else {}
    moved = {name: value for name, value in last.items() if track.run.plan.initial.get(name) != value}
    named = {knob.name: knob for knob in track.run.plan.knobs}
    return ", ".join(f"{n} {named[n].domain.shown(v) if n in named else v}" for n, v in moved.items()) or "the start"


def _combined(page: Page, machine: str) -> list[str]:
    """The paper's combined score, ten times Apache's and PHP's, by cell: its Table 3."""
    by = [by_cell(observations(page.tracks(f"{kind}-{machine}"), METRIC)) for kind in ("apache", "php")]
    both = {
        key: APACHE_WEIGHT * statistics.fmean(by[0][key]) + statistics.fmean(by[1][key])
        for key in by[0]
        if key in by[1]
    }
    base = both.get(tuple(sorted(usual(PAPER).items())))
    if base is None or len(both) < 2:
        return []
    values, paper = list(both.values()), PAPERS["both"]
    rows = [_row(name, of(values), paper[name]) for name, of in _SUMS.items()]
    rows.append(
        (
            "best cell over the default",
            f"{max(values) / base - 1:+.2%}",
            f"{paper['most'] / paper['default'] - 1:+.2%}",
        )
    )
    ours, theirs = max(values) / min(values) - 1, paper["most"] / paper["least"] - 1
    rows.append(("best cell over the worst", f"{ours:+.2%}", f"{theirs:+.2%} (printed: +41.55%)"))
    title = f"## Table 3: Apache's score ten times and PHP's, {'one core' if machine == 'one' else 'two cores'}"
    return [title, "", *table(("over the cells", ">here", ">the paper's"), rows)]


def _found(page: Page, part: str, metric: str = METRIC) -> Analysis | None:
    return analysed(observations(page.tracks(part), metric), PARTS[part].factors)


def _level(part: str, factor: str, level: str) -> Callable[[Page], float | None]:
    """The lower end of an effect's interval."""

    def measured(page: Page) -> float | None:
        found = _found(page, part)
        contrasts: Sequence[Contrast] = found.contrasts if found else ()
        return next((one.low for one in contrasts if (one.factor, one.level) == (factor, level)), None)

    return measured


def _chance(part: str, factor: str) -> Callable[[Page], float | None]:
    """How likely chance alone does what a factor did."""

    def measured(page: Page) -> float | None:
        found = _found(page, part)
        terms: Sequence[Term] = found.terms if found else ()
        return next((term.p for term in terms if term.factors == (factor,)), None)

    return measured


CLAIMS = tuple(
    claim
    for part in ("apache-one", "apache-two", "php-one", "php-two")
    for claim in (
        Claim(
            f"{part}: swappiness 0 against 60, lower end",
            "more with less",
            1.0,
            math.inf,
            _level(part, "swappiness", "0"),
        ),
        Claim(
            f"{part}: slice 0.1 ms against its default, lower end",
            "short is best",
            1.0,
            math.inf,
            _level(part, "slice", "0.1 ms"),
        ),
        Claim(f"{part}: chance that the placebo does as much", "not asked", 0.05, 1.0, _chance(part, "rr slice")),
    )
)


def cells(found: Analysis, axis: str) -> str:
    """Every cell against the control, sorted, with the interval for all cells together.

    Args:
        found: the analysis.
        axis: what is compared.
    """
    rows = found.cells
    if len(rows) > _LONGEST:
        rows = (*rows[: _LONGEST // 2], *rows[-_LONGEST // 2 :])

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        for place, row in enumerate(reversed(rows)):
            told = not row.low <= 1 <= row.high
            colour = ORANGE if told else BLUE
            axes.plot([100 * (row.low - 1), 100 * (row.high - 1)], [place, place], color=colour, linewidth=1.6)
            axes.plot([100 * (row.ratio - 1)], [place], "o", color=colour, markersize=3.5)
        axes.axvline(0, color=GREY, linewidth=0.9, linestyle=":")
        axes.set_yticks(range(len(rows)))
        axes.set_yticklabels([", ".join(row.cell.values()) for row in reversed(rows)], fontsize=7)
        axes.set_ylabel(", ".join(rows[0].cell))
        axes.set_xlabel(f"{axis} [%], 95 % for all cells together")

    return svg(draw, 6.8, 1.2 + 0.17 * len(rows))
