"""A plant in memory whose delays follow a known difference equation: no server, no process, no waiting."""

from __future__ import annotations

import random

from tests._classes import TWO, budget_knobs
from tests._memory_plant import FakeClock, FakeSensor
from trimtab.core import Applied, Clock, Configuration, Knob, Plant, Prepared, Readings, Sensor, of_class
from trimtab.identification.model import Model

BASE_S = 10.0
"""Delay of the upper class; for an absolute model, where it starts."""


class DifferencePlant(Plant):
    """The delay ratio, or the upper class's delay about `BASE_S`, follows a model of the budgets.

    Args:
        model: what it follows.
        relative: True for the ratio of delays, False for the delay.
        noise: standard deviation of what is added to the model's output in every window.
        missing: indices of readings without dispatches in the lower class.
        budgets: of the two classes, at the start.
    """

    name = "difference"
    lasting = False

    def __init__(
        self,
        model: Model,
        relative: bool = True,
        noise: float = 0.0,
        missing: frozenset[int] = frozenset(),
        budgets: tuple[int, int] = (64, 64),
    ) -> None:
        self.model, self.relative, self.noise, self.missing = model, relative, noise, missing
        self.clock: Clock = FakeClock()
        self.values = {of_class("process_budget", name): b for name, b in zip(TWO, budgets, strict=True)}
        self.first = dict(self.values)
        self.leased_s = 0.0
        self.leases_ended = 0
        self._random = random.Random(11)
        self._reads = 0
        self._inputs = [self._input()] * model.order
        self._outputs = [model.gain * self._input() if relative else 0.0] * model.order
        self._sensor = FakeSensor(self._read)

    def _input(self) -> float:
        """U as it is in force; for an absolute delay, as the difference from the start."""
        upper, lower = self.values.values()
        return upper / lower if self.relative else float(upper - 64)

    def _read(self) -> Readings:
        """One window's delays; the model goes one step on."""
        order = self.model.order
        self._inputs = [self._input(), *self._inputs[: order - 1]]
        output = self.model.predicted([*self._outputs, *self._inputs]) + self._random.gauss(0.0, self.noise)
        self._outputs = [output, *self._outputs[: order - 1]]
        self._reads += 1
        delays = (BASE_S, output * BASE_S) if self.relative else (BASE_S + output, 30.0)
        found = {of_class("connection_delay_s", name): d for name, d in zip(TWO, delays, strict=True)}
        if self._reads in self.missing:
            del found[of_class("connection_delay_s", TWO[0 if not self.relative else 1])]
        return found

    def lease(self, timeout_s: float) -> None:
        self.leased_s = timeout_s

    def end_lease(self) -> None:
        self.leases_ended += 1

    def knobs(self) -> tuple[Knob, ...]:
        return budget_knobs()

    def sensors(self) -> tuple[Sensor, ...]:
        return (self._sensor,)

    def configuration(self) -> Configuration:
        return dict(self.values)

    def commit(self, prepared: Prepared) -> Applied:
        self.values.update(prepared.changes)
        return Applied(dict(self.values), 0.0)

    def restore(self) -> None:
        self.values.update(self.first)

    def undo_script(self) -> str:
        return "#!/bin/sh\ntrue\n"
