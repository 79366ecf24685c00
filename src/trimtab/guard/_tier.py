"""A guard of one tier of a stack: it knows this tier's knobs, and goes by this tier's readings alone.

Decisions go by the first tier that measures something; the memory and the busy workers of one tier say nothing of
another's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from trimtab import codec
from trimtab.core import Guard, Knob, Move, Window


@dataclass(frozen=True)
class OfTier:
    """A guard for one tier.

    Args:
        guard: the guard.
        tier: the tier's name.
    """

    guard: Guard
    tier: str

    @property
    def state_type(self) -> Any:
        """The kind of its state: the guard's."""
        return codec.state_of(self.guard)

    def start(self, knobs: tuple[Knob, ...]) -> Any:
        """The guard's state before the first window, of the knobs of this tier."""
        return self.guard.start(tuple(knob for knob in knobs if knob.tier == self.tier))

    def review(self, state: Any, window: Window, move: Move) -> tuple[Any, Move]:
        """The move as the guard leaves it."""
        return self.guard.review(state, self._own(window), move)

    def abort(self, state: Any, partial: Window) -> str:
        """Why the guard wants the window under way cut short, or an empty string."""
        return self.guard.abort(state, self._own(partial))

    def _own(self, window: Window) -> Window:
        """The window with this tier's readings; the first of several sources precedes the others."""
        readings: dict[str, float] = {}
        for one in window.measured:
            if one.source.partition("/")[0] == self.tier:
                readings.setdefault(one.metric, one.value)
        return replace(window, readings=readings)
