"""The beds of sugiki2005's experiments: servers with the shim in them, whose keep-alive time moves."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from trimtab.clock import SystemClock
from trimtab.gate.auto import Auto
from trimtab.gate.keep_alive import InCharge, Setting
from trimtab.gate.run_directory import RunDirectory
from trimtab.lab import Arm, Context, World
from trimtab.lab._beds import WARM_S, aside, sensed, under_load
from trimtab.lab._engine import through_loop
from trimtab.plants._stack import Stack
from trimtab.plants.apache import Apache
from trimtab.plants.keep_alive import KeepAlive
from trimtab.plants.keep_alive.knobs import KEEP_ALIVE
from trimtab.testbed import sugiki2005
from trimtab.testbed.apache import ApacheTestbed
from trimtab.testbed.apache_config import ApacheSpec
from trimtab.testbed.nginx_config import NginxSpec
from trimtab.testbed.setups import DYNAMIC, server_cpus
from trimtab.workloads._population import Population
from trimtab.workloads._specweb99_files import Mix
from trimtab.workloads._surge_files import FileSet
from trimtab.workloads.surge import Surge

OWN_MS = sugiki2005.DEFAULT_MS
SHIM_WARM_S = 10.0
FIRST = " (first)"
"""Ends the label of the first of two stages."""


@dataclass(frozen=True)
class KeptAlive:
    """A server with the shim in it, and clients who think.

    Args:
        users: clients.
        time_ms: keep-alive time to set before they come; 0 for none at all, `OWN_MS` to leave the server its own.
        mix: load (a) or (b); the one before a switch.
        server: prefork, event or nginx.
        switch_s: when load (a) gives way to (b), on the run's clock; None for never.
        surge: whether SURGE's users come in place of SPECweb99's.
        warm_s: load before the first window, in seconds.
    """

    users: int
    time_ms: int = OWN_MS
    mix: Mix = Mix.STANDARD
    server: str = "prefork"
    switch_s: float | None = None
    surge: bool = False
    warm_s: float = SHIM_WARM_S

    def spec(self) -> ApacheSpec | NginxSpec:
        """The server as it is started: all times but 0 are set live."""
        own_ms = 0 if self.time_ms == 0 else OWN_MS
        if self.server == "nginx":
            return NginxSpec(
                keep_alive_timeout_ms=own_ms,
                specweb99_directories=sugiki2005.DIRECTORIES,
                cpus=server_cpus(),
                cpu_weight=100,
            )
        spec = sugiki2005.server("event" if self.server == "event" else "prefork", own_ms)
        return replace(spec, surge_files=FileSet().files) if self.surge else spec

    def clients(self) -> tuple[Population, ...]:
        """The clients."""
        if self.surge:
            return Surge(users=self.users).populations()
        if self.switch_s is not None:
            return sugiki2005.switch(self.users, self.warm_s + self.switch_s)
        return sugiki2005.clients(self.mix, self.users)

    @contextlib.contextmanager
    def open(self, arm: Arm, context: Context) -> Iterator[World]:
        """Starts it and sets the time, before any client comes."""
        spec = self.spec()
        what = "SURGE" if self.surge else f"load {'(a)' if self.mix is Mix.STANDARD else '(b)'}"
        told = f"{what}{', then (b)' if self.switch_s is not None else ''}, {self.users} clients"
        with sensed(spec) as (bed, keep_alive, _), aside(spec.cpus) as cpu:
            if self.time_ms not in (0, OWN_MS):
                keep_alive.apply({KEEP_ALIVE: self.time_ms})
            facts = {"workload": told, "processing": self.server, "confinement": bed.confinement}
            with under_load(keep_alive, bed.port, self.clients(), self.warm_s, arm, cpu, context) as plant:
                yield World(plant, facts)


@dataclass(frozen=True)
class Joint:
    """liu2003's dynamic set-up with MaxRequestWorkers and the keep-alive time, each moved or held, in stages.

    Only where a worker costs memory is there a best number of them: each holds 6.5 MB of a limit of 256 MiB once it
    has served a page. The keep-alive time decides how many are needed (a worker is held through it), the memory how
    many there may be. `trim` moves the first by reloads, as `trimtab tune apache` does; the second is learned by what
    `trimtab run --keep-alive auto` keeps going. They know nothing of one another. Time runs 60 times as fast as in
    the paper: the server's own keep-alive time is 250 ms.

    Args:
        learns: in each stage, whether the keep-alive time is learned.
        first: the controller of the stage before the last; empty where there is none. It has half of the time.
    """

    learns: tuple[bool, ...]
    first: str = ""

    @contextlib.contextmanager
    def open(self, arm: Arm, context: Context) -> Iterator[World]:
        """Starts it and runs the stage before the last, which is stored as a run of its own."""
        spec, clients = DYNAMIC.spec, DYNAMIC.workload.populations()
        with sensed(spec) as (bed, keep_alive, run_dir), aside(spec.cpus) as cpu, contextlib.ExitStack() as held:
            assert isinstance(bed, ApacheTestbed)
            snippets = os.fspath(bed.snippet_directory)
            apache = held.enter_context(
                contextlib.closing(Apache.attach(SystemClock(), bed.pid, bed.status_url, snippets))
            )
            whole = Stack(apache, keep_alive)
            served = replace(arm, duration_s=len(self.learns) * arm.duration_s)
            plant = held.enter_context(under_load(whole, bed.port, clients, WARM_S, served, cpu, context))
            facts = {
                "workload": f"{DYNAMIC.name} of liu2003",
                "server": apache.server,
                "confinement": bed.confinement,
            }
            if self.first:
                stage = replace(arm, label=f"{arm.label}{FIRST}", controller=self.first)
                with _learning(self.learns[0], keep_alive, run_dir, context, World(plant, facts)) as world:
                    through_loop(stage, context, world)
            yield held.enter_context(_learning(self.learns[-1], keep_alive, run_dir, context, World(plant, facts)))


@contextlib.contextmanager
def _learning(
    wanted: bool, keep_alive: KeepAlive, run_dir: RunDirectory, context: Context, world: World
) -> Iterator[World]:
    """Keeps the controller of the keep-alive time going where wanted; in the end the time stays where it is."""
    if not wanted:
        yield replace(world, facts={**world.facts, "keep-alive": "held"})
        return
    auto = Auto(run_dir, SystemClock(), context.say)
    try:
        auto.begin(Setting(InCharge.AUTO, None))
        auto.watch()
        yield replace(world, facts={**world.facts, "keep-alive": "auto"}, watch=auto.watch)
    finally:
        auto.stop()
        learned = keep_alive.time.setting().time_ms
        keep_alive.time.write(Setting(InCharge.FIXED, learned))
