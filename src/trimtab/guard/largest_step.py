"""Limits how far a knob may move in one window.

Promises that a value which passes is within a factor of the one in force, so that one bad window costs one bounded
step; or within that of the incumbent's, where that was in force before, or between the two: a bounded step away from
a trial that went wrong would be one more of its kind. A limit of workers that is not reached is stepped down from the
workers that are there: the rest is nobody. What nobody uses may be taken at once. Among levels around 0 there are no
ratios: there it is within that part of the range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from trimtab.core import Knob, Move, Role, Window

Values = tuple[int | None, ...]


@dataclass(frozen=True)
class LargestStepState:
    """What the guard knows.

    Args:
        knobs: those it judges, whose steps are the least that may always be moved.
        seen: values of them that were in force while a controller named an incumbent, as a search by trials does.
    """

    knobs: tuple[Knob, ...]
    seen: frozenset[Values] = frozenset()

    def after(self, window: Window, move: Move) -> LargestStepState:
        """The state with what was in force in a window."""
        if move.incumbent is None:
            return self
        return replace(self, seen=self.seen | {tuple(window.configuration.get(knob.name) for knob in self.knobs)})

    def incumbent(self, move: Move) -> dict[str, int]:
        """The incumbent's values, where they were in force together before."""
        values = move.incumbent or {}
        own = {knob.name: values[knob.name] for knob in self.knobs if knob.name in values}
        return own if tuple(values.get(knob.name) for knob in self.knobs) in self.seen else {}


@dataclass(frozen=True)
class LargestStep:
    """The guard of the pace.

    Args:
        factor: largest ratio of the new value to the one in force, and of the one in force to the new value; likewise
            to the incumbent's.
    """

    factor: float = 4.0

    def start(self, knobs: tuple[Knob, ...]) -> LargestStepState:
        """The knobs, and nothing seen."""
        return LargestStepState(knobs)

    def review(self, state: LargestStepState, window: Window, move: Move) -> tuple[LargestStepState, Move]:
        """The move with each change cut to the factor."""
        state = state.after(window, move)
        if move.spare:
            return state, move
        changes, why, incumbent = dict(move.changes), [], state.incumbent(move)
        for knob in state.knobs:
            now, wanted = window.configuration.get(knob.name), changes.get(knob.name)
            if now is None or wanted is None:
                continue
            starts = (_there(knob, window, now), now, incumbent.get(knob.name, now))
            ranges = [self._range(knob, value) for value in starts]
            allowed = max(min(low for low, _ in ranges), min(max(high for _, high in ranges), wanted))
            if allowed != wanted:
                changes[knob.name] = allowed
                most = f"1/{self.factor:g} of its range" if _levels(knob) else f"a factor of {self.factor:g}"
                why.append(f"{knob.name} {now} to {wanted} is more than {most}, so {allowed}")
        return state, move.amended(changes, "; ".join(why)) if why else move

    def _range(self, knob: Knob, now: int) -> tuple[int, int]:
        """The least and the greatest value that may follow, members of the domain."""
        domain = knob.domain
        if _levels(knob):
            reach = max(domain.step, math.floor((domain.maximum - domain.minimum) / self.factor))
            return domain.clip(now - reach), domain.clip(now + reach)
        if domain.choices or not now:  # no ratios among names, nor from nothing
            return domain.minimum, domain.maximum
        steps_down = max(1, math.floor((now - now / self.factor) / domain.step))
        steps_up = max(1, math.floor(now * (self.factor - 1) / domain.step))
        return domain.clip(now - steps_down * domain.step), domain.clip(now + steps_up * domain.step)

    def abort(self, state: LargestStepState, partial: Window) -> str:
        """Never: it judges proposals, not windows."""
        return ""


def _there(knob: Knob, window: Window, now: int) -> int:
    """What is there of a limit of workers, at most the limit; of any other knob the value in force."""
    r = window.readings
    if knob.role is not Role.WORKER_LIMIT or "busy_workers" not in r:
        return now
    return max(1, min(now, math.ceil(r["busy_workers"] + r.get("idle_workers", 0.0))))


def _levels(knob: Knob) -> bool:
    """Whether a knob's values are levels around 0, as nice levels are."""
    return knob.domain.minimum < 0


GUARD = LargestStep
