"""The report of stored runs: one HTML file without network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from trimtab.core.trial import MoveState
from trimtab.events import Status
from trimtab.metrics import known
from trimtab.metrics import metric as metric_of
from trimtab.records import Run
from trimtab.report import class_verdict, search
from trimtab.report.figures import drawn
from trimtab.report.sheet import Table, sheet
from trimtab.report.text import came, changes, plain, seconds
from trimtab.report.track import SATURATED, Track, tracks
from trimtab.report.verdict import Row, compare, interval
from trimtab.store import Store

FEW = 12
"""As many changes are shown unfolded."""
_MOST_PROBLEMS = 10


def render(store: Store, run_ids: Sequence[int], title: str = "") -> str:
    """The report of some runs as an HTML page.

    Runs of one label are repeats; the label of the first run is the baseline. One representative run of each
    label is drawn: the last.

    Args:
        store: their store.
        run_ids: their numbers, the baseline first; at least one.
        title: heading; made from the plant when empty.

    Raises:
        UsageError: there is no such run.
    """
    found = tracks(store, run_ids)
    groups: dict[str, list[Track]] = {}
    for track in found:
        groups.setdefault(track.label, []).append(track)
    plan = found[0].run.plan
    objective, guarantee = plan.settings.objective, plan.guarantee
    if guarantee is not None and all(t.run.plan.guarantee == guarantee for t in found):
        judged, rows = class_verdict.judge(groups, guarantee)
        verdicts, about = Table("Class by class", class_verdict.HEAD, rows), "delays of classes of clients"
    else:
        judged = compare(groups, objective)
        verdicts, about = _comparison(judged.rows, objective.metric, groups), str(objective)
    shown = [group[-1] for group in groups.values() if group[-1].windows]
    return sheet(
        title or f"{plan.plant}: {about}",
        judged.headline,
        drawn(shown),
        [verdicts, *(table for t in shown for table in search.tables(t))],
        any(t.simulated for t in found),
        good=judged.improved,
        basis=judged.basis,
        after=[
            *(_changes(t) for t in shown),
            _means(groups, objective.metrics),
            _unmeasured(found),
            Table("Notes", (), [(t.label, f"{n.at_s:.0f} s", n.text) for t in found for n in t.notes]),
            Table("How it was run", (), _facts(found)),
        ],
    )


def _comparison(rows: Sequence[Row], metric: str, groups: Mapping[str, Sequence[Track]]) -> Table:
    """The labels beside one another, also those that measured nothing; empty where all of them are such."""
    head = ("run", "repeats", f"mean {metric}", "setting at the end", "times better than the first")
    cells, found = [], {row.label: row for row in rows}
    for label, repeats in groups.items() if found else ():
        row, tried = found.get(label), len(repeats)
        if row is None:
            cells.append((label, f"0 of {tried}", "not measured", "-", "-"))
            continue
        e = row.against
        span = "" if e is None or e.low is None or e.high is None else f" ({plain(e.low)} to {plain(e.high)})"
        against = "-" if e is None else f"{plain(e.mean)}{span}"
        measured = str(tried) if row.repeats == tried else f"{row.repeats} of {tried}"
        cells.append((label, measured, interval(metric, row.cost), row.settings, against))
    return Table("In figures", head, cells)


def _changes(track: Track) -> Table:
    """Changes and their reasons in order; of successive moves by which a guarantee cannot be met only the first."""
    at, rows, stuck = {w.index: w for w in track.windows}, [], False
    for move in track.moves:
        now = move.move.phase == SATURATED
        if move.state is not MoveState.HELD or (now and not stuck):
            window = at.get(move.index)
            reached = came(move.move.changes, move.configuration)
            made = changes(reached, window.configuration if window else {}, track.run.plan.knobs)
            took = f" in {seconds(move.took_s)}" if move.took_s is not None else ""
            state = "left open: trimtab ended here" if move.state is MoveState.OPEN else move.state.value
            said = f": {move.detail}" if move.detail else ""
            when = f"{window.start_s + window.duration_s:.0f} s" if window else ""
            rows.append((when, made, move.move.reason, f"{state}{took}{said}"))
        stuck = now
    count = len(track.changes())
    title = f"What was done, and why: {track.label}, {count} change{'s' if count != 1 else ''}"
    return Table(title, ("at", "change", "reason", "outcome"), rows, folded=len(rows) > FEW)


def _means(groups: Mapping[str, Sequence[Track]], first: Sequence[str]) -> Table:
    """The mean of each label's second halves, for every reading but the counts of histograms.

    Args:
        groups: label to its repeats.
        first: the metrics that stand above all others.
    """
    seen = {name for repeats in groups.values() for t in repeats for w in t.windows for name in w.readings}
    order = list(known())
    names = sorted(
        (name for name in seen if name.partition("@")[0] in order and metric_of(name).unit != "intervals"),
        key=lambda name: (name not in first, order.index(name.partition("@")[0]), name),
    )
    rows = []
    for name in names:
        values = [[v for t in repeats for v in t.settled(name)] for repeats in groups.values()]
        cells = [f"{sum(v) / len(v):.4g}" if v else "not measured" for v in values]
        label = name.partition("@")[2]
        if any(values):
            what = metric_of(name)
            rows.append((f"{what.description}{f', {label}' if label else ''}", what.unit, *cells))
    return Table("Means over the second half", ("reading", "unit", *groups), rows, folded=len(rows) > FEW)


def _facts(found: Sequence[Track]) -> list[tuple[str, str]]:
    """Facts needed to judge and repeat the runs."""
    plan, settings = found[0].run.plan, found[0].run.plan.settings
    return [
        ("started", datetime.fromtimestamp(found[0].run.started, UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("plant", plan.plant),
        ("runs", ", ".join(f"{t.run.id} {t.label}" for t in found)),
        *((f"run {t.run.id}", ended) for t in found if (ended := _ended(t.run))),
        ("controllers", ", ".join(dict.fromkeys(t.run.plan.controller for t in found))),
        ("seeds", ", ".join(str(t.run.plan.settings.seed) for t in found)),
        ("window", f"{settings.window_s:g} s"),
        *([("workload", plan.workload)] if plan.workload else []),
        *((name.replace("_", " "), str(value)) for name, value in plan.host.items()),
    ]


def _ended(run: Run) -> str:
    """How a run ended, or that it has not; empty where it ran its time."""
    if run.status is Status.DONE:
        return ""
    said = "killed" if run.unfinished else run.status.value
    return f"{said}: {run.detail}" if run.detail else said


def _unmeasured(found: Sequence[Track]) -> Table:
    """Problems of measuring, each with its number of windows."""
    counts = Counter(problem for t in found for w in t.windows for problem in w.problems)
    rows = [(str(count), text) for text, count in counts.most_common(_MOST_PROBLEMS)]
    return Table("What could not be measured", ("windows", "why"), rows)
