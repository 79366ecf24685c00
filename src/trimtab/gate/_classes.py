"""The classes of a SPEC, checked one by one and against one another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from trimtab.core.metric import of_class
from trimtab.errors import UsageError
from trimtab.gate import _rules
from trimtab.gate._rules import Rule
from trimtab.gate._table import Table
from trimtab.plants._names import PROCESS_BUDGET

MOST_CLASSES = 64


class Guarantee(StrEnum):
    """Kind of guarantee for the classes."""

    NONE = "none"
    RELATIVE = "relative"
    ABSOLUTE = "absolute"
    HYBRID = "hybrid"


class Full(StrEnum):
    """Which connection is refused when the queue of a class is full."""

    REFUSE_NEWEST = "refuse-newest"
    REFUSE_OLDEST = "refuse-oldest"


@dataclass(frozen=True)
class ClientClass:
    """A class of clients.

    Args:
        name: its name.
        rules: a connection belongs to it when one of them holds; none for the class that takes the rest.
        desired: W_k: its weight (relative guarantee), else its desired delay in seconds.
        percentile: which percentile of the delay is guaranteed; None for the mean.
        budget: B_k at the start, connections of it in service at once.
        minimum: smallest budget that it may be given.
        queue: connections that may wait.
        full: which connection is refused when the queue is full.
    """

    name: str
    rules: tuple[Rule, ...]
    desired: float
    percentile: int | None
    budget: int
    minimum: int
    queue: int
    full: Full

    @property
    def delay_metric(self) -> str:
        """The reading that is guaranteed, such as `connection_delay_s@premium`."""
        percentile = "" if self.percentile is None else f"p{self.percentile}_"
        return of_class(f"connection_delay_{percentile}s", self.name)

    @property
    def budget_knob(self) -> str:
        """The knob of its budget."""
        return of_class(PROCESS_BUDGET, self.name)

    def to_wire(self) -> dict[str, Any]:
        """The class as the gate reads it."""
        return {
            "name": self.name,
            "rules": [rule.to_wire() for rule in self.rules],
            "budget": self.budget,
            "minimum": self.minimum,
            "queue_limit": self.queue,
            "full": self.full.replace("-", "_"),
        }


def read(tables: list[Table], guarantee: Guarantee, ports: tuple[int, ...], workers: int) -> tuple[ClientClass, ...]:
    """The classes, checked against one another."""
    if not 0 < len(tables) <= MOST_CLASSES:
        there = f"there are {len(tables)} classes" if tables else "there is no class"
        raise UsageError(f"{there}: write [[class]] 1 to {MOST_CLASSES} times")
    found: list[ClientClass] = []
    for number, table in enumerate(tables, 1):
        name = table.name("name", f"class {number}")
        if name in (one.name for one in found):
            raise UsageError(f"two classes have the name {name!r}")
        try:
            found.append(_class(name, table, guarantee, ports, workers))
            table.finish()
        except UsageError as error:
            raise UsageError(f"class {name!r}: {error}") from None
    rest = [one.name for one in found if not one.rules]
    if not rest:
        raise UsageError("every class has a match, so some connections belong to none: leave match out of one class")
    if len(rest) > 1:
        raise UsageError(f"classes {rest[0]!r} and {rest[1]!r} both have no match: only one can take the rest")
    if guarantee in (Guarantee.RELATIVE, Guarantee.HYBRID) and len(found) < 2:
        raise UsageError(f"the {guarantee} guarantee needs two classes or more, and there is one")
    _require_apart(found)
    return _budgeted(found, guarantee, workers)


def _class(name: str, table: Table, guarantee: Guarantee, ports: tuple[int, ...], workers: int) -> ClientClass:
    """One class; its budget is 0 where it gives none."""
    match = table.array("match")
    rules = tuple(_rules.parse(one, ports) for one in match or ())
    if match is not None and not rules:
        raise UsageError("match is empty, so no connection would belong to it: leave it out to take the rest")
    minimum = table.whole("minimum", 1, workers, 1)
    budget = table.whole("budget", 1, workers, 0)
    if budget and budget < minimum:
        raise UsageError(f"budget {budget} is below its minimum of {minimum}")
    desired = 1.0
    if guarantee is Guarantee.NONE:
        table.refuse("desired", "with a guarantee")
        table.refuse("percentile", "with a guarantee")
    elif guarantee is Guarantee.RELATIVE:
        desired = table.weight("desired")
    else:
        desired = table.duration_s("desired")
    return ClientClass(
        name,
        rules,
        desired,
        percentile=table.percentile("percentile"),
        budget=budget,
        minimum=minimum,
        queue=table.whole("queue", 1, 1_000_000, 10_000),
        full=table.member("full", Full, Full.REFUSE_NEWEST),
    )


def _require_apart(classes: list[ClientClass]) -> None:
    """Refuses a rule that never decides, because one of an earlier class takes all its connections."""
    for number, later in enumerate(classes):
        for earlier in classes[:number]:
            for rule in later.rules:
                wide = next((one for one in earlier.rules if one.covers(rule)), None)
                if wide is not None:
                    raise UsageError(
                        f"classes {earlier.name!r} and {later.name!r} overlap: {wide} of the first takes all "
                        f"connections of {rule}; put {later.name!r} before it, or take one away"
                    )


def _budgeted(classes: list[ClientClass], guarantee: Guarantee, workers: int) -> tuple[ClientClass, ...]:
    """The classes with a budget each: those without share evenly what the others leave of M."""
    given = sum(one.budget for one in classes)
    open_ = [one for one in classes if not one.budget]
    if sum(one.minimum for one in classes) > workers:
        total = sum(one.minimum for one in classes)
        raise UsageError(f"the minimum budgets add up to {total}, more than the {workers} workers there are")
    # Absolute budgets may exceed M together: the highest priorities are then served first (lu2001, section 4.1).
    if given > workers and guarantee is not Guarantee.ABSOLUTE:
        raise UsageError(f"the budgets add up to {given}, more than the {workers} workers there are")
    share, more = divmod(max(0, workers - given), max(1, len(open_)))
    budgets = iter([share + (number < more) for number in range(len(open_))])
    done = tuple(one if one.budget else replace(one, budget=next(budgets)) for one in classes)
    for one in done:
        if one.budget < one.minimum:
            raise UsageError(
                f"class {one.name!r}: {one.budget} workers are left for it, below its minimum of {one.minimum}"
            )
    return done
