"""An experiment on a live server: a change in force, and what it has cost and done so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.referee.estimate import VARIATION, Effect, effect
from trimtab.referee.measure import Measured, Workload


@dataclass(frozen=True)
class Experiment:
    """A change in force.

    Args:
        configuration: the knobs with it.
        reference: windows before it.
        workload: what they say of the work.
        windows: those after it, but for the first, which pays for the change.
        first: that first one; None before it has passed.
        first_s: its excess, in seconds of normal operation.
        lost_s: that of the others together.
        gained: windows in which an overloaded server completed more than before.
        unmeasured: windows after it in which nothing bounded the cost.
        overloaded: whether the server was, when it was made.
        returned: windows after it was taken back, but for the first; None while it is in force.
    """

    configuration: Mapping[str, int]
    reference: tuple[Measured, ...]
    workload: Workload
    windows: tuple[Measured, ...] = ()
    first: Measured | None = None
    first_s: float = 0.0
    lost_s: float = 0.0
    gained: int = 0
    unmeasured: int = 0
    overloaded: bool = False
    returned: tuple[Measured, ...] | None = None

    @property
    def expected(self) -> float:
        """Log cost of the reference: the mean of its windows."""
        return expected(self.reference)

    def excess_s(self, now: Measured) -> float:
        """What a window has cost beyond what was to be expected, in seconds of normal operation, Eq. (R7)."""
        if not self.reference:
            return 0.0
        work, ratio = self.workload, 0.0
        usual, rho = (min(0.95, value) for value in (work.arrivals_hz * work.demand_s, work.utilisation(now)))
        if now.log_cost is not None:
            at_this_load = self.expected + math.log1p(-usual) - math.log1p(-rho)
            ratio = math.exp(min(50.0, now.log_cost - at_this_load)) - 1
        inside = [w.inside for w in self.reference if w.inside is not None]
        if inside and now.inside is not None and work.arrivals_hz > 0:
            ratio = max(ratio, (now.inside - max(inside)) / max(1.0, work.arrivals_hz * math.exp(self.expected)))
        return max(0.0, ratio) * now.duration_s

    def effect(self) -> Effect | None:
        """What the change did, compared with the windows before it; None before that can be told."""
        before = tuple(w for w in self.reference if w.log_cost is not None)
        return self._compared(before, self.windows, ()) if len(before) >= 2 else None

    def effect_by_return(self, after: tuple[Measured, ...]) -> Effect | None:
        """What the change did, compared with the windows after its return: those before may be of another load."""
        first = () if self.first is None or self.first.log_cost is None else (self.first,)
        return self._compared((), self.windows or first, after) if after else None

    def _compared(
        self, before: tuple[Measured, ...], under: tuple[Measured, ...], after: tuple[Measured, ...]
    ) -> Effect | None:
        if not under:
            return None
        windows = [*before, *under, *after]
        changed = [False] * len(before) + [True] * len(under) + [False] * len(after)
        noise = self.workload.noise(under[0].duration_s)
        return effect([self.workload.seen(w) for w in windows], changed, noise)

    def capacity(self, now: Measured) -> int:
        """Whether an overloaded server completes more (1) or less (-1) than before the change, or about as much (0).

        Work is always waiting, so what is completed is what can be. Two counts differ by chance by two standard
        errors; requests come in connections, so that it is the chance of connections that counts.
        """
        before = [w.requests * now.duration_s / w.duration_s for w in self.reference[-3:] if w.requests > 0]
        if not before or now.requests <= 0:
            return 0
        least, most = min(before), max(before)
        spread = VARIATION * max(1.0, self.workload.per_connection)
        if now.requests < least - 2 * math.sqrt(spread * (now.requests + least)):
            return -1
        return 1 if now.requests > most + 2 * math.sqrt(spread * (now.requests + most)) else 0

    @property
    def blind(self) -> bool:
        """Whether the objective was not measured before the change either."""
        return sum(not w.measured for w in self.reference[-3:]) >= 2


def compared(before: tuple[Measured, ...], after: tuple[Measured, ...]) -> Effect | None:
    """What the windows after a change differ by from those before it, at equal load; None where one is unmeasured."""
    known = tuple(w for w in before if w.log_cost is not None), tuple(w for w in after if w.log_cost is not None)
    if not all(known):
        return None
    return Experiment({}, before, Workload.of(before))._compared(*known, ())


def expected(reference: tuple[Measured, ...]) -> float:
    """Mean log cost of a reference; 0 where there is none."""
    known = [w.log_cost for w in reference if w.log_cost is not None]
    return math.fsum(known) / len(known) if known else 0.0
