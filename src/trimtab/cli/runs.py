"""List, show, replay, resume, report and undo stored runs.

list    all runs, newest last; a run that was killed is marked
show    the windows, moves and notes of one run
replay  steps the same controller through the stored windows; exit code 1 when another move comes out
resume  goes on with a run that was killed
report  writes a report of one or more runs; the first one's label is the baseline
undo    puts back the server's own configuration, from before a run and all earlier ones; says what those had kept

Where a server was started anew since a run that named it with --pid, resume and undo take --pid with its process now.

example: trimtab runs show 12
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from trimtab import cli, codec
from trimtab.cli._leftovers import RESUMED, attached_alone, identifies, out_of_reach, require_alone, still_tried
from trimtab.cli._plant import add_store, attached, stored_method, stored_runs, writable
from trimtab.cli._progress import Lines, json_lines, rows_of, say
from trimtab.cli._run import restored, tell_end
from trimtab.core import Plant, in_words, notes_of
from trimtab.decision import Decider, Oversight
from trimtab.errors import TrimtabError, UsageError
from trimtab.events import UNRESTORED, MoveDone, Note, NoteKind, Outcome, Status
from trimtab.files import write_whole
from trimtab.options import rebased
from trimtab.records import Run
from trimtab.replay import Difference, Past, replayed
from trimtab.store import Store, default_path

UNDONE = (*RESUMED, ("identify",))
"""The verbs whose runs can be undone: they change something."""
_MOST_DIGITS = 18
"""Of a run's number: SQLite's largest has one more."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a parser for each thing that can be done with runs."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in (
        ("list", "all runs"),
        ("show", "one run"),
        ("replay", "check that a run's windows lead to its moves"),
        ("resume", "go on with a run that was killed"),
        ("report", "write a report of runs"),
        ("undo", "put back the configuration from before a run and all earlier ones"),
    ):
        action = actions.add_parser(name, help=text, description=text, allow_abbrev=False)
        add_store(action)
        if name == "report":
            action.add_argument("ids", type=_id, metavar="ID", nargs="+", help="numbers of the runs, baseline first")
            action.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write it")
        elif name != "list":
            action.add_argument("id", type=_id, metavar="ID", help="number of the run")
        if name in ("list", "show"):
            action.add_argument("--json", action="store_true", help="lines of JSON")
        if name in ("resume", "undo"):
            anew = "the server's first process now, where it was started anew since"
            action.add_argument("--pid", type=int, metavar="PID", help=anew)
        if name == "undo":
            action.add_argument("--script", action="store_true", help="print the script that does it, and do nothing")


def run(args: argparse.Namespace) -> int:
    """Carries out an action on the stored runs.

    Raises:
        UsageError: there is no such run, or this cannot be done with it.
        TrimtabError: it could not be done.
    """
    with contextlib.closing(stored_runs(args.store)) as store:
        args.store = args.store or default_path()
        match args.action:
            case "list":
                return _list(store.runs(), args.json)
            case "report":
                return _report(store, args.ids, args.out)
            case "show":
                return _show(store, store.run(args.id), args.json)
            case "replay":
                return _replay(store, store.run(args.id))
            case "resume":
                killed = store.run(args.id)
                store.close()  # opened once more in this process it has no lock, and who closes it next takes its log
                return _resume(args, killed)
            case _:
                return _undo(args, store, store.run(args.id))


def _id(text: str) -> int:
    """The number of a run.

    Raises:
        argparse.ArgumentTypeError: it is none, or one that no store can have.
    """
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a run: see 'trimtab runs list'")
    return int(text)


def _list(runs: Sequence[Run], as_json: bool) -> int:
    """One line for each run."""
    for one in runs:
        plan, status = one.plan, "killed" if one.unfinished else one.status.value
        if as_json:
            line = {"run": one.id, "started": one.started, "plant": plan.plant, "controller": plan.controller}
            print(codec.encode_strict({**line, "status": status, "label": plan.label, "group": plan.group}))
            continue
        when = datetime.datetime.fromtimestamp(one.started).strftime("%Y-%m-%d %H:%M:%S")
        names = " ".join(text for text in (plan.group, plan.label) if text)
        say(f"{one.id:>5}  {when}  {status:<8} {plan.plant:<10} {plan.controller:<10} {names}")
    if not runs and not as_json:
        say("no runs yet")
    return 0


def _show(store: Store, run: Run, as_json: bool) -> int:
    """A run as it looked while it went, from the store."""
    events, plan = store.events(run.id), run.plan
    names = [knob.name for knob in plan.knobs] or sorted(plan.initial)
    rows = rows_of(names, plan.settings.objective, plan.knobs, plan.guarantee)
    decides = any(isinstance(event, MoveDone) for event in events)
    lines = Lines(rows, decides, knobs=plan.knobs, objective=plan.settings.objective)
    if as_json:
        print(codec.encode_strict({"type": "run", "run": run.id, "status": run.status, **codec.builtins(plan)}))
    else:
        lines.header()
    for event in events:
        (json_lines if as_json else lines)(event)
    if not as_json:
        tell_end(store, run.id)
    return 0


def _replay(store: Store, run: Run) -> int:
    """Checks that the stored windows lead to the stored moves.

    Raises:
        TrimtabError: they do not.
    """
    plan, kept = run.plan, store.checkpoint(run.id)
    events = store.events(run.id) if kept is None else kept[1]
    moves = sum(isinstance(event, MoveDone) for event in events)
    if not moves:
        where = plan.settings.mode if kept is None else "in the windows that it kept"
        raise UsageError(f"run {run.id} decided nothing ({where}): there is nothing to replay")
    _, controller, settings = stored_method(plan)
    decider = Decider(controller, Oversight.of(controller, settings.objective, plan.knobs), settings.seed)
    if kept is None:
        past, part = Past(decider.start(plan.knobs)), ""
    else:
        past = restored(decider, kept[0], f"run {run.id} cannot be replayed, {plan.controller}")
        part = f", from window {past.windows} on: those before were not kept"
    try:
        result = replayed(decider, past, events)
    except UsageError as error:
        raise UsageError(f"run {run.id} cannot be replayed: {error}") from None
    if isinstance(result, Difference):
        was, now = result.stored, result.replayed
        raise TrimtabError(
            f"run {run.id}, window {result.index}: the {result.who} now give {dict(now.changes)} ({now.reason}), "
            f"stored is {dict(was.changes)} ({was.reason})"
        )
    say(f"run {run.id}: all {moves} moves were reproduced{part}")
    return 0


def _resume(args: argparse.Namespace, run: Run) -> int:
    """Goes on with a killed run.

    Raises:
        UsageError: it was not killed, its plant ended with it, or it identifies a server.
    """
    if not run.unfinished:
        raise UsageError(f"run {run.id} cannot be resumed: it is {run.status}")
    if identifies(run):
        why = "it identifies the server, which 'trimtab guarantee' begins anew"
        raise UsageError(f"run {run.id} cannot be resumed: {why}")
    verb, again = _command(run, args.pid)
    again.store = args.store
    with _attached(again, args.pid) as plant:
        if not plant.lasting:
            raise UsageError(f"run {run.id} cannot be resumed: its {plant.name} plant ended with it")
    code: int = verb.run(again, run)
    return code


def _undo(args: argparse.Namespace, store: Store, run: Run) -> int:
    """Puts back the configuration from before a run.

    Raises:
        UsageError: it still runs, or another run on its server does, or its plant cannot be attached to.
        TrimtabError: the plant refused, or something stays for want of a leave that an earlier run had.
    """
    if not args.script and run.status is Status.RUNNING and run.alive:
        raise UsageError(f"run {run.id} is still running: end it first")
    again = _command(run, args.pid, UNDONE)[1]
    again.undo = True

    def look(plant: Plant) -> None:
        if not plant.lasting:
            raise UsageError(f"run {run.id} left nothing to undo: its {plant.name} plant ended with it")
        if not args.script:
            require_alone(store, plant)

    if args.script:
        with _attached(again, args.pid) as plant:
            look(plant)
            # A path in it may have bytes that are no characters, which the shell is to get as they are.
            sys.stdout.buffer.write(os.fsencode(plant.undo_script()))
        return 0
    with attached_alone(lambda: _attached(again, args.pid), look=look) as plant:
        _put_back(store, run, plant)
        if left := out_of_reach(args, store, plant):
            raise TrimtabError(f"run {run.id}: {left}")
    return 0


def _put_back(store: Store, run: Run, plant: Plant) -> None:
    """Puts back the configuration from before a run on its servers, and says so.

    Raises:
        TrimtabError: the plant refused.
    """
    left, tried = plant.leftover(), still_tried(store, run, plant) if run.unfinished else None
    if not (left or tried):
        say(f"run {run.id}: nothing is left to undo{_at_its_end(store, run)}")
        if tried is not None:  # the next run would advise the same again
            store.finish(run.id, Outcome(Status.UNDONE, "", 0, True))
        return
    for note in notes_of(plant):
        say(f"note: {note}")
    before = plant.configuration()
    plant.undo_leftover()
    now, knobs = plant.configuration(), plant.knobs()
    if tried and not left and now == before:
        there = f"but {in_words(tried, knobs)}, which it tried, is in force"
        say(f"run {run.id}: nothing is left to undo, {there}: reload the server where nobody chose that")
        return
    began = run.plan.initial.items()
    kept = {name: value for name, value in began if now.get(name) not in (value, before.get(name))}
    earlier = f"; it began with {in_words(kept, knobs)}, which is undone too" if kept else ""
    try:
        store.finish(run.id, Outcome(Status.UNDONE, "", 0, True))
    finally:  # what was done is said, also where it cannot be stored
        say(f"run {run.id}: undone; in force now: {in_words(now, knobs)}{earlier}")


def _at_its_end(store: Store, run: Run) -> str:
    """What could not be put back at a run's end, which a server may still run with; empty where all was."""
    notes = [event for event in store.events(run.id) if isinstance(event, Note)]
    last = next((note.text for note in reversed(notes) if note.kind is NoteKind.RESTORE), "")
    return f"; at its end it {last}" if last.startswith(UNRESTORED) else ""


@contextlib.contextmanager
def _attached(again: argparse.Namespace, pid: int | None) -> Iterator[Plant]:
    """The plant of a stored run.

    Args:
        again: its command line.
        pid: the server's first process now, as the user names it; None where nobody has.

    Raises:
        UsageError: it cannot be attached to; where the process of then is refused, with the way to name another.
    """
    with contextlib.ExitStack() as stack:
        try:
            plant = stack.enter_context(attached(again))
        except UsageError as error:
            then = getattr(again, "pid", None)
            one = then[0] if isinstance(then, list) and len(then) == 1 else then
            if pid is not None or f"pid {one}" not in str(error):
                raise
            raise UsageError(f"{error}; name a server that was started anew since with --pid PID") from None
        yield plant


def _command(
    run: Run, pid: int | None, verbs: Sequence[tuple[str, ...]] = RESUMED
) -> tuple[ModuleType, argparse.Namespace]:
    """The verb of a run and its parsed command line, in which paths start where they started then.

    Args:
        run: the run.
        pid: the server's first process now, in place of that of then; None for that.
        verbs: the verbs that may have started it.

    Raises:
        UsageError: it was not started from the command line, or its plant is not named by a process.
    """
    if run.plan.command[:1] not in verbs:
        known = " or ".join(f"'trimtab {verb}'" for (verb,) in verbs)
        raise UsageError(f"run {run.id} was not started by {known}")
    verb, args = cli.parsed(run.plan.command)
    rebased(args, Path(run.plan.directory))
    args.extras = run.plan.extras
    if pid is not None:
        then = getattr(args, "pid", [])  # a list where a plant takes several
        if isinstance(then, list) and len(then) != 1:
            raise UsageError(f"--pid {pid}: run {run.id}, of {run.plan.plant}, was not given one --pid to replace")
        args.pid = [pid] if isinstance(then, list) else pid
    return verb, args


def _report(store: Store, ids: Sequence[int], out: Path) -> int:
    """Writes a report."""
    for run_id in ids:
        store.run(run_id)
    writable(out, "the report")
    write_whole(out, importlib.import_module("trimtab.report.page").render(store, ids))
    say(f"report: {out}")
    return 0
