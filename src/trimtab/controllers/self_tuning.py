"""A delay guarantee whose gains follow the server: identification goes on in the loop, and the PI is redesigned.

Promises what the controller of relative or absolute delays within it promises, for a server that changes: the
parameters of Eq. (2) of lu2001 are estimated on from every window by least squares that forget, and once the gains in
use would no longer keep the closed loop within bounds they are designed anew. What the estimate cannot support
changes nothing. It is a wrapper: what the budgets are is decided by the controller within, whose state is kept when
its gains change. Eq. (1) adds to the budget in force, so new gains are no jump.

Equations: Eq. (2) to (5) as in `identification/`, with forgetting; the design as in `design/pi.py`. One model serves
all loops, as in the paper, so every loop's windows go into one estimate. The gains are out of bounds when on the
estimated model

    the stability margin is below `least_margin`,   or   T_s > slack_ratio * settling_s

in `patience` windows in a row.

    paper      here         unit               shape
    g, r       gain, zero   see the controller  scalars
    theta, R   online       see identification  2n, 2n x 2n
    T_s        settling     s                   scalar

Departures from the paper
- The paper identifies once, with white noise, and keeps its gains. How little the loop alone tells of the server, and
  what is done about that, stands in `_online_model.py`.
- A new design is taken only with at least `least_margin` on the estimated model.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields, replace

import numpy as np

from trimtab.controllers._classes import ClassControl, LoopsState
from trimtab.controllers._knob import require
from trimtab.controllers._online_model import OnlineModel, begun
from trimtab.controllers.absolute_delay import AbsoluteDelay
from trimtab.controllers.log_relative_delay import LogRelativeDelay
from trimtab.controllers.relative_delay import RelativeDelay
from trimtab.core import Knob, Move, Trial, Window
from trimtab.design.pi import designed
from trimtab.design.poles import horizon, nyquist_distance, radius, stepped
from trimtab.design.specification import Specification, settling_samples
from trimtab.errors import UsageError
from trimtab.identification.model import PAPER, Model, parse_model
from trimtab.identification.signals import Kind

_design = functools.lru_cache(maxsize=32)(designed)


@dataclass(frozen=True)
class SelfTuningState:
    """State of the controller.

    Args:
        gain: g in use.
        zero: r in use.
        inside: the state of the controller within.
        online: the model as it is now; None before the first window.
        out: windows in a row in which the gains were out of bounds.
    """

    gain: float
    zero: float
    inside: LoopsState
    online: OnlineModel | None = None
    out: int = 0


@dataclass(frozen=True)
class SelfTuning(ClassControl):
    """A PI controller of delays that is redesigned when the server has changed.

    Args:
        guarantee: relative, logarithmic (the same on logarithms of ratios) or absolute.
        model: the model to begin with, as a1,..,an,b1,..,bn; empty for the paper's, which has none of logarithms.
        gain: g to begin with; 0 to design both gain and zero from the model.
        zero: r to begin with.
        period_s: sampling period.
        settling_s: settling time that the gains are designed for.
        slack_ratio: how many times that it may become before they are designed anew.
        least_margin: stability margin below which they are.
        patience: windows in a row that have to say so.
        forgetting: weight of a window relative to the next one.
        anchor: how strongly the estimate is tied to the first model; 0 for not at all.
    """

    guarantee: Kind = Kind.RELATIVE
    model: str = ""
    gain: float = 0.0
    zero: float = 0.0
    period_s: float = 30.0
    settling_s: float = 300.0
    slack_ratio: float = 1.5
    least_margin: float = 0.35
    patience: int = 3
    forgetting: float = 0.9
    anchor: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.slack_ratio >= 1, "slack_ratio", self.slack_ratio, "1 or more")
        require(0 < self.least_margin < 1, "least_margin", self.least_margin, "between 0 and 1")
        require(self.patience >= 1, "patience", self.patience, "1 or more windows")
        require(0.5 <= self.forgetting < 1, "forgetting", self.forgetting, "0.5 or more, and below 1")
        require(0 <= self.anchor <= 1, "anchor", self.anchor, "0 to 1")
        self.first_model().usable()

    @property
    def specification(self) -> Specification:
        """Specification of the closed loop for which the gains are designed."""
        return Specification(self.settling_s, self.period_s)

    def first_model(self) -> Model:
        """The model to begin with."""
        if self.model:
            return parse_model(self.model)
        if self.guarantee not in PAPER:
            raise UsageError(f"option model is missing: lu2001 has no {self.guarantee} model")
        return PAPER[Kind(self.guarantee)]

    def start(self, knobs: tuple[Knob, ...], seed: int) -> SelfTuningState:
        """The state before the first window; the seed is not used, the method draws nothing.

        Raises:
            UsageError: these knobs cannot be moved, or no gains meet the specification with the first model.
        """
        gain, zero = self.gain, self.zero
        self.group(knobs, "self-tuning", 2 if Kind(self.guarantee).rising else 1)
        if not gain:
            design = _design(self.first_model(), self.specification)
            gain, zero = design.gain, design.zero
        return SelfTuningState(gain, zero, self.within(gain, zero).start(knobs, seed))

    def within(self, gain: float, zero: float) -> RelativeDelay | AbsoluteDelay:
        """The controller that decides, with these gains."""
        kinds = {Kind.RELATIVE: RelativeDelay, Kind.LOGARITHMIC: LogRelativeDelay, Kind.ABSOLUTE: AbsoluteDelay}
        made: type[RelativeDelay | AbsoluteDelay] = kinds[Kind(self.guarantee)]
        shared = {field.name: getattr(self, field.name) for field in fields(ClassControl)}
        return made(**shared, gain=gain, zero=zero)

    def step(self, state: SelfTuningState, trial: Trial) -> tuple[SelfTuningState, Move]:
        """Learns from the window, redesigns where that is due, and lets the controller decide."""
        window = trial.window
        state, said = self._tuned(self._learned(state, window))
        inside, move = self.within(state.gain, state.zero).step(state.inside, trial)
        state = replace(state, inside=inside)
        evidence = {**move.evidence, "gain": state.gain, "zero": state.zero}
        if said:
            return state, Move(move.changes, f"{said}; {move.reason}", evidence, "redesign")
        return state, replace(move, evidence=evidence)

    def _learned(self, state: SelfTuningState, window: Window) -> SelfTuningState:
        """The state with one more window in its model."""
        group, online = state.inside.group, state.online
        if online is None:
            budgets = group.in_force(window)
            if budgets is None:
                return state
            share = sum(budgets) / len(budgets)
            online = begun(Kind(self.guarantee), self.first_model(), self.forgetting, self.anchor, share)
        return replace(state, online=online.learned(group, window))

    def _tuned(self, state: SelfTuningState) -> tuple[SelfTuningState, str]:
        """The state with new gains where they are due, and the reason for them."""
        if state.online is None:
            return state, ""
        model = state.online.model
        fault = self._fault(model, state.gain, state.zero)
        out = state.out + 1 if fault else 0
        state = replace(state, out=out)
        if out < self.patience:
            return state, ""
        old = f"the model has drifted to {model}, where gain {state.gain:g} and zero {state.zero:g} {fault}"
        state = replace(state, out=0)
        try:
            design = _design(model, self.specification)
            if design.margin < self.least_margin:
                raise UsageError(f"the best design has a stability margin of {design.margin:.2f} only")
            self.within(design.gain, design.zero)
        except UsageError as error:
            return state, f"self-tuning: {old}; the gains stay, because {error}"
        now = f"redesigned to gain {design.gain:g} and zero {design.zero:g}, margin {design.margin:.2f}"
        state = replace(state, gain=design.gain, zero=design.zero)
        return state, f"self-tuning: {old}; {now}, settling in {design.settling_s:g} s"

    def _fault(self, model: Model, gain: float, zero: float) -> str:
        """Why these gains are out of bounds with a model; empty when they are not, or no gains could be within."""
        try:
            model.usable()
        except UsageError:
            return ""
        if (model.gain > 0) is not Kind(self.guarantee).rising:
            return ""
        slowest = radius(model, gain, zero)
        if slowest >= 1:
            return "would be unstable"
        margin = float(nyquist_distance(model, np.array([gain]), np.array([zero]))[0])
        if margin < self.least_margin:
            return f"would have a stability margin of {margin:.2f}, wanted is {self.least_margin:g}"
        most = round(self.slack_ratio * self.specification.samples)
        settled = settling_samples(stepped(model, gain, zero, max(horizon(slowest), most) + 1))
        if settled is None or settled > most:
            found = "too long" if settled is None else f"{settled * self.period_s:g} s"
            return f"would settle in {found}, at most {most * self.period_s:g} s is allowed"
        return ""


CONTROLLER = SelfTuning
