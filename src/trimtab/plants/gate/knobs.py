"""The knobs of a gate, from its start line."""

from __future__ import annotations

from trimtab.core import Domain, How, Knob, Role
from trimtab.core.metric import of_class
from trimtab.gate.start import Start

LIMIT = "max_request_workers"
PROCESS_BUDGET = "process_budget"
"""Most workers that a class of clients may hold; the knob is this name, an `@` and the class."""


def knobs(line: Start) -> tuple[Knob, ...]:
    """The knobs of a gate: M, then the budget of each class in order of priority.

    Args:
        line: its start line.
    """
    limit, classes = line.limit, line.classes
    least = sum(one.minimum for one in classes)
    more = f"the SPEC's workers = {limit} is what the server can hold; more needs a larger one and a restart"
    cost = "nothing: connections in service stay"
    workers = Knob(
        LIMIT,
        "workers",
        "connections",
        Domain(min(least, limit), limit, 1, more),
        limit,
        How.LIVE,
        cost,
        "Connections that the server may hold at once; those beyond it wait in the gate.",
        Role.WORKER_LIMIT,
    )
    budgets = [
        Knob(
            of_class(PROCESS_BUDGET, one.name),
            "budget",
            "connections",
            Domain(one.minimum, limit, 1, more),
            one.budget,
            How.LIVE,
            cost,
            f"Connections of the class {one.name} that the server may hold at once.",
            Role.PROCESS_BUDGET,
            one.name,
            LIMIT,
        )
        for one in classes
    ]
    return (workers, *budgets)


def at_start(line: Start) -> dict[str, int]:
    """Knob name to the value that a gate was started with.

    Args:
        line: its start line.
    """
    return {LIMIT: line.limit, **{of_class(PROCESS_BUDGET, one.name): one.budget for one in line.classes}}
