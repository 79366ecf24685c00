"""A private Apache under a gate of its own, with clients of several classes, for lu2001's experiments.

Those of liu2003 that move M live run on it too, with one class that has all the workers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from trimtab.clock import SystemClock
from trimtab.gate import spec as specs
from trimtab.gate.pair import Pair
from trimtab.lab import Arm, Context, World
from trimtab.lab._beds import OnApache, aside, shimmed, under_load
from trimtab.plants.apache import Apache
from trimtab.plants.gate import Gate
from trimtab.plants.simulated import Simulated, SimulatedClass, lu2001_server
from trimtab.sensors.server_status import ServerStatus
from trimtab.testbed.apache import ApacheTestbed
from trimtab.testbed.apache_config import ApacheSpec
from trimtab.workloads._population import Population

SPARE_FACT = "idle processes kept"
"""The fact that is recorded of a server that lets idle processes go."""


@dataclass(frozen=True)
class Member:
    """A class of clients.

    Args:
        name: its name.
        source: address that its clients come from; None for the class that takes the rest.
        desired: its desired delay, as a SPEC writes it; empty for none.
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
        facts: further facts to record.
        simulated: whether all of it is the simulator's, in virtual time.
    """

    apache: ApacheSpec
    guarantee: str
    members: tuple[Member, ...]
    populations: tuple[Population, ...]
    period_s: float
    warm_s: float
    policy: str = "non-preemptive"
    facts: Mapping[str, str] = field(default_factory=dict)
    simulated: bool = False

    def spec(self) -> str:
        """The gate's SPEC. It names a port that no rule uses: the testbed chooses its own later."""
        lines = ["listen = [80]", f"workers = {self.apache.max_request_workers}", f'policy = "{self.policy}"']
        if self.guarantee:
            lines += [f'guarantee = "{self.guarantee}"', f'period = "{self.period_s * 1000:g}ms"']
        return "\n".join([*lines, *(one.table() for one in self.members)]) + "\n"

    @contextlib.contextmanager
    def open(self, arm: Arm, context: Context) -> Iterator[World]:
        """Starts it, with a lease on the gate for the arm's controller."""
        if self.simulated:
            with contextlib.closing(in_simulator(self, arm.seed)) as simulated:
                yield World(simulated, self.facts)
            return
        with (
            under_gate(self, context.say) as (bed, gate),
            aside(self.apache.cpus) as cpu,
            under_load(gate, bed.port, self.populations, self.warm_s, arm, cpu, context) as plant,
        ):
            gate.lease(max(60.0, 10 * self.period_s))
            yield World(plant, self.facts)


@contextlib.contextmanager
def under_gate(scene: Scene, say: Callable[[str], None]) -> Iterator[tuple[ApacheTestbed, Gate]]:
    """Starts gate and server, and ends both.

    Args:
        scene: the scene to start.
        say: told what the gate says.

    Raises:
        UsageError: the SPEC is wrong, or something is not installed.
        TrimtabError: one of them did not start.
    """
    clock = SystemClock()
    with shimmed(gated=True) as (run_dir, environment), contextlib.ExitStack() as held:
        line = specs.parse(scene.spec()).start(run_dir.directory)
        run_dir.write_start_line(line)
        pair = Pair(run_dir, line, clock, say)
        held.callback(pair.stop)
        bed = held.enter_context(ApacheTestbed(scene.apache, environment=environment))
        yield bed, held.enter_context(contextlib.closing(Gate(clock, run_dir)))


@dataclass(frozen=True)
class LiveLimit(OnApache):
    """That bed under a gate whose M moves, while the server's own limit stays as at the start.

    The gate knows how many connections the server holds and not how many processes it has, so the status page is
    asked for the idle ones: they take memory too.
    """

    @contextlib.contextmanager
    def open(self, arm: Arm, context: Context) -> Iterator[World]:
        """Starts server and gate."""
        spec = self.spec()
        scene = Scene(spec, "", (Member("all", None),), self.clients(), arm.window_s, self.warm_s)
        with under_gate(scene, context.say) as (bed, gate), aside(spec.cpus) as cpu:
            clock = SystemClock()
            with contextlib.closing(Apache.attach(clock, bed.pid, bed.status_url)) as apache:
                facts = {"workload": self.setup.name, "server": apache.server, "confinement": bed.confinement}
            if spec.spare_workers is not None:
                facts[SPARE_FACT] = "{} to {}".format(*spec.spare_workers)
            status = (ServerStatus(bed.status_url.partition("?")[0], clock),)
            with under_load(gate, bed.port, self.clients(), self.warm_s, arm, cpu, context, status) as plant:
                yield World(plant, facts)


def in_simulator(scene: Scene, seed: int) -> Simulated:
    """A scene's server, gate and clients in the simulator, warm."""
    spec = scene.apache
    server = replace(
        lu2001_server(),
        max_request_workers=spec.max_request_workers,
        keep_alive_timeout_ms=spec.keep_alive_timeout_ms,
    )
    classes = [SimulatedClass(one.name, one.budget or None) for one in scene.members]
    plant = Simulated(server, scene.populations, seed, classes)
    plant.clock.sleep(scene.warm_s)
    return plant
