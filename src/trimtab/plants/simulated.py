"""A simulated plant: the discrete-event simulator of `trimtab-native sim` behind the messages of a real server.

It gives a controller the queue, the workers, the keep-alive and the memory cliff of a prefork server in virtual time,
on any machine and without permissions. Its readings carry the names of the real sensors; they are those of a
model, never of a server.

With classes of clients the connection scheduler of lu2001 (Section 4.1, not preemptive) stands in place of the
accept queue: a queue for each class, process budgets and the worker limit as live knobs, readings for each class.

With `start_workers` its pool grows, shrinks and restarts by the rules of Apache's prefork; without, workers are there
the moment they are needed. Memory that requests touch comes back from swap where it does not fit; the rest costs its
eviction once.

Not modelled: the network, disks, requests that cost memory of their own, queues of classes that refuse.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimtab import native
from trimtab.core import Applied, Clock, Configuration, Finding, How, Metric, Plant, Prepared, Readings, Sensor
from trimtab.errors import ApplyFailed, ApplyRefused, NativeError, PlantGone, UsageError
from trimtab.options import options_of, values
from trimtab.plants._simulated_classes import SimulatedClass, gated, parse_class, started, to_wire
from trimtab.plants._simulated_link import Link, Refused, SimulatedSensor, VirtualClock
from trimtab.plants._simulated_server import SimulatedServer, Traffic, costed, default_traffic, holding, lu2001_server
from trimtab.sensors._metrics import STANDSTILL
from trimtab.workloads._choice import populations_in, workload
from trimtab.workloads._lu2001 import users_of_lu2001
from trimtab.workloads._population import Population
from trimtab.workloads.surge import Surge

__all__ = ["PLANT", "Simulated", "SimulatedClass", "SimulatedServer", "default_traffic", "lu2001_server", "probe"]


class Simulated(Plant):
    """A plant in virtual time.

    Args:
        server: the server to simulate.
        populations: its clients; none for `default_traffic`. A URL without `cpu_s` costs
            the server's `request_cpu_s`.
        seed: source of all randomness: the same seed gives the same run.
        classes: classes of clients in order of priority, highest first; each has the populations of its name, and
            every population needs one. None: the workers accept for themselves.

    Raises:
        UsageError: the simulator refuses the server or the populations.
        NativeError: the native program is not installed.
    """

    name = "simulated"
    metrics: tuple[Metric, ...] = (STANDSTILL,)
    own_sensors = (SimulatedSensor,)
    lasting = False
    simulated = True

    def __init__(
        self,
        server: SimulatedServer | None = None,
        populations: Sequence[Traffic] = (),
        seed: int = 0,
        classes: Sequence[SimulatedClass] = (),
    ) -> None:
        self.server = server or SimulatedServer()
        self.server.check()
        for knob in self.server.knobs():
            knob.validated(getattr(self.server, knob.name))
        if classes and not populations:
            raise UsageError("simulated server: classes of clients need populations")
        self.classes = started(classes, self.server.max_request_workers)
        self._knobs = {knob.name: knob for knob in gated(self.server.knobs(), self.classes)}
        self._link = Link()
        traffic = [
            costed(p.to_wire(), self.server.request_cpu_s) for p in populations or default_traffic(self.server)
        ]
        wire = {**self.server.to_wire(), "classes": to_wire(self.classes)}
        start = {"type": "start", "server": wire, "populations": traffic, "seed": seed}
        try:
            self._original = _configuration(self._link.ask(start))
        except Refused as refused:
            self._link.close()
            raise UsageError(f"simulated server: {refused}") from None
        except PlantGone:
            self._link.close()
            raise
        self.clock = VirtualClock(self._link)

    def new_sensors(self) -> tuple[Sensor, ...]:
        """One sensor, which reads everything."""
        return (SimulatedSensor(self._link),)

    def derive(self, readings: Readings) -> Readings:
        """How long a reload lets no request begin."""
        return {STANDSTILL.name: self.server.reload_s}

    def configuration(self) -> Configuration:
        """The configuration in force.

        Raises:
            PlantGone: the simulator has ended.
        """
        return _configuration(self._link.ask({"type": "advance", "duration_s": 0.0}))

    def totals(self) -> Mapping[str, float]:
        """Totals of all clients since the start: `waited_s`, `replies`, requests `given_up`.

        Raises:
            PlantGone: the simulator has ended.
        """
        totals: Mapping[str, float] = self._link.ask({"type": "read"})["totals"]
        return totals

    def commit(self, prepared: Prepared) -> Applied:
        """Orders the changes, lets the reload time pass if one of them needs it, and reads back.

        Raises:
            ApplyRefused: the simulator refuses; nothing changed.
            ApplyFailed: what was read back is not what was ordered.
            PlantGone: the simulator has ended.
        """
        wanted, began_s = dict(prepared.changes), self.clock.now_s()
        try:
            self._link.ask({"type": "apply", "changes": wanted})
        except Refused as refused:
            raise ApplyRefused(str(refused)) from None
        if any(self._knobs[name].how is How.RELOAD for name in wanted):
            self.clock.sleep(self.server.reload_s)
        in_force = self.configuration()
        wrong = [
            f"{name} is {in_force.get(name)}, not {value}"
            for name, value in wanted.items()
            if in_force.get(name) != value
        ]
        if wrong:
            raise ApplyFailed("; ".join(wrong))
        return Applied(in_force, self.clock.now_s() - began_s)

    def restore(self) -> None:
        """Puts back the configuration of the start."""
        changed = {name: value for name, value in self._original.items() if self.configuration()[name] != value}
        if changed:
            self.apply(changed)

    def close(self) -> None:
        """Ends the simulator; may be called twice."""
        self._link.close()

    def undo_script(self) -> str:
        """A script that does nothing, because a simulated server leaves nothing behind."""
        return "#!/bin/sh\n# A simulated server ends with its run: there is nothing to undo.\nexit 0\n"


def _configuration(answer: Mapping[str, Any]) -> Configuration:
    return {str(name): int(value) for name, value in answer["configuration"].items()}


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds the options for a simulated server and its clients."""
    parser.add_argument(
        "--server",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a field of the simulated server, such as cores=2; may be repeated (default: a prefork server with PHP; "
        "with classes that of lu2001)",
    )
    parser.add_argument(
        "--workload",
        metavar="NAME",
        help="its traffic (default: WAGON at 70 %% of the cores; with classes the users of lu2001)",
    )
    parser.add_argument("--rate-scale", metavar="FACTOR", help="multiplies the session rate of the workload")
    parser.add_argument("--time-scale", metavar="FACTOR", help="divides the think times of the workload")
    parser.add_argument(
        "--users", metavar="N", help="users of a workload that has users, of each class where there are some"
    )
    parser.add_argument(
        "--class",
        dest="classes",
        action="append",
        default=[],
        metavar="NAME[=BUDGET]",
        help="a class of clients, the highest priority first, with its process budget at the start (default: an "
        "equal share); each has the workload, or the populations of its name; may be repeated",
    )
    parser.add_argument(
        "--populations", type=Path, metavar="FILE", help="its traffic as a JSON list, as 'trimtab load' reads it"
    )


def from_arguments(args: argparse.Namespace, clock: Clock) -> Simulated:
    """The plant that the command line describes; it has a clock of its own, so `clock` is not used.

    Raises:
        UsageError: an unknown field, workload or option, or a value that is not allowed.
        NativeError: the native program is not installed.
    """
    known = [option.name for option in options_of(SimulatedServer)]
    texts: dict[str, str] = {}
    for pair in args.server:
        name, equals, text = pair.partition("=")
        if not equals or name not in known:
            raise UsageError(f"--server {pair!r}: write NAME=VALUE; there are {', '.join(known)}")
        texts[name] = text
    fields = values(SimulatedServer, texts)
    classes = tuple(parse_class(text) for text in args.classes)
    scales = {"rate_scale": args.rate_scale, "time_scale": args.time_scale, "users": args.users}
    given = {name: text for name, text in scales.items() if text is not None}
    scale = 1.0 if args.time_scale is None else values(Surge, {"time_scale": args.time_scale})["time_scale"]
    server = replace(lu2001_server(scale) if classes else SimulatedServer(), **fields)
    return Simulated(server, _traffic(args, given, classes), args.seed, classes)


def adopt(args: argparse.Namespace, budgets: Mapping[str, int], workers: int) -> None:
    """Gives the server the classes and the workers of a SPEC, unless the command line names classes.

    Args:
        args: the command line, before `from_arguments`.
        budgets: class to its process budget at the start, in order of priority.
        workers: M.
    """
    if not args.classes:
        args.classes = [f"{name}={budget}" for name, budget in budgets.items()]
        args.server = [*holding(workers), *args.server]


def _traffic(
    args: argparse.Namespace, given: Mapping[str, str], classes: Sequence[SimulatedClass]
) -> tuple[Population, ...]:
    """The populations that the command line describes; none where it names none."""
    if classes and args.workload is None and args.populations is None:
        parsed = values(Surge, given)
        return tuple(p for one in classes for p in users_of_lu2001(one.name, **parsed).populations())
    if args.populations is not None:
        if given or args.workload is not None:
            raise UsageError("--populations brings its own workloads: give it without other workload options")
        return populations_in(args.populations)
    if not classes and not given and args.workload is None:
        return ()
    name = args.workload or "wagon"
    if not classes:
        return workload(name, given).populations()
    return tuple(p for one in classes for p in workload(name, {**given, "class_name": one.name}).populations())


def probe() -> tuple[Finding, ...]:
    """Whether the simulator can be used here."""
    try:
        found = native.program()
    except NativeError as error:
        return (Finding("simulated server", False, str(error), "run 'make setup' to build the native program"),)
    return (Finding("simulated server", True, f"{found.name} sim, in virtual time; needs no permissions"),)


PLANT = Simulated
