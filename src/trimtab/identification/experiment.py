"""Runs the two excited runs of an identification on a plant, through the loop and the store: lu2001, Section 7.2.

The white noise of the first seed gives the model, that of the second judges it. Both runs are stored like any other,
and what was in force before each is put back at its end.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trimtab.controllers.excitation import Excitation
from trimtab.core.knob import Knob, Role
from trimtab.core.metric import of_class
from trimtab.core.objective import Objective
from trimtab.core.plant import Plant
from trimtab.core.window import Window
from trimtab.decision import Oversight
from trimtab.errors import TrimtabError, UsageError
from trimtab.events import Event, Status, WindowDone
from trimtab.guard.domain import Domain
from trimtab.host import facts
from trimtab.identification.order import least_windows
from trimtab.identification.result import Identified, analysed
from trimtab.identification.sampling import too_short
from trimtab.identification.signals import Pair
from trimtab.loop import Loop
from trimtab.observer import Stop
from trimtab.records import Plan
from trimtab.settings import Settings
from trimtab.store import Store

_LEASED_PERIODS = 3.0
"""The gate keeps to budgets for this many sampling periods after the last order of the loop."""

_OVERSIGHT = Oversight((Domain(),))
"""Only the domains: the other guards would answer the white noise, and the input would no longer be white."""


@dataclass(frozen=True)
class Experiment:
    """What is done.

    Args:
        pair: the input and the output.
        period_s: sampling period, in seconds.
        duration_s: length of each run, warm-up included, in seconds.
        warm_s: how long the low configuration is held first, in seconds.
        low: the lesser budget of the upper class, in processes; 0 for half of what the two classes have.
        high: its greater budget, in processes; 0 for three quarters.
        orders: the orders to try.
        seed: of the run that the model comes from.
        validate_seed: of the run that judges it.

    Raises:
        UsageError: the seeds are the same, or the durations do not fit.
    """

    pair: Pair
    period_s: float = 30.0
    duration_s: float = 1800.0
    warm_s: float = 120.0
    low: int = 0
    high: int = 0
    orders: tuple[int, ...] = field(default=(1, 2, 3))
    seed: int = 1
    validate_seed: int = 2

    def __post_init__(self) -> None:
        if self.seed == self.validate_seed:
            raise UsageError(
                f"--validate-seed {self.seed} is the seed of the first run: a model is judged by another"
            )
        if not self.period_s > 0:
            raise UsageError(f"the sampling period is {self.period_s:g} s, allowed is more than 0")
        if self.duration_s < self.warm_s + self.period_s:
            raise UsageError(
                f"a run of {self.duration_s:g} s has no window of {self.period_s:g} s after the warm-up of "
                f"{self.warm_s:g} s"
            )
        if self.windows < least_windows(self.pair.kind, self.orders):
            wanted_s = self.warm_s + least_windows(self.pair.kind, self.orders) * self.period_s
            raise UsageError(
                f"a run of {self.duration_s:g} s is too short for a model of order {max(self.orders)}: with windows "
                f"of {self.period_s:g} s and a warm-up of {self.warm_s:g} s it takes {wanted_s:g} s or more"
            )

    @property
    def warm(self) -> int:
        """The warm-up in windows."""
        return math.ceil(self.warm_s / self.period_s - 1e-9)

    @property
    def windows(self) -> int:
        """The windows of a run after its warm-up."""
        return math.floor((self.duration_s - self.warm_s) / self.period_s + 0.1)

    def knobs(self, plant: Plant) -> tuple[Knob, Knob]:
        """The budgets of the two classes.

        Raises:
            UsageError: the plant has no such class.
        """
        there = {knob.label: knob for knob in plant.knobs() if knob.role is Role.PROCESS_BUDGET}
        for name in (self.pair.upper, self.pair.lower):
            if name not in there:
                raise UsageError(f"unknown class {name!r}: {plant.name} has {', '.join(classes_of(plant)) or 'none'}")
        return there[self.pair.upper], there[self.pair.lower]

    def controller(self) -> Excitation:
        """The white noise on the two budgets."""
        objective = Objective(of_class(self.pair.delay, self.pair.upper))
        return Excitation(objective, self.low, self.high, self.warm)

    def settings(self, seed: int) -> Settings:
        """How one run goes: nothing is cut short, and no time passes between two samples."""
        objective = Objective(of_class(self.pair.delay, self.pair.upper))
        return Settings(self.period_s, self.duration_s, objective, settle_s=0.0, early=0.0, restore=True, seed=seed)


def classes_of(plant: Plant) -> tuple[str, ...]:
    """The classes of clients that have a budget, in order of priority."""
    return tuple(knob.label for knob in plant.knobs() if knob.role is Role.PROCESS_BUDGET)


def identify(
    plant: Plant,
    experiment: Experiment,
    store: Store,
    stop: Stop,
    on_event: Callable[[Event], None] = lambda event: None,
    command: Sequence[str] = (),
) -> Identified | None:
    """Excites a running plant twice and estimates its model; None when it was stopped.

    Args:
        plant: the system, under its usual load.
        experiment: what is done.
        store: where both runs are written.
        stop: ends it.
        on_event: told of every window and move.
        command: the command line, for the record.

    Raises:
        UsageError: there is no such class, a budget is not allowed, the windows are too short for the traffic, or the
            model is unstable or unidentifiable.
        TrimtabError: the plant ended or refused.
    """
    knobs = experiment.knobs(plant)
    experiment.controller().start(knobs, experiment.seed)
    plant.lease(_LEASED_PERIODS * experiment.period_s)
    seen: list[Window] = []
    refused: list[str] = []

    def watched(event: Event) -> None:
        """Ends the first run early when its windows are too short for the traffic."""
        on_event(event)
        if isinstance(event, WindowDone) and not stop:
            seen.append(event.window)
            why = too_short(experiment.pair, seen, experiment.windows, experiment.period_s, experiment.orders)
            if why:
                refused.append(why)
                stop.reason = why

    runs: list[int] = []
    kept: list[list[Window]] = []
    for seed, label in ((experiment.seed, "identify"), (experiment.validate_seed, "validate")):
        run_id, status, detail = _run(plant, knobs, experiment, seed, label, store, stop, watched, command)
        if refused:
            raise UsageError(f"the model cannot be identified: {refused[0]}")
        if status is Status.STOPPED:
            return None
        if status is not Status.DONE:
            raise TrimtabError(f"run {run_id} ended early: {detail}; what was measured is stored")
        runs.append(run_id)
        kept.append([window for window in store.windows(run_id) if window.index >= experiment.warm])
    found = {
        "plant": plant.name,
        "runs": runs,
        "seeds": [experiment.seed, experiment.validate_seed],
        "duration_s": experiment.duration_s,
    }
    return analysed(experiment.pair, experiment.period_s, kept[0], kept[1], experiment.orders, found)


def _run(
    plant: Plant,
    knobs: tuple[Knob, Knob],
    experiment: Experiment,
    seed: int,
    label: str,
    store: Store,
    stop: Stop,
    on_event: Callable[[Event], None],
    command: Sequence[str],
) -> tuple[int, Status, str]:
    """One excited run: its number, how it ended, and why."""
    controller, settings = experiment.controller(), experiment.settings(seed)
    plan = Plan(
        command=tuple(command),
        directory=os.getcwd(),
        subjects=plant.subjects,
        knobs=knobs,
        controller="excitation",
        controller_options={"low": controller.low, "high": controller.high, "warm": controller.warm},
        settings=settings,
        initial=dict(plant.configuration()),
        host=facts(),
        label=f"{label}, seed {seed}",
        group="identification",
    )
    writer = store.begin(plan)
    loop = Loop(plant, knobs, controller, _OVERSIGHT, writer, settings, stop, on_event)
    outcome = loop.run()
    return writer.run_id, outcome.status, outcome.detail
