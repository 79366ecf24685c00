"""The table and the figure of a contest: pure functions of its runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from trimtab.drawing import Figure
from trimtab.lab import Page
from trimtab.lab._contest_run import SAID, SHOPS, Contested
from trimtab.lab._shop_calibration import real_against_simulated
from trimtab.lab._tables import table
from trimtab.report.style import svg

OURS = "trust-region"
WORTH = 0.005
"""A winner that truly gains less than half a percent is a false improvement."""

TITLES = (
    *("method", ">median regret", ">quartiles", ">trials worse than the start by a tenth"),
    *(">median gain of the winner", ">false improvements", ">reports naming a placebo"),
)
NEAR = 0.1
"""Regret up to which the figure's axis is linear; beyond it is logarithmic."""


def summary(page: Page) -> list[str]:
    """The sections of `summary.md`; writes every run and the figures."""
    lines: list[str] = []
    for part in page.parts:
        found = page.found(part, Contested)
        page.lines(part, map(asdict, found))
        page.figure(f"regret-{part}", regrets(found))
        lines += tables(found, part)
        if {one.kind for one in found} <= SHOPS.keys():
            lines.append(real_against_simulated())
    return lines


def tables(found: Sequence[Contested], part: str) -> list[str]:
    """The outcome, one table for each kind of bed, the least regret first."""
    lines = [f"## {part}", ""]
    for kind in dict.fromkeys(one.kind for one in found):
        these = [one for one in found if one.kind == kind]
        seeds, trials = len({one.seed for one in these}), len(these[0].regrets)
        lines += [
            f"### {kind}: {SAID[kind]} ({seeds} seeds, {trials} trials)",
            "",
            *table(TITLES, (_row(name, [one for one in these if one.method == name]) for name in ranked(these))),
        ]
    return lines


def ranked(found: Sequence[Contested]) -> list[str]:
    """The methods by their median regret."""
    names = dict.fromkeys(one.method for one in found)
    return sorted(names, key=lambda name: statistics.median(one.regret for one in found if one.method == name))


def _row(name: str, found: Sequence[Contested]) -> tuple[str, ...]:
    regret = np.quantile([one.regret for one in found], (0.25, 0.5, 0.75))
    harmed = statistics.fmean(one.harmed for one in found)
    gain = statistics.median(one.gain for one in found)
    false = sum(one.moved and one.gain < WORTH for one in found)
    placebos = sum(one.placebos > 0 for one in found)
    shown, of = f"**{name}**" if name == OURS else name, f"of {len(found)}"
    costs = (f"{regret[1]:.3f}", f"{regret[0]:.3f} to {regret[2]:.3f}", f"{harmed:.1%}", f"{np.expm1(gain):+.1%}")
    return shown, *costs, f"{false} {of}", f"{placebos} {of}"


def regrets(found: Sequence[Contested]) -> str:
    """Regret over trials, the median of the seeds with its quartiles for ours, one panel for each kind of bed."""
    kinds = list(dict.fromkeys(one.kind for one in found))

    def draw(figure: Figure) -> None:
        rows = -(-len(kinds) // 2)
        panels: Any = figure.subplots(rows, min(2, len(kinds)), squeeze=False, sharex=True)
        for axes, kind in zip(panels.flat, kinds, strict=False):
            for name in dict.fromkeys(one.method for one in found):
                values = np.array([one.regrets for one in found if one.kind == kind and one.method == name])
                low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
                trials = np.arange(1, len(middle) + 1)
                (line,) = axes.plot(trials, middle, label=name, linewidth=2.0 if name == OURS else 0.9)
                if name == OURS:
                    axes.fill_between(trials, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
            axes.set_title(kind)
            axes.set_yscale("symlog", linthresh=NEAR)
            axes.set_yticks((0.0, 0.1, 1.0, 10.0), ("0", "0.1", "1", "10"))
            axes.set_ylim(bottom=0)
        for axes in panels[-1]:
            axes.set_xlabel("trial")
        for axes in panels[:, 0]:
            axes.set_ylabel("regret [log of cost]")
        lines, names = panels[0][0].get_legend_handles_labels()
        figure.legend(lines, names, fontsize="x-small", loc="outside lower center", ncols=4)

    return svg(draw, 7.2, 2.2 * -(-len(kinds) // 2))
