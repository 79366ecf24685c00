"""The engine of every experiment: makes the runs that are declared, goes on where it was stopped, writes results.

A run is known by its group, label and seed and by the version of its declaration (`Arm.digest`). One that has come to
an end is not made again with the same store; one that was stopped or killed in the middle counts for nothing. What is
only computed is computed on all CPUs and stored in the order of the arms, one run after the other.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

from trimtab import codec, discovery, host, own
from trimtab.clock import SystemClock
from trimtab.core import Knob, Subject
from trimtab.decision import Oversight
from trimtab.errors import TrimtabError, UsageError
from trimtab.events import Event, Outcome, Status
from trimtab.files import write_whole
from trimtab.guard.domain import Domain
from trimtab.lab import FOUND, Arm, Context, Lab, Model, World, chosen
from trimtab.lab._results import new_folder, sections, write_results
from trimtab.loop import Loop
from trimtab.options import options_in_force
from trimtab.records import Plan, Run
from trimtab.report.track import Track, tracks
from trimtab.store import Store
from trimtab.trials import EXTRA, Searching
from trimtab.units import format_duration

DIGEST = "arm"
"""The version of the declaration that a run was made from, among a plan's extras."""
FINISHED = (Status.DONE, Status.GONE, Status.FAILED)
"""A run that its server did not survive is a result too, if it has windows."""
START_S = 8.0
"""Time to start, warm and end a server, for the forecast of the first run."""
NICE = 10
"""Niceness of what is only computed: behind whatever else runs."""


@dataclass
class Made:
    """The runs of an experiment that have been made, by arm; `trimtab.lab.Runs` for arms that need earlier ones.

    Args:
        store: their store.
        ids: their numbers by group, label, seed and digest, of all parts and the seeds in question.
    """

    store: Store
    ids: dict[tuple[str, str, int, str], int] = field(default_factory=dict)

    def track(self, group: str, label: str, seed: int) -> Track:
        """One of them, whole.

        Raises:
            TrimtabError: it has not been made.
        """
        for (*known, _), run_id in self.ids.items():
            if known == [group, label, seed]:
                return tracks(self.store, [run_id])[0]
        raise TrimtabError(f"{group}: {label}, seed {seed} is needed and has not been run")


def run_lab(lab: Lab, parts: Sequence[str], context: Context) -> None:
    """Makes the missing runs of some parts, and writes the results that the context asks for.

    Raises:
        UsageError: there is no such part, or the context asks for what the experiment does not write.
        TrimtabError: the testbed could not be set up, or it was stopped from outside.
    """
    known = chosen(lab.parts, parts)
    wanted = lab.order(known if parts else ()) or known
    refuse_unwritten(lab, context)
    if lab.root and os.geteuid() != 0:
        raise UsageError(f"only root can {lab.root}")
    lab.conditions(context)
    for program in lab.programs:
        if not own.program(program):
            raise UsageError(f"no {program} on this machine: install what packages.txt lists (make setup, as root)")
    folder = None if context.results is None else new_folder(context.results)
    arms = [arm for part in wanted for seed in context.seeds for arm in lab.arms(part, seed)]
    arms = list({_key(arm): arm for arm in arms}.values())
    others = [arm for part in lab.parts for seed in context.seeds for arm in lab.arms(part, seed)]
    made = Made(context.store, {} if context.fresh else finished(context.store, [*others, *arms]))
    if stored := sum(_key(arm) in made.ids for arm in arms):
        context.say(f"{stored} of {len(arms)} runs are in the store and not made again (--fresh makes them)")
    _make(lab, [arm for arm in arms if _key(arm) not in made.ids], stored, made, context)
    ids = [made.ids[_key(arm)] for arm in arms if _key(arm) in made.ids]
    write_lab(lab, ids, replace(context, results=folder))
    if all(isinstance(arm.bed, Model) for arm in arms):
        with tempfile.TemporaryDirectory() as figures:
            context.say("\n".join((*sections(lab, Path(figures), tracks(context.store, ids)), "")))


def write_lab(lab: Lab, run_ids: Sequence[int], context: Context) -> None:
    """Writes results or the report of stored runs, as the context asks.

    Raises:
        UsageError: there is no such run, or the context asks for what the experiment does not write.
    """
    refuse_unwritten(lab, context)
    if context.results is not None:
        write_results(lab, new_folder(context.results), context.store, run_ids, context.say)
        context.say(f"results: {context.results}")
    if context.report is not None and lab.report is not None:
        write_whole(context.report, lab.report(context.store, run_ids))
        context.say(f"report: {context.report}")


def refuse_unwritten(lab: Lab, context: Context) -> None:
    """Refuses results that an experiment does not write.

    Raises:
        UsageError: the context asks for it.
    """
    if context.report is not None and lab.report is None:
        raise UsageError(f"{lab.name} writes no report: '--results FOLDER' has its figures and summary")
    if context.results is not None and not lab.results:
        raise UsageError(f"{lab.name} writes no results folder: '--report FILE' has its figures")


def finished(store: Store, arms: Sequence[Arm]) -> dict[tuple[str, str, int, str], int]:
    """The latest run of each arm that has come to an end, by group, label, seed and digest."""
    wanted = {_key(arm) for arm in arms}
    found: dict[tuple[str, str, int, str], int] = {}
    for group in dict.fromkeys(arm.group for arm in arms):
        for run in store.runs(group):
            plan = run.plan
            key = (group, plan.label, plan.settings.seed, str(plan.extras.get(DIGEST, "")))
            if key in wanted and run.status in FINISHED and _measured(store, run):
                found[key] = run.id
    return found


def _measured(store: Store, run: Run) -> bool:
    return run.status is Status.DONE or bool(store.windows(run.id))


def _key(arm: Arm) -> tuple[str, str, int, str]:
    return arm.group, arm.label, arm.seed, arm.digest()


def _make(lab: Lab, arms: Sequence[Arm], stored: int, made: Made, context: Context) -> None:
    """Makes runs one after the other.

    Args:
        lab: the experiment.
        arms: the runs.
        stored: how many of those that were asked for are there already.
        made: what there is, to which they are added.
        context: as asked for.

    Raises:
        TrimtabError: one could not be made, or it was stopped from outside; those that came to an end are stored.
    """
    total = stored + len(arms)
    clock = _Forecast([0.0 if isinstance(a.bed, Model) else a.duration_s for a in arms])
    with _computing() as pool:
        computed = {_key(arm): pool.submit(arm.bed.compute) for arm in arms if isinstance(arm.bed, Model)}
        for index, arm in enumerate(arms):
            number = total - len(arms) + index + 1
            context.say(
                f"[{number}/{total}] {arm.group}: {arm.label}, seed {arm.seed}, {arm.duration_s:g} s; "
                f"{format_duration(clock.left_s(index))} left"
            )
            try:
                context.heed_stop()
                if _key(arm) in computed:
                    run_id = _record(arm, context.store, {FOUND: computed.pop(_key(arm)).result()})
                else:
                    run_id = run_arm(arm, context, made)
            except Exception as error:
                if context.stop:
                    raise TrimtabError(
                        f"{error}; {number - 1} of {total} runs are stored, the same command goes on"
                    ) from error
                if not lab.survives:
                    raise
                why = str(error) if isinstance(error, TrimtabError) else f"{type(error).__name__}: {error}"
                context.say(f"not run: {why}")
                run_id = _record(arm, context.store, {}, why)
            made.ids[_key(arm)] = run_id
            context.say("\n".join(lab.told(tracks(context.store, [run_id])[0])))


@contextlib.contextmanager
def _computing() -> Iterator[ProcessPoolExecutor]:
    """Processes on all CPUs; what they have not begun in the end is left."""
    pool = ProcessPoolExecutor(os.cpu_count(), get_context("forkserver"), _behind)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _behind() -> None:
    """Makes a process that computes wait for others, leave Ctrl-C to the one that started it, and end with that."""
    os.nice(NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_owner, daemon=True).start()


def _end_with_owner() -> None:
    owner = parent_process()
    assert owner is not None
    owner.join()
    os._exit(1)


class _Forecast:
    """Time that runs will take, by that of earlier ones beside their planned length."""

    def __init__(self, planned_s: Sequence[float]) -> None:
        self._planned_s, self._clock = list(planned_s), SystemClock()
        self._began_s = self._clock.now_s()

    def left_s(self, index: int) -> float:
        """Seconds from now, before run `index`, to the end."""
        spent_s = self._clock.now_s() - self._began_s
        beside_s = (spent_s - sum(self._planned_s[:index])) / index if index else START_S
        return float(round(sum(self._planned_s[index:]) + max(0.0, beside_s) * (len(self._planned_s) - index)))


def run_arm(arm: Arm, context: Context, made: Made) -> int:
    """Makes one run and returns its number in the store.

    Raises:
        TrimtabError: the testbed could not be set up, or it was stopped from outside.
    """
    extras = {**arm.extras, DIGEST: arm.digest()}
    complete = arm.resolved(arm, made) if arm.resolved else arm
    assert not isinstance(complete.bed, Model)
    with complete.bed.open(complete, context) as world:
        return through_loop(replace(complete, extras={**extras, **complete.extras}), context, world)


def through_loop(arm: Arm, context: Context, world: World) -> int:
    """Runs the loop for an arm on a plant that is ready, and stores it.

    Raises:
        TrimtabError: it was stopped from outside.
    """
    knobs = tuple(k for k in world.plant.knobs() if not arm.roles or k.role in arm.roles)
    controller = discovery.load("trimtab.controllers", arm.controller).CONTROLLER(arm.objective, **arm.options)
    options = options_in_force(controller)
    if arm.search is not None:
        controller = Searching(arm.objective, controller, arm.search)
    oversight = Oversight.of(controller, arm.objective, knobs) if arm.guarded else Oversight((Domain(),))
    initial = dict(world.plant.configuration())
    writer = context.store.begin(_plan(arm, world.plant.subjects, knobs, options, initial, world.facts))

    def watched(event: Event) -> None:
        world.watch()
        context.on_event(event)

    outcome = Loop(world.plant, knobs, controller, oversight, writer, arm.settings(), context.stop, watched).run()
    context.heed_stop()
    if outcome.status is not Status.DONE:
        context.say(f"run {writer.run_id} ({arm.label}, seed {arm.seed}) {outcome.status}: {outcome.detail}")
    return writer.run_id


def _plan(
    arm: Arm,
    subjects: tuple[Subject, ...] = (),
    knobs: tuple[Knob, ...] = (),
    options: Mapping[str, Any] | None = None,
    initial: Mapping[str, int] | None = None,
    facts: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of an arm's run, as it is stored before the first window."""
    known, extras = dict(facts or {}), dict(arm.extras)
    workload = known.pop("workload", "")
    if arm.search is not None:
        extras[EXTRA] = arm.search
    return Plan(
        command=(),
        directory="",
        subjects=subjects,
        knobs=knobs,
        controller=arm.controller,
        controller_options=options or {},
        settings=arm.settings(),
        initial=initial or {},
        host={**host.facts(), **known},
        workload=workload,
        extras=codec.builtins(extras),
        label=arm.label,
        group=arm.group,
    )


def _record(arm: Arm, store: Store, found: Mapping[str, Any], failure: str = "") -> int:
    """Stores what was computed, or why a run could not be made: results show it, and the next sitting tries again."""
    extras = {**arm.extras, **found, DIGEST: arm.digest()}
    writer = store.begin(_plan(replace(arm, extras=extras)))
    writer.finish(Outcome(Status.FAILED if failure else Status.DONE, failure, 0, False))
    return writer.run_id
