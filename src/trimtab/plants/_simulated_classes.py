"""The classes of clients that the simulated server tells apart, and their process budgets as knobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from trimtab.core import Domain, How, Knob, Role, of_class
from trimtab.errors import UsageError

BUDGET = "process_budget"


@dataclass(frozen=True)
class SimulatedClass:
    """A class of clients: the populations of its name.

    Args:
        name: its name.
        budget: process budget at the start; None for an equal share of the workers.
    """

    name: str
    budget: int | None = None


def parse_class(text: str) -> SimulatedClass:
    """A class as `NAME` or `NAME=BUDGET`.

    Raises:
        UsageError: it is neither.
    """
    name, equals, budget = text.partition("=")
    if not equals:
        return SimulatedClass(name)
    try:
        return SimulatedClass(name, int(budget))
    except ValueError:
        raise UsageError(f"--class {text!r}: {budget!r} is not a number of workers: write NAME=BUDGET") from None


def started(classes: Sequence[SimulatedClass], workers: int) -> tuple[SimulatedClass, ...]:
    """The classes with a budget for each; those without one share the workers, the first get what remains.

    Args:
        classes: in order of priority, highest first.
        workers: workers in total, M.

    Raises:
        UsageError: a name is empty, there twice or not to be told from a metric's; a budget is not 1 to M.
    """
    names = [one.name for one in classes]
    share, rest = divmod(workers, max(1, len(classes)))
    found = []
    for index, one in enumerate(classes):
        if not one.name.strip() or "@" in one.name or one.name in names[:index]:
            raise UsageError(f"class {one.name!r} is not allowed: it must be a name of its own without '@'")
        budget = share + (index < rest) if one.budget is None else one.budget
        if not 1 <= budget <= workers:
            raise UsageError(f"budget {budget} of class {one.name} is not allowed: it must be 1 to {workers} workers")
        found.append(SimulatedClass(one.name, budget))
    return tuple(found)


def to_wire(classes: Sequence[SimulatedClass]) -> list[dict[str, Any]]:
    """The classes as the wire's `Class`."""
    return [{"name": one.name, "budget": one.budget} for one in classes]


def gated(knobs: Sequence[Knob], classes: Sequence[SimulatedClass]) -> tuple[Knob, ...]:
    """The server's knobs behind a connection scheduler: the worker limit is live, and the budgets are.

    Args:
        knobs: those of the server, the worker limit first.
        classes: with their budgets; none for no scheduler.
    """
    if not classes:
        return tuple(knobs)
    limit, *others = knobs
    live = replace(limit, how=How.LIVE, cost="none")
    budgets = (
        Knob(
            name=of_class(BUDGET, one.name),
            native_name="B_k",
            unit="workers",
            domain=Domain(1, limit.domain.maximum, 1, limit.domain.limited_by),
            default=one.budget or 1,
            how=How.LIVE,
            cost="none; workers above a lower budget are freed as their connections close",
            description=f"Most connections of class {one.name} that workers hold at the same time.",
            role=Role.PROCESS_BUDGET,
            label=one.name,
            shares=limit.name,
        )
        for one in classes
    )
    return (live, *others, *budgets)
