"""What earlier runs have left in force: the trial of one that was killed is not what the operator had.

Such a trial is undone before another run changes these servers, so that "as it was" and "the operator has chosen it"
mean what was there before it. What a run that ended in order has kept stays, also where a killed one began with it.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import time
from collections.abc import Iterable, Iterator, Sequence

from trimtab.cli._plant import attached
from trimtab.core import Configuration, MoveState, Plant, in_words
from trimtab.errors import StoreError, TrimtabError, UsageError
from trimtab.events import Status
from trimtab.processes import TICKS_HZ, start_of, uptime_s
from trimtab.records import Run
from trimtab.settings import Mode
from trimtab.store import Store, default_path
from trimtab.trust import printable

RESUMED = (("tune",), ("guarantee",))
"""The verbs whose runs can be resumed: their `run` takes the run that was killed."""
CHANGING = (Mode.APPROVE, Mode.AUTONOMOUS)
"""The modes that change something."""


@contextlib.contextmanager
def attached_as_found(args: argparse.Namespace, mode: Mode, resumed: bool) -> Iterator[Plant]:
    """The plant that the arguments name, as the operator had it where the run is to change something.

    Args:
        args: the command line.
        mode: of the run.
        resumed: True for a killed run that goes on, which finds its own trial.

    Raises:
        UsageError: none is named, it cannot be used from here, or what a killed run left cannot be undone.
    """
    if not resumed and mode in CHANGING:
        _undo_killed(args)
    with attached(args) as plant:
        yield plant


def require_alone(store: Store, plant: Plant) -> None:
    """Makes sure that no other run changes one of these servers, and takes trials for what the operator has set.

    Raises:
        UsageError: one does.
    """
    mine = {(one.plant, one.pid) for one in plant.subjects if one.pid is not None}
    for run in store.runs():
        its = {(one.plant, one.pid) for one in run.plan.subjects}
        if run.status is Status.RUNNING and run.alive and _changes(run) and mine & its:
            raise UsageError(
                f"run {run.id} still runs on this server, and would be taken for an operator: end it first"
            )


def tell_leftovers(args: argparse.Namespace, store: Store, plant: Plant, mode: Mode) -> None:
    """Prints settings left by earlier runs on this plant, on standard error."""
    if not plant.lasting:
        return
    killed = _killed(store, plant)
    if killed and mode not in CHANGING:
        last = killed[0].id
        _note(f"run {last} was killed before its end; '{command(args, 'undo', last)}' undoes it")
    if left := plant.leftover():
        _note(left)


def command(args: argparse.Namespace, action: str, run_id: int) -> str:
    """The command that undoes a run of this store, or goes on with it."""
    return f"trimtab runs {action} {run_id}{f' --store {args.store}' if args.store else ''}"


def _undo_killed(args: argparse.Namespace) -> None:
    """Undoes what the last run on these servers left, where it was killed, and says so.

    It has an attachment of its own: a plant takes what is in force when it attaches for what was before the run.

    Raises:
        UsageError: it cannot be undone; or another run still changes these servers.
    """
    try:
        store = Store(args.store or default_path(), create=False)
    except StoreError:  # said once the run is to be stored there, after all else that may be wrong
        return
    with contextlib.closing(store):
        if not any(run.unfinished and _changes(run) for run in store.runs()):
            return
        with attached(args) as plant:
            killed = _killed(store, plant) if plant.lasting else []
            if not killed:
                return
            require_alone(store, plant)
            said, run = _undone(store, plant, killed), killed[0]
    on = f"; '{command(args, 'resume', run.id)}' goes on with it instead" if run.plan.command[:1] in RESUMED else ""
    _note(f"run {run.id} was killed before its end{said}{on}")


def _undone(store: Store, plant: Plant, killed: Sequence[Run]) -> str:
    """Undoes what killed runs left, and returns what there is to say of it; empty where nothing of it is in force.

    Args:
        store: their store.
        plant: their servers.
        killed: the runs, the last one first.

    Raises:
        UsageError: it cannot be undone.
    """
    run, initial = killed[0], killed[0].plan.initial
    try:
        before = plant.configuration()
        if not plant.leftover() or not _of_runs(store, killed, before):
            return ""
        plant.check_permissions()
        if _of_runs(store, killed, plant.configuration()):  # the kernel's plant undoes killed runs in that look
            plant.undo_leftover()
        now = plant.configuration()
        # An undo goes back to before the first run that left something; this one may have begun with what one kept.
        kept = {name: value for name, value in initial.items() if now.get(name) not in (before.get(name), value)}
        if kept and not _of_runs(store, killed[1:], initial):
            now = plant.apply(kept).configuration
    except TrimtabError as error:
        raise UsageError(f"run {run.id} was killed, and what it left in force cannot be undone: {error}") from None
    back = {name: value for name, value in now.items() if value != before.get(name)}
    return f"; what it left is undone, in force again: {in_words(back or now, plant.knobs())}"


def _of_runs(store: Store, runs: Iterable[Run], now: Configuration) -> bool:
    """Whether this configuration has a setting that one of some runs has tried, and that was not there before it."""
    return any(_of_run(store, run, now) for run in runs)


def _of_run(store: Store, run: Run, now: Configuration) -> bool:
    moves = store.moves(run.id)
    tried = [window.configuration for window in store.windows(run.id)]
    tried += [move.configuration for move in moves if move.configuration is not None]
    under_way = {name for move in moves if move.state is MoveState.OPEN for name in move.move.changes}
    differing = {knob.name for knob in run.plan.knobs if now.get(knob.name) != run.plan.initial.get(knob.name)}
    return any(name in under_way or any(one.get(name) == now.get(name) for one in tried) for name in differing)


def _killed(store: Store, plant: Plant) -> list[Run]:
    """The runs that could change these servers and were killed, back to one that was not, the last one first."""
    name = "+".join(subject.plant for subject in plant.subjects)
    there = [run for run in store.runs() if _changes(run) and run.plan.plant == name and not _elsewhere(run, plant)]
    return list(itertools.takewhile(lambda run: run.unfinished, reversed(there)))


def _elsewhere(run: Run, plant: Plant) -> bool:
    """Whether a server of a run is another one: its process still runs. One that has ended was started anew since."""
    mine = {one.pid for one in plant.subjects}
    booted = time.time() - uptime_s()
    its = {one.pid: start_of(one.pid) for one in run.plan.subjects if one.pid is not None and one.pid not in mine}
    return any(start is not None and booted + start / TICKS_HZ < run.started for start in its.values())


def _changes(run: Run) -> bool:
    return run.plan.settings.mode in CHANGING


def _note(text: str) -> None:
    print(printable(f"note: {text}"), file=sys.stderr)
