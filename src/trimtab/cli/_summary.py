"""What came of a run, in a few lines: only what its windows show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from trimtab.cli._class_summary import class_summary
from trimtab.cli._progress import configuration_text, shown
from trimtab.core.objective import Objective
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
    same: list[float] = []
    for window in windows:
        if window.configuration != windows[0].configuration or len(same) == MOST:
            break
        if objective.metric in window.readings:
            same.append(window.readings[objective.metric])
    return Stretch(windows[0].configuration, tuple(same))


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
        lines.append(f"start: {configuration_text(first.configuration)}: {metric} {first.text(metric)}")
        lines.append(f"end:   {configuration_text(last.configuration)}: {metric} {last.text(metric)}")
        lines.append(f"so:    {verdict(first, last, settings.objective.minimize)}")
    return lines
