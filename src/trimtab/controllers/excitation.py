"""Excites a server for identification: switches two classes' process budgets by white noise; lu2001, Section 5.2.2.

Promises one of two configurations in every window, drawn by a generator that depends on the seed alone, so that the
input says nothing of the output and the same seed gives the same experiment. The sum of the two budgets stays what
it was in the first window, so other classes are not touched; where M had been lowered below that sum it is M, as
budgets beyond M are none. It decides nothing from what it reads.

    B_(k-1)(m) = high or low, by the white bit of window m;    B_k(m) = total - B_(k-1)(m)

| paper                  | here         | unit      | shape  |
|------------------------|--------------|-----------|--------|
| B_(k-1)(m), B_k(m)     | the budgets  | processes | scalar |
| (96, 32) or (64, 64)   | high, low    | processes | scalar |

One pair of configurations serves both kinds of guarantee: the paper's process ratios 3 and 1 of 128 processes are
its budgets 96 and 64 of class 0.

Departures from the paper
- The paper starts 2 min after its load, and means the start of SURGE. Here the first `warm` windows stay at the low
  configuration, and the estimator leaves them out.
- Where no budgets are given, they are the paper's share of what the two classes have: 3/4 and 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.controllers._knob import require
from trimtab.core import Configuration, Knob, Move, Objective, Role, Trial
from trimtab.errors import UsageError
from trimtab.identification.park_miller import bit, seeded


@dataclass(frozen=True)
class ExcitationState:
    """State of the experiment.

    Args:
        upper: the budget that is drawn.
        lower: the budget that takes or gives the processes.
        generator: state of the white noise.
        total: sum of the two budgets, in processes; 0 before the first window.
        seen: windows so far.
    """

    upper: Knob
    lower: Knob
    generator: int
    total: int = 0
    seen: int = 0


@dataclass(frozen=True)
class Excitation:
    """White noise on two process budgets.

    Args:
        objective: the objective, reported only.
        low: the lesser budget of the first knob, in processes; 0 for half of what the two have.
        high: its greater budget, in processes; 0 for three quarters of what the two have.
        warm: windows at the low configuration before the white noise begins.

    Raises:
        UsageError: an option has a value that cannot be used.
    """

    objective: Objective
    low: int = 0
    high: int = 0
    warm: int = 0

    def __post_init__(self) -> None:
        require(self.low >= 0, "low", self.low, "0 or more processes")
        require(self.high >= 0, "high", self.high, "0 or more processes")
        require(self.warm >= 0, "warm", self.warm, "0 or more windows")
        if self.low and self.high and self.low >= self.high:
            raise UsageError(f"option low is {self.low}, allowed is less than high, which is {self.high}")

    def start(self, knobs: tuple[Knob, ...], seed: int) -> ExcitationState:
        """The state before the first window.

        Raises:
            UsageError: these are not the budgets of two classes, or they cannot take these values.
        """
        budgets = [knob for knob in knobs if knob.role is Role.PROCESS_BUDGET]
        if len(budgets) != 2:
            there = ", ".join(knob.name for knob in knobs) or "none"
            raise UsageError(f"no knob to move: excitation needs the budgets of two classes, and was given {there}")
        for value in (self.low, self.high):
            if value:
                budgets[0].validated(value)
        return ExcitationState(budgets[0], budgets[1], seeded(seed))

    def require_two(self, state: ExcitationState, configuration: Configuration) -> None:
        """Makes sure that there are two configurations to switch between, those that are asked for.

        Args:
            state: that before the first window.
            configuration: what is in force.

        Raises:
            UsageError: the processes that the two classes have do not allow it.
        """
        upper, lower = state.upper, state.lower
        if upper.name not in configuration or lower.name not in configuration:
            return
        total = _total(state, configuration)
        there = f"{upper.label} and {lower.label} have {total} processes together"
        found = [self._budget(upper, lower, total, one) for one in (False, True)]
        for name, asked, budget in zip(("low", "high"), (self.low, self.high), found, strict=True):
            if asked not in (0, budget):
                raise UsageError(f"option {name} is {asked}, and {there}: {budget} is the nearest that can be")
        if found[0] == found[1]:
            raise UsageError(
                f"low and high are both {found[0]}, so no model can be identified: {there}; other budgets or workers "
                "are needed, or another low and high"
            )

    def step(self, state: ExcitationState, trial: Trial) -> tuple[ExcitationState, Move]:
        """The next draw, whatever the window shows."""
        window = trial.window
        upper, lower = (window.configuration.get(knob.name) for knob in (state.upper, state.lower))
        if upper is None or lower is None:
            return state, Move.hold("excitation: the budgets in force are not known")
        total = state.total or _total(state, window.configuration)
        generator, one = (state.generator, 0) if state.seen < self.warm else bit(state.generator)
        wanted = self._budget(state.upper, state.lower, total, bool(one))
        now = ExcitationState(state.upper, state.lower, generator, total, state.seen + 1)
        changes = {state.upper.name: wanted, state.lower.name: total - wanted}
        left = {name: value for name, value in changes.items() if window.configuration[name] != value}
        word = "warming up" if state.seen < self.warm else ("high" if one else "low")
        reason = f"excitation: {word}, {wanted} of {total} processes for {state.upper.label}"
        return now, Move(left, reason, {}, "warm" if state.seen < self.warm else "excite")

    def _budget(self, upper: Knob, lower: Knob, total: int, one: bool) -> int:
        """The budget of the first knob, such that both stay in their domains."""
        wanted = (self.high or round(0.75 * total)) if one else (self.low or round(0.5 * total))
        least = max(upper.domain.minimum, total - lower.domain.maximum)
        most = min(upper.domain.maximum, total - lower.domain.minimum)
        return upper.domain.clip(max(least, min(most, wanted)))


def _total(state: ExcitationState, configuration: Configuration) -> int:
    """Sum of the two budgets in force, or M where that is less."""
    both = configuration[state.upper.name] + configuration[state.lower.name]
    return min(both, configuration.get(state.upper.shares) or both)


CONTROLLER = Excitation
