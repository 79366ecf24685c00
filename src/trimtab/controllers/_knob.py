"""Shared parts of the methods on one knob: which knob is moved, and whether a window can be judged."""

from __future__ import annotations

from trimtab.core import Knob, Objective, Role, Window, of_role
from trimtab.errors import UsageError


def integer_knob(knobs: tuple[Knob, ...], method: str) -> Knob:
    """The knob that a method on one knob moves: the worker limit where there is one, else the first.

    Args:
        knobs: the knobs that may be moved, in a fixed order.
        method: the method's name, for the message.

    Raises:
        UsageError: there is none.
    """
    if not knobs:
        raise UsageError(f"no knob to move: {method} needs one, such as the limit of workers")
    return of_role(knobs, Role.WORKER_LIMIT) or knobs[0]


def unjudged(objective: Objective, window: Window, knob: Knob, min_samples: int) -> str:
    """Why the window cannot be judged; empty when it can.

    Args:
        objective: the objective.
        window: the window.
        knob: the knob whose value in force has to be known.
        min_samples: requests that the window must have completed; a window of unknown size is trusted.

    Returns:
        The reason in words for the operator.
    """
    if knob.name not in window.configuration:
        return f"the value of {knob.name} in force is not known"
    if missing := objective.missing(window):
        return f"{missing} was not measured"
    if window.samples is not None and window.samples < min_samples:
        return f"only {window.samples} requests completed, {min_samples} are needed to judge the window"
    return ""


def require(accepted: bool, option: str, value: float, allowed: str) -> None:
    """Refuses an option's value.

    Args:
        accepted: whether the value may be used.
        option: the option's name.
        value: the value given.
        allowed: the values allowed, in words.

    Raises:
        UsageError: it may not.
    """
    if not accepted:
        raise UsageError(f"option {option} is {value:g}, allowed is {allowed}")
