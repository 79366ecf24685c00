"""A private Apache under a gate of its own, with clients of several classes: what lu2001's experiments run on.

Those of liu2003 that move M live run on it too, with one class that has all the workers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from trimtab import native
from trimtab.clock import SystemClock
from trimtab.core import Controller, Knob, Plant, of_class
from trimtab.core.objective import Objective
from trimtab.decision import Oversight
from trimtab.gate import place as places
from trimtab.gate import spec as specs
from trimtab.gate.launch import loadable, preloaded
from trimtab.gate.pair import Pair
from trimtab.guard.domain import Domain
from trimtab.lab import Context
from trimtab.lab._arm import WARM_S, Arm, aside, stored_loop, through_loop, under_load
from trimtab.plants._names import PROCESS_BUDGET
from trimtab.plants.apache import Apache
from trimtab.plants.gate import Gate
from trimtab.plants.simulated import Simulated, SimulatedClass, lu2001_server
from trimtab.sensors import _shared_file
from trimtab.sensors.server_status import ServerStatus
from trimtab.settings import Settings
from trimtab.testbed.apache import ApacheTestbed
from trimtab.testbed.apache_config import ApacheSpec
from trimtab.workloads._population import Population

_SPARE_S = 20.0
"""Load after the planned end of a run."""
SPARE_FACT = "idle processes kept"
"""What is recorded of a server that lets idle processes go."""


@dataclass(frozen=True)
class Member:
    """A class of clients.

    Args:
        name: its name.
        source: address that its clients come from; None for the class that takes the rest.
        desired: what it is promised, as a SPEC writes it; empty for nothing.
        budget: its processes at the start; 0 for an even share.
    """

    name: str
    source: str | None
    desired: str = ""
    budget: int = 0

    def table(self) -> str:
        """The class in a SPEC."""
        lines = ["[[class]]", f'name = "{self.name}"']
        if self.source is not None:
            lines.append(f'match = [{{ source = "{self.source}/32" }}]')
        if self.desired:
            lines.append(f"desired = {self.desired}")
        if self.budget:
            lines.append(f"budget = {self.budget}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Scene:
    """Server, gate and clients of an experiment.

    Args:
        apache: the server; its `max_request_workers` is M.
        guarantee: relative, absolute or hybrid; empty for none.
        members: the classes in order of priority.
        populations: the clients, by class name.
        period_s: sampling period, in seconds.
        warm_s: load before the first window, in seconds.
        policy: preemptive or non-preemptive.
        facts: what else is recorded.
    """

    apache: ApacheSpec
    guarantee: str
    members: tuple[Member, ...]
    populations: tuple[Population, ...]
    period_s: float
    warm_s: float
    policy: str = "non-preemptive"
    facts: Mapping[str, str] = field(default_factory=dict)

    def spec(self) -> str:
        """The gate's SPEC. It names a port that no rule uses: the testbed chooses its own later."""
        lines = ["listen = [80]", f"workers = {self.apache.max_request_workers}", f'policy = "{self.policy}"']
        if self.guarantee:
            lines += [f'guarantee = "{self.guarantee}"', f'period = "{self.period_s * 1000:g}ms"']
        return "\n".join([*lines, *(one.table() for one in self.members)]) + "\n"


@contextlib.contextmanager
def under_gate(scene: Scene, say: Callable[[str], None]) -> Iterator[tuple[ApacheTestbed, Gate]]:
    """Starts gate and server, and ends both.

    Args:
        scene: what to start.
        say: told what the gate says.

    Raises:
        UsageError: the SPEC is wrong, or something is not installed.
        TrimtabError: one of them did not start.
    """
    clock = SystemClock()
    shim = loadable(native.shim_path())
    place = places.claim(f"lab-{os.getpid()}")
    pair: Pair | None = None
    try:
        _shared_file.create(place.shared)
        line = specs.parse(scene.spec()).start(place.directory)
        place.write_start_line(line)
        pair = Pair(place, line, clock, say)

        def environment(port: int) -> Mapping[str, str]:
            return preloaded({}, shim, place, (port,), gated=True)

        with ApacheTestbed(scene.apache, environment=environment) as bed:
            gate = Gate(clock, place)
            try:
                yield bed, gate
            finally:
                for sensor in gate.sensors():
                    sensor.close()
                gate.close()
    finally:
        if pair is not None:
            pair.stop()
        place.release()


@contextlib.contextmanager
def loaded(scene: Scene, duration_s: float, seed: int, say: Callable[[str], None]) -> Iterator[Plant]:
    """The gate as a plant under the scene's load, once it is warm; the client's side is among its sensors."""
    with under_gate(scene, say) as (bed, gate), aside(scene.apache.cpus) as cpu:
        times = (scene.warm_s, scene.warm_s + duration_s + _SPARE_S)
        with under_load(gate, bed.port, scene.populations, times, seed, cpu) as plant:
            gate.lease(max(60.0, 10 * scene.period_s))
            yield plant


def run_live(arm: Arm, context: Context) -> int:
    """Runs an arm in which M of a gate moves, and the server's own limit stays where it was at the start.

    The gate knows how many connections the server holds and not how many processes it has, so the status page is
    asked for the idle ones: they take memory too.

    Raises:
        TrimtabError: the testbed could not be set up, or it was stopped from outside.
    """
    spec = arm.spec()
    scene = Scene(spec, "", (Member("all", None),), arm.clients(), arm.window_s, WARM_S)
    with under_gate(scene, context.say) as (bed, gate), aside(spec.cpus) as cpu:
        clock = SystemClock()
        with contextlib.closing(Apache.attach(clock, bed.pid, bed.status_url)) as apache:
            facts = {"server": apache.server, "confinement": bed.confinement}
        if spec.spare_workers is not None:
            facts[SPARE_FACT] = "{} to {}".format(*spec.spare_workers)
        status = ServerStatus(bed.status_url.partition("?")[0], clock)
        times = (scene.warm_s, arm.load_s())
        with under_load(gate, bed.port, scene.populations, times, arm.seed, cpu, (status,)) as plant:
            return through_loop(arm, context, plant, facts)


def run_guarantee(
    scene: Scene,
    context: Context,
    method: tuple[str, Controller],
    seed: int,
    duration_s: float,
    group: str,
    label: str,
    simulated: bool = False,
) -> int:
    """Runs one controller on a scene and returns the number of its run in the store.

    With `simulated` on the simulator in place of server, gate and clients, in virtual time.
    """
    warm = in_simulator(scene, seed) if simulated else loaded(scene, duration_s, seed, context.say)
    with warm as plant:
        objective = Objective(of_class("connection_delay_s", scene.members[0].name))
        settings = Settings(scene.period_s, duration_s, objective, settle_s=0.0, early=0.0, seed=seed)
        return stored_loop(
            context, plant, method, budgets(plant), settings, Oversight((Domain(),)), group, label, scene.facts
        )


@contextlib.contextmanager
def in_simulator(scene: Scene, seed: int) -> Iterator[Plant]:
    """A scene's server, gate and clients in the simulator, warm."""
    spec = scene.apache
    server = replace(
        lu2001_server(),
        max_request_workers=spec.max_request_workers,
        keep_alive_timeout_ms=spec.keep_alive_timeout_ms,
    )
    classes = [SimulatedClass(one.name, one.budget or None) for one in scene.members]
    plant = Simulated(server, scene.populations, seed, classes)
    with contextlib.closing(plant):
        plant.clock.sleep(scene.warm_s)
        yield plant


def budgets(plant: Plant) -> tuple[Knob, ...]:
    """The budgets of a plant's classes, in order of priority."""
    return tuple(k for k in plant.knobs() if k.name.startswith(f"{PROCESS_BUDGET}@"))
