"""Move a server's settings by feedback until the objective is best, and follow when the workload changes.

It starts from what is in force, watches one window at a time, and makes bounded changes that the guards let pass.
Every window and change is stored before anything follows from it: 'trimtab runs' shows, replays and undoes what
was done. Ctrl-C ends the run cleanly.

example: trimtab tune apache --window 10s --duration 10m --report tuned.html
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from trimtab import discovery
from trimtab.cli._plant import (
    CONTROLLERS,
    Guarded,
    Lasting,
    add_plant,
    attached,
    chosen_controller,
    chosen_knobs,
    chosen_objective,
    options_in_force,
    refine,
    writable,
)
from trimtab.cli._progress import Lines, json_lines, quietly, reader_may_go
from trimtab.cli._stop import exit_code, stopping, terminal_approval
from trimtab.cli._summary import summary
from trimtab.core.controller import Controller
from trimtab.core.guard import Guard
from trimtab.core.knob import Knob
from trimtab.core.plant import Plant
from trimtab.errors import TrimtabError
from trimtab.events import Event, Outcome, Status
from trimtab.guard import standard
from trimtab.host import facts
from trimtab.loop import Loop
from trimtab.observer import Stop
from trimtab.records import Plan, Run
from trimtab.replay import Difference, Past, Replay
from trimtab.settings import Mode, Settings
from trimtab.store import Store, default_path
from trimtab.units import parse_duration_s

__all__ = ["add_arguments", "refine", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of this verb; `refine` adds those of the plant."""
    add_plant(parser)
    there = ", ".join(discovery.names(CONTROLLERS))
    parser.add_argument("--controller", default="trim", metavar="NAME", help=f"one of {there} (default trim)")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the controller; may be repeated",
    )
    goal = parser.add_mutually_exclusive_group()
    goal.add_argument("--minimize", metavar="METRIC", help="what to make least (default response_time_s)")
    goal.add_argument("--maximize", metavar="METRIC", help="what to make greatest")
    parser.add_argument(
        "--knob", action="append", default=[], metavar="NAME", help="a knob to move (default: the plant's first)"
    )
    parser.add_argument("--window", default="10s", help="length of a window (default 10s)")
    parser.add_argument("--duration", default="10m", help="length of the run (default 10m)")
    parser.add_argument("--settle", help="wait after a change (default: a second, at most half a window)")
    parser.add_argument(
        "--mode",
        choices=[mode.value for mode in Mode],
        default=Mode.AUTONOMOUS.value,
        help="how far to go on its own",
    )
    parser.add_argument(
        "--on-exit", choices=["keep", "restore"], default="keep", help="what to leave in force (default keep)"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a report of the run")
    parser.add_argument("--label", default="", help="what this run is in its group, such as baseline")
    parser.add_argument("--group", default="", help="the comparison it belongs to")


def run(args: argparse.Namespace) -> int:
    """Tunes.

    Raises:
        UsageError: an argument is wrong, or the plant cannot be changed from here; nothing was changed.
        TrimtabError: it could not be done.
    """
    return tune(args, None)


def tune(args: argparse.Namespace, killed: Run | None) -> int:
    """Starts a run, or goes on with one that was killed."""
    settings = _settings(args)
    controller = chosen_controller(args.controller, settings.objective, args.option)
    writable(args.report, "the report")
    guards = standard(settings.objective)
    with stopping() as stop, attached(args) as plant:
        knobs = chosen_knobs(plant, args.knob)
        controller.start(knobs, args.seed)
        if isinstance(plant, Guarded) and settings.mode in (Mode.APPROVE, Mode.AUTONOMOUS):
            plant.check_permissions()
        approve = terminal_approval(stop) if settings.mode is Mode.APPROVE else lambda move: False
        store = Store(args.store or default_path())
        past = None
        if killed is None:
            _warn_of_leftovers(store, plant)
            writer = store.begin(_plan(args, plant, knobs, controller, settings))
        else:
            past = past_of(store, killed, controller, guards)
            writer = store.resume(killed.id)
        tell = _teller(args, writer.run_id, plant, knobs, settings, stop)
        loop = Loop(plant, knobs, controller, guards, writer, settings, stop, tell, approve, past)
        outcome = loop.run()
        lasting = isinstance(plant, Lasting) and any(m.configuration for m in store.moves(writer.run_id))
        if killed is not None and outcome.restored and isinstance(plant, Lasting):
            plant.undo_leftover()
    return _end(args, store, writer.run_id, outcome, stop, lasting and not outcome.restored)


def past_of(store: Store, run: Run, controller: Controller, guards: tuple[Guard, ...]) -> Past:
    """Where a stored run stands.

    Raises:
        TrimtabError: the stored windows do not lead to the stored moves, so it cannot go on.
    """
    replay = Replay(controller, guards, run.plan.knobs, run.plan.settings.seed)
    past = replay.through(store.windows(run.id), store.moves(run.id), store.notes(run.id))
    if isinstance(past, Difference):
        raise TrimtabError(f"run {run.id} cannot go on: window {past.index} does not lead to the move that is stored")
    return past


def _teller(
    args: argparse.Namespace, run_id: int, plant: Plant, knobs: tuple[Knob, ...], settings: Settings, stop: Stop
) -> Callable[[Event], None]:
    """What shows the run, with its first lines shown."""
    lines = Lines([k.name for k in knobs], settings.objective.metric, settings.mode is not Mode.OBSERVE)
    with reader_may_go(stop):
        if args.json:
            start = {"type": "run", "run": run_id, "plant": plant.name, "controller": args.controller}
            print(json.dumps(start), flush=True)
        else:
            print(f"run {run_id}: {args.controller} on {plant.name}, {settings.objective}, {settings.mode}")
            lines.header()
    return quietly(json_lines if args.json else lines, stop)


def _end(args: argparse.Namespace, store: Store, run_id: int, outcome: Outcome, stop: Stop, undoable: bool) -> int:
    """Says how the run ended, writes the report and gives the exit code.

    Raises:
        TrimtabError: the plant ended or refused, or the report cannot be made.
    """
    if stop.reason == "SIGPIPE":
        raise BrokenPipeError
    report = args.report if outcome.windows else None
    if report is not None:
        page = importlib.import_module("trimtab.report.page")
        report.write_text(page.render(store, [run_id]), encoding="utf-8")
    if args.json:
        end = {"type": "end", "run": run_id, "status": outcome.status, "restored": outcome.restored}
        print(json.dumps(end), flush=True)
    else:
        print("\n".join(summary(store.run(run_id), store.windows(run_id))))
        if undoable:
            print(f"undo:  trimtab runs undo {run_id}{f' --store {args.store}' if args.store else ''}")
        if report is not None:
            print(f"report: {report}")
    store.close()
    if outcome.status in (Status.GONE, Status.FAILED):
        raise TrimtabError(f"run {run_id} ended early: {outcome.detail}; what was measured is stored")
    return exit_code(stop.reason)


def _settings(args: argparse.Namespace) -> Settings:
    """How the run goes.

    Raises:
        UsageError: a duration or a metric is wrong, or the window is longer than the duration.
    """
    return Settings(
        window_s=parse_duration_s(args.window),
        duration_s=parse_duration_s(args.duration),
        objective=chosen_objective(args),
        mode=Mode(args.mode),
        settle_s=None if args.settle is None else parse_duration_s(args.settle),
        restore=args.on_exit == "restore",
        seed=args.seed,
    )


def _plan(
    args: argparse.Namespace, plant: Plant, knobs: tuple[Knob, ...], controller: Controller, settings: Settings
) -> Plan:
    """What is known before the first window."""
    return Plan(
        command=args.command,
        directory=os.getcwd(),
        plant=plant.name,
        knobs=knobs,
        controller=args.controller,
        controller_options=options_in_force(controller),
        settings=settings,
        initial=dict(plant.configuration()),
        undo=plant.undo_script(),
        host=facts(),
        label=args.label,
        group=args.group,
    )


def _warn_of_leftovers(store: Store, plant: Plant) -> None:
    """Says what earlier runs on this plant left behind, on standard error."""
    if not isinstance(plant, Lasting):
        return
    killed = [run.id for run in store.runs() if run.unfinished and run.plan.plant == plant.name]
    if killed:
        last = killed[-1]
        print(f"note: run {last} was killed before its end; 'trimtab runs undo {last}' undoes it", file=sys.stderr)
    if left := plant.leftover():
        print(f"note: {left}", file=sys.stderr)
