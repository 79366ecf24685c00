"""Guards between a move and a plant, one file each.

The guards of a run that tunes a server, in the order in which a move passes them, and why in this order:

1. `not_binding` may take an increase away that the controller wants.
2. `early_abort` may put another move, the return, in place of what is left; the return is a promise, so nothing
   before it may have a say in it, and all others see it.
3. `domain` brings values into their domains, so that those after it compute with possible ones.
4. `largest_step` cuts what is left to one bounded step.
5. `feasibility` only lowers, and comes last, so that nothing after it can ask for more memory again; its
   lowering is not limited to a step, because what does not fit has to go at once.

In a stack of tiers those that go by a server's own workers and memory, all but `early_abort` and `domain`, stand
there once for each tier, and go by what was measured in it.

The operator's own edits are found by the plant and obeyed by the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trimtab.core import Guard, Knob, Move, Objective, Role, Window
from trimtab.guard._tier import OfTier
from trimtab.guard.domain import Domain
from trimtab.guard.early_abort import EarlyAbort
from trimtab.guard.feasibility import Feasibility
from trimtab.guard.largest_step import LargestStep
from trimtab.guard.not_binding import NotBinding


def standard(objective: Objective, judged: bool = False, tiers: Sequence[str] = ()) -> tuple[Guard, ...]:
    """The guards of a run that tunes a server, in their order.

    Args:
        objective: the run's objective.
        judged: whether a referee judges each change, which does what early abort does, and better.
        tiers: the tiers of a stack; none where it is no stack.
    """

    def of_each(guard: Guard) -> tuple[Guard, ...]:
        return tuple(OfTier(guard, tier) for tier in tiers) or (guard,)

    early = () if judged else (EarlyAbort(objective),)
    paced = of_each(LargestStep())
    return *of_each(NotBinding()), *early, Domain(), *paced, *of_each(Feasibility(judged=judged))


def of_knobs(objective: Objective, knobs: Sequence[Knob], judged: bool = False) -> tuple[Guard, ...]:
    """The guards of a run by its knobs.

    A run that moves nothing but the process budgets of classes has only their domains. Budgets cost no memory, and a
    controller of delays computes them together, from windows of one length: to cut one window or one step of one
    budget would be a disturbance that it has to take back.

    A run that moves nothing but the keep-alive time has its domain and the largest step. The time costs no memory,
    and what a window measures follows the pauses of the clients: no window is bad because of the time alone.

    Args:
        objective: the run's objective.
        knobs: those it may move.
        judged: whether a referee judges each change.
    """
    if knobs and all(knob.role is Role.PROCESS_BUDGET for knob in knobs):
        return (Domain(),)
    if knobs and all(knob.role is Role.KEEP_ALIVE for knob in knobs):
        return Domain(), LargestStep()
    return standard(objective, judged, tuple(dict.fromkeys(knob.tier for knob in knobs if knob.tier)))


def review_all(
    guards: tuple[Guard, ...], states: tuple[Any, ...], window: Window, move: Move
) -> tuple[tuple[Any, ...], Move]:
    """The move as it may be applied, after all guards in their order.

    Args:
        guards: the guards.
        states: their states, in the same order.
        window: what the move follows from.
        move: the controller's move.

    Returns:
        (new states, move).
    """
    after = []
    for guard, state in zip(guards, states, strict=True):
        state, move = guard.review(state, window, move)
        after.append(state)
    return tuple(after), move
