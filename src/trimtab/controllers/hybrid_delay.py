"""Hybrid delay guarantees: relative while the first class meets its delay, absolute when it does not (lu2001, 4.4.3).

Promises the relative guarantee under loads where every class can have its delay, and that under heavier ones the
delay of the highest class stays bounded by its W_0, at the cost of the lower ones. It does what
`log_relative_delay.py` and `absolute_delay.py` do, one of them at a time; W_k is both the weight and the desired
delay of class k, in s.

Equations

    relative to absolute when C_0(m) > W_0 + H                                             (H1)
    absolute to relative when C_0(m) < W_0 - H                                             (H2)

    paper  here           unit   shape
    W_0    desired[0]     s      scalar
    C_0    delay          s      scalar
    H      hysteresis_s   s      scalar

Departures from the paper
- It does not say how the controller that takes over begins. Here it begins at the budgets in force and with its
  integral part alone, so the switch itself moves nothing (bumpless).
- The relative mode works on logarithms of ratios.
- It does not say in which mode to begin: here relative, as in its overview (section 1).
- Where class 0 has no dispatch, the wait of its oldest connection decides (H1), and nothing decides (H2).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from trimtab.controllers._classes import ClassControl, Delay, Group, LoopsState, seconds
from trimtab.controllers._knob import require
from trimtab.controllers.absolute_delay import AbsoluteDelay
from trimtab.controllers.log_relative_delay import LogRelativeDelay
from trimtab.core import Knob, Move, Trial


@dataclass(frozen=True)
class HybridState:
    """State: which controllers are at work, and their own states.

    Args:
        group: the classes.
        knobs: their knobs, as the loop gave them.
        inner: the state of the controllers at work.
        absolute: whether they are the absolute ones.
    """

    group: Group
    knobs: tuple[Knob, ...]
    inner: LoopsState
    absolute: bool = False


@dataclass(frozen=True)
class HybridDelay(ClassControl):
    """Switches between relative and absolute delay control by the delay of the highest class.

    Args:
        gain: g of the relative controllers, on logarithms.
        zero: r of the relative controllers.
        absolute_gain: g of the absolute controllers, in processes per second of delay.
        absolute_zero: r of the absolute controllers.
        hysteresis_s: H, half the width of the band in which the mode stays.
    """

    gain: float = 0.2
    zero: float = 0.05
    absolute_gain: float = -4.6
    absolute_zero: float = 0.3
    hysteresis_s: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.hysteresis_s < float("inf"), "hysteresis_s", self.hysteresis_s, "0 or more")
        self._relative()
        self._absolute()

    def start(self, knobs: tuple[Knob, ...], seed: int) -> HybridState:
        """The state before the first window, in the relative mode.

        Raises:
            UsageError: these knobs cannot be moved, or H is not below W_0, so that (H2) could never hold.
        """
        group = self.group(knobs, "hybrid-delay", 2)
        first = group.desired[0]
        require(
            self.hysteresis_s < first, "hysteresis_s", self.hysteresis_s, f"less than the first delay, {first:g} s"
        )
        return HybridState(group, knobs, self._relative().start(knobs, seed))

    def step(self, state: HybridState, trial: Trial) -> tuple[HybridState, Move]:
        """Switches if the delay of the highest class asks for it, and takes one step in the mode that holds."""
        window = trial.window
        state, why = self._switched(state, state.group.delays(window)[0])
        after, move = (self._absolute() if state.absolute else self._relative()).step(state.inner, trial)
        reason = f"hybrid, {why}{move.reason}" if why else f"hybrid, {move.reason}"
        return replace(state, inner=after), replace(move, reason=reason)

    def _switched(self, state: HybridState, delay: Delay | None) -> tuple[HybridState, str]:
        """The state with the controllers that are to work now, and why they take over; empty when they go on."""
        name, desired = state.group.classes[0], state.group.desired[0]
        if delay is None:
            return state, ""
        limit = f"{seconds(desired)} desired"
        if not state.absolute and delay.value_s > desired + self.hysteresis_s:  # (H1)
            why = f"to absolute because {name} is {seconds(delay.value_s)}, {limit}: "
            return replace(state, inner=self._absolute().start(state.knobs, 0), absolute=True), why
        if state.absolute and delay.exact and delay.value_s < desired - self.hysteresis_s:
            why = f"to relative because {name} is {seconds(delay.value_s)}, {limit}: "  # (H2)
            return replace(state, inner=self._relative().start(state.knobs, 0), absolute=False), why
        return state, ""

    def _relative(self) -> LogRelativeDelay:
        return LogRelativeDelay(**self._shared(), gain=self.gain, zero=self.zero)

    def _absolute(self) -> AbsoluteDelay:
        return AbsoluteDelay(**self._shared(), gain=self.absolute_gain, zero=self.absolute_zero)

    def _shared(self) -> dict[str, Any]:
        """The options that all three have."""
        return {one.name: getattr(self, one.name) for one in fields(ClassControl)}


CONTROLLER = HybridDelay
