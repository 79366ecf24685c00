"""One decision: judge, decide, guard. The loop makes it on a live server, the replay on stored windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.core import Controller, Fate, Guard, Knob, Move, Objective, Trial, Window, in_words
from trimtab.guard import of_knobs, review_all
from trimtab.referee import Judge, of_run


@dataclass(frozen=True)
class Standing:
    """What is remembered between two decisions.

    Args:
        state: the controller's state.
        guard_states: the states of the guards.
        judge_state: the judge's state; None where nobody judges.
        fate: what became of the last move that wanted to change something.
    """

    state: Any
    guard_states: tuple[Any, ...]
    judge_state: Any = None
    fate: Fate | None = None


@dataclass(frozen=True)
class Decision:
    """A decision, with what is remembered after it.

    Args:
        state: the controller's state.
        guard_states: the states of the guards.
        judge_state: the judge's state; None where nobody judges.
        proposed: what the controller wants.
        move: what judge and guards make of it.
    """

    state: Any
    guard_states: tuple[Any, ...]
    judge_state: Any
    proposed: Move
    move: Move


@dataclass(frozen=True)
class Oversight:
    """What stands between a controller and a plant.

    Args:
        guards: what every move passes, in this order.
        judge: who tells whether a change was for the better; None for nobody.
    """

    guards: tuple[Guard, ...]
    judge: Judge | None = None

    @staticmethod
    def of(controller: Controller, objective: Objective, knobs: Sequence[Knob]) -> Oversight:
        """The oversight of a run by its method and by what it may move."""
        judge = of_run(controller, objective, knobs)
        return Oversight(of_knobs(objective, knobs, judge is not None and judge.judges_changes), judge)

    def start(self, knobs: tuple[Knob, ...]) -> tuple[tuple[Any, ...], Any]:
        """The states of the guards and of the judge before the first window."""
        judge_state = None if self.judge is None else self.judge.start(knobs)
        return tuple(guard.start(knobs) for guard in self.guards), judge_state


def decide(standing: Standing, window: Window, controller: Controller, oversight: Oversight) -> Decision:
    """The move that follows from one more window.

    A configuration that the judge puts back was measured good, so it passes no guard; any other move passes the
    guards first, so that what the judge allows is what will be applied.

    Args:
        standing: what is remembered.
        window: what was seen.
        controller: what decides.
        oversight: what stands between the controller and the plant.
    """
    judge = oversight.judge
    judge_state, judgement, refuted = standing.judge_state, None, frozenset[tuple[str, int]]()
    back: Mapping[str, int] = {}
    if judge is not None:
        judge_state, back = judge.judge(judge_state, window)
        judgement, refuted = judge_state.judgement, judge_state.refuted
    state, proposed = controller.step(standing.state, Trial(window, standing.fate, judgement, refuted))
    guard_states, move = review_all(oversight.guards, standing.guard_states, window, proposed)
    if back:
        said = in_words(back, judge_state.knobs)
        move = Move(back, f"{judgement.why if judgement else 'not better'}: back to {said}", phase="return")
    elif judge is not None:
        move = judge.review(judge_state, window, move)
    return Decision(state, guard_states, judge_state, proposed, move)
