"""The referee along a whole run: every trial with its verdict, and the cost of trying.

It is stepped with the same windows as in the run, so it says what the referee said there, while the run goes on and
from the store alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trimtab.core import Configuration, Judgement, Knob, Window
from trimtab.events import Event, Note, NoteKind, WindowDone

if TYPE_CHECKING:
    from trimtab.referee import Judge


@dataclass(frozen=True)
class Tried:
    """A change that has ended in a verdict.

    Args:
        index: the window after which it did.
        configuration: the configuration in force with it.
        judgement: the verdict.
    """

    index: int
    configuration: Configuration
    judgement: Judgement


class Course:
    """The judge's way through the windows of a run.

    Args:
        judge: the judge; None for none.
        knobs: those that may be moved.
        state: the judge's state before the windows that are told; None for that before the first of a run.

    Attributes:
        trials: the changes that have ended in a verdict, in order.
    """

    def __init__(self, judge: Judge | None, knobs: Sequence[Knob], state: Any = None) -> None:
        self._judge = judge
        self._knobs = tuple(knobs)
        self._spent_s = 0.0
        self.trials: list[Tried] = []
        self._ended: Configuration | None = None
        self._state = state
        if state is None:
            self._start()

    @property
    def judgement(self) -> Judgement | None:
        """Judgement of the change in force; None while there is nothing to judge."""
        return None if self._state is None else self._state.judgement

    @property
    def cost_s(self) -> float | None:
        """Cost of the trials to clients so far, in seconds of normal operation; None where changes are no trials."""
        if self._judge is None or not self._judge.judges_changes:
            return None
        return self._spent_s + (0.0 if self._state is None else self._state.spent_s)

    def tell(self, event: Event) -> None:
        """Takes an event: a window, or that a knob was left to the operator."""
        if isinstance(event, WindowDone):
            self._window(event.window)
        elif isinstance(event, Note) and event.kind is NoteKind.STAND_DOWN and event.knob:
            self._stand_down(event.knob)

    def _window(self, window: Window) -> None:
        if self._judge is None or self._state is None:
            return
        before = self.judgement
        self._state, _ = self._judge.judge(self._state, window)
        now = self.judgement
        if now is not None and now.final and now is not before:
            if self._ended == window.configuration:  # it has yet to go back, and is judged anew meanwhile
                self.trials.pop()
            self.trials.append(Tried(window.index, window.configuration, now))
            self._ended = window.configuration
        elif self._ended != window.configuration:
            self._ended = None

    def _stand_down(self, name: str) -> None:
        """The judge goes on with the other knobs as in the run: it starts again, unless it can do without one."""
        self._knobs = tuple(knob for knob in self._knobs if knob.name != name)
        withdraw = getattr(self._judge, "withdraw", None)
        if withdraw is not None and self._state is not None and self._knobs:
            self._state = withdraw(self._state, self._knobs)
            return
        if self._state is not None and self._judge is not None and self._judge.judges_changes:
            self._spent_s += self._state.spent_s
        self._state = None
        self._start()

    def _start(self) -> None:
        if self._judge is not None and self._knobs:
            self._state = self._judge.start(self._knobs)
