"""Leaves every knob as it is: the default scheme that liu2003 compares the others with.

Promises that no change is ever made, so a run with it is the baseline of any comparison. It computes nothing, so it
has no equation and no symbol.

Departures from the paper: none. "Default Apache" there is a fixed MaxClients of 150; here it is whatever value the
server is found with, so the same method serves as baseline at any value of a sweep.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.controllers._knob import integer_knob, unjudged
from trimtab.core import Knob, Move, Objective, Trial


@dataclass(frozen=True)
class StaticState:
    """The knobs that are left alone; one of them at least."""

    knobs: tuple[Knob, ...]


@dataclass(frozen=True)
class Static:
    """Never moves.

    Args:
        objective: the objective, only for the reasons.
        min_samples: requests that a window must have completed to be called measured.
    """

    objective: Objective
    min_samples: int = 1

    def start(self, knobs: tuple[Knob, ...], seed: int) -> StaticState:
        """The state before the first window; the seed is not used."""
        integer_knob(knobs, "static")
        return StaticState(knobs)

    def withdraw(self, state: StaticState, knob: str) -> StaticState:
        """The state without a knob."""
        return StaticState(tuple(one for one in state.knobs if one.name != knob))

    def step(self, state: StaticState, trial: Trial) -> tuple[StaticState, Move]:
        """The same state and an empty move."""
        window = trial.window
        for knob in state.knobs:
            if missing := unjudged(self.objective, window, knob, self.min_samples):
                return state, Move.hold(f"static: {missing}")
        value = window.readings[self.objective.metric]
        names = [knob.name for knob in state.knobs]
        reason = "static: " + ", ".join(f"{name} stays at {window.configuration[name]}" for name in names)
        return state, Move({}, reason, {self.objective.metric: value}, "hold")


CONTROLLER = Static
