"""The report: one HTML file without network, from stored runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from trimtab import __version__
from trimtab.core import of_class
from trimtab.core.trial import MoveState
from trimtab.gate.keep_alive import TRIAL_EVERY
from trimtab.guarantee import DelayGuarantee
from trimtab.metrics import metric as metric_of
from trimtab.plants._names import KEEP_ALIVE
from trimtab.records import StoredMove
from trimtab.report import class_figures, figures, keep_alive_figures
from trimtab.report.class_verdict import ClassRow, judge
from trimtab.report.track import Track, tracks
from trimtab.report.verdict import compare, interval
from trimtab.store import Store

SHOWN_METRICS = (
    "response_time_s",
    "accept_queue_delay_s",
    "service_time_s",
    "burst_length",
    "request_rate_hz",
    "busy_workers",
    "cpu_ratio",
    "memory_ratio",
    "request_interval_s",
    "idle_connections",
    "idle_held_workers",
    "connections_cut_rate_hz",
    "connections_expired_rate_hz",
    "connections_left_rate_hz",
    "client_page_time_s",
    "client_error_rate_hz",
)
CLASS_METRICS = (
    "connection_delay_s",
    "connection_delay_p95_s",
    "queue_length",
    "in_service",
    "arrival_rate_hz",
    "refused_rate_hz",
    "aborted_rate_hz",
)


@dataclass(frozen=True)
class Event:
    """A line of the table of events."""

    at: str
    change: str
    reason: str
    outcome: str


@dataclass(frozen=True)
class PaperRow:
    """A figure of the paper beside ours.

    Args:
        what: the quantity.
        paper: the paper's value, with where it stands.
        ours: our value.
        remark: what differs and why.
    """

    what: str
    paper: str
    ours: str
    remark: str = ""


@dataclass(frozen=True)
class Plot:
    """A figure with its caption, both ready for the page."""

    title: str
    caption: str
    svg: str


def render(
    store: Store,
    run_ids: Sequence[int],
    title: str = "",
    paper: Sequence[PaperRow] = (),
    plots: Sequence[Plot] = (),
) -> str:
    """The report of some runs as an HTML page.

    Runs of one label are repeats; the label of the first run is the baseline. One representative run of each
    label is drawn: the last.

    Args:
        store: where they are.
        run_ids: their numbers, the baseline first; at least one.
        title: heading; made from the plant when empty.
        paper: figures of a paper beside ours.
        plots: further figures.

    Raises:
        UsageError: there is no such run.
    """
    found = tracks(store, run_ids)
    groups: dict[str, list[Track]] = {}
    for track in found:
        groups.setdefault(track.label, []).append(track)
    objective = found[0].run.plan.settings.objective
    drawn = [group[-1] for group in groups.values() if group[-1].windows]
    guarantee = found[0].run.plan.guarantee
    if guarantee is None or any(t.run.plan.guarantee != guarantee for t in found):
        guarantee = None
    verdict, classes = compare(groups, objective.metric, objective.minimize), list[ClassRow]()
    if guarantee is not None:
        verdict, classes = judge(groups, guarantee)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("trimtab.report").joinpath("page.html").read_text(encoding="utf-8"))
    return template.render(
        title=title or f"{found[0].run.plan.plant}: {'delays of classes of clients' if guarantee else objective}",
        simulated=any(t.simulated for t in found),
        verdict=verdict,
        classes=classes,
        interval=lambda e: interval(objective.metric, e),
        plain=figures.plain,
        metric=objective.metric,
        plots=[(p.title, p.caption, Markup(p.svg)) for p in (*_plots(drawn, objective.metric, guarantee), *plots)],
        events=[(t.label, _events(t)) for t in drawn if _told(t)],
        means=_means(groups, guarantee),
        labels=list(groups),
        paper=paper,
        facts=_facts(found),
        notes=[(t.label, f"{n.at_s:.0f} s", n.text) for t in found for n in t.notes],
        unmeasured=_unmeasured(found),
        version=__version__,
    )


def _plots(drawn: Sequence[Track], metric: str, guarantee: DelayGuarantee | None) -> list[Plot]:
    """The figures that every report has."""
    if not drawn:
        return []
    if guarantee is not None:
        return _class_plots(drawn)
    caption = "Dotted lines mark changes. Both scales are logarithmic, so equal distances are equal factors."
    if all(track.knob == KEEP_ALIVE for track in drawn):
        return _keep_alive_plots(drawn)
    plots = [Plot("What was set, and what came of it", caption, figures.trajectories(drawn, metric))]
    if any("accept_queue_delay_s" in w.readings for t in drawn for w in t.windows):
        text = "Response time per page by Eq. (1) of liu2003: waiting to be accepted, and being served."
        plots.append(Plot("Where the time goes", text, figures.decomposition(drawn)))
    if any("cpu_ratio" in w.readings for t in drawn for w in t.windows):
        text = "Memory demand counts what is swapped out: above 100 % the server swaps."
        plots.append(Plot("What binds", text, figures.utilisations(drawn)))
    return plots


def _keep_alive_plots(drawn: Sequence[Track]) -> list[Plot]:
    """The figures of a keep-alive time."""
    steps = "One step is one window. The scale of the time is logarithmic: equal distances are equal factors."
    plots = [Plot("The keep-alive time, and what idle connections hold", steps, keep_alive_figures.learned(drawn))]
    if any(name.startswith("intervals") for t in drawn for w in t.windows for name in w.readings):
        beyond = (
            "Of the second half of each run. Beyond the time only trials are seen, one idle period in "
            f"{TRIAL_EVERY}, so that each of them there stands for about as many."
        )
        plots.append(Plot("Request intervals", beyond, keep_alive_figures.intervals(drawn)))
    return plots


def _class_plots(drawn: Sequence[Track]) -> list[Plot]:
    """The figures of a guarantee to classes of clients."""
    ground = "Red ground: a guarantee could not be met in this window; the reasons below say with how many processes."
    if not any(move.move.phase == class_figures.SATURATED for track in drawn for move in track.moves):
        ground = ""
    waits = f"Dashed lines are what is desired. {ground}".strip()
    shares = f"Dotted lines are the connections that workers held, averaged over a window. {ground}".strip()
    return [
        Plot("What each class waited", waits, class_figures.delays(drawn)),
        Plot("What each class was given, and what waited", shares, class_figures.budgets(drawn)),
    ]


def _told(track: Track) -> list[StoredMove]:
    """The changes, and the first of the moves in a row that say that a guarantee cannot be met."""
    told, stuck = [], False
    for move in track.moves:
        now = move.move.phase == class_figures.SATURATED
        if move.state is not MoveState.HELD or (now and not stuck):
            told.append(move)
        stuck = now
    return told


def _events(track: Track) -> list[Event]:
    """What there is to tell of a run's moves with their reasons, in order."""
    at = {w.index: w for w in track.windows}
    events = []
    for move in _told(track):
        window = at.get(move.index)
        seen = window.configuration if window else {}
        changes = ", ".join(f"{k} {seen.get(k, '?')} → {v}" for k, v in move.move.changes.items())
        took = f" in {move.took_s:.2g} s" if move.took_s is not None else ""
        said = f": {move.detail}" if move.detail else ""
        when = f"{window.start_s + window.duration_s:.0f} s" if window else ""
        state = "left open: trimtab ended here" if move.state is MoveState.OPEN else move.state.value
        events.append(Event(when, changes, move.move.reason, f"{state}{took}{said}"))
    return events


def _means(
    groups: Mapping[str, Sequence[Track]], guarantee: DelayGuarantee | None
) -> list[tuple[str, str, list[str]]]:
    """Metric, unit and the mean of each label's second halves, for those that were measured."""
    rows = []
    of_classes = [
        (of_class(name, c), f", {c}") for name in CLASS_METRICS for c in (guarantee.classes if guarantee else ())
    ]
    for name, whose in [*of_classes, *((name, "") for name in SHOWN_METRICS)]:
        cells = []
        for repeats in groups.values():
            values = [v for t in repeats for v in t.settled(name)]
            cells.append(f"{sum(values) / len(values):.4g}" if values else "not measured")
        if any(cell != "not measured" for cell in cells):
            rows.append((f"{metric_of(name).description}{whose}", metric_of(name).unit, cells))
    return rows


def _facts(found: Sequence[Track]) -> list[tuple[str, str]]:
    """What is needed to judge and repeat the runs."""
    first = found[0].run
    when = datetime.fromtimestamp(first.started, UTC).strftime("%Y-%m-%d %H:%M UTC")
    seeds = ", ".join(str(t.run.plan.settings.seed) for t in found)
    settings = first.plan.settings
    return [
        ("started", when),
        ("plant", first.plan.plant),
        ("runs", ", ".join(f"{t.run.id} {t.label}" for t in found)),
        ("controllers", ", ".join(dict.fromkeys(t.run.plan.controller for t in found))),
        ("seeds", seeds),
        ("window", f"{settings.window_s:g} s"),
        *([("workload", first.plan.workload)] if first.plan.workload else []),
        *((name.replace("_", " "), str(value)) for name, value in first.plan.host.items()),
    ]


def _unmeasured(found: Sequence[Track]) -> list[tuple[str, int]]:
    """What could not be measured, and in how many windows."""
    counts: dict[str, int] = {}
    for problem in (p for t in found for w in t.windows for p in w.problems):
        counts[problem] = counts.get(problem, 0) + 1
    return sorted(counts.items(), key=lambda item: -item[1])[:10]
