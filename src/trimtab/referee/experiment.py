"""An experiment on a live server: a change in force, with its cost and effect so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from trimtab.referee.estimate import VARIATION, Effect, effect
from trimtab.referee.measure import Measured, Workload, mixed

MOST_WINDOWS = 36
"""Windows of a change that are compared, the last ones."""
Direction = tuple[str, int]
"""A knob's name, and 1 for up or -1 for down."""
LATELY = 6
"""Windows on each side of which the requests are counted."""
LEAST_CAPACITY = 0.1
"""A change by less than a tenth is none."""
EVEN = 3
"""Windows without more being completed, after which a change has done nothing: two of three mark a gain."""
FURTHER = 3
"""Windows in which nothing is seen of fewer workers, after which still fewer may be tried."""


@dataclass(frozen=True)
class Experiment:
    """A change in force.

    Args:
        configuration: the knobs with it.
        reference: windows before it.
        workload: the workload in them.
        windows: windows after it, but for the first, which pays for the change.
        first: that first window; None before it has passed.
        first_s: its excess, in seconds of normal operation.
        stop_s: cost of the standstill before it, in the same unit.
        lost_s: sum of the others' excesses.
        gained: windows in which an overloaded server completed more than before.
        even: windows in which it completed as much.
        untold: windows after it in which workers beyond a smaller limit had yet to end.
        unmeasured: windows after it in which nothing bounded the cost.
        silent: windows after it in which nobody came, or the cost was only bounded, by no more than expected.
        overloaded: whether the server was overloaded when it was made.
        returned: windows after it was taken back, but for the first; None while it is in force.
        on_limits: whether most windows before it broke a limit: then not the objective is compared, but how far
            each is beyond the limits.
        taken: directions of this change and of those before it under the same backlog.
        turned: directions of these that a later change has reversed.
        lulls: whether nobody came in some windows before it either: then such a window says nothing of the change.
        in_seconds: whether the cost is a time, so that arrivals times it are inside, by Little's law.
    """

    configuration: Mapping[str, int]
    reference: tuple[Measured, ...]
    workload: Workload
    windows: tuple[Measured, ...] = ()
    first: Measured | None = None
    first_s: float = 0.0
    stop_s: float = 0.0
    lost_s: float = 0.0
    gained: int = 0
    even: int = 0
    untold: int = 0
    unmeasured: int = 0
    silent: int = 0
    overloaded: bool = False
    returned: tuple[Measured, ...] | None = None
    on_limits: bool = False
    in_seconds: bool = True
    lulls: bool = False
    taken: frozenset[Direction] = frozenset()
    turned: frozenset[Direction] = frozenset()

    @property
    def saturated(self) -> bool:
        """Whether work was always waiting before the change."""
        return all(w.saturated for w in self.reference[-3:])

    @property
    def idle(self) -> bool:
        """Whether an overloaded server has completed no more with the change, for as long as it takes to tell."""
        return self.overloaded and not self.gained and self.even >= EVEN

    @property
    def without_effect(self) -> bool:
        """Whether nothing is seen of the change: its effect is less than its standard error, either way."""
        found = None if self.overloaded or len(self.windows) < FURTHER else self.effect()
        return found is not None and abs(found.size) < found.error

    def compared(self, windows: tuple[Measured, ...]) -> tuple[Measured, ...]:
        """Windows with the cost that this experiment compares."""
        if self.on_limits:
            return tuple(one.on_limits() for one in windows)
        return tuple(one.by_inside() for one in windows) if mixed(self.reference) else windows

    def with_window(self, now: Measured, lost_s: float, backlog: bool) -> Experiment:
        """This experiment with one more window; the first pays for the change.

        Args:
            now: the window.
            lost_s: its excess, in seconds of normal operation.
            backlog: whether work has waited since before the change, so that only what is completed tells anything.
        """
        if self.first is None:
            return replace(self, first=now, first_s=lost_s)
        more = self.capacity(now) > 0
        if backlog:
            return replace(self, gained=self.gained + more, even=self.even + (not more))
        if now.log_cost is None and not (now.faint or (self.lulls and now.deserted)):
            return replace(self, unmeasured=self.unmeasured + 1)
        if now.log_cost is None or (now.bound and lost_s <= 0):
            return replace(self, silent=self.silent + 1)
        gained = self.gained + (more and now.saturated and self.saturated)
        windows = (*self.windows, now)[-MOST_WINDOWS:]
        return replace(self, windows=windows, lost_s=self.lost_s + lost_s, gained=gained)

    def excess_s(self, now: Measured) -> float:
        """Cost of a window beyond the expected one, in seconds of normal operation, Eq. (R7).

        What was lost in the last window before the change already is not the change's. A cost that is only told by
        Little's law is as uneven as the arrivals, and what is inside is what clients wait: then that counts alone.
        """
        if not self.reference:
            return 0.0
        work, ratio = self.workload, 0.0
        usual, rho = (min(0.95, value) for value in (work.arrivals_hz * work.demand_s, work.utilisation(now)))
        if now.bound or now.saturated:
            rho = max(rho, usual)  # fewer come while they wait: that is no lower load
        reference, (seen,) = self.compared(self.reference), self.compared((now,))
        usual_cost, last = expected(reference), reference[-1].log_cost
        usual_cost = usual_cost if last is None else max(usual_cost, last)
        inside = [w.inside for w in self.reference if w.inside is not None]
        if inside and now.inside is not None:
            by_cost = work.arrivals_hz * math.exp(expected(self.reference)) if self.in_seconds else 0.0
            usual_inside = by_cost or math.fsum(inside) / len(inside)
            ratio = (now.inside - max(inside)) / max(1.0, usual_inside)
            if (now.inferred or now.bound) and not self.on_limits:
                return max(0.0, ratio) * now.duration_s
        if seen.log_cost is not None:
            at_this_load = usual_cost + math.log1p(-usual) - math.log1p(-rho)
            ratio = max(ratio, math.exp(min(50.0, seen.log_cost - at_this_load)) - 1)
        return max(0.0, ratio) * now.duration_s

    def effect(self) -> Effect | None:
        """Effect of the change against the windows before it; None before that can be told."""
        before = tuple(w for w in self.compared(self.reference) if w.log_cost is not None)
        return self._compared(before, self.windows, ()) if len(before) >= 2 else None

    def effect_by_return(self, after: tuple[Measured, ...]) -> Effect | None:
        """Effect of the change against the windows after its return: those before may be of another load."""
        first = () if self.first is None or self.first.log_cost is None else (self.first,)
        return self._compared((), self.windows or first, after) if after else None

    def _compared(
        self, before: tuple[Measured, ...], under: tuple[Measured, ...], after: tuple[Measured, ...]
    ) -> Effect | None:
        under, after = (tuple(w for w in self.compared(some) if w.log_cost is not None) for some in (under, after))
        if not under or not (before or after):
            return None
        windows = [*before, *under, *after]
        changed = [False] * len(before) + [True] * len(under) + [False] * len(after)
        noise = self.workload.noise(under[0].duration_s)
        return effect([self.workload.seen(w) for w in windows], changed, noise)

    def capacity(self, now: Measured) -> int:
        """Whether a server with work always waiting completes more (1) or less (-1) with the change, or as much (0).

        What it completes is then what it can. Two counts differ by chance by two standard errors; requests come in
        connections, so that it is the chance of connections that counts.

        Args:
            now: the last window with the change; it counts with those before it.
        """
        if not now.counted or not self.reference or not self.reference[-1].counted:
            return 0
        before, after = self.reference[-LATELY:], (*self.windows[-LATELY:], now)
        (one, one_s), (other, other_s) = (_completed(windows) for windows in (before, after))
        if one_s <= 0:
            return 0
        spread = VARIATION * max(1.0, self.workload.per_connection)
        change_hz = other / other_s - one / one_s
        error_hz = math.sqrt(spread * (one / one_s**2 + other / other_s**2))
        if abs(change_hz) <= max(2 * error_hz, LEAST_CAPACITY * one / one_s):
            return 0
        return 1 if change_hz > 0 else -1

    @property
    def blind(self) -> bool:
        """Whether the objective was not measured before the change either."""
        return sum(not w.measured for w in self.reference[-3:]) >= 2


def compared(before: tuple[Measured, ...], after: tuple[Measured, ...]) -> Effect | None:
    """Effect between windows before and after a change, at equal load; None where one is unmeasured."""
    known = tuple(w for w in before if w.log_cost is not None), tuple(w for w in after if w.log_cost is not None)
    if not all(known):
        return None
    return Experiment({}, before, Workload.of(before))._compared(*known, ())


def expected(reference: tuple[Measured, ...]) -> float:
    """Mean log cost of a reference; 0 where there is none."""
    known = [w.log_cost for w in reference if w.log_cost is not None]
    return math.fsum(known) / len(known) if known else 0.0


def _completed(windows: tuple[Measured, ...]) -> tuple[float, float]:
    """Requests completed in the windows in which they were counted, and the length of these together, in seconds."""
    counted = [w for w in windows if w.counted]
    return math.fsum(w.requests for w in counted), math.fsum(w.duration_s for w in counted)
