"""The table and the figure of a battery: pure functions of its draws."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from typing import Any

from trimtab.drawing import Figure
from trimtab.lab import Page
from trimtab.lab._battery_draw import ALONE, SLOW_RELOAD_S, TRIM, Drawn, as_json
from trimtab.lab._tables import table
from trimtab.report.style import BLUE, GREEN, GREY, ORANGE, logarithmic, svg
from trimtab.report.text import plain

HARM = 1.10
"""Most waiting, over that with the server left alone, that the goal allows in 99 % of the draws."""
MORE_SERVED = 1.05
"""How many times as many replies, with fewer requests given up, make more waiting no plain loss."""
TO_GAIN = 1.3
"""How many times better the best fixed setting has to be for a gain to count."""
LISTED = 10
TITLES = (
    *("method", ">median", ">90 %", ">99 %", ">max", ">mean of log"),
    *(f">at most {HARM:g}", ">of those above, with more served", ">median share of the gain"),
)


def summary(page: Page) -> list[str]:
    """The sections of `summary.md`; writes every draw, what clients waited in each, and the figure."""
    slow = page.found("slow", Drawn)
    found = page.found("peers", Drawn) or page.found("trim", Drawn) or slow or page.found("long", Drawn)
    if not found:
        return ["no draw was finished"]
    page.lines("draws", map(as_json, found))
    (page.folder / "waits.json").write_text(json.dumps(waits(found)).replace("], [", "],\n["), encoding="utf-8")
    page.figure("ratios", ratios(found))
    stops = [f"A reload lets no request begin for {SLOW_RELOAD_S:g} s.", ""] if found is slow else []
    rounds = found[0].scenario.rounds
    again = [f"The course of the demand comes {rounds} times, one after another.", ""] if rounds > 1 else []
    return [*stops, *again, *outcome(found)]


def outcome(found: Sequence[Drawn]) -> list[str]:
    """All methods, then the draws in which trim lost or left most."""
    names = [label for label in found[0].runs if label != ALONE and not label[0].isdigit()]
    return [
        f"{len(found)} draws, seeds {found[0].scenario.seed} to {found[-1].scenario.seed}. Ratios are of what all "
        "clients waited together to the same with the server left alone; a gain is there where the best fixed "
        f"setting is {TO_GAIN:g} times better. More is served where there are {MORE_SERVED:g} times as many replies "
        "and fewer requests given up: who stays then waits, too.",
        "",
        *table((*TITLES, ">draws with one"), (_row(name, found) for name in (*names, "best fixed"))),
        _changes([one.runs[TRIM].moves for one in found]),
        "",
        "## Most harm",
        "",
        *_listed(sorted(found, key=lambda one: -one.ratio)),
        "## Most left of a gain",
        "",
        *_listed(sorted(_with_gain(found), key=lambda one: -one.ratio * one.to_gain)),
    ]


def _changes(made: Sequence[Sequence[str]]) -> str:
    """In how many draws trim changed something, and how often: what was put back counts as a change too."""
    some = [len(moves) for moves in made if moves]
    most = f": {statistics.fmean(some):.1f} times in the mean of these, {max(some)} at most" if some else ""
    return f"trim changed something in {len(some)} of {len(made)} draws{most}."


def _with_gain(found: Sequence[Drawn]) -> list[Drawn]:
    return [one for one in found if one.to_gain >= TO_GAIN]


def _label(one: Drawn, name: str) -> str:
    return name if name in one.runs else one.best_fixed


def _ratio(one: Drawn, name: str) -> float:
    return one.to_alone(_label(one, name))


def _more_served(one: Drawn, name: str) -> bool:
    """Whether a method served more than was left alone, and fewer clients gave up."""
    run, alone = one.runs[_label(one, name)], one.runs[ALONE]
    return run.replies >= MORE_SERVED * alone.replies and run.given_up < alone.given_up


def _row(name: str, found: Sequence[Drawn]) -> tuple[str, ...]:
    """One method against all draws."""
    values = sorted(_ratio(one, name) for one in found)
    low = [1 / max(value, 1e-9) for value in values]
    shares = [(1 - _ratio(one, name)) / (1 - 1 / one.to_gain) for one in _with_gain(found)]
    quantiles = (f"{_quantile(values, q):.3f}" for q in (0.5, 0.9, 0.99, 1.0))
    above = [one for one in found if _ratio(one, name) > HARM]
    served = f"{sum(_more_served(one, name) for one in above)} of {len(above)}"
    share = f"{statistics.median(shares):.0%}" if shares else "-"
    mean_log = -statistics.fmean(map(math.log, low))
    return name, *quantiles, f"{mean_log:+.3f}", f"{1 - len(above) / len(found):.1%}", served, share, str(len(shares))


def _quantile(ordered: Sequence[float], q: float) -> float:
    """By nearest rank: a draw's own value, so that the worst stays in sight."""
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]


def _listed(worst: Sequence[Drawn]) -> list[str]:
    """Draws with trim's changes in them."""
    lines = []
    for one in worst[:LISTED]:
        s, trim, alone, best = one.scenario, one.runs[TRIM], one.runs[ALONE], one.runs[one.best_fixed]
        lines += [
            f"- seed {s.seed}: trim {one.ratio:.3f}, best fixed ({one.best_fixed}) {1 / one.to_gain:.3f}; "
            f"{s.shape}, {s.clients}, load {s.load_ratio:.2f}, {s.pool} pool of {s.max_request_workers}, "
            f"hot memory for {s.fitting_workers:.0f}, cold {s.cold_ratio:.2f}, CPU {s.cpu_s * 1e3:.0f} ms, "
            f"wait {s.wait_s * 1e3:.0f} ms, lock {s.lock_ratio:.2f}, keep-alive {s.keep_alive_s:g} s, "
            f"think {s.think_s:.1f} s, burst {s.burst}, patience {s.patience_s:.0f} s; "
            f"given up {alone.given_up:.0f}, trim {trim.given_up:.0f}, best {best.given_up:.0f}",
            *(f"    - {move}" for move in trim.moves),
            f"    - in the end: {trim.said}",
        ]
    return [*lines, ""]


def waits(found: Sequence[Drawn]) -> dict[str, Any]:
    """Waiting of clients in each draw, in seconds, by method; the best fixed setting with its name."""
    names = [label for label in found[0].runs if not label[0].isdigit()] if found else []
    rows = [
        [one.scenario.seed, one.best_fixed, *(round(one.runs[n].waited_s, 1) for n in (*names, one.best_fixed))]
        for one in found
    ]
    return {"columns": ["seed", "best fixed", *names, "at the best fixed"], "rows": rows}


def ratios(found: Sequence[Drawn]) -> str:
    """Sorted ratios to leaving alone, trim and the best fixed setting, with the goal's limit."""

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        for name, colour, text in ((TRIM, ORANGE, "trim"), ("best fixed", GREEN, "best fixed setting")):
            values = sorted(_ratio(one, name) for one in found)
            axes.plot([100 * (k + 0.5) / len(values) for k in range(len(values))], values, color=colour, label=text)
        for value, colour in ((1.0, GREY), (HARM, BLUE)):
            axes.axhline(value, color=colour, linewidth=0.9, linestyle=":")
        logarithmic(axes, plain)
        axes.set_xlabel("draws, sorted by each [%]")
        axes.set_ylabel("clients waited, to left alone")
        axes.legend()

    return svg(draw, 6.8, 3.8)
