"""Climbs one knob at a time: a neighbouring setting is tried, and the referee says whether it stays.

What it promises. It proposes one change of one knob while nothing is on trial, never one that was tried on this
workload in that direction and was not better, and it goes on in a direction that was. What the plant refuses is not
proposed again before something else has come into force. It decides nothing itself: what is not better goes back by
the referee (`trimtab.referee`). Where no neighbour is left it holds. It leaves worker limits, keep-alive times and
budgets to the methods that know their causes.

Equations, with x a setting, r the ratio, and d the width of the domain:

    next = x r^{-1} or x r              of a knob whose steps are factors
    next = x - d / 8 or x + d / 8       of any other number
    next = the choice before or after   of a choice

| symbol | here | unit | shape |
|---|---|---|---|
| x | the value in force | the knob's | scalar |
| r | `ratio` | 1 | scalar |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from trimtab.controllers._knob import integer_knob, require, unjudged
from trimtab.core import Fate, Knob, Move, MoveState, Objective, Role, Trial, Verdict
from trimtab.errors import UsageError

_PART = 8
_DOWN_FIRST = (-1, 1)
_OTHERS = {Role.WORKER_LIMIT: "trim", Role.KEEP_ALIVE: "keep-alive-cost", Role.PROCESS_BUDGET: "relative-delay"}
"""Roles that methods of their own move, which know why a change would help."""


@dataclass(frozen=True)
class ClimbState:
    """State of the climb.

    Args:
        knobs: those it moves, in the order in which they are tried.
        last: knob and direction of the last trial; none before there was one.
        refused: knobs and directions that the plant has refused since something came into force.
    """

    knobs: tuple[Knob, ...]
    last: tuple[str, int] = ("", 0)
    refused: tuple[tuple[str, int], ...] = ()

    def told(self, fate: Fate | None) -> ClimbState:
        """The state once it is known what became of the last trial."""
        if fate is not None and fate.state is MoveState.REFUSED and self.last not in self.refused:
            return replace(self, refused=(*self.refused, self.last))
        return replace(self, refused=()) if fate is not None and fate.state is MoveState.APPLIED else self


@dataclass(frozen=True)
class Climb:
    """One knob at a time, judged by the referee.

    Args:
        objective: the objective.
        ratio: factor between a setting and the next, of a knob whose steps are factors.
        gain: share of the cost that a trial is made for; the less, the more windows the referee asks before it.
    """

    objective: Objective
    ratio: float = 4.0
    gain: float = 0.3
    experiments: ClassVar[bool] = True

    def start(self, knobs: tuple[Knob, ...], seed: int) -> ClimbState:
        """The state before the first window; the seed is not used.

        Raises:
            UsageError: there is no knob, or one has methods of its own.
        """
        integer_knob(knobs, "climb")
        require(self.ratio > 1, "ratio", self.ratio, "more than 1")
        require(0 < self.gain < 1, "gain", self.gain, "more than 0 and less than 1")
        for knob in knobs:
            if knob.role in _OTHERS:
                raise UsageError(f"climb does not move {knob.name}, a {knob.role}: use {_OTHERS[knob.role]}")
        return ClimbState(knobs)

    def withdraw(self, state: ClimbState, knob: str) -> ClimbState:
        """The state without a knob."""
        return replace(state, knobs=tuple(one for one in state.knobs if one.name != knob))

    def step(self, state: ClimbState, trial: Trial) -> tuple[ClimbState, Move]:
        """The next neighbour to be tried, if any."""
        state = state.told(trial.fate)
        for knob in state.knobs:
            if missing := unjudged(self.objective, trial.window, knob, 1):
                return state, Move.hold(f"climb: {missing}")
        judgement = trial.judgement
        if judgement is not None and not judgement.final:
            return state, Move.hold(f"climb: on trial: {judgement.why}", "trial")
        if judgement is not None and judgement.verdict is not Verdict.BETTER:
            return state, Move.hold(f"climb: {judgement.verdict}: {judgement.why}", "return")
        for knob, way in self._ordered(state):
            now = trial.window.configuration[knob.name]
            target = self._neighbour(knob, now, way)
            if target == now or (knob.name, way) in trial.refuted.union(state.refused):
                continue
            shown = f"{knob.domain.shown(target)} instead of {knob.domain.shown(now)}"
            move = Move({knob.name: target}, f"climb: trying {knob.name} {shown}", phase="trial", gain=self.gain)
            return replace(state, last=(knob.name, way)), move
        return state, Move.hold("climb: no neighbour of what is in force is left: none that was tried was better")

    def _ordered(self, state: ClimbState) -> list[tuple[Knob, int]]:
        """Knobs and directions, the last trial's first, so that what was better goes on."""
        there = [(knob, way) for knob in state.knobs for way in _DOWN_FIRST]
        return sorted(there, key=lambda one: (one[0].name, one[1]) != state.last)

    def _neighbour(self, knob: Knob, now: int, way: int) -> int:
        """The next value in a direction; the same at the domain's edge."""
        domain = knob.domain
        if domain.choices:
            return domain.clip(now + way)
        if domain.logarithmic and now > 0:
            return domain.clip(now * self.ratio**way)
        return domain.clip(now + way * max(domain.step, (domain.maximum - domain.minimum) // _PART))


CONTROLLER = Climb
