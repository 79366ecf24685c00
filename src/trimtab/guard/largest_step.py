"""Limits how far a knob may move in one window.

Promises that a value which passes is within a factor of the one in force, so that one bad window costs one bounded
step. One exception: where memory demand is above its limit, a worker limit may at once go down in proportion to
what fits, because every window spent on the way there is a window of swapping.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trimtab.core import Knob, Move, Window


@dataclass(frozen=True)
class LargestStep:
    """The guard of the pace.

    Args:
        factor: largest ratio of the new value to the one in force, and of the one in force to the new value.
        knob: name of the knob that sets how many workers there may be.
        margin_ratio: share of the memory limit that may be planned for, as in the feasibility guard.
    """

    factor: float = 4.0
    knob: str = "max_request_workers"
    margin_ratio: float = 0.9

    def start(self, knobs: tuple[Knob, ...]) -> tuple[Knob, ...]:
        """The knobs, whose steps are the least that may always be moved."""
        return knobs

    def review(self, state: tuple[Knob, ...], window: Window, move: Move) -> tuple[tuple[Knob, ...], Move]:
        """The move with each change cut to the factor."""
        changes, why = dict(move.changes), []
        for knob in state:
            now, wanted = window.configuration.get(knob.name), changes.get(knob.name)
            if now is None or wanted is None:
                continue
            lowest, highest = self._range(knob, now, window)
            allowed = max(lowest, min(highest, wanted))
            if allowed != wanted:
                changes[knob.name] = allowed
                why.append(f"{knob.name} {now} to {wanted} is more than a factor of {self.factor:g}, so {allowed}")
        return state, move.amended(changes, "; ".join(why)) if why else move

    def _range(self, knob: Knob, now: int, window: Window) -> tuple[int, int]:
        """The least and the greatest value that may follow, members of the domain."""
        domain, lowest = knob.domain, now / self.factor
        swapping = window.readings.get("memory_ratio", 0.0)
        if knob.name == self.knob and swapping > 1:
            lowest = min(lowest, now * self.margin_ratio / swapping)
        steps_down = max(1, math.floor((now - lowest) / domain.step))
        steps_up = max(1, math.floor(now * (self.factor - 1) / domain.step))
        return domain.clip(now - steps_down * domain.step), domain.clip(now + steps_up * domain.step)

    def abort(self, state: tuple[Knob, ...], partial: Window) -> str:
        """Never: it judges proposals, not windows."""
        return ""


GUARD = LargestStep
