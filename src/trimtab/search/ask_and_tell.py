"""The adapter between a controller's pure step and a library that is asked for points and told their costs.

The state is the evidence told so far; the library's own object is built from it anew at each step, by the seed, so
that a step is pure, a run can be replayed and a killed one resumed.

What is told is the configuration that was in force: rules among knobs may let a proposal go part of its way only. One
that is refused whole is told as a failed trial, and the next one is asked for at once. One in which nothing is
measured is waited for `patience` windows, then it has failed.

Once a knob is left to the operator, the trials at the value that he gives it count (`trimtab.search.evidence`), and
the best configuration so far, without that knob, is measured first where it was not at that value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from trimtab.core import Knob, Move, Objective, Trial
from trimtab.search.evidence import Told, believed, beside_of, best_of, refused, unmeasured, y_of
from trimtab.search.space import Point, Values, dropped, in_force, index_of, named, of_many, values_at


@dataclass(frozen=True)
class AskState:
    """State of a search.

    Args:
        knobs: those it moves.
        seed: source of its randomness.
        told: the trials so far, in order.
        asked: the last configuration proposed; None before the first.
        silent: windows in a row in which nothing was measured.
        left: names of the knobs that are left to the operator.
        first: the best configuration before the last of them was, still to be measured without it; None for none.
    """

    knobs: tuple[Knob, ...]
    seed: int
    told: tuple[Told, ...] = ()
    asked: Values | None = None
    silent: int = 0
    left: tuple[str, ...] = ()
    first: Values | None = None


@dataclass(frozen=True)
class AskAndTell:
    """The base of a search by a library.

    Args:
        objective: the objective to minimise.
        trials: trials after which the best configuration stays and the search ends; 0 to go on until it is stopped.
        patience: windows without a measurement after which a trial has failed.
    """

    objective: Objective
    trials: int = 0
    patience: int = 6
    peer: ClassVar[bool] = True
    method: ClassVar[str] = ""
    searches: ClassVar[bool] = True

    def start(self, knobs: tuple[Knob, ...], seed: int) -> AskState:
        """The state before the first window.

        Raises:
            UsageError: there is no knob to move, or the library is not installed.
        """
        self.require()
        return AskState(of_many(knobs, self.method), seed)

    def require(self) -> None:
        """Refuses to start where the library is not installed.

        Raises:
            UsageError: it is not.
        """

    def withdraw(self, state: AskState, knob: str) -> AskState:
        """The state without a knob; what was refused or not yet measured is asked for anew.

        Raises:
            UsageError: there is no other knob.
        """
        index = index_of(state.knobs, knob)
        rest = of_many([one for one in state.knobs if one.name != knob], self.method)
        best = best_of(believed(state.told, state.told[-1].beside)) if state.told else None
        first = state.first or best
        return AskState(
            rest,
            state.seed,
            tuple(one.without(index) for one in state.told),
            left=(*state.left, knob),
            first=None if first is None else dropped(first, index),
        )

    def next_point(self, state: AskState, told: Sequence[Told]) -> Point:
        """The next point to be tried; a function of the evidence, the number of all trials and the seed.

        Args:
            state: the search's, with all trials.
            told: those that count, one or more.
        """
        raise NotImplementedError

    def step(self, state: AskState, trial: Trial) -> tuple[AskState, Move]:
        """The next trial, or the best one when all were made."""
        missing = unmeasured(self.objective, state.knobs, trial)
        now = in_force(state.knobs, trial.window.configuration)
        if missing and (now is None or state.silent + 1 < self.patience):
            return replace(state, silent=state.silent + 1), Move.hold(f"{self.method}: {missing}")
        assert now is not None
        beside = beside_of(state.left, trial.window.configuration)
        told, said = Told(now, None if missing else y_of(self.objective, trial), beside), ""
        if state.asked is not None and (why := refused(trial, named(state.knobs, state.asked))):
            told, said = Told(state.asked, None, beside), f", the last one was refused: {why}"
        state = replace(state, told=(*state.told, told), silent=0)
        known = believed(state.told, beside)
        first = None if state.first in {one.values for one in known} else state.first
        best = first or best_of(known)
        incumbent: Any = None if best is None else named(state.knobs, best)
        if self.trials and len(state.told) >= self.trials:
            return state, Move.end(incumbent or {}, f"{self.method}: the best of {len(state.told)} trials stays")
        asked = first or values_at(state.knobs, self.next_point(state, known))
        reason = f"{self.method}: trial {len(state.told)}{said}"
        move = Move(named(state.knobs, asked), reason, phase="trial", incumbent=incumbent)
        return replace(state, asked=asked, first=None), move


def seed_of(*parts: int) -> int:
    """A seed for libraries that take one of 32 bits, another one for other parts."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


def worst(told: Sequence[Told]) -> float:
    """The cost of a failed trial for a library that takes no failures: a tenth more than the worst."""
    return max((one.y for one in told if one.y is not None), default=0.0) + 0.1
