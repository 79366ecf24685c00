"""What a set of runs shows, in words and figures: better, worse, or no improvement."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.report.figures import plain, seconds
from trimtab.report.track import Estimate, Track, estimate, ratio

WORTHWHILE = 1.05
"""A ratio below this is no improvement, whatever its interval."""


@dataclass(frozen=True)
class Row:
    """One line of the comparison: a label's repeats."""

    label: str
    repeats: int
    cost: Estimate
    knob: str
    against: Estimate | None


@dataclass(frozen=True)
class Verdict:
    """The headline and the comparison behind it."""

    headline: str
    improved: bool
    basis: str
    rows: tuple[Row, ...]


def shown(name: str, value: float) -> str:
    """A metric's value as a person reads it."""
    return seconds(value) if name.endswith("_s") else plain(value)


def interval(name: str, e: Estimate) -> str:
    """A mean with its interval as a person reads it."""
    if e.low is None or e.high is None:
        return f"{shown(name, e.mean)} (one sample, no interval)"
    return f"{shown(name, e.mean)} ({shown(name, max(0.0, e.low))} to {shown(name, e.high)})"


def _means(tracks: Sequence[Track], metric: str) -> list[float]:
    """The settled mean of each run that measured the metric."""
    return [statistics.fmean(s) for t in tracks if (s := t.settled(metric))]


def _row(label: str, tracks: Sequence[Track], metric: str, baseline: Sequence[float], minimize: bool) -> Row | None:
    means = _means(tracks, metric)
    if not means:
        return None
    last = [t.windows[-1].configuration.get(t.knob, 0) for t in tracks if t.windows]
    ends = f"{min(last)}" if min(last) == max(last) else f"{min(last)} to {max(last)}"
    against = None
    if baseline and min(*baseline, *means) > 0:
        against = ratio(means, baseline) if minimize else ratio(baseline, means)
    return Row(label, len(means), estimate(means), ends, against)


def compare(groups: dict[str, list[Track]], metric: str, minimize: bool) -> Verdict:
    """The first group against every other one.

    Args:
        groups: label to its repeats, the baseline first; at least one.
        metric: what is compared.
        minimize: True when less is better.
    """
    labels = list(groups)
    base = _means(groups[labels[0]], metric)
    rows = [
        row
        for label in labels
        if (row := _row(label, groups[label], metric, [] if label == labels[0] else base, minimize))
    ]
    if len(labels) == 1:
        return _alone(groups[labels[0]], metric, minimize, tuple(rows))
    judged = [r for r in rows if r.against is not None]
    if not judged:
        text = f"{metric} was not measured above 0 in both: nothing can be said"
        return Verdict(text, False, "", tuple(rows))
    best = max(judged, key=lambda r: r.against.mean if r.against else 0.0)
    headline, improved = _say(f"with {best.label}", f"with {labels[0]}", metric, best.against)
    basis = "second half of every run; intervals are 95 %, over repeats"
    return Verdict(headline, improved, basis, tuple(rows))


def _alone(tracks: Sequence[Track], metric: str, minimize: bool, rows: tuple[Row, ...]) -> Verdict:
    """One label only: the windows before the first change against the last half."""
    before = [v for t in tracks for v in t.before(metric)]
    after = [v for t in tracks for v in t.settled(metric)]
    if not any(t.applied() for t in tracks):
        return Verdict("Nothing was changed", False, "", rows)
    if not before or not after or min(*before, *after) <= 0:
        return Verdict(f"{metric} was not measured above 0 before and after: nothing can be said", False, "", rows)
    gain = ratio(after, before) if minimize else ratio(before, after)
    headline, improved = _say("at the end of the run", "at its start", metric, gain)
    basis = (
        "windows before the first change against the second half of the run; windows of one run are not independent"
    )
    return Verdict(headline, improved, basis, rows)


def _say(here: str, there: str, metric: str, gain: Estimate | None) -> tuple[str, bool]:
    """The headline for a gain `here` over `there`, and whether it is one."""
    assert gain is not None
    name = metric.removesuffix("_s").removesuffix("_hz").replace("_", " ")
    sure = gain.low is None or gain.high is None or not gain.low <= 1 <= gain.high
    if not sure or 1 / WORTHWHILE < gain.mean < WORTHWHILE:
        return (
            f"No improvement shown: {name} {here} is {plain(gain.mean)} times as good as {there} {_span(gain)}",
            False,
        )
    if gain.mean < 1:
        loss = _inverse(gain)
        return f"Worse: {name} {here} is {plain(loss.mean)} times worse than {there} {_span(loss)}", False
    return f"{name.capitalize()} is {plain(gain.mean)} times better {here} than {there} {_span(gain)}", True


def _span(gain: Estimate) -> str:
    """The interval of a gain, or why there is none."""
    if gain.low is None or gain.high is None:
        return "(no interval: that needs two samples of each)"
    return f"(95 % interval {plain(gain.low)} to {plain(gain.high)})"


def _inverse(gain: Estimate) -> Estimate:
    """A gain turned round."""
    low, high = gain.high and 1 / gain.high, gain.low and 1 / gain.low
    return Estimate(1 / gain.mean, low, high, gain.count)
