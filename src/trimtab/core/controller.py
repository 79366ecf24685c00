"""A controller: a pure step from state and trial to state and move.

A controller is a frozen dataclass whose fields are its options; the first is always `objective`. Its module
names the class in `CONTROLLER`. It never does I/O, never reads a clock, and draws
randomness only from the seed that `start` is given, so every run can be replayed.

Its state is a record too, stored with every window: the annotation of `start` says which, and `trimtab.codec` has to
bring it back as it was. One that can go on without a knob has `withdraw(state, knob)`, which gives the state without
the knob of that name, or raises UsageError where nothing is left to move; any other starts again with the rest. One
that does not go on with all that it has learned says in `restarts` what becomes of it, for the user. One that knows
what has to be in force at the end of a run has `final(state)`, which gives it; empty for what is.
"""

from __future__ import annotations

from typing import Any, Protocol

from trimtab.core.knob import Knob
from trimtab.core.move import Move
from trimtab.core.trial import Trial


def restarts(controller: Controller) -> str:
    """What becomes of a controller once a knob is left to the operator; empty where it just goes on without."""
    if not hasattr(controller, "withdraw"):
        return "the search starts again with the others"
    said: str = getattr(controller, "restarts", "")
    return said


class Controller(Protocol):
    """A method that moves knobs towards an objective."""

    def start(self, knobs: tuple[Knob, ...], seed: int) -> Any:
        """The state before the first window.

        Args:
            knobs: the knobs it may move, in a fixed order.
            seed: source of all its randomness.

        Raises:
            UsageError: this method cannot move these knobs.
        """
        ...

    def step(self, state: Any, trial: Trial) -> tuple[Any, Move]:
        """The new state and move after one more window and the outcome of the last move."""
        ...
