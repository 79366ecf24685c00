"""The page of the battery: every draw with its verdict, also those that failed, and the totals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.drawing import Figure
from trimtab.events import Status
from trimtab.lab import Claim, Page
from trimtab.lab._clients import later, level, waited_s
from trimtab.lab._drawn import front, hurried
from trimtab.lab._scenario import MIB, Scenario
from trimtab.lab._tables import table
from trimtab.lab.harm import AGAIN, ALONE, DURATION_S, ONE, OTHERS, PART, TRIM
from trimtab.report.style import BLUE, GREY, INK, logarithmic, svg
from trimtab.report.text import plain
from trimtab.report.track import Track

READS = (
    "client_outstanding_requests",
    "client_waited_s",
    "client_patience_left_s",
    "client_unasked_rate_hz",
    "client_page_time_s",
    "client_page_rate_hz",
    "client_error_rate_hz",
    "client_request_rate_hz",
    "cpu_ratio",
)
"""What clients had of a run, and what a request of one client cost: readings that are kept where not all can be."""
NOISE = 1.1
"""Two runs that differ by less are not told apart; more where leaving alone twice differed by more."""
GAIN = 1.3
"""From here on the best fixed setting counts as better than leaving alone: there was something to gain."""
CLOSE = 1.15
"""How far trim may be from the best fixed setting in the second half, where there was."""
FIXED = " fixed"
UNTOUCHED = "left alone"
"""The verdict where trim changed nothing: any difference is noise."""
UNJUDGED = "not judged"
"""The verdict where a run that it needs was not asked for."""
VERDICTS = (UNTOUCHED, "better", "not told apart", "worse", "failed", UNJUDGED)
COLOURS = {TRIM: BLUE}


@dataclass(frozen=True)
class Outcome:
    """The result of a draw.

    Args:
        seed: the draw.
        costs_s: seconds that clients waited in sum, by run.
        later_s: that in the second half of the run's time.
        failures: runs that could not be made or did not come to their end, and why.
        changes: number of trim's changes.
    """

    seed: int
    costs_s: Mapping[str, float]
    later_s: Mapping[str, float]
    failures: Mapping[str, str]
    changes: int = 0

    @property
    def complete(self) -> bool:
        """Whether there are enough runs for a verdict."""
        return {ALONE, AGAIN, TRIM} <= self.costs_s.keys() and bool(self.fixed)

    @property
    def compared(self) -> bool:
        """Whether methods can be compared with leaving alone."""
        return {ALONE, TRIM} <= self.costs_s.keys()

    @property
    def alone(self) -> list[str]:
        """The runs left alone, one or two."""
        return [label for label in (ALONE, AGAIN) if label in self.costs_s]

    @property
    def fixed(self) -> list[str]:
        """The fixed settings that were run."""
        return [label for label in self.costs_s if label.endswith(FIXED)]

    @property
    def best(self) -> str:
        """The fixed setting under which clients waited least in the second half, leaving alone included."""
        return min([ALONE, *self.fixed], key=self.later_s.__getitem__)

    @property
    def alone_s(self) -> float:
        """The cost of leaving alone: the mean of its runs, of a hundredth of a second at least."""
        return max(0.01, statistics.fmean(self.costs_s[label] for label in self.alone))

    @property
    def noise(self) -> float:
        """The largest ratio of runs that were left alone, trim's too where it changed nothing; `NOISE` at least."""
        repeats = (ALONE, AGAIN) if self.changes else (ALONE, AGAIN, TRIM)
        costs_s = [max(0.01, self.costs_s[label]) for label in repeats]
        return max(NOISE, max(costs_s) / min(costs_s))

    def ratio(self, label: str) -> float:
        """The cost of a run, over that of leaving alone."""
        return max(0.01, self.costs_s[label]) / self.alone_s

    @property
    def gap(self) -> float:
        """The cost of leaving alone in the second half, over the best fixed setting."""
        alone_s = statistics.fmean((self.later_s[ALONE], self.later_s[AGAIN]))
        return max(0.01, alone_s) / max(0.01, self.later_s[self.best])

    @property
    def missed(self) -> float:
        """The cost of trim in the second half, over the best fixed setting."""
        return max(0.01, self.later_s[TRIM]) / max(0.01, self.later_s[self.best])

    @property
    def verdict(self) -> str:
        """Whether trim left the server worse than it found it."""
        if not self.complete:
            return "failed" if self.failures else UNJUDGED
        if not self.changes:
            return UNTOUCHED
        if self.ratio(TRIM) > self.noise:
            return "worse"
        return "better" if self.ratio(TRIM) < 1 / self.noise else "not told apart"


def outcomes(labels: Mapping[str, Sequence[Track]]) -> list[Outcome]:
    """The results of all draws, by seed."""
    runs = [(t.run.plan.settings.seed, label, t) for label, repeats in labels.items() for t in repeats]
    found = []
    for seed in sorted({seed for seed, _, _ in runs}):
        mine = {label: t for s, label, t in runs if s == seed}
        done = {label: t for label, t in mine.items() if t.run.status is Status.DONE}
        judged = {label: t for label, t in done.items() if t.windows and label != ONE}
        failures = {label: t.run.detail or t.run.status for label, t in mine.items() if label not in done}
        found.append(
            Outcome(
                seed,
                {label: waited_s(t.windows) for label, t in judged.items()},
                {label: DURATION_S / 2 * level(later(t.windows)) for label, t in judged.items()},
                failures,
                len(mine[TRIM].applied()) if TRIM in mine else 0,
            )
        )
    return found


def summary(page: Page) -> list[str]:
    """The sections of `summary.md`; draws its figure."""
    found = outcomes(_labels(page))
    compared = [one for one in found if one.compared]
    if compared:
        page.figure("ratios", ratios(compared))
    return [*_together(found, compared), *_draws(found), *_runs(found), *_failures(found)]


def _together(found: Sequence[Outcome], compared: Sequence[Outcome]) -> list[str]:
    """Verdicts counted, and each method over all draws."""
    verdicts = [one.verdict for one in found]
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in VERDICTS)
    lines = [
        f"Draws: {len(found)}; {counts}. What clients waited in sum, over leaving alone (the mean of its runs); told "
        f"apart from {NOISE} on, or from what two of these differed by. Where trim changed nothing the server was "
        "left alone once more, and its ratio is noise; it counts in the tables all the same.",
        "",
    ]
    rows = []
    for label in methods(compared):
        mine = [one for one in compared if label in one.costs_s]
        shares = [one.ratio(label) for one in mine]
        ours = [one.ratio(TRIM) for one in mine]
        figures = (_mean(shares), _mean(ours), statistics.median(shares), max(shares))
        rows.append((label, str(len(shares)), *(f"{v:.2f}" for v in figures)))
    titles = ("method", ">draws", ">geometric mean", ">trim's on these draws", ">median", ">worst")
    return [*lines, *(table(titles, rows) if rows else [])]


def methods(compared: Sequence[Outcome]) -> list[str]:
    """The methods that ran, in their order: neither left alone nor fixed."""
    labels = dict.fromkeys(label for one in compared for label in one.costs_s if not label.endswith(FIXED))
    return [label for label in labels if label not in (ALONE, AGAIN)]


def _mean(shares: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, shares)))


def _draws(found: Sequence[Outcome]) -> list[str]:
    """A line for each draw."""
    rows = []
    for one in found:
        cells = ["-"] * 5
        if one.compared:
            alone = ", ".join(f"{one.costs_s[label]:.1f} s" for label in one.alone)
            cells[:3] = [alone, f"{one.costs_s[TRIM]:.1f} s", f"{one.ratio(TRIM):.2f}"]
        if one.complete:
            cells[3:] = [one.best, f"{one.missed:.2f}"]
        rows.append((str(one.seed), said(hurried(one.seed)), *cells, one.verdict))
    titles = (">seed", "draw", ">left alone", ">trim", ">ratio", "best", ">trim / best, 2nd half", "verdict")
    return ["## Every draw", "", *table(titles, rows)]


def _runs(found: Sequence[Outcome]) -> list[str]:
    """The cost of every run."""
    rows = [
        (str(o.seed), "; ".join(f"{label}: {cost_s:.1f} s" for label, cost_s in o.costs_s.items())) for o in found
    ]
    return ["## What clients waited in sum, by run", "", *table((">seed", "runs"), rows)]


def _failures(found: Sequence[Outcome]) -> list[str]:
    """The runs that did not come to their end."""
    rows = [(str(o.seed), label, why.replace("|", "/")) for o in found for label, why in o.failures.items()]
    return ["## Runs that did not come to their end", "", *table((">seed", "run", "why"), rows)] if rows else []


def said(scenario: Scenario) -> str:
    """A draw in words."""
    server = "PHP in prefork" if scenario.php == "module" else f"PHP-FPM behind {front(scenario)}"
    if scenario.php != "module" and front(scenario) == "apache":
        server += f" ({scenario.mpm})"
    pool = "Debian's pool" if scenario.pool == "debian" else f"{scenario.max_request_workers} started"
    cost = ""
    if scenario.application == "page":
        cost = f" ({scenario.worker_bytes / MIB:.0f} MiB, {scenario.cold_ratio:.0%} cold"
        cost += f"; CPU {scenario.cpu_s * 1e3:.3g} ms"
        cost += f", waits {scenario.wait_s * 1e3:.3g} ms" if scenario.wait_s else ""
        cost += f", lock {scenario.lock_ratio:.0%})" if scenario.lock_ratio else ")"
    return (
        f"{scenario.application}{cost}, {server}, {pool}, {scenario.memory_limit_bytes / MIB:.0f} MiB; "
        f"{scenario.clients}, {scenario.shape}, {scenario.load_ratio:.2f} of capacity"
    )


def ratios(compared: Sequence[Outcome]) -> str:
    """Costs over that of leaving alone: each method's draws in order."""

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        for number, label in enumerate(methods(compared)):
            values = sorted(one.ratio(label) for one in compared if label in one.costs_s)
            colour, wide = COLOURS.get(label, f"C{number}"), 2.0 if label in COLOURS else 0.9
            axes.plot(range(1, len(values) + 1), values, ".-", label=label, color=colour, linewidth=wide)
        axes.axhline(1.0, color=INK, linewidth=0.8)
        axes.axhline(NOISE, color=GREY, linewidth=0.8, linestyle=":")
        logarithmic(axes, plain)
        axes.set_xlabel("draws, each method's in order")
        axes.set_ylabel("waited in sum, over leaving alone")
        axes.legend()

    return svg(draw, 6.8, 3.8)


def _judged(page: Page) -> list[Outcome]:
    return [one for one in outcomes(_labels(page)) if one.complete]


def _labels(page: Page) -> Mapping[str, Sequence[Track]]:
    """The runs of both parts by label; until 25 November 2026 the peers were in one part with the others."""
    return {**page.parts.get(PART, {}), **page.parts.get(OTHERS, {})}


def _worst(page: Page) -> float | None:
    return max((one.ratio(TRIM) / one.noise for one in _judged(page)), default=None)


def _median_missed(page: Page) -> float | None:
    missed = [one.missed for one in _judged(page) if one.gap >= GAIN]
    return statistics.median(missed) if missed else None


CLAIMS = (
    Claim(
        "worst draw: trim over leaving alone, beyond the noise of repeats", "our goal: at most 1", 0.0, 1.0, _worst
    ),
    Claim(
        "median draw with something to gain: trim over the best fixed setting, second half",
        f"our goal: at most {CLOSE}",
        0.0,
        CLOSE,
        _median_missed,
    ),
)
