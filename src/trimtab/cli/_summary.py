"""Summary of a run in a few lines, by the report's judge."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from trimtab.core import Limit, Window
from trimtab.guarantee import WITHIN
from trimtab.report import class_verdict
from trimtab.report.text import settings, shown
from trimtab.report.track import Track
from trimtab.report.verdict import judge_run

MANY = 6
"""With more knobs than this only those that may be moved are shown, and of the end only those that differ."""


def summary(track: Track) -> list[str]:
    """The last lines of a run."""
    run, windows = track.run, track.windows
    count = "1 window" if len(windows) == 1 else f"{len(windows)} windows"
    lines = [f"run {run.id}: {run.status}{f', {run.detail}' if run.detail else ''}, {count}"]
    if not windows:
        return lines
    if run.plan.guarantee is not None:
        judged, rows = class_verdict.judge({track.label: [track]}, run.plan.guarantee)
        for _, name, desired, delay, share, within, _ in rows:
            got = f": of it {share}, within {WITHIN:.0%} in {within}" if share != "-" else ""
            lines.append(f"  {name}: delay {delay}, desired {desired}{got}")
    else:
        judged = judge_run(track)
        first = "first: " if track.begun_before else "start: "
        for name, stretch in ((first, judged.before), ("end:   ", judged.after)):
            if stretch:
                lines.append(f"{name}{_stretch(track, stretch, judged.before if name.startswith('end') else ())}")
    limits = run.plan.settings.objective.limits
    # The medians above are of different loads; what is claimed is not their quotient.
    basis = [f"basis: {judged.basis}"] if judged.gain is not None and judged.basis else []
    return [*lines, f"so:    {judged.headline}", *basis, *(f"limit: {kept(limit, windows)}" for limit in limits)]


def _stretch(track: Track, windows: Sequence[Window], before: Sequence[Window] = ()) -> str:
    """The last configuration of some windows, and the objective's median and range in them.

    Args:
        track: the run.
        windows: the windows.
        before: the windows with which they are compared; none for the baseline itself.
    """
    metric = track.run.plan.settings.objective.metric
    now, then = windows[-1].configuration, before[-1].configuration if before else {}
    if len(now) > MANY:
        moved = {knob.name for knob in track.run.plan.knobs}
        now = {name: value for name, value in now.items() if name in moved and then.get(name) != value}
    said = f"{settings(now, track.run.plan.known) or 'as at the start'}: {metric}"
    values = [w.readings[metric] for w in windows if metric in w.readings]
    if not values:
        return f"{said} not measured"
    ends = f"{shown(metric, min(values))} to {shown(metric, max(values))}"
    count = f"{len(values)} windows, {ends}" if len(values) > 1 else "1 window"
    return f"{said} median {shown(metric, median(values))} ({count})"


def kept(limit: Limit, windows: Sequence[Window]) -> str:
    """In how many windows a limit was kept."""
    known = [one for one in windows if limit.margin(one) is not None]
    if not known:
        return f"{limit} was not measured"
    good = sum((limit.margin(one) or 0.0) >= 0 for one in known)
    silent = f", not measured in {len(windows) - len(known)}" if len(known) < len(windows) else ""
    return f"{limit} was kept in {good} of {len(known)} windows{silent}"
