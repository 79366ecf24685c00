"""Beds that experiments share: a private Apache whose limit moves by reloads, and the base of every bed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from trimtab import native
from trimtab.clock import SystemClock
from trimtab.core import Plant, Sensor
from trimtab.gate import run_directory
from trimtab.gate.keep_alive import InCharge, KeepAliveTime, Setting
from trimtab.gate.launch import loadable, preloaded
from trimtab.gate.run_directory import RunDirectory
from trimtab.lab import Arm, Context, World
from trimtab.load import LoadRun
from trimtab.plants._stack import Stack
from trimtab.plants.apache import Apache
from trimtab.plants.keep_alive import KeepAlive
from trimtab.sensors import _shared_file
from trimtab.sensors.load_generator import LoadGenerator
from trimtab.testbed import far
from trimtab.testbed.apache import ApacheTestbed
from trimtab.testbed.apache_config import ApacheSpec
from trimtab.testbed.nginx import NginxTestbed
from trimtab.testbed.nginx_config import NginxSpec
from trimtab.testbed.setups import Setup
from trimtab.workloads._population import Population

WARM_S = 4.0
"""Load before the first window, so that it finds a server at work."""
LAST_CHANGE_S = 60.0
"""Load after the planned end, for a last change that takes its time."""


@dataclass(frozen=True)
class OnApache:
    """A private Apache of a set-up.

    Args:
        setup: server and workload.
        start: MaxRequestWorkers at the start; None for the set-up's own.
        populations: clients in place of the set-up's own.
        warm_s: load before the first window, in seconds.
    """

    setup: Setup
    start: int | None = None
    populations: tuple[Population, ...] = ()
    warm_s: float = WARM_S

    def spec(self) -> ApacheSpec:
        """The server as it is at the start."""
        spec = self.setup.spec
        return spec if self.start is None else replace(spec, max_request_workers=self.start)

    def clients(self) -> tuple[Population, ...]:
        """The clients."""
        return self.populations or self.setup.workload.populations()

    @contextlib.contextmanager
    def open(self, arm: Arm, context: Context) -> Iterator[World]:
        """Starts it, attached as `trimtab tune apache` does."""
        spec = self.spec()
        with ApacheTestbed(spec) as bed, aside(spec.cpus) as cpu:
            apache = Apache.attach(SystemClock(), bed.pid, bed.status_url, os.fspath(bed.snippet_directory))
            facts = {"workload": self.setup.name, "server": apache.server, "confinement": bed.confinement}
            with under_load(apache, bed.port, self.clients(), self.warm_s, arm, cpu, context) as plant:
                yield World(plant, facts)


@contextlib.contextmanager
def under_load(
    plant: Plant,
    port: int,
    populations: tuple[Population, ...],
    warm_s: float,
    arm: Arm,
    cpu: int | None,
    context: Context,
    before: tuple[Sensor, ...] = (),
    address: str = "127.0.0.1",
) -> Iterator[Plant]:
    """The plant under load, once it is warm, with the client's side among its sensors, which are closed in the end.

    Args:
        plant: the plant.
        port: where its server listens.
        populations: the clients.
        warm_s: load before it is warm, in seconds.
        arm: how long it runs, and the seed of the load's randomness.
        cpu: the CPU for the load generator; None for any.
        context: can stop it.
        before: more sensors, whose readings the plant's own replace.
        address: where clients reach it; another one only in a network of this process's own (`testbed.far`).

    Raises:
        TrimtabError: the load generator failed, or it was stopped from outside.
    """
    clock, length_s, remote = SystemClock(), warm_s + arm.duration_s + LAST_CHANGE_S, address == far.SERVER
    with LoadRun(
        f"{address}:{port}", populations, length_s, clock, seed=arm.seed, cpu=cpu, allow_remote=remote
    ) as load:
        for interval in load.follow():
            context.heed_stop()
            if interval.at_s >= warm_s:
                break
        whole = Stack(plant, extra=(*before, LoadGenerator(load, clock)))
        try:
            yield whole
        finally:
            for sensor in whole.sensors():
                sensor.close()


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


Testbed = ApacheTestbed | NginxTestbed


@contextlib.contextmanager
def shimmed(gated: bool) -> Iterator[tuple[RunDirectory, Callable[[int], Mapping[str, str]]]]:
    """A run directory of this process, and by port the environment with which a server has the shim in it.

    Raises:
        UsageError: the shim is not installed, or cannot be loaded.
    """
    shim = loadable(native.shim_path())
    run_dir = run_directory.claim(f"lab-{os.getpid()}")
    try:
        _shared_file.create(run_dir.shared)
        yield run_dir, lambda port: preloaded({}, shim, run_dir, (port,), gated=gated)
    finally:
        run_dir.release()


@contextlib.contextmanager
def sensed(spec: ApacheSpec | NginxSpec) -> Iterator[tuple[Testbed, KeepAlive, RunDirectory]]:
    """A private, unmodified server with the shim in it and no gate, as `trimtab run --ports` starts one.

    Gives the server, its keep-alive time as a plant, and the run directory that they share.

    Raises:
        UsageError: something is not installed.
        TrimtabError: the server did not start.
    """
    with shimmed(gated=False) as (run_dir, environment):
        with contextlib.closing(KeepAliveTime(run_dir.shared)) as time:
            # As `trimtab run --keep-alive` does, so that a later setting reaches every connection.
            time.write(Setting(InCharge.FIXED, None))
        server: Testbed
        if isinstance(spec, NginxSpec):
            server = NginxTestbed(spec, environment=environment)
        else:
            server = ApacheTestbed(spec, environment=environment)
        with server as bed, contextlib.closing(KeepAlive(SystemClock(), run_dir)) as plant:
            yield bed, plant, run_dir
