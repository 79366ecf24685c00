"""The classes of a SPEC, checked one by one and against one another."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

import msgspec

from trimtab.core.metric import of_class
from trimtab.errors import UsageError
from trimtab.gate import _rules
from trimtab.gate._rules import Rule
from trimtab.gate.start import StartClass
from trimtab.sensors._metrics import OF_CLASSES
from trimtab.units import parse_duration_s

MOST_CLASSES = 64
_LONGEST_S = 86_400.0
_PERCENTILE = re.compile(r"connection_delay_p(\d+)_s")
_DURATION = 'a duration in quotes of more than 0 and at most a day, such as "10s" or "400ms"'
_NAME = "a name of 1 to 64 letters, digits, - and _, of which the first is a letter or digit"
_WEIGHT = 'a weight above 0 such as 3, or a duration in quotes such as "10s"'
_TABLES = 'a list of tables such as { source = "127.0.1.0/24" }'
Duration = Annotated[str, msgspec.Meta(description=_DURATION)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Weight = Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]


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


class GivenClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A class as a SPEC has it; the fields are those of `ClientClass`, which says what they mean."""

    name: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z", description=_NAME)]
    match: Annotated[tuple[Rule, ...], msgspec.Meta(description=_TABLES)] | None = None
    desired: Annotated[_Weight | str | None, msgspec.Meta(description=_WEIGHT)] = None
    percentile: int | None = None
    budget: _Positive | None = None
    minimum: _Positive = 1
    queue: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
    full: Full = Full.REFUSE_NEWEST


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

    def to_wire(self) -> StartClass:
        """The class as the gate reads it."""
        rules = tuple(rule.to_wire() for rule in self.rules)
        full = self.full.replace("-", "_")
        return StartClass(self.name, rules, self.budget, self.minimum, self.queue, full)


def read(
    given: Sequence[GivenClass], guarantee: Guarantee, ports: tuple[int, ...], workers: int
) -> tuple[ClientClass, ...]:
    """The classes, with what only all of them together can be checked for.

    Args:
        given: as the SPEC has them.
        guarantee: what is guaranteed to them.
        ports: the ports that are gated.
        workers: M.

    Raises:
        UsageError: something in them is wrong.
    """
    if not 0 < len(given) <= MOST_CLASSES:
        there = f"there are {len(given)} classes" if given else "there is no class"
        raise UsageError(f"{there}: write [[class]] 1 to {MOST_CLASSES} times")
    found: list[ClientClass] = []
    for one in given:
        if one.name in (earlier.name for earlier in found):
            raise UsageError(f"two classes have the name {one.name!r}")
        try:
            found.append(_class(one, guarantee, ports, workers))
        except UsageError as error:
            raise UsageError(f"class {one.name!r}: {error}") from None
    rest = [one.name for one in found if not one.rules]
    if not rest:
        raise UsageError("every class has a match, so some connections belong to none: leave match out of one class")
    if len(rest) > 1:
        raise UsageError(f"classes {rest[0]!r} and {rest[1]!r} both have no match: only one can take the rest")
    if guarantee in (Guarantee.RELATIVE, Guarantee.HYBRID) and len(found) < 2:
        raise UsageError(f"the {guarantee} guarantee needs two classes or more, and there is one")
    _require_apart(found)
    return _budgeted(found, guarantee, workers)


def seconds(key: str, text: str) -> float:
    """The seconds of a duration of the SPEC.

    Args:
        key: the key it stands under.
        text: such as "10s".

    Raises:
        UsageError: it is none, or out of bounds.
    """
    try:
        duration_s = parse_duration_s(text)
    except UsageError:
        duration_s = 0.0
    if not 0 < duration_s <= _LONGEST_S:
        raise UsageError(f"{key} {text!r} is not {_DURATION}")
    return duration_s


def _class(given: GivenClass, guarantee: Guarantee, ports: tuple[int, ...], workers: int) -> ClientClass:
    """One class; its budget is 0 where it gives none."""
    if given.match == ():
        raise UsageError("match is empty, so no connection would belong to it: leave it out to take the rest")
    for key, value in (("minimum", given.minimum), ("budget", given.budget or 1)):
        if value > workers:
            raise UsageError(f"{key} {value} is more than the {workers} workers there are")
    if given.budget is not None and given.budget < given.minimum:
        raise UsageError(f"budget {given.budget} is below its minimum of {given.minimum}")
    return ClientClass(
        given.name,
        tuple(_rules.checked(one, ports) for one in given.match or ()),
        _desired(given, guarantee),
        _percentile(given, guarantee),
        given.budget or 0,
        given.minimum,
        given.queue,
        given.full,
    )


def _desired(given: GivenClass, guarantee: Guarantee) -> float:
    """W_k, of which the guarantee says whether it is a weight or a duration."""
    value = given.desired
    if guarantee is Guarantee.NONE:
        if value is not None:
            raise UsageError("desired has a meaning only with a guarantee")
        return 1.0
    if value is None:
        raise UsageError("desired is missing")
    if isinstance(value, str):
        if guarantee is Guarantee.RELATIVE:
            raise UsageError(f"desired {value!r} is not a number: the relative guarantee takes a weight such as 3")
        return seconds("desired", value)
    if guarantee is not Guarantee.RELATIVE:
        raise UsageError(f"desired {value:g} is not {_DURATION}")
    return value


def _percentile(given: GivenClass, guarantee: Guarantee) -> int | None:
    """The percentile, which must be one that is measured."""
    if given.percentile is None:
        return None
    if guarantee is Guarantee.NONE:
        raise UsageError("percentile has a meaning only with a guarantee")
    measured = [found[1] for one in OF_CLASSES if (found := _PERCENTILE.fullmatch(one.name))]
    if str(given.percentile) not in measured:
        raise UsageError(
            f"percentile {given.percentile} is not measured: write {', '.join(measured)}, or leave it out"
        )
    return given.percentile


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
