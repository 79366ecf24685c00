"""The summary of chung2004's experiments, from stored runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from trimtab.core import Window
from trimtab.lab import Claim, Page
from trimtab.lab._tables import interval, table
from trimtab.lab.chung2004 import METRIC, MIXES, START, winner
from trimtab.report.track import Track

PAPERS_GAIN = {"browsing": 0.15, "shopping": 0.16, "ordering": 0.05}
"""Fig. 4: each mix's best configuration over the default; the best of 200 trials, not measured again."""
PAPERS_NOISE = 0.019
"""Table 4: standard deviation of the untuned system, as a share."""
LOST = 0.9
"""A trial below this share of the start's throughput is a bad one."""


def summary(page: Page) -> list[str]:
    """The sections of `summary.md`."""
    text: list[str] = []
    if noise := page.parts.get("noise"):
        text += _noise([t for repeats in noise.values() for t in repeats])
    for mix in MIXES:
        if found := page.parts.get(f"search-{mix}"):
            text += _searches(mix, found)
    if cross := page.parts.get("cross"):
        text += _cross(cross)
    return text


def _rates(windows: Sequence[Window]) -> list[float]:
    return [w.readings[METRIC] for w in windows if w.readings.get(METRIC, 0.0) > 0]


def _noise(tracks: Sequence[Track]) -> list[str]:
    """How much the untuned shop differs from trial to trial."""
    rows = []
    for track in tracks:
        rates = _rates(track.windows)
        if len(rates) > 1:
            mean = statistics.fmean(rates)
            rows.append((str(track.run.plan.settings.seed), f"{mean:.1f}", f"{statistics.stdev(rates) / mean:.2%}"))
    head = ("seed", ">interactions/s", ">standard deviation of a trial")
    return ["## The untuned shop", "", *table(head, rows), f"The paper's: {PAPERS_NOISE:.1%} of 110.4 WIPS.", ""]


def _at_start(track: Track) -> list[float]:
    initial = track.run.plan.initial
    return _rates([w for w in track.windows if all(w.configuration.get(n) == v for n, v in initial.items())])


def _searches(mix: str, found: Mapping[str, list[Track]]) -> list[str]:
    """Table of each search's trials, as ratios to the start as the same run measured it."""
    rows = []
    for label, repeats in found.items():
        for track in repeats:
            start, rates = _at_start(track), _rates(track.windows)
            if not start or not rates:
                continue
            usual = statistics.fmean(start)
            later = rates[10:] or rates
            bad = sum(rate < LOST * usual for rate in rates) / len(rates)
            rows.append(
                (
                    label,
                    str(track.run.plan.settings.seed),
                    f"{usual:.1f}",
                    str(len(track.windows)),
                    f"{statistics.fmean(later) / usual:.3f}",
                    f"{min(rates) / usual:.3f}",
                    f"{bad:.0%}",
                    f"{max(rates) / usual:.3f}",
                    ", ".join(f"{name} {value}" for name, value in winner(track).items()) or "as it was",
                )
            )
    head = (
        *("search", "seed", ">start, interactions/s", ">trials", ">mean after the tenth", ">worst"),
        *(f">below {LOST:g}", ">best of all (the paper's figure)", "what it names in the end"),
    )
    gain = f"The paper's best of 200 trials: {1 + PAPERS_GAIN[mix]:.2f}."
    return [
        f"## The {mix} mix",
        "",
        "Ratios are to the start as the same run measured it.",
        "",
        *table(head, rows),
        gain,
        "",
    ]


def _ratios(cross: Mapping[str, list[Track]], of: str, mix: str) -> list[float]:
    """Per seed the mean rate with a mix's winner to that of the start, under one mix."""
    found = []
    starts = {t.run.plan.settings.seed: _rates(t.windows) for t in cross.get(f"{START}, {mix}", [])}
    for track in cross.get(f"winner of {of}, {mix}", []):
        start, rates = starts.get(track.run.plan.settings.seed), _rates(track.windows)
        if start and rates:
            found.append(statistics.fmean(rates) / statistics.fmean(start))
    return found


def _cross(cross: Mapping[str, list[Track]]) -> list[str]:
    """Fig. 4: each winner under each mix, measured anew."""
    rows = [
        (f"winner of {of}", *(interval(_ratios(cross, of, mix), lambda v: f"{v:.3f}") for mix in MIXES))
        for of in MIXES
    ]
    head = ("setting", *(f">{mix}" for mix in MIXES))
    said = "Means over the seeds of the ratio to the start, measured anew, with their 95 % intervals."
    return ["## Fig. 4: one mix's winner under all three", "", *table(head, rows), said, ""]


def _gain(mix: str) -> Claim:
    def measured(page: Page) -> float | None:
        found = _ratios(page.parts.get("cross", {}), mix, mix)
        return statistics.fmean(found) if found else None

    return Claim(
        f"{mix}: the winner measured anew over the start", f"{1 + PAPERS_GAIN[mix]:.2f}", 1.0, math.inf, measured
    )


CLAIMS = tuple(_gain(mix) for mix in MIXES)
