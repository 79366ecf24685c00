"""Methods that ask for one setting after another and are told its cost: the adapter to libraries that do that.

The state is the evidence alone. A library's own object is built anew from it with every step, so a step is pure: a
run can be stored, gone on with and replayed whatever the library keeps in its memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from trimtab.controllers._knob import unjudged
from trimtab.core import Knob, Move, Objective, Trial
from trimtab.errors import UsageError
from trimtab.search.evidence import Told, cost_of, means


@dataclass(frozen=True)
class AskState:
    """What is remembered.

    Args:
        knobs: those that are moved.
        seed: source of all randomness.
        told: the trials, the first of them at what was in force.
        silent: windows in a row in which nothing was measured.
    """

    knobs: tuple[Knob, ...]
    seed: int
    told: tuple[Told, ...] = ()
    silent: int = 0


@dataclass(frozen=True)
class AskAndTell(ABC):
    """A search that asks for the next setting, knowing those before.

    Args:
        objective: what is made best.
        patience: windows in which nothing was measured after which a trial has failed.
        trials: after which the best setting stays.
    """

    objective: Objective
    patience: int = 2
    trials: int = 40

    def start(self, knobs: tuple[Knob, ...], seed: int) -> AskState:
        """The state before the first window.

        Raises:
            UsageError: there is no knob, or a library is missing.
        """
        if not knobs:
            raise UsageError("a search needs at least one knob")
        self.require()
        return AskState(knobs, seed)

    def require(self) -> None:
        """Makes sure that what it is built on is there.

        Raises:
            UsageError: it is not installed.
        """
        return

    @abstractmethod
    def asked(self, state: AskState) -> dict[str, int]:
        """The setting to be measured next."""

    def step(self, state: AskState, trial: Trial) -> tuple[AskState, Move]:
        """Tells the trial that has ended, and asks for the next."""
        window = trial.window
        if any(knob.name not in window.configuration for knob in state.knobs):
            return state, Move.hold("the values in force are not known")
        missing = next((m for k in state.knobs if (m := unjudged(self.objective, window, k, 1))), "")
        if missing and state.silent + 1 < self.patience:
            return replace(state, silent=state.silent + 1), Move.hold(missing)
        values = tuple(window.configuration[knob.name] for knob in state.knobs)
        cost = None if missing else cost_of(window, self.objective)
        state = replace(state, told=(*state.told, Told(values, cost)), silent=0)
        best = _best(state)
        if len(state.told) >= self.trials:
            return state, Move.end(best or {}, f"all {self.trials} trials are made")
        wanted = self.asked(state)
        changes = {name: value for name, value in wanted.items() if window.configuration[name] != value}
        reason = f"trial {len(state.told) + 1}: the next of the method's own"
        return state, Move(changes, reason, phase="trial", incumbent=best)


def _best(state: AskState) -> dict[str, int] | None:
    """The setting with the least mean cost; None before one was measured."""
    known = means(state.told)
    if not known:
        return None
    best = min(known, key=lambda values: known[values][0])
    return {knob.name: value for knob, value in zip(state.knobs, best, strict=True)}
