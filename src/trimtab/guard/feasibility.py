"""Lets no move ask for more workers than the measured memory holds.

Promises that a worker limit which passes fits: base memory and limit times the memory of a worker are within the
margin of the memory limit. The arithmetic is in `_memory`. A proposal that does not fit is lowered to what does,
and the figures are said. It starts no change by itself: a controller that holds at a limit which does not fit is
left alone, or the baseline of a comparison would not be one. What was not measured holds nothing back, and
that is said once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trimtab.core import Knob, Move, Window
from trimtab.guard._memory import not_measured, room


@dataclass(frozen=True)
class FeasibilityState:
    """The worker limit's knob, None where it is not moved, and whether it was said that memory is not measured."""

    knob: Knob | None
    said: bool = False


@dataclass(frozen=True)
class Feasibility:
    """The guard of the memory.

    Args:
        knob: name of the knob that sets how many workers there may be.
        margin_ratio: share of the memory limit that may be planned for; the rest is for what grows under load.
    """

    knob: str = "max_request_workers"
    margin_ratio: float = 0.9

    def start(self, knobs: tuple[Knob, ...]) -> FeasibilityState:
        """Finds the knob."""
        return FeasibilityState(next((knob for knob in knobs if knob.name == self.knob), None))

    def review(self, state: FeasibilityState, window: Window, move: Move) -> tuple[FeasibilityState, Move]:
        """The move, with the worker limit lowered to what fits."""
        knob, wanted = state.knob, move.changes.get(self.knob)
        if knob is None or wanted is None:
            return state, move
        fits = room(window, window.configuration.get(self.knob, wanted), self.margin_ratio)
        if fits is None:
            if state.said:
                return state, move
            why = f"{', '.join(not_measured(window))} not measured, so whether {wanted} fit is not checked"
            return FeasibilityState(knob, said=True), move.amended(move.changes, why)
        domain = knob.domain
        below = math.floor((fits.workers - domain.minimum) / domain.step) * domain.step + domain.minimum
        most = domain.clip(max(below, domain.minimum))
        if wanted <= most:
            return state, move
        least = f", and {most} is the least there is" if most > fits.workers else ""
        why = f"{wanted} workers do not fit, {max(0, math.floor(fits.workers))} do ({fits.figures}){least}"
        return state, move.amended({**move.changes, self.knob: most}, why)

    def abort(self, state: FeasibilityState, partial: Window) -> str:
        """Never: it judges proposals, not windows."""
        return ""


GUARD = Feasibility
