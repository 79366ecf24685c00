"""An objective: which reading to make least or greatest, under which limits on others."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trimtab.core.window import Window

BROKEN = 1e18
"""The least cost of a window that breaks a limit: more than any reading, so more than any that keeps them."""
_FARTHEST = 50.0
"""Excess of a reading that should be something and is nothing, as a logarithm."""


@dataclass(frozen=True)
class Limit:
    """A bound on one reading.

    Args:
        metric: name of the reading.
        bound: in the metric's unit.
        at_most: True when the reading is to be at most the bound, False for at least.
        text: the bound as the user wrote it, with its unit; empty to show the number.
    """

    metric: str
    bound: float
    at_most: bool = True
    text: str = ""

    def margin(self, window: Window) -> float | None:
        """How far the reading may still go, in its unit: below 0 the limit is broken; None when not measured."""
        value = window.readings.get(self.metric)
        if value is None:
            return None
        return self.bound - value if self.at_most else value - self.bound

    def excess(self, window: Window) -> float | None:
        """Logarithm of how many times the reading is beyond the bound, 0 where it is kept; None if unmeasured."""
        margin = self.margin(window)
        if margin is None or margin >= 0:
            return None if margin is None else 0.0
        value = window.readings[self.metric]
        far, near = (value, self.bound) if self.at_most else (self.bound, value)
        if near > 0:
            return min(_FARTHEST, math.log(far / near))
        return math.log1p(far) if self.at_most else _FARTHEST

    def __str__(self) -> str:
        return f"{self.metric} {'<=' if self.at_most else '>='} {self.text or f'{self.bound:g}'}"


@dataclass(frozen=True)
class Objective:
    """Objective of a controller: one reading made best among the windows that keep every limit.

    Limits come first. A window that keeps them all costs what its reading says; one that breaks any costs more than
    every window that keeps them, and the more, the farther it is beyond the bounds (sum of the logarithms). So a
    method that knows nothing but the cost first comes within the limits and then makes the reading best. Where
    no limit is known to be broken, and the reading or that of a limit was not measured, the cost is not known.

    Args:
        metric: name of the reading.
        minimize: True to make it least, False to make it greatest.
        limits: the bounds on other readings.
    """

    metric: str = "response_time_s"
    minimize: bool = True
    limits: tuple[Limit, ...] = ()

    def value(self, window: Window) -> float | None:
        """The reading, negated when it is to be greatest, regardless of limits; None when not measured."""
        value = window.readings.get(self.metric)
        return value if value is None or self.minimize else -value

    def excess(self, window: Window) -> float | None:
        """How far the window is beyond the limits that were measured; None where none is broken and one was not."""
        found = [limit.excess(window) for limit in self.limits]
        known = math.fsum(one for one in found if one is not None)
        return None if known == 0 and None in found else known

    def cost(self, window: Window) -> float | None:
        """Cost to make least, limits included; None when it is not known."""
        excess = self.excess(window)
        if excess is None:
            return None
        return BROKEN * (1 + excess) if excess > 0 else self.value(window)

    def broken(self, window: Window) -> tuple[Limit, ...]:
        """The limits that the window breaks."""
        return tuple(limit for limit in self.limits if (limit.margin(window) or 0.0) < 0)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the readings that it goes by, its own first, then those of its limits."""
        return tuple(dict.fromkeys((self.metric, *(limit.metric for limit in self.limits))))

    def missing(self, window: Window) -> str:
        """Names of the readings that the cost needs and the window lacks; empty when it has all."""
        return " and ".join(name for name in self.metrics if name not in window.readings)

    def said(self, cost: float) -> str:
        """A cost as text, for the reason of a move."""
        return f"{abs(cost):.3g}" if cost < BROKEN else f"{math.exp(cost / BROKEN - 1):.2g} times its limits"

    def __str__(self) -> str:
        under = " subject to " + ", ".join(map(str, self.limits)) if self.limits else ""
        return f"{'minimize' if self.minimize else 'maximize'} {self.metric}{under}"
