"""Specification of a closed loop: lu2001, Section 5.1, with every word given a number.

    settling time       T_s = S k, where k is the first sample from which on the response to a unit step of the
                        reference stays within `band_ratio` of it; S is the sampling period
    steady-state error  |1 - y(infinity)|
    overshoot           max(0, max y - 1)

The band is 2 %: with it the paper's two designs (10b) and (11b) settle in 9 and 7 samples, which are its 270 s and
210 s at 30 s. (Any band from 1.9 % to 4.3 % gives these; at 5 % the first would settle in 8 samples, at 1 % in 14.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.errors import UsageError

BAND_RATIO = 0.02
MOST_SAMPLES = 10_000
"""Of a settling time: a search steps each of its candidates three times as far."""


@dataclass(frozen=True)
class Specification:
    """The wanted performance.

    Args:
        settling_s: the settling time must not be longer, in seconds; the paper's 5 min.
        period_s: sampling period, in seconds.
        steady_state_error_ratio: the steady-state error must not be more of the reference; the paper's 0.1.
        overshoot_ratio: the overshoot must not be more of the reference; None for any.
        band_ratio: the vicinity of the reference that the settling time is defined by.

    Raises:
        UsageError: a value is not allowed.
    """

    settling_s: float = 300.0
    period_s: float = 30.0
    steady_state_error_ratio: float = 0.1
    overshoot_ratio: float | None = None
    band_ratio: float = BAND_RATIO

    def __post_init__(self) -> None:
        if not self.period_s > 0:
            raise UsageError(f"the sampling period is {self.period_s:g} s, allowed is more than 0")
        if not self.settling_s >= self.period_s:
            raise UsageError(
                f"a settling time of {self.settling_s:g} s is shorter than the sampling period, {self.period_s:g} s: "
                "nothing can settle before the first sample"
            )
        if self.settling_s / self.period_s > MOST_SAMPLES:
            raise UsageError(
                f"a settling time of {self.settling_s:g} s is more than {MOST_SAMPLES} sampling periods of "
                f"{self.period_s:g} s, which is not allowed"
            )
        for name, value in (("band", self.band_ratio), ("steady-state error", self.steady_state_error_ratio)):
            if not 0 < value < 1:
                raise UsageError(f"the {name} is {value:g} of the reference, allowed is between 0 and 1")
        if self.overshoot_ratio is not None and not 0 <= self.overshoot_ratio < math.inf:
            raise UsageError(f"the overshoot is {self.overshoot_ratio:g} of the reference, allowed is 0 or more")

    @property
    def samples(self) -> int:
        """The settling time in whole samples."""
        return math.floor(self.settling_s / self.period_s + 1e-9)

    def __str__(self) -> str:
        over = "" if self.overshoot_ratio is None else f", overshoot at most {self.overshoot_ratio:.3g}"
        return f"settled within {self.settling_s:g} s ({self.samples} samples of {self.period_s:g} s){over}"


def settling_samples(response: Sequence[float] | np.ndarray, band_ratio: float = BAND_RATIO) -> int | None:
    """k, the first sample from which on a step response stays near 1; None when it has not by its end.

    Args:
        response: y at the samples 0, 1, ..., to a unit step at 0.
        band_ratio: how near.
    """
    outside = np.flatnonzero(~(np.abs(np.asarray(response) - 1.0) <= band_ratio))
    first = int(outside[-1]) + 1 if len(outside) else 0
    return first if first < len(response) else None


def overshoot_ratio(response: Sequence[float] | np.ndarray) -> float:
    """How far a step response passes 1."""
    return max(0.0, float(np.max(response)) - 1.0)
