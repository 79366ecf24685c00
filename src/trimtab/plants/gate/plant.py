"""The gate in front of an unmodified server as a plant: classes of clients, their budgets, and M.

A change is one order, which the gate carries out at one instant and without a reload: connections in service stay,
and only who is given to a worker next is decided anew. `max_request_workers` is M, the connections that the server
may hold at once, so Apache's MaxClients becomes a knob that moves live; `process_budget@CLASS` is B_k of lu2001. On
a server with a process or a thread for each connection they count these, on one that is driven by events connections.

The server's own limits stay as they are: M moves below what the server was configured to hold, and the SPEC's
`workers` is the largest M.

A smaller M gives memory back where the server is Apache's prefork without modules that have processes of their
own: its idle processes beyond M and some spare ones end at once (`retire`). Where others have a process for each
connection, those beyond M keep what they hold until the server lets them go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from trimtab.core import Applied, Clock, Configuration, Plant, Prepared, Readings, Sensor
from trimtab.errors import ApplyFailed, ApplyRefused, OperatorEdit, PlantGone, UsageError
from trimtab.gate.answers import State
from trimtab.gate.link import Link
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.server import server_of, threads_of
from trimtab.plants.gate.knobs import LIMIT, at_start, knobs
from trimtab.plants.gate.retire import retired
from trimtab.plants.gate.undo import script
from trimtab.sensors import _eq1
from trimtab.sensors.gate import Gate as GateSensor
from trimtab.sensors.resources import Resources
from trimtab.sensors.shim import Shim

_OPEN = "the gate is open, because its controller's lease ran out"


class Gate(Plant):
    """A running gate.

    Args:
        clock: for the waits of the conversation.
        run_dir: its run directory.

    Attributes:
        clock: as given.
        run_dir: as given.
        link: the conversation with it.
        classes: names of its classes in order of priority, highest first.

    Raises:
        UsageError: the run has no gate, or it may not be steered from here.
        PlantGone: the gate does not answer.
    """

    name = "gate"
    metrics = _eq1.METRICS

    def __init__(self, clock: Clock, run_dir: RunDirectory) -> None:
        self.clock = clock
        self.run_dir = run_dir
        line = run_dir.start_line()
        if line is None:
            raise UsageError(f"the run {run_dir.name!r} has no gate: start it with 'trimtab run --gate SPEC'")
        self.link = Link(run_dir, clock)
        self.classes = tuple(one.name for one in line.classes)
        self._knobs = {knob.name: knob for knob in knobs(line)}
        self._at_start = at_start(line)
        self._set: dict[str, int] = {}
        self._down: set[str] = set()
        state = self.link.apply({})
        self._original, self._generation = state.configuration, state.generation
        self.pid = self._server = server_of(run_dir)

    def new_sensors(self) -> tuple[Sensor, ...]:
        """Those of the gate and of the shim, and of the server's CPU and memory where it is found."""
        server, run_dir = self._server, self.run_dir
        resources = () if server is None else (Resources(server, self.clock, threads_of(run_dir)),)
        return GateSensor(self.link), *resources, Shim(run_dir.shared, self.clock)

    def derive(self, readings: Readings) -> Readings:
        """Burst length and response time, Eq. (1) of liu2003."""
        return _eq1.eq1(readings)

    def configuration(self) -> Configuration:
        """The configuration in force.

        Raises:
            OperatorEdit: somebody else has set a knob of ours; said once for each.
            PlantGone: the gate does not answer.
        """
        state = self._state()
        for name, value in self._wanted().items():
            if state.configuration.get(name) != value:
                raise self._edited(name, state)
        return {name: state.configuration[name] for name in self._knobs}

    def check_permissions(self) -> None:
        """Makes sure, before anything is changed, that orders are taken from here.

        Raises:
            UsageError: they are not.
            PlantGone: the gate does not answer.
        """
        self.link.apply({})

    def lease(self, timeout_s: float) -> None:
        """Takes a lease: the gate opens when no order came for that long.

        Args:
            timeout_s: the time in seconds.

        Raises:
            ApplyRefused: the gate refused.
            PlantGone: the gate does not answer.
        """
        self.link.lease(timeout_s)

    def end_lease(self) -> None:
        """Gives it back, so that the gate does not open; one that is gone, or older than this order, says nothing."""
        with contextlib.suppress(ApplyRefused, PlantGone):
            self.link.end_lease()

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Checks a change.

        Raises:
            ApplyRefused: not valid.
            OperatorEdit: somebody else has set one of the knobs.
            PlantGone: the gate does not answer.
        """
        wanted, before = self.validated(changes), self._state()
        for name in wanted:
            now = before.configuration.get(name)
            if name in self._down or now != self._set.get(name, now):
                raise self._edited(name, before)
        return Prepared(wanted, {name: before.configuration[name] for name in wanted})

    def commit(self, prepared: Prepared) -> Applied:
        """Brings a prepared change into force at one instant.

        Raises:
            ApplyRefused: the gate refused; nothing changed.
            ApplyFailed: did not take; what was before is restored.
            PlantGone: the gate does not answer.
        """
        wanted = dict(prepared.changes)
        began_s = self.clock.now_s()
        self.link.apply(wanted)
        state = self.link.apply({})
        wrong = [n for n, value in wanted.items() if state.configuration.get(n) != value]
        if wrong:
            self.link.apply(dict(prepared.before))
            read = ", ".join(f"{name} is {state.configuration.get(name)}, not {wanted[name]}" for name in wrong)
            raise ApplyFailed(f"{read}; what was before is restored")
        self._set |= wanted
        self._generation = state.generation
        notes: tuple[str, ...] = (f"{_OPEN}: budgets wait for the next lease",) if _is_open(state) else ()
        if LIMIT in wanted and wanted[LIMIT] < prepared.before[LIMIT]:
            ended = retired(self._server, wanted[LIMIT], self.clock)
            notes += (f"{ended} idle processes beyond it end, and give their memory back",) if ended else ()
        return Applied({n: state.configuration[n] for n in self._knobs}, self.clock.now_s() - began_s, notes)

    def restore(self) -> None:
        """Puts back what was in force before the first `apply`; may be called twice.

        Raises:
            PlantGone: the gate does not answer.
        """
        ours = {name: self._original[name] for name in self._wanted()}
        if ours:
            self.link.apply(ours)
        self._set = {}

    def leftover(self) -> str:
        """Settings left by an earlier run, in one line; empty for none."""
        state = self.link.apply({})
        now = {name: state.configuration.get(name) for name in self._at_start}
        other = [f"{n} is {now[n]}, not {value}" for n, value in self._at_start.items() if now[n] != value]
        moved = f"the gate was moved since its start: {', '.join(other)}" if other and not self._set else ""
        return "; ".join(filter(None, (moved, _OPEN if _is_open(state) else "")))

    def undo_leftover(self) -> None:
        """Puts back the budgets that the gate was started with; they hold also where it was open.

        Raises:
            PlantGone: the gate does not answer.
        """
        self.link.lease()
        self.link.apply(self._at_start)
        self.link.end_lease()
        self._set, self._original = {}, dict(self._at_start)

    def close(self) -> None:
        """Ends the conversation and gives back the sensors, without changing the gate; may be called twice."""
        super().close()
        self.link.close()

    def undo_script(self) -> str:
        """A POSIX shell script that undoes `apply`, for a user without trimtab."""
        return script(self.run_dir.control, self._original if self._set else self._at_start)

    def _wanted(self) -> dict[str, int]:
        """Values that we have set and nobody else has set since."""
        return {name: value for name, value in self._set.items() if name not in self._down}

    def _state(self) -> State:
        """The gate's state; a gate that was started anew since gets our values again."""
        state = self.link.apply({})
        if state.generation != self._generation:
            # A new gate may begin with its start line, so what differs now is nobody's edit.
            self._generation = state.generation
            state = self.link.apply(self._wanted())
        return state

    def _edited(self, name: str, state: State) -> OperatorEdit:
        """Stands a knob down."""
        self._down.add(name)
        now = state.configuration.get(name)
        return OperatorEdit(name, f"{name} is {now} in the gate, where trimtab had set {self._set.get(name)}")


def _is_open(state: State) -> bool:
    """Whether who came first is served first, whatever the budgets are."""
    return state.mode != "budgets"
