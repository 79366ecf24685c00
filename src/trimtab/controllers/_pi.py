"""The digital PI control of lu2001, Eq. (1), and what its paper leaves open: limits and gaps.

    U(m) = U(m-1) + g (E(m) - r E(m-1))                                                    Eq. (1)

    paper    here      unit                          shape
    U        value     budget, or ratio of budgets   scalar
    E        error     s, or ratio of delays         scalar
    g        gain      unit of U per unit of E       scalar
    r        zero      1                             scalar

Departures from the paper
- The first error, and the first after a gap, counts as if the one before had been the same: the controller takes up
  control with its integral part alone, so neither a start nor a switch is a jump.
- Anti-windup: whoever limits U writes what was really allotted back into `value`, so that Eq. (1) goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Pi:
    """State of one PI controller.

    Args:
        value: U(m-1), what was really allotted.
        error: E(m-1); None when there was none, at the start or after a gap.
    """

    value: float
    error: float | None = None

    def next(self, error: float, gain: float, zero: float) -> Pi:
        """The controller after one more sample.

        Args:
            error: E(m), the reference less the output.
            gain: g.
            zero: r.
        """
        last = error if self.error is None else self.error
        return Pi(self.value + gain * (error - zero * last), error)  # Eq. (1)

    def held(self) -> Pi:
        """The controller after a sample without an output: it stays, and forgets the error before."""
        return Pi(self.value)

    def limited(self, value: float) -> Pi:
        """The controller corrected to the budget that was allotted."""
        return replace(self, value=value)
