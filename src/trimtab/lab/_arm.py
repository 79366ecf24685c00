"""One arm of an experiment: one controller on one workload with one seed, on a private Apache, through the loop."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from trimtab import discovery, host
from trimtab.clock import SystemClock
from trimtab.core import Controller, Knob, Objective, Plant, Role, Sensor
from trimtab.decision import Oversight
from trimtab.errors import TrimtabError
from trimtab.events import Status
from trimtab.guard.domain import Domain
from trimtab.lab import Context
from trimtab.load import LoadRun
from trimtab.loop import Loop
from trimtab.options import options_in_force
from trimtab.plants._stack import Stack
from trimtab.plants.apache import Apache
from trimtab.records import Plan
from trimtab.sensors.load_generator import LoadGenerator
from trimtab.settings import Settings
from trimtab.testbed.apache import ApacheTestbed
from trimtab.testbed.apache_config import ApacheSpec
from trimtab.testbed.setups import Setup
from trimtab.workloads._population import Population

FIXED = "fixed"
"""Label of the arms that stay at the best setting: what the methods are compared with."""
WARM_S = 4.0
"""Load before the first window, so that it finds a server at work."""
LAST_CHANGE_S = 60.0
"""Load after the planned end, for a last change that takes its time."""


@dataclass(frozen=True)
class Arm:
    """One run to make.

    Args:
        group: the comparison it belongs to.
        label: what it is in there; repeats share it.
        setup: server and workload.
        controller: registered name.
        seed: source of all randomness, the load's too.
        duration_s: length of the run, in seconds.
        window_s: length of a window, in seconds.
        start: MaxRequestWorkers at the start; None for the shipped default.
        guarded: False runs the method as the paper has it, with its domain as the only guard.
        populations: clients in place of the setup's own.
        live: whether M of a gate in front of the server moves, in place of the server's own limit.
    """

    group: str
    label: str
    setup: Setup
    controller: str
    seed: int
    duration_s: float
    window_s: float = 2.0
    start: int | None = None
    guarded: bool = True
    populations: tuple[Population, ...] = ()
    live: bool = False
    roles: tuple[Role, ...] = (Role.WORKER_LIMIT,)
    metric: str = "response_time_s"

    def spec(self) -> ApacheSpec:
        """The server as it is at the start."""
        spec = self.setup.spec
        return spec if self.start is None else replace(spec, max_request_workers=self.start)

    def clients(self) -> tuple[Population, ...]:
        """Who asks."""
        return self.populations or self.setup.workload.populations()

    def load_s(self) -> float:
        """How long the load lasts at most, in seconds."""
        return WARM_S + self.duration_s + LAST_CHANGE_S


def run_arm(arm: Arm, context: Context) -> int:
    """Runs an arm that reloads on the real testbed and returns the number of its run in the store.

    Raises:
        TrimtabError: the testbed could not be set up, or it was stopped from outside.
    """
    spec = arm.spec()
    with ApacheTestbed(spec) as bed, aside(spec.cpus) as cpu:
        apache = Apache.attach(SystemClock(), bed.pid, bed.status_url, os.fspath(bed.snippet_directory))
        with under_load(apache, bed.port, arm.clients(), (WARM_S, arm.load_s()), arm.seed, cpu) as plant:
            return through_loop(arm, context, plant, {"server": apache.server, "confinement": bed.confinement})


@contextlib.contextmanager
def under_load(
    plant: Plant,
    port: int,
    populations: tuple[Population, ...],
    times: tuple[float, float],
    seed: int,
    cpu: int | None,
    before: tuple[Sensor, ...] = (),
) -> Iterator[Plant]:
    """The plant under load, once it is warm, with the client's side among its sensors, which are closed in the end.

    Args:
        plant: the plant.
        port: where its server listens, on 127.0.0.1.
        populations: who asks.
        times: (load before it is warm, length of the load), in seconds.
        seed: source of the load's randomness.
        cpu: the CPU for the load generator; None for any.
        before: more sensors.
    """
    clock = SystemClock()
    warm_s, length_s = times
    with LoadRun(f"127.0.0.1:{port}", populations, length_s, clock, seed=seed, cpu=cpu) as load:
        warm(load, warm_s)
        whole = Stack(plant, extra=(*before, LoadGenerator(load, clock)))
        try:
            yield whole
        finally:
            for sensor in whole.sensors():
                sensor.close()


def through_loop(arm: Arm, context: Context, plant: Plant, facts: Mapping[str, str]) -> int:
    """Runs the loop on a plant for an arm.

    Args:
        arm: controller, seed, times and guards.
        context: where the run is written.
        plant: the plant, ready and under load.
        facts: what else is recorded of the machine.

    Returns:
        The number of the run in the store; a run that the server did not survive is kept as it is.

    Raises:
        TrimtabError: it was stopped from outside.
    """
    objective = Objective(arm.metric)
    settings = Settings(arm.window_s, arm.duration_s, objective, seed=arm.seed)
    controller = discovery.load("trimtab.controllers", arm.controller).CONTROLLER(objective)
    knobs = tuple(k for k in plant.knobs() if k.role in arm.roles)
    oversight = Oversight.of(controller, objective, knobs) if arm.guarded else Oversight((Domain(),))
    facts = {"workload": arm.setup.name, **facts}
    method = (arm.controller, controller)
    return stored_loop(context, plant, method, knobs, settings, oversight, arm.group, arm.label, facts)


def stored_loop(
    context: Context,
    plant: Plant,
    method: tuple[str, Controller],
    knobs: tuple[Knob, ...],
    settings: Settings,
    oversight: Oversight,
    group: str,
    label: str,
    facts: Mapping[str, str],
    extras: Mapping[str, object] | None = None,
) -> int:
    """Runs the loop and stores it.

    Args:
        context: where the run is written.
        plant: the plant, ready and under load.
        method: registered name of the controller, and the controller.
        knobs: what it may move.
        settings: times, objective and seed.
        oversight: what stands between the controller and the plant.
        group: the comparison it belongs to.
        label: what it is in there.
        facts: what else is recorded of the machine and the workload.
        extras: those of the plan.

    Returns:
        The number of the run in the store; a run that the server did not survive is kept as it is.

    Raises:
        TrimtabError: it was stopped from outside.
    """
    name, controller = method
    plan = Plan(
        command=(),
        directory="",
        subjects=plant.subjects,
        knobs=knobs,
        controller=name,
        controller_options=options_in_force(controller),
        settings=settings,
        initial=dict(plant.configuration()),
        host={**host.facts(), **{name: fact for name, fact in facts.items() if name != "workload"}},
        label=label,
        group=group,
        workload=facts.get("workload", ""),
        extras=extras or {},
    )
    writer = context.store.begin(plan)
    loop = Loop(plant, knobs, controller, oversight, writer, settings, context.stop, context.on_event)
    outcome = loop.run()
    if outcome.status is not Status.DONE and not context.stop:
        context.say(f"run {writer.run_id} ({label}, seed {settings.seed}) {outcome.status}: {outcome.detail}")
    if context.stop:
        raise TrimtabError(f"stopped by {context.stop.reason} in run {writer.run_id}")
    return writer.run_id


def warm(load: LoadRun, until_s: float) -> None:
    """Waits until the load has run for so many seconds."""
    for interval in load.follow():
        if interval.at_s >= until_s:
            return


@contextlib.contextmanager
def aside(server_cpus: tuple[int, ...] | None) -> Iterator[int | None]:
    """Moves this process off the server's CPUs; gives a CPU for the load generator, None when there is no other."""
    mine = os.sched_getaffinity(0)
    rest = mine - set(server_cpus or ())
    if not server_cpus or not rest:
        yield None
        return
    os.sched_setaffinity(0, rest)
    try:
        yield max(rest)
    finally:
        os.sched_setaffinity(0, mine)
