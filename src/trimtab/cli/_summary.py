"""What came of a run, in a few lines: only what its windows show."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from trimtab.cli._class_summary import class_summary
from trimtab.cli._progress import shown
from trimtab.core.knob import in_words
from trimtab.core.objective import Limit, Objective
from trimtab.core.window import Configuration, Window
from trimtab.records import Run

MOST = 5
LEAST_GAIN = 0.05


@dataclass(frozen=True)
class Stretch:
    """The windows at one setting, at the beginning or the end of a run.

    Args:
        configuration: what was in force.
        values: the objective's reading in each, at most the five nearest to the beginning or the end.
    """

    configuration: Configuration
    values: tuple[float, ...]

    def text(self, metric: str) -> str:
        """Median and range."""
        if not self.values:
            return "not measured"
        spread = f", {shown(metric, min(self.values))} to {shown(metric, max(self.values))}"
        windows = f"{len(self.values)} window{'s' if len(self.values) > 1 else ''}"
        return f"median {shown(metric, median(self.values))} ({windows}{spread if len(self.values) > 1 else ''})"


def stretch(windows: Sequence[Window], objective: Objective) -> Stretch:
    """The leading windows that share the first one's configuration."""
    values = (one.readings[objective.metric] for one in _same(windows, objective.metric))
    return Stretch(windows[0].configuration, tuple(values))


def _same(windows: Sequence[Window], metric: str = "") -> list[Window]:
    """The leading windows, at most five, of the first one's configuration and with that reading."""
    alike = itertools.takewhile(lambda one: one.configuration == windows[0].configuration, windows)
    return list(itertools.islice((one for one in alike if not metric or metric in one.readings), MOST))


def verdict(first: Stretch, last: Stretch, minimize: bool) -> str:
    """Whether the end is better than the beginning, beyond the spread of the windows of both."""
    if first.configuration == last.configuration:
        return "no change is in force, so no improvement is claimed"
    if not first.values or not last.values:
        return "no improvement is claimed: the objective was not measured at both ends"
    before, after = median(first.values), median(last.values)
    apart = max(last.values) < min(first.values) if minimize else min(last.values) > max(first.values)
    gain = (before - after if minimize else after - before) / abs(before) if before else 0.0
    if not apart or gain < LEAST_GAIN:
        return "no improvement beyond the spread of the windows"
    better, worse = (before, after) if minimize else (after, before)
    factor = f"{better / worse:.1f} times better" if worse else "better"
    thin = "; too few windows to be sure of it" if min(len(first.values), len(last.values)) < 2 else ""
    return f"{factor}{thin}"


def summary(run: Run, windows: Sequence[Window]) -> list[str]:
    """The last lines of a run."""
    settings = run.plan.settings
    head = f"run {run.id}: {run.status}"
    lines = [head + (f", {run.detail}" if run.detail else "") + f", {len(windows)} windows"]
    if run.plan.guarantee is not None:
        return lines + class_summary(run.plan.guarantee, windows)
    if windows:
        metric = settings.objective.metric
        first, last = stretch(windows, settings.objective), stretch(windows[::-1], settings.objective)
        lines.append(f"start: {in_words(first.configuration, run.plan.knobs)}: {metric} {first.text(metric)}")
        lines.append(f"end:   {in_words(last.configuration, run.plan.knobs)}: {metric} {last.text(metric)}")
        broken = broken_at_end(windows, settings.objective)
        lines.append(f"so:    {broken or verdict(first, last, settings.objective.minimize)}")
        lines += [f"limit: {kept(limit, windows)}" for limit in settings.objective.limits]
    return lines


def broken_at_end(windows: Sequence[Window], objective: Objective) -> str:
    """That the last setting breaks limits in most of its last windows, so that nothing else counts; empty if not."""
    last = _same(windows[::-1])
    broken = [limit for limit in objective.limits if 2 * sum(_breaks(limit, one) for one in last) > len(last)]
    return f"no improvement is claimed: {' and '.join(map(str, broken))} is broken at the end" if broken else ""


def kept(limit: Limit, windows: Sequence[Window]) -> str:
    """In how many windows a limit was kept."""
    known = [one for one in windows if limit.margin(one) is not None]
    if not known:
        return f"{limit} was not measured"
    good = sum(not _breaks(limit, one) for one in known)
    silent = f", not measured in {len(windows) - len(known)}" if len(known) < len(windows) else ""
    return f"{limit} was kept in {good} of {len(known)} windows{silent}"


def _breaks(limit: Limit, window: Window) -> bool:
    return (limit.margin(window) or 0.0) < 0
