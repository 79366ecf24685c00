"""One run of the loop as a verb does it: stored, shown while it goes, summed up at its end."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from trimtab import codec, own, trials
from trimtab.cli._costs import cost_lines, measured_costs
from trimtab.cli._leftovers import CHANGING, command, require_alone, tell_leftovers
from trimtab.cli._progress import reader_may_go, rows_of, say, showing
from trimtab.cli._stop import exit_code, terminal_approval
from trimtab.core import Controller, Knob, Plant
from trimtab.decision import Decider, Oversight
from trimtab.errors import TrimtabError, UsageError
from trimtab.events import Event, Outcome, Status, WindowDone
from trimtab.files import write_whole
from trimtab.guarantee import DelayGuarantee
from trimtab.host import facts
from trimtab.loop import Loop
from trimtab.observer import Stop
from trimtab.options import options_in_force
from trimtab.records import CHOICES, GUARANTEE, Plan, Run
from trimtab.referee import Course
from trimtab.replay import Difference, Past, replayed
from trimtab.settings import Mode, Settings
from trimtab.store import RunWriter, Store, default_path

KEPT_WINDOWS = 17280
"""Windows of a run that are stored unless the user names another number: a day of 5 s. All of them are looked at for
its end and its report, which took 10 and 36 KB each."""


@dataclass(frozen=True)
class RunRequest:
    """Request for a run.

    Args:
        name: the controller's registered name.
        controller: the controller.
        knobs: the knobs it may move, in its order.
        settings: how the run goes.
        guarantee: its guarantee to classes of clients; None when it tunes.
        facts: further facts on how it was run, for the report.
        keep_windows: about how many windows are stored, the last ones.
        lease_s: for how long the plant is leased, from the run's begin on; None for no lease.
    """

    name: str
    controller: Controller
    knobs: tuple[Knob, ...]
    settings: Settings
    guarantee: DelayGuarantee | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    keep_windows: int = KEPT_WINDOWS
    lease_s: float | None = None

    def oversight(self) -> Oversight:
        """Guards and judge between the controller and the plant."""
        return Oversight.of(self.controller, self.settings.objective, self.knobs)


@dataclass(frozen=True)
class RunResult:
    """A run that has ended.

    Args:
        store: its store.
        run_id: its number.
        outcome: how it ended.
        undoable: True when what it changed is still in force after this process.
        unrestored: why what was there before could not be put back at its end; empty where it was, or was not to be.
    """

    store: Store
    run_id: int
    outcome: Outcome
    undoable: bool
    unrestored: str


def execute(
    args: argparse.Namespace, plant: Plant, job: RunRequest, stop: Stop, killed: Run | None = None
) -> RunResult:
    """Starts a run, or goes on with one that was killed, to its end.

    Raises:
        UsageError: the controller cannot move these knobs, or the mode needs a terminal; nothing was changed.
        TrimtabError: it could not be done.
    """
    oversight, settings = job.oversight(), job.settings
    # What a search has on trial is not to stay until somebody comes back to his terminal.
    patience_s = settings.window_s if getattr(job.controller, "searches", False) else math.inf
    asks = settings.mode is Mode.APPROVE
    approve = terminal_approval(stop, job.knobs, patience_s) if asks else lambda move: False
    store = Store(args.store or default_path())
    past = None
    writer = _begun(args, store, plant, job, killed)
    if killed is not None:
        plant.began_with(killed.plan.initial)
        past = past_of(store, killed, job)
        if isinstance(job.controller, trials.Searching) and plant.lasting:
            plant.undo_leftover()  # the trial under way: the search goes on from what is the operator's
    if job.lease_s is not None:
        _lease(plant, job.lease_s, writer, killed)
    course = Course(None if settings.mode is Mode.OBSERVE else oversight.judge, job.knobs)
    for window in store.windows(writer.run_id):
        course.tell(WindowDone(window))
    with _shown(args, writer.run_id, plant, job, stop, course, store) as tell:
        at_end = partial(_whole, plant, killed, job)
        loop = Loop(plant, job.knobs, job.controller, oversight, writer, settings, stop, tell, approve, past, at_end)
        outcome = _leased(plant, job, loop)
    made = loop.applied or (past is not None and past.touched)  # also in windows that were not kept
    undoable = plant.lasting and made and not outcome.restored
    return RunResult(store, writer.run_id, outcome, undoable, loop.unrestored)


def _begun(args: argparse.Namespace, store: Store, plant: Plant, job: RunRequest, killed: Run | None) -> RunWriter:
    """The writer of a run that is begun, or gone on with; of two that begin at once on one server one is refused.

    Raises:
        UsageError: another run changes the server, or may.
    """
    changing = job.settings.mode in CHANGING
    if changing:
        require_alone(store, plant)
    if killed is None:
        tell_leftovers(args, store, plant, job.settings.mode)
        begin = partial(store.begin, _plan(args, plant, job), job.keep_windows)
    else:
        begin = partial(store.resume, killed.id, job.keep_windows)
    with store.transaction():
        if changing:
            require_alone(store, plant)
        if killed is not None and not store.run(killed.id).unfinished:
            raise UsageError(f"run {killed.id} cannot be resumed: somebody else goes on with it")
        writer = begin()
    return writer


def _lease(plant: Plant, timeout_s: float, writer: RunWriter, killed: Run | None) -> None:
    """Takes the lease of a run that has begun: one that is refused must not leave a gate that opens by and by.

    Raises:
        TrimtabError: the plant gives none; the run has ended with that, but for one that was killed.
    """
    try:
        plant.lease(timeout_s)
    except TrimtabError as error:
        if killed is None:
            writer.finish(Outcome(Status.FAILED, str(error), 0, False))
        raise


def _leased(plant: Plant, job: RunRequest, loop: Loop) -> Outcome:
    """Runs, and gives the lease back where what was before is in force at the end: then a gate keeps to it."""
    back = True
    try:
        outcome = loop.run()
        back = job.settings.restore or outcome.restored
        return outcome
    finally:
        if back and job.lease_s is not None:
            plant.end_lease()


def _whole(plant: Plant, killed: Run | None, job: RunRequest, outcome: Outcome) -> Outcome:
    """The outcome; a run that was gone on with may have to end in the configuration from before its first part.

    Raises:
        TrimtabError: that cannot be put back.
    """
    if killed is None or not plant.lasting:
        return outcome
    searched = isinstance(job.controller, trials.Searching) and outcome.status in (Status.DONE, Status.STOPPED)
    if not outcome.restored and not (searched and dict(plant.configuration()) == dict(killed.plan.initial)):
        return outcome
    plant.restore()
    plant.undo_leftover()
    return replace(outcome, restored=True)


def past_of(store: Store, run: Run, job: RunRequest) -> Past:
    """State of a stored run: that after its last decision, and the events since.

    Raises:
        UsageError: what led to where it stands was not kept.
        TrimtabError: the stored windows do not lead to the stored moves, or its states cannot be read any more.
    """
    decider = Decider(job.controller, job.oversight(), run.plan.settings.seed)
    stored = store.past(run.id)
    if stored is None:
        before, events = Past(decider.start(run.plan.knobs)), store.events(run.id)
    else:
        before, events = restored(decider, stored[0], f"run {run.id} cannot go on, {job.name}"), stored[1]
    past = replayed(decider, before, events)
    if isinstance(past, Difference):
        raise TrimtabError(f"run {run.id} cannot go on: window {past.index} does not lead to the move that is stored")
    return past


def restored(decider: Decider, past: Past, who: str) -> Past:
    """A stored past with the states that its decider knows.

    Args:
        decider: what decided.
        past: with its states as JSON has them.
        who: what cannot be done with which run, and whose states they are, as a message begins.

    Raises:
        TrimtabError: these are not states of it.
    """
    try:
        return replace(past, standing=decider.restored(past.standing))
    except ValueError as error:
        raise TrimtabError(f"{who} keeps other states now: {error}") from None


def _shown(
    args: argparse.Namespace, run_id: int, plant: Plant, job: RunRequest, stop: Stop, course: Course, store: Store
) -> contextlib.AbstractContextManager[Callable[[Event], None]]:
    """Announces the run, and shows it while it goes."""
    settings = job.settings
    with reader_may_go(stop):
        if args.json:
            start = {"type": "run", "run": run_id, "plant": plant.name, "controller": job.name}
            print(codec.encode_strict(start), flush=True)
        else:
            kind = f"{job.guarantee.kind} delay guarantee" if job.guarantee else settings.objective
            say(f"run {run_id}: {job.name} on {plant.name}, {kind}, {settings.mode}")
            for line in () if job.guarantee else cost_lines(job.knobs, store.moves(run_id)):
                say(line, indent=7)
    rows = rows_of([knob.name for knob in job.knobs], settings.objective, job.knobs, job.guarantee)
    # A question on the terminal would stand in the way of a table that is drawn in place.
    live, decides = settings.mode is not Mode.APPROVE, settings.mode is not Mode.OBSERVE
    return showing(args.json, rows, settings, stop, decides=decides, knobs=job.knobs, course=course, live=live)


def finish(args: argparse.Namespace, ended: RunResult, stop: Stop) -> int:
    """Prints how the run ended, writes the report and returns the exit code.

    Raises:
        TrimtabError: the plant ended or refused, what was before could not be put back, or the report cannot be made.
    """
    store, run_id, outcome = ended.store, ended.run_id, ended.outcome
    with reader_may_go(stop):
        if args.json:
            how = {"status": outcome.status, "detail": outcome.detail, "restored": outcome.restored}
            print(codec.encode_strict({"type": "end", "run": run_id, **how}), flush=True)
        else:
            tell_end(store, run_id)
            if ended.undoable:
                say(f"undo:  {command(args, 'undo', run_id)}", indent=7)
    if args.report is not None:
        none = "none, since no window was measured"
        written = _write_report(args.report, store, run_id) if outcome.windows else none
        with reader_may_go(stop):
            if not args.json:
                say(f"report: {written}", indent=7)
    store.close()
    if outcome.status in (Status.GONE, Status.FAILED):
        raise TrimtabError(f"run {run_id} ended early: {outcome.detail}; what was measured is stored")
    if ended.unrestored:
        raise TrimtabError(f"run {run_id} {ended.unrestored}")
    return exit_code(stop.reason)


def _write_report(file: Path, store: Store, run_id: int) -> Path:
    """Writes a run's report.

    Raises:
        TrimtabError: it cannot be written; the run, which is stored, has ended all the same.
    """
    page = importlib.import_module("trimtab.report.page")
    try:
        write_whole(file, page.render(store, [run_id]))
    except OSError as error:
        again = f"'trimtab runs report {run_id} --out FILE' writes it from the store"
        raise TrimtabError(f"the report {file} cannot be written: {error.strerror}; {again}") from None
    return file


def tell_end(store: Store, run_id: int) -> None:
    """Prints the result of a run."""
    track = importlib.import_module("trimtab.report.track").tracks(store, [run_id])[0]
    lines = importlib.import_module("trimtab.cli._summary").summary(track)
    for line in [*lines, *measured_costs(track.run, track.moves)]:
        say(line, indent=7)


def _plan(args: argparse.Namespace, plant: Plant, job: RunRequest) -> Plan:
    """The plan, known before the first window."""
    return Plan(
        command=args.command,
        directory=own.working_directory(),
        subjects=plant.subjects,
        knobs=job.knobs,
        controller=job.name,
        controller_options=options_in_force(trials.inner(job.controller)),
        settings=job.settings,
        initial=dict(plant.configuration()),
        host={**facts(), **job.facts},
        label=args.label,
        group=args.group,
        extras={**plant.extras, **_extras(plant, job)},
    )


def _extras(plant: Plant, job: RunRequest) -> dict[str, Any]:
    """Extras of the plan that only some runs have: a guarantee, a search, choices that are not moved."""
    found = {} if job.guarantee is None else {GUARANTEE: codec.builtins(job.guarantee)}
    if choices := [knob for knob in plant.knobs() if knob.domain.choices and knob not in job.knobs]:
        found[CHOICES] = codec.builtins(choices)
    if isinstance(job.controller, trials.Searching):
        found[trials.EXTRA] = codec.builtins(job.controller.search)
    return found
