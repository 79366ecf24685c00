"""For methods that change a setting in every window: none of their changes can be judged, but the whole run can.

What it promises. A run that ends worse than it began, at equal load, is put back. While it goes on it says nothing;
that is the early-abort guard's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from trimtab.core import Configuration, Judgement, Knob, Move, Objective, Window
from trimtab.referee import limits
from trimtab.referee.experiment import Experiment
from trimtab.referee.measure import Measured, Workload, measured

MOST = 36


@dataclass(frozen=True)
class AfterwardsState:
    """State: the first configuration with its windows, and the last one with its own.

    Args:
        knobs: those that may be moved.
        first: the configuration in the first window.
        before: windows at it, before the first change.
        last: the configuration in the last window.
        after: windows at it, since it came into force, but for the first.
        judgement: always None.
        closed: always empty.
    """

    knobs: tuple[Knob, ...]
    first: Configuration = field(default_factory=dict)
    before: tuple[Measured, ...] = ()
    last: Configuration = field(default_factory=dict)
    after: tuple[Measured, ...] = ()
    judgement: Judgement | None = None
    closed: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True)
class Afterwards:
    """Judges a run by its beginning and its end.

    Args:
        objective: the objective compared.
    """

    objective: Objective
    judges_changes: ClassVar[bool] = False

    def start(self, knobs: tuple[Knob, ...]) -> AfterwardsState:
        """The state before the first window."""
        return AfterwardsState(knobs)

    def judge(self, state: AfterwardsState, window: Window) -> tuple[AfterwardsState, Mapping[str, int]]:
        """Remembers one more window; never puts anything back."""
        now = measured(window, self.objective)
        held = {k.name: window.configuration[k.name] for k in state.knobs if k.name in window.configuration}
        first = state.first or held
        if held == first and state.last in ({}, first):
            before = (*state.before, now)[-MOST:] if now.log_cost is not None else state.before
            return replace(state, first=first, last=held, before=before), {}
        after = (*state.after, now)[-MOST:] if held == state.last else ()
        return replace(state, last=held, after=after), {}

    def review(self, state: AfterwardsState, window: Window, move: Move) -> Move:
        """The move as it is."""
        return move

    def abort(self, state: AfterwardsState, partial: Window) -> str:
        """Never."""
        return ""

    def final(self, state: AfterwardsState) -> Mapping[str, int]:
        """The first configuration where the last is worse, breaks a limit or left nothing to measure; else empty."""
        if state.last == state.first or not state.before:
            return {}
        known = tuple(w for w in state.after if w.log_cost is not None)
        silent = len(state.after) >= 2 and not any(w.measured for w in state.after)
        on_limits = limits.mostly_broken(state.before)
        whole = Experiment(state.last, state.before, Workload.of(state.before), known, on_limits=on_limits)
        found = whole.effect() if known else None
        worse = found is not None and found.size - 2 * found.error > 0
        if silent or worse or limits.newly_broken(state.before, known):
            return {name: value for name, value in state.first.items() if state.last.get(name) != value}
        return {}
