"""One run of the loop as a verb does it: stored, shown while it goes, summed up at its end."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trimtab import codec
from trimtab.cli._class_lines import ClassLines
from trimtab.cli._costs import cost_lines, measured_costs
from trimtab.cli._progress import Lines, json_lines, quietly, reader_may_go
from trimtab.cli._stop import exit_code, terminal_approval
from trimtab.cli._summary import summary
from trimtab.core.controller import Controller
from trimtab.core.knob import Knob
from trimtab.core.objective import Objective
from trimtab.core.plant import Plant
from trimtab.decision import Decider, Oversight
from trimtab.errors import TrimtabError
from trimtab.events import Event, Outcome, Status
from trimtab.files import write_whole
from trimtab.guarantee import DelayGuarantee
from trimtab.host import facts
from trimtab.loop import Loop
from trimtab.observer import Stop
from trimtab.options import options_in_force
from trimtab.records import GUARANTEE, Plan, Run
from trimtab.replay import Difference, Past, replayed
from trimtab.settings import Mode, Settings
from trimtab.store import Store, default_path


@dataclass(frozen=True)
class Job:
    """What a run is to do.

    Args:
        name: the controller's registered name.
        controller: the controller.
        knobs: the knobs it may move, in its order.
        settings: how the run goes.
        guarantee: what it guarantees to classes of clients; None when it tunes.
        facts: what else the report should say of how it was run.
        keep_windows: about how many windows are stored, the last ones; None for all.
    """

    name: str
    controller: Controller
    knobs: tuple[Knob, ...]
    settings: Settings
    guarantee: DelayGuarantee | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    keep_windows: int | None = None

    def oversight(self) -> Oversight:
        """What stands between the controller and the plant."""
        return Oversight.of(self.controller, self.settings.objective, self.knobs)


@dataclass(frozen=True)
class Ended:
    """A run that has ended.

    Args:
        store: where it stands.
        run_id: its number.
        outcome: how it ended.
        undoable: True when what it changed is still in force after this process.
    """

    store: Store
    run_id: int
    outcome: Outcome
    undoable: bool


def carried_out(args: argparse.Namespace, plant: Plant, job: Job, stop: Stop, killed: Run | None = None) -> Ended:
    """Starts a run, or goes on with one that was killed, to its end.

    Raises:
        UsageError: the controller cannot move these knobs, or the mode needs a terminal; nothing was changed.
        TrimtabError: it could not be done.
    """
    oversight, settings = job.oversight(), job.settings
    approve = terminal_approval(stop) if settings.mode is Mode.APPROVE else lambda move: False
    store = Store(args.store or default_path())
    past = None
    if killed is None:
        _warn_of_leftovers(store, plant)
        writer = store.begin(_plan(args, plant, job), job.keep_windows)
    else:
        writer = store.resume(killed.id, job.keep_windows)
        past = past_of(store, killed, job)
    tell = _teller(args, writer.run_id, plant, job, stop, cost_lines(job.knobs, store.moves(writer.run_id)))
    loop = Loop(plant, job.knobs, job.controller, oversight, writer, settings, stop, tell, approve, past)
    outcome = loop.run()
    lasting = plant.lasting and any(m.configuration for m in store.moves(writer.run_id))
    if killed is not None and outcome.restored and plant.lasting:
        plant.undo_leftover()
    return Ended(store, writer.run_id, outcome, lasting and not outcome.restored)


def past_of(store: Store, run: Run, job: Job) -> Past:
    """Where a stored run stands: where it stood after its last decision, and what came after that.

    Raises:
        UsageError: what led to where it stands was not kept.
        TrimtabError: the stored windows do not lead to the stored moves, or its states cannot be read any more.
    """
    decider = Decider(job.controller, job.oversight(), run.plan.settings.seed)
    stored = store.past(run.id)
    if stored is None:
        before, events = Past(decider.start(run.plan.knobs)), store.events(run.id)
    else:
        before, events = stored
        try:
            before = replace(before, standing=decider.restored(before.standing))
        except ValueError as error:
            raise TrimtabError(f"run {run.id} cannot go on, {job.name} keeps other states now: {error}") from None
    past = replayed(decider, before, events)
    if isinstance(past, Difference):
        raise TrimtabError(f"run {run.id} cannot go on: window {past.index} does not lead to the move that is stored")
    return past


def lines_of(
    knobs: Sequence[Knob], objective: Objective, decides: bool, guarantee: DelayGuarantee | None, names: Sequence[str]
) -> Lines:
    """What shows the windows of a run to a person.

    Args:
        knobs: those that may be moved.
        objective: what is shown of each window beside the usual.
        decides: True when a move follows each window.
        guarantee: what it guarantees to classes of clients; None when it tunes.
        names: of the knobs to show.
    """
    if guarantee is not None:
        return ClassLines(guarantee, decides)
    return Lines(names, objective.metric, decides, limits=objective.limits, described=knobs)


def _teller(
    args: argparse.Namespace, run_id: int, plant: Plant, job: Job, stop: Stop, costs: Sequence[str]
) -> Callable[[Event], None]:
    """What shows the run, with its first lines shown."""
    settings, names = job.settings, tuple(knob.name for knob in job.knobs)
    lines = lines_of(job.knobs, settings.objective, settings.mode is not Mode.OBSERVE, job.guarantee, names)
    with reader_may_go(stop):
        if args.json:
            start = {"type": "run", "run": run_id, "plant": plant.name, "controller": job.name}
            print(json.dumps(start), flush=True)
        else:
            kind = job.guarantee and f"{job.guarantee.kind} delay guarantee"
            print(f"run {run_id}: {job.name} on {plant.name}, {kind or settings.objective}, {settings.mode}")
            if job.guarantee is None:
                print("\n".join(costs))
            lines.header()
    return quietly(json_lines if args.json else lines, stop)


def concluded(args: argparse.Namespace, ended: Ended, stop: Stop) -> int:
    """Says how the run ended, writes the report and gives the exit code.

    Raises:
        TrimtabError: the plant ended or refused, or the report cannot be made.
    """
    store, run_id, outcome = ended.store, ended.run_id, ended.outcome
    if stop.reason == "SIGPIPE":
        raise BrokenPipeError
    report = args.report if outcome.windows else None
    if report is not None:
        page = importlib.import_module("trimtab.report.page")
        write_whole(report, page.render(store, [run_id]))
    if args.json:
        how = {"status": outcome.status, "detail": outcome.detail, "restored": outcome.restored}
        print(json.dumps({"type": "end", "run": run_id, **how}), flush=True)
    else:
        run = store.run(run_id)
        print("\n".join([*summary(run, store.windows(run_id)), *measured_costs(run, store.moves(run_id))]))
        if ended.undoable:
            print(f"undo:  trimtab runs undo {run_id}{f' --store {args.store}' if args.store else ''}")
        if report is not None:
            print(f"report: {report}")
    store.close()
    if outcome.status in (Status.GONE, Status.FAILED):
        raise TrimtabError(f"run {run_id} ended early: {outcome.detail}; what was measured is stored")
    return exit_code(stop.reason)


def _plan(args: argparse.Namespace, plant: Plant, job: Job) -> Plan:
    """What is known before the first window."""
    return Plan(
        command=args.command,
        directory=os.getcwd(),
        subjects=plant.subjects,
        knobs=job.knobs,
        controller=job.name,
        controller_options=options_in_force(job.controller),
        settings=job.settings,
        initial=dict(plant.configuration()),
        host={**facts(), **job.facts},
        label=args.label,
        group=args.group,
        extras={} if job.guarantee is None else {GUARANTEE: codec.builtins(job.guarantee)},
    )


def _warn_of_leftovers(store: Store, plant: Plant) -> None:
    """Says what earlier runs on this plant left behind, on standard error."""
    if not plant.lasting:
        return
    killed = [run.id for run in store.runs() if run.unfinished and run.plan.plant == plant.name]
    if killed:
        last = killed[-1]
        print(f"note: run {last} was killed before its end; 'trimtab runs undo {last}' undoes it", file=sys.stderr)
    if left := plant.leftover():
        print(f"note: {left}", file=sys.stderr)
