"""Hill climbing by fuzzy rules (liu2003, section IV.B, Table III, Fig. 8 and 9).

Promises to walk from any start to the valley of a curve that is concave upward and to stay in it, needing neither a
model nor any reading but the objective. It is slow: one window for every step, and a step at a time. It never
rests: a controller that does not move its knob sees no change and so learns nothing. It takes each difference
between two windows for the effect of its step, so a window has to be longer than a step takes to show: where a
backlog grows whatever the limit is, every step is followed by a rise and it turns back and forth where it stands,
until the backlog is level.

Rules (Table III), with dx the last change of the knob and dy the change of the cost that followed it

    1  IF dx is neglarge AND dy is neglarge THEN next dx is neglarge        (right direction, go on)
    2  IF dx is neglarge AND dy is poslarge THEN next dx is poslarge        (wrong direction, turn back)
    3  IF dx is poslarge AND dy is neglarge THEN next dx is poslarge        (right direction, go on)
    4  IF dx is poslarge AND dy is poslarge THEN next dx is neglarge        (wrong direction, turn back)

Fuzzification: dx and dy are scaled to [-1, 1], where complementary ramps that saturate at the ends give

    neglarge(v) = (1 - v) / 2,   poslarge(v) = (1 + v) / 2                                  (F1)

Inference (F2): a rule holds to the lesser of its two memberships. Defuzzification (F3): the average of the
consequents' centres -1 and +1, weighted by how much their rules hold. The next change is output times step (F4).

Scaling, so that 30 ms and 30 s, 20 workers and 2000 behave alike

    dx   divided by the step that was intended: a full step is -1 or +1, a step that a guard shortened is less
    dy   2 (y - y') / (|y| + |y'|) divided by `response_scale`: 2/3 of it is a doubling, which is "large"
    out  times the step: a share of the knob's value downward, and upward what a step downward would undo

    paper                       here            unit           shape
    change in MaxClients        dx              ratio of step  scalar
    change in Response Time     dy              ratio          scalar
    change in next MaxClients   output          ratio of step  scalar
    scaling factor of output    step_ratio      share of x     scalar

Departures from the paper
- It prints neither membership functions, inference, defuzzification nor scaling factors. Those above are the
  plainest that Fig. 9 allows.
- Step size. It says that steep curves ask for small steps and gradual ones for large steps, without a formula. Here
  a confirmed direction lengthens the step by up to `growth`, the less the steeper the fall; a turn shortens it by
  `shrink`. Without that the steady state is an oscillation of the size of the first step. The step stays above
  `least_ratio` (and one step of the domain), so that a changed workload is noticed.
- The first change has no predecessor: here an exploratory step downward, since fewer workers can only queue, where
  more of them can exhaust the memory. When the last change did not happen (the end of the domain, a guard) the next
  is the shortest step away from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trimtab.controllers._knob import integer_knob, require, unjudged
from trimtab.core import Knob, Move, Objective, Trial

NEG, POS = -1, 1
RULES: tuple[tuple[int, int, int], ...] = (
    (NEG, NEG, NEG),
    (NEG, POS, POS),
    (POS, NEG, POS),
    (POS, POS, NEG),
)
"""Table III: change in MaxClients, change in response time, change in next MaxClients."""


def membership(term: int, value: float) -> float:
    """How far a scaled value is neglarge (-1) or poslarge (+1).

    Args:
        term: `NEG` or `POS`, the centre of the term.
        value: scaled value; beyond -1 and 1 the membership saturates.

    Returns:
        0 to 1.
    """
    return (1 + term * max(-1.0, min(1.0, value))) / 2  # Eq. (F1)


def infer(dx: float, dy: float) -> tuple[float, int]:
    """The output of Table III for scaled inputs.

    Args:
        dx: scaled change of the knob.
        dy: scaled change of the cost.

    Returns:
        (output from -1 to 1, number of the rule that holds most).
    """
    holds = [min(membership(x, dx), membership(y, dy)) for x, y, _ in RULES]  # Eq. (F2)
    output = sum(h * centre for h, (_, _, centre) in zip(holds, RULES, strict=True)) / sum(holds)  # Eq. (F3)
    return output, 1 + holds.index(max(holds))


@dataclass(frozen=True)
class FuzzyState:
    """State of the fuzzy controller.

    Args:
        knob: the knob it moves.
        step_ratio: length of a full step as a share of the knob's value.
        last: value of the knob in the window before; None before the first one.
        cost: cost in the window before.
        intended: change that was asked for after it, in the knob's unit.
    """

    knob: Knob
    step_ratio: float
    last: int | None = None
    cost: float = 0.0
    intended: int = 0


@dataclass(frozen=True)
class Fuzzy:
    """Fuzzy hill climbing on one knob.

    Args:
        objective: the objective to minimise.
        step_ratio: first and longest step as a share of the knob's value.
        least_ratio: shortest step as a share of the knob's value.
        response_scale: relative change of the cost that is fully large; 2/3 is a doubling.
        growth: largest relative lengthening of the step after a confirmed direction.
        shrink: factor on the step after a turn.
        min_samples: requests that a window must have completed to be judged.

    Raises:
        UsageError: an option has a value that cannot be used.
    """

    objective: Objective
    step_ratio: float = 0.4
    least_ratio: float = 0.05
    response_scale: float = 2 / 3
    growth: float = 0.3
    shrink: float = 0.5
    min_samples: int = 1

    def __post_init__(self) -> None:
        require(0 < self.step_ratio < 1, "step_ratio", self.step_ratio, "a share between 0 and 1")
        require(
            0 < self.least_ratio <= self.step_ratio, "least_ratio", self.least_ratio, "more than 0, to step_ratio"
        )
        require(self.response_scale > 0, "response_scale", self.response_scale, "more than 0")
        require(self.growth >= 0, "growth", self.growth, "0 or more")
        require(0 < self.shrink < 1, "shrink", self.shrink, "a factor between 0 and 1")

    def start(self, knobs: tuple[Knob, ...], seed: int) -> FuzzyState:
        """The state before the first window; the seed is not used, the method draws nothing."""
        return FuzzyState(integer_knob(knobs, "fuzzy"), self.step_ratio)

    def step(self, state: FuzzyState, trial: Trial) -> tuple[FuzzyState, Move]:
        """Compares the window with the one before it and moves by the rules."""
        window = trial.window
        missing = unjudged(self.objective, window, state.knob, self.min_samples)
        cost = self.objective.cost(window)
        if missing or cost is None:
            return state, Move.hold(f"fuzzy: {missing}")
        x = window.configuration[state.knob.name]
        changed = 0 if state.last is None else x - state.last
        if changed == 0:
            return self._explore(state, x, cost)
        dx = changed / max(1, abs(state.intended))
        size = abs(cost) + abs(state.cost)
        dy = 2 * (cost - state.cost) / size / self.response_scale if size > 0 else 0.0
        output, rule = infer(dx, dy)
        length = self._adapted(state.step_ratio, rule, min(1.0, abs(dy)))
        state = replace(state, step_ratio=length)
        evidence = {"dx": dx, "dy": dy, "output": output, "step_ratio": length, "cost": cost}
        was, now = self.objective.said(state.cost), self.objective.said(cost)
        reason = (
            f"fuzzy: rule {rule}: {state.last} to {x} changed {self.objective.metric} from {was} to {now}, "
            f"so {'go on' if rule in (1, 3) else 'turn back'}"
        )
        return self._to(state, x, cost, output, reason, evidence, "climb")

    def _explore(self, state: FuzzyState, x: int, cost: float) -> tuple[FuzzyState, Move]:
        """A step without evidence: a full one down at first, the least one away from where the last was refused."""
        if state.last is None:
            return self._to(state, x, cost, -1.0, "fuzzy: exploratory step, to start with", {"cost": cost}, "explore")
        output = self.least_ratio / state.step_ratio * (1 if state.intended < 0 else -1)
        reason = f"fuzzy: exploratory step, the last change left it at {x}"
        return self._to(state, x, cost, output, reason, {"cost": cost}, "explore")

    def _adapted(self, step_ratio: float, rule: int, steepness: float) -> float:
        """The next step's length: longer on a gradual fall, shorter after a turn."""
        factor = 1 + self.growth * (1 - steepness) if rule in (1, 3) else self.shrink
        return max(self.least_ratio, min(self.step_ratio, step_ratio * factor))

    def _to(
        self,
        state: FuzzyState,
        x: int,
        cost: float,
        output: float,
        reason: str,
        evidence: dict[str, float],
        phase: str,
    ) -> tuple[FuzzyState, Move]:
        """The move by `output` of a step, at least the shortest step, inside the domain."""
        knob = state.knob
        share = max(abs(output) * state.step_ratio, self.least_ratio)
        size = x * share if output < 0 else x * share / (1 - share)  # Eq. (F4)
        wanted = round(max(size, knob.domain.step)) * (1 if output >= 0 else -1)
        there = knob.domain.clip(x + wanted)
        state = replace(state, last=x, cost=cost, intended=wanted)
        return state, Move({} if there == x else {knob.name: there}, reason, evidence, phase)


CONTROLLER = Fuzzy
