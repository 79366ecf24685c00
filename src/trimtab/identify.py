"""Runs the two excited runs of an identification on a plant, through the loop and the store: lu2001, Section 7.2.

The white noise of the first seed gives the model, that of the second judges it. Both runs are stored like any other,
and what was in force before each is put back at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trimtab import own
from trimtab.controllers.excitation import Excitation
from trimtab.core import Knob, Plant, Role, Window, by_label
from trimtab.decision import Oversight
from trimtab.errors import TrimtabError, UsageError
from trimtab.events import Event, Status, WindowDone
from trimtab.guard.domain import Domain
from trimtab.host import facts
from trimtab.identification.experiment import Experiment
from trimtab.identification.result import Identified, analysed
from trimtab.identification.sampling import too_short
from trimtab.loop import Loop
from trimtab.observer import Stop
from trimtab.records import Plan
from trimtab.settings import Settings
from trimtab.store import Store

_LEASED_PERIODS = 3.0
"""The gate keeps to budgets for this many sampling periods after the last order of the loop."""

_OVERSIGHT = Oversight((Domain(),))
"""Only the domains: the other guards would answer the white noise, and the input would no longer be white."""


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
        experiment: its plan.
        store: where both runs are written.
        stop: ends it.
        on_event: told of every window and move.
        command: the command line, for the record.

    Raises:
        UsageError: there is no such class, a budget is not allowed, the two classes have too few processes, the
            windows are too short for the traffic, or the model is unstable or unidentifiable.
        TrimtabError: the plant ended or refused.
    """
    knobs = experiment.knobs(plant)
    noise = Excitation(experiment.objective, experiment.low, experiment.high, experiment.warm)
    noise.require_two(noise.start(knobs, experiment.seed), plant.configuration())
    plant.lease(_LEASED_PERIODS * experiment.period_s)
    refused: list[str] = []
    budgets = by_label(knobs, Role.PROCESS_BUDGET)
    watched = _watched(experiment, budgets, stop, on_event, refused)
    seeds = [experiment.seed, experiment.validate_seed]
    runs: list[int] = []
    try:
        for seed, label in zip(seeds, ("identify", "validate"), strict=True):
            settings = experiment.settings(seed)
            writer = store.begin(_plan(plant, knobs, noise, settings, label, command))
            outcome = Loop(plant, knobs, noise, _OVERSIGHT, writer, settings, stop, watched).run()
            if refused:
                raise UsageError(f"the model cannot be identified: {refused[0]}")
            if outcome.status is Status.STOPPED:
                return None
            if outcome.status is not Status.DONE:
                why = f"ended early: {outcome.detail}; what was measured is stored"
                raise TrimtabError(f"run {writer.run_id} {why}")
            runs.append(writer.run_id)
    finally:
        plant.end_lease()
    kept = [[window for window in store.windows(run) if window.index >= experiment.warm] for run in runs]
    found = {"plant": plant.name, "runs": runs, "seeds": seeds, "duration_s": experiment.duration_s}
    return analysed(experiment.pair, budgets, experiment.period_s, kept[0], kept[1], experiment.orders, found)


def _watched(
    experiment: Experiment,
    budgets: Mapping[str, Knob],
    stop: Stop,
    on_event: Callable[[Event], None],
    refused: list[str],
) -> Callable[[Event], None]:
    """Passes events on, and ends the first run early, saying why, when its windows are too short for the traffic."""
    seen: list[Window] = []
    pair = experiment.pair

    def watched(event: Event) -> None:
        on_event(event)
        if isinstance(event, WindowDone) and not stop:
            seen.append(event.window)
            why = too_short(pair, budgets, seen, experiment.windows, experiment.period_s, experiment.orders)
            if why:
                refused.append(why)
                stop.reason = why

    return watched


def _plan(
    plant: Plant, knobs: tuple[Knob, Knob], noise: Excitation, settings: Settings, label: str, command: Sequence[str]
) -> Plan:
    """The plan of one excited run."""
    return Plan(
        command=tuple(command),
        directory=own.working_directory(),
        subjects=plant.subjects,
        knobs=knobs,
        controller="excitation",
        controller_options={"low": noise.low, "high": noise.high, "warm": noise.warm},
        settings=settings,
        initial=dict(plant.configuration()),
        host=facts(),
        label=f"{label}, seed {settings.seed}",
        group="identification",
    )
