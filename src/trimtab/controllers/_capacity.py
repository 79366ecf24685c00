"""Idle connections that hold no worker take up connection capacity: a server takes only so many connections.

Apache's event MPM stops accepting at its workers and twice those of them that are idle, nginx at its
worker connections. Whoever comes then waits until an idle connection ends. How many a server takes
no counter says, so the longest time that leaves capacity is found by feedback: while connections wait, it comes down
in steps that free a share of what idle connections hold,

    E[min(period, ceiling)] = (1 - FREED 2^vain) E[min(period, time in force)]              (P1)

(twice as much after each of `vain` steps that did not shorten the wait), and while nobody waits it grows, twice as
long after each `fall_s`. The wait may be for something else, such as the processor. Then three steps do not shorten
it, the server's own time comes back, and nothing is tried for a while.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from trimtab.controllers._survival import Survival

FREED = 0.1
"""Share of what idle connections hold that a first step frees."""
EASING = 0.1
"""A step has helped when the wait has become shorter by this share since."""
VAIN = 3
"""Steps in a row that did not help, after which it is not capacity that connections wait for."""
SLACK = 0.25
"""Below this share of the wait at which capacity is short, there is plenty."""


@dataclass(frozen=True)
class Pressure:
    """Pressure on the server's connection capacity in one window.

    Args:
        wait_s: mean wait of connections before they were accepted, in seconds; None when it was not measured.
        short_s: wait above which capacity is short, in seconds.
        now_s: the time in force, in seconds.
        least_s: shortest time wanted, in seconds.
        duration_s: length of the window, in seconds.
    """

    wait_s: float | None
    short_s: float
    now_s: float
    least_s: float
    duration_s: float


@dataclass(frozen=True)
class Capacity:
    """State of the search for a keep-alive time that leaves capacity for new connections.

    Args:
        ceiling_s: the longest time that leaves capacity, in seconds.
        waited_s: for how long connections have waited since the last step, in seconds.
        wait_s: how long they waited at that step, in seconds.
        vain: successive steps that did not help.
        rest_s: time left in which no step is tried, in seconds.
    """

    ceiling_s: float = math.inf
    waited_s: float = 0.0
    wait_s: float = math.inf
    vain: int = 0
    rest_s: float = 0.0

    def after(self, seen: Pressure, curve: Survival, patience_s: float, fall_s: float) -> Capacity:
        """The state after one more window.

        Args:
            seen: the window.
            curve: how long idle periods last.
            patience_s: for how long connections have to wait before a step, in seconds.
            fall_s: time in which the ceiling grows to twice as much, and for which nothing is tried after vain steps.
        """
        if self.rest_s > 0:
            return Capacity(rest_s=max(0.0, self.rest_s - seen.duration_s))
        if seen.wait_s is None:
            return self
        if seen.wait_s <= seen.short_s:
            grows = 2.0 ** (seen.duration_s / fall_s) if seen.wait_s < SLACK * seen.short_s else 1.0
            return Capacity(ceiling_s=self.ceiling_s * grows)
        waited_s = self.waited_s + seen.duration_s
        if waited_s < patience_s:
            return replace(self, waited_s=waited_s)
        vain = self.vain + 1 if seen.wait_s >= (1 - EASING) * self.wait_s else 0
        at_s = min(seen.now_s, self.ceiling_s)
        if vain >= VAIN or at_s <= seen.least_s:
            return Capacity(rest_s=fall_s)
        held_s = curve.held_s(at_s) * (1 - FREED * 2**vain)  # Eq. (P1)
        ceiling_s = max(seen.least_s, curve.time_holding(held_s))
        return Capacity(ceiling_s, wait_s=seen.wait_s, vain=vain)
