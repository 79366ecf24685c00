"""A guard: it may change a move before the plant does, as a pure step."""

from __future__ import annotations

from typing import Any, Protocol

from trimtab.core.knob import Knob
from trimtab.core.move import Move
from trimtab.core.window import Window


class Guard(Protocol):
    """Reviews every move before it is applied. Its module names the class in `GUARD`."""

    def start(self, knobs: tuple[Knob, ...]) -> Any:
        """The state before the first window."""
        ...

    def review(self, state: Any, window: Window, move: Move) -> tuple[Any, Move]:
        """The move as it may be applied: unchanged, amended (`Move.amended`) or held."""
        ...

    def abort(self, state: Any, partial: Window) -> str:
        """Why the window under way should be cut short, or an empty string; sees the readings so far."""
        ...
