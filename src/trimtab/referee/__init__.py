"""Whether a change of ours was for the better: verdicts, and the loss that may be risked for one.

`estimate` tells an effect from noise and load, `measure` takes from a window what that needs, `experiment` keeps the
two sides of a comparison, `rule` says what may be tried and what has to be put back; `afterwards` judges the runs of
methods that change something in every window; `course` follows a judge along a whole run.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from trimtab.core import Controller, Knob, Move, Objective, Role, Window
from trimtab.referee.afterwards import Afterwards
from trimtab.referee.course import Course, Tried
from trimtab.referee.rule import Referee

__all__ = ["Afterwards", "Course", "Judge", "Referee", "Tried", "of_run"]


class Judge(Protocol):
    """Judge, asked by the loop between observation and decision, and again before a change; pure, like a guard.

    `judges_changes` is True where each change is an experiment with a verdict. Its state has `judgement` and
    `closed`, which the controller is told in its trial.
    """

    judges_changes: ClassVar[bool]

    def start(self, knobs: tuple[Knob, ...]) -> Any:
        """The state before the first window."""
        ...

    def judge(self, state: Any, window: Window) -> tuple[Any, Mapping[str, int]]:
        """The state after one more window, and the values to put back at once."""
        ...

    def review(self, state: Any, window: Window, move: Move) -> Move:
        """The move, or why it may not be made now."""
        ...

    def abort(self, state: Any, partial: Window) -> str:
        """Why the window under way should be cut short; empty when it should not."""
        ...

    def final(self, state: Any) -> Mapping[str, int]:
        """Values to be in force at the end of a run; those that are in force by then may be among them."""
        ...


def of_run(controller: Controller, objective: Objective, knobs: Sequence[Knob]) -> Judge | None:
    """The judge of a run: none where it moves nothing but budgets or the keep-alive time, live and by their own law.

    Args:
        controller: the method; one whose changes are experiments says so by `experiments`.
        objective: the objective compared.
        knobs: those it may move.
    """
    if all(knob.role in (Role.PROCESS_BUDGET, Role.KEEP_ALIVE) for knob in knobs):
        return None
    return Referee(objective) if getattr(controller, "experiments", False) else Afterwards(objective)
