"""Shared parts of the delay controllers: classes in priority order, their budgets, and their delays.

They move one process budget per class of clients, and read one delay per class. A class
without a dispatch in a window has no delay. Where connections wait all the same, the oldest one's wait so far is a
lower bound of it; where none does, the class asks for nothing, and its controller holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trimtab.controllers._knob import require
from trimtab.controllers._pi import Pi
from trimtab.core import Knob, Objective, Role, Window, of_class
from trimtab.errors import UsageError
from trimtab.metrics import metric
from trimtab.units import parse_duration_s

T = TypeVar("T")


def _list_of(read: Callable[[str], T], what: str) -> dict[str, Any]:
    """Metadata of a field that a user types as a list with commas."""

    def parse(text: str) -> tuple[T, ...]:
        try:
            return tuple(read(part.strip()) for part in text.split(",") if part.strip())
        except ValueError:
            raise UsageError(f"{text!r} is not a list of {what} with commas between them") from None

    return {"parse": parse}


def _value(text: str) -> float:
    """A weight such as `3`, or a duration such as `10s` in seconds."""
    return parse_duration_s(text) if text[-1:].isalpha() else float(text)


@dataclass(frozen=True)
class Delay:
    """A class's delay in a window, measured or bounded from below.

    Args:
        value_s: the delay, in seconds.
        exact: False when it is only a lower bound.
    """

    value_s: float
    exact: bool = True


@dataclass(frozen=True)
class ClassControl:
    """Settings common to all controllers of delay guarantees.

    Args:
        objective: reported as the run's result; decides nothing.
        classes: names of the classes, the highest priority first; none for those of the knobs, in their order.
        desired: W_k of each class, in the order of the classes: a weight, or a delay in seconds.
        minimum: processes reserved for each class; none for one each.
        metrics: metric to guarantee for each class, or one for all, such as connection_delay_p95_s.
        workers: processes to share out, M; 0 for the worker limit in force, or the sum of the budgets where
            that is not known.
        min_samples: connections of a class that must have been dispatched in a window for its delay to count.
    """

    objective: Objective
    classes: tuple[str, ...] = field(default=(), metadata=_list_of(str, "names"))
    desired: tuple[float, ...] = field(default=(), metadata=_list_of(_value, "weights or durations"))
    minimum: tuple[int, ...] = field(default=(), metadata=_list_of(int, "whole numbers"))
    metrics: tuple[str, ...] = field(default=("connection_delay_s",), metadata=_list_of(str, "metrics"))
    workers: int = 0
    min_samples: int = 1

    def __post_init__(self) -> None:
        for value in self.desired:
            require(0 < value < float("inf"), "desired", value, "more than 0")
        for least in self.minimum:
            require(least >= 1, "minimum", least, "1 or more")
        for name in self.metrics:
            metric(of_class(name, "CLASS"))
        require(self.workers >= 0, "workers", self.workers, "0 or more")
        require(self.min_samples >= 1, "min_samples", self.min_samples, "1 or more")
        if len(set(self.classes)) != len(self.classes):
            raise UsageError(f"option classes names a class twice: {', '.join(self.classes)}")

    def group(self, knobs: tuple[Knob, ...], method: str, least: int) -> Group:
        """The classes with their knobs.

        Args:
            knobs: the knobs that may be moved.
            method: the method's name, for messages.
            least: how many classes it needs.

        Raises:
            UsageError: a class has no knob, there are too few classes, or an option has not one value for each.
        """
        budgets = {knob.label: knob for knob in knobs if knob.role is Role.PROCESS_BUDGET}
        if not budgets:
            raise UsageError(f"no knob to move: {method} needs the budgets of {least} or more classes")
        classes = self.classes or tuple(budgets)
        for name in classes:
            if name not in budgets:
                raise UsageError(f"class {name!r} has no budget that may be moved: there are {', '.join(budgets)}")
        if len(classes) < least:
            raise UsageError(f"{method} needs {least} or more classes, there is {', '.join(classes)}")
        self._one_each("desired", len(self.desired), len(classes))
        minimum = self.minimum or (1,) * len(classes)
        self._one_each("minimum", len(minimum), len(classes))
        metrics = self.metrics * len(classes) if len(self.metrics) == 1 else self.metrics
        self._one_each("metrics", len(metrics), len(classes))
        chosen = tuple(budgets[name] for name in classes)
        reserved = tuple(max(n, k.domain.minimum) for n, k in zip(minimum, chosen, strict=True))
        return Group(classes, chosen, self.desired, reserved, metrics, self.workers, self.min_samples)

    def _one_each(self, option: str, given: int, classes: int) -> None:
        if given != classes:
            raise UsageError(f"option {option} has {given} values for {classes} classes: give one for each")


@dataclass(frozen=True)
class Group:
    """The classes under control, the highest priority first; every tuple has one entry per class.

    Args:
        classes: their names.
        knobs: their process budgets.
        desired: W_k, weights or seconds.
        minimum: processes reserved for each.
        metrics: metric that is guaranteed.
        workers: M as it was given; 0 for what is in force.
        min_samples: dispatches that make a delay.
    """

    classes: tuple[str, ...]
    knobs: tuple[Knob, ...]
    desired: tuple[float, ...]
    minimum: tuple[int, ...]
    metrics: tuple[str, ...]
    workers: int
    min_samples: int

    def in_force(self, window: Window) -> tuple[int, ...] | None:
        """B_k as they were in a window; None when one is not known."""
        found = [window.configuration.get(knob.name) for knob in self.knobs]
        return None if None in found else tuple(b for b in found if b is not None)

    def total(self, window: Window, budgets: tuple[int, ...]) -> int:
        """M, the processes to share out."""
        return self.workers or window.configuration.get(self.knobs[0].shares) or sum(budgets)

    def delays(self, window: Window) -> tuple[Delay | None, ...]:
        """C_k of each class; None when nothing was dispatched and nothing waits."""
        return tuple(self._delay(window, k) for k in range(len(self.classes)))

    def _delay(self, window: Window, k: int) -> Delay | None:
        name, readings = self.classes[k], window.readings
        value = readings.get(of_class(self.metrics[k], name))
        rate_hz = readings.get(of_class("dispatch_rate_hz", name))
        enough = rate_hz is None or rate_hz * window.duration_s > self.min_samples - 0.5
        if value is not None and enough:
            return Delay(value)
        oldest_s = readings.get(of_class("oldest_wait_s", name), 0.0)
        return Delay(oldest_s, exact=False) if oldest_s > 0 else None

    def changes(self, budgets: tuple[int, ...], in_force: tuple[int, ...]) -> dict[str, int]:
        """Knob name to new value, for the budgets that differ from those in force."""
        pairs = zip(self.knobs, budgets, in_force, strict=True)
        return {knob.name: new for knob, new, now in pairs if new != now}

    def evidence(self, values: Mapping[str, tuple[float | None, ...]]) -> dict[str, float]:
        """Figures per class as `NAME@CLASS`, without those that are not known."""
        return {
            of_class(name, of): value
            for name, column in values.items()
            for of, value in zip(self.classes, column, strict=True)
            if value is not None
        }


@dataclass(frozen=True)
class LoopsState:
    """State of the controllers of some classes.

    Args:
        group: the classes.
        loops: one controller per class, or for every two neighbouring ones; none before the first window.
        asked: the budgets asked for last.
    """

    group: Group
    loops: tuple[Pi, ...] = ()
    asked: tuple[int, ...] = ()


def seconds(value: float) -> str:
    """A delay as a reason shows it."""
    return f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"


def shown(delay: Delay | None) -> str:
    """A delay as text for a reason."""
    if delay is None:
        return "no connection"
    return seconds(delay.value_s) if delay.exact else f"over {seconds(delay.value_s)}"
