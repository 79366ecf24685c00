"""A run's guarantee to classes of clients, and how well its windows keep it: pure arithmetic on windows.

    relative    V_k = C_k / C_(k-1) is to be W_k / W_(k-1), for every class but the first
    absolute    C_k is to be W_k
    hybrid      relative while C_0 is at most W_0, else absolute; class 0 itself is to be at most W_0

(lu2001, section 3.) What is measured divided by what is desired is the quotient of a class in a window: 1 is exact.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.core.metric import of_class
from trimtab.core.window import Window

if TYPE_CHECKING:
    from trimtab.gate.spec import Spec

WITHIN = 0.1
"""A class is within its guarantee when the quotient is this near to 1; the paper's steady-state error."""
LEAST_DELAY_S = 0.001
"""Delays below it are not told apart: nobody waits, and their ratio says nothing."""
RELATIVE, ABSOLUTE, HYBRID = "relative", "absolute", "hybrid"


@dataclass(frozen=True)
class DelayGuarantee:
    """A guarantee; every tuple has one entry per class, the highest priority first.

    Args:
        kind: relative, absolute or hybrid.
        classes: the names of the classes.
        desired: W_k, weights for relative guarantees, else seconds.
        delays: name of the reading that counts as the delay, such as connection_delay_s@premium.
    """

    kind: str
    classes: tuple[str, ...]
    desired: tuple[float, ...]
    delays: tuple[str, ...]

    def percentile(self, k: int) -> str:
        """Which percentile counts as the delay of class k, such as "p95 "; empty for the mean."""
        found = re.search(r"_(p\d+)_s@", self.delays[k])
        return f"{found[1]} " if found else ""

    def ratio(self, window: Window, k: int) -> float | None:
        """V_k; None for the first class, where one of the two delays was not measured or the upper one is 0, and
        where nobody waits.
        """
        if k == 0:
            return None
        above, below = (window.readings.get(self.delays[i]) for i in (k - 1, k))
        if not above or below is None or max(above, below) < LEAST_DELAY_S:
            return None
        return below / above

    def desired_ratio(self, k: int) -> float:
        """W_k / W_(k-1), for k of 1 or more."""
        return self.desired[k] / self.desired[k - 1]

    def relative_in(self, window: Window) -> bool:
        """Whether it is ratios that count in a window."""
        if self.kind == HYBRID:
            first = window.readings.get(self.delays[0])
            return first is None or first <= self.desired[0]
        return self.kind == RELATIVE

    def quotient(self, window: Window, k: int) -> float | None:
        """Measured value over the desired one; None where one of them is unknown."""
        delay_s = window.readings.get(self.delays[k])
        if self.kind == HYBRID and k == 0:
            return None if delay_s is None else max(1.0, delay_s / self.desired[0])
        if self.relative_in(window):
            ratio = self.ratio(window, k)
            return None if ratio is None else ratio / self.desired_ratio(k)
        return None if delay_s is None else delay_s / self.desired[k]

    def least_quotient(self, window: Window, k: int) -> float | None:
        """What the quotient would be at least if the oldest connection of a class were served at the window's end.

        None where that does not say that it is above 1.
        """
        waited_s = window.readings.get(of_class("oldest_wait_s", self.classes[k]), 0.0)
        limit_s = 0.0 if k == 0 and self.kind == RELATIVE else self.desired[k]
        if k and self.relative_in(window):
            limit_s = window.readings.get(self.delays[k - 1], 0.0) * self.desired_ratio(k)
        return waited_s / limit_s if 0 < limit_s < waited_s else None


@dataclass(frozen=True)
class Score:
    """How a class fared over some windows.

    Args:
        name: the class.
        delay_s: mean of its delays; None when there was none.
        delay_sd_s: their standard deviation.
        quotient: quotient of all windows together; None when there was none. For a relative guarantee it comes from
            the ratio of the mean delays, because one window with a delay near 0 outweighs all others in a mean of
            ratios; otherwise it is the mean of the windows' quotients. Of a class that nobody was served of it is the
            mean of the least that they can be, where connections waited for too long.
        quotient_half: between which values the middle half of the windows' quotients lies; single windows of a ratio
            go far beyond any standard deviation.
        within: share of the windows with a quotient in which it was within 10 % of 1; None when there was none.
        windows: how many had a quotient.
        at_most: True where a quotient below 1 keeps the guarantee too, that of a delay.
    """

    name: str
    delay_s: float | None
    delay_sd_s: float
    quotient: float | None
    quotient_half: tuple[float, float]
    within: float | None
    windows: int
    at_most: bool = False

    @property
    def kept(self) -> bool | None:
        """Whether the quotient of the stretch is within 10 % of 1, or below where that will do; None for none."""
        if self.quotient is None:
            return None
        return is_within(max(1.0, self.quotient) if self.at_most else self.quotient)


def is_within(quotient: float) -> bool:
    """Whether a quotient is within 10 % of 1."""
    return abs(quotient - 1) <= WITHIN + 1e-9


def of_spec(spec: Spec) -> DelayGuarantee:
    """The delay guarantee of a SPEC."""
    classes = spec.classes
    return DelayGuarantee(
        spec.guarantee.value,
        tuple(one.name for one in classes),
        tuple(one.desired for one in classes),
        tuple(one.delay_metric for one in classes),
    )


def settled(windows: Sequence[Window]) -> Sequence[Window]:
    """The windows that a run is judged by: the second half."""
    return windows[len(windows) // 2 :]


def scores(guarantee: DelayGuarantee, windows: Sequence[Window]) -> tuple[Score, ...]:
    """How each class fared over these windows."""
    return tuple(_score(guarantee, windows, k) for k in range(len(guarantee.classes)))


def _score(guarantee: DelayGuarantee, windows: Sequence[Window], k: int) -> Score:
    found = [window.readings.get(guarantee.delays[k]) for window in windows]
    delays = [value for value in found if value is not None]
    quotient = guarantee.quotient if delays else guarantee.least_quotient
    quotients = [q for window in windows if (q := quotient(window, k)) is not None]
    near = [q for q in quotients if is_within(q)]
    return Score(
        guarantee.classes[k],
        statistics.fmean(delays) if delays else None,
        statistics.pstdev(delays) if delays else 0.0,
        _overall(guarantee, windows, k, quotients),
        _half(quotients),
        len(near) / len(quotients) if quotients else None,
        len(quotients),
        guarantee.kind == ABSOLUTE,
    )


def _half(values: Sequence[float]) -> tuple[float, float]:
    """The quartiles between which the middle half of some values lies; 0 and 0 of none."""
    if len(values) < 2:
        return (values[0], values[0]) if values else (0.0, 0.0)
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def _overall(
    guarantee: DelayGuarantee, windows: Sequence[Window], k: int, quotients: Sequence[float]
) -> float | None:
    """The quotient of class k over all these windows."""
    if not quotients:
        return None
    both = [w for w in windows if guarantee.ratio(w, k) is not None]
    if guarantee.kind != RELATIVE or not both:
        return statistics.fmean(quotients)
    above, below = (statistics.fmean(w.readings[guarantee.delays[i]] for w in both) for i in (k - 1, k))
    return below / above / guarantee.desired_ratio(k)
