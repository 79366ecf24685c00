"""Relative delay guarantees: the delays of the classes keep their ratios, by feedback (lu2001, 4.4.2).

Promises, for gains designed from the server's model, that the delay of each class divided by that of the class before
it settles at W_k / W_(k-1), whatever the load, while the server is busy enough for connections to wait. The budgets
always add up to M, and every class keeps its reserved minimum. Where a minimum stands in the way, that is said in the
reason, with the number of processes that would make room for it.

Equations, for every two neighbouring classes

    VS_k   = W_k / W_(k-1)                                                                 (Table 2)
    V_k(m) = C_k(m) / C_(k-1)(m)
    E_k(m) = VS_k - V_k(m)
    U_k(m) = U_k(m-1) + g (E_k(m) - r E_k(m-1))                                            Eq. (1)
    U_k(m) = B_(k-1)(m) / B_k(m)

and `control_relative_delay` of the paper, from the ratios to the budgets:

    P_(N-1) = 1,  P_k = P_(k+1) U_(k+1),  S = sum of P_k,  B_k = M P_k / S                 (R1)

    paper  here      unit                 shape
    W_k    desired   weight               one per class
    C_k    delays    s                    one per class
    V_k    output    ratio of delays      one per two neighbours
    U_k    value     ratio of processes   one per two neighbours
    g      gain      1                    scalar, above 0: when V_k is too large, U_k falls and class k gets more
    r      zero      1                    scalar
    M      total     processes            scalar

The defaults of g and r are the paper's design, Eq. (10b), for its own server and samples of 30 s.

Departures from the paper
- Rounding: the budgets are whole and add up to exactly M, by largest remainders, the higher priority first in a tie.
- A class whose share falls below its minimum gets the minimum; the others share what is left in their proportions.
- Anti-windup: the ratio of what was really allotted is where Eq. (1) goes on from, also when a guard or an operator
  changed it. Without that a ratio may run to any value, and below 0, where (R1) has no meaning.
- V_k counts for at most `most_ratio` times VS_k: C_(k-1) may come close to 0 in a window, and no error on the other
  side can be larger than VS_k, so one such window would take many to undo.
- A class without a dispatch has no C_k. The wait of its oldest connection, a lower bound, stands for it where that
  decides the sign of the error; otherwise the ratio stays. Delays below `least_delay_s` are not told apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

from trimtab.controllers._classes import ClassControl, Delay, Group, LoopsState, shown
from trimtab.controllers._knob import require
from trimtab.controllers._pi import Pi
from trimtab.core import Knob, Move, Trial

MISSED = 0.1
"""An error above this share of the reference is a miss, where a minimum stands in the way; the paper's 10 %."""


@dataclass(frozen=True)
class RelativeDelay(ClassControl):
    """PI control of the ratio of neighbouring classes' delays by the ratio of their process budgets.

    Args:
        gain: g of Eq. (1); the paper's for its own server.
        zero: r of Eq. (1).
        most_ratio: a measured ratio counts for at most this many times the desired one.
        least_delay_s: delays below it are not told apart.
    """

    gain: float = 0.3
    zero: float = 0.05
    most_ratio: float = 4.0
    least_delay_s: float = 0.001

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.gain > 0, "gain", self.gain, "more than 0: a larger share makes a delay shorter")
        require(-1 < self.zero < 1, "zero", self.zero, "between -1 and 1")
        require(self.most_ratio > 1, "most_ratio", self.most_ratio, "more than 1")
        require(self.least_delay_s > 0, "least_delay_s", self.least_delay_s, "more than 0")

    def start(self, knobs: tuple[Knob, ...], seed: int) -> LoopsState:
        """The state before the first window; the seed is not used, the method draws nothing."""
        return LoopsState(self.group(knobs, "relative-delay", 2))

    def step(self, state: LoopsState, trial: Trial) -> tuple[LoopsState, Move]:
        """One sample of every controller, and the budgets that follow from their ratios."""
        window = trial.window
        group = state.group
        now = group.in_force(window)
        if now is None or min(now) < 1:
            return state, Move.hold("relative: the budgets in force are not known, or one of them is 0")
        total = group.total(window, now)
        if sum(group.minimum) > total:
            return state, Move.hold(f"relative: {total} processes are fewer than the minima {group.minimum} together")
        delays = group.delays(window)
        outputs = tuple(self._output(group, k, delays) for k in range(1, len(delays)))
        loops = tuple(
            loop.held()
            if v is None
            else loop.next(self.error(group.desired[k] / group.desired[k - 1], v), self.gain, self.zero)
            for k, (loop, v) in enumerate(zip(self._followed(state, now), outputs, strict=True), 1)
        )
        least = 1 / (2 * total)
        ratios = tuple(min(2 * total, max(least, self.ratio(loop.value))) for loop in loops)
        shares = proportions(ratios, total)
        allotted = floored(shares, group.minimum)
        budgets = whole(allotted, total)
        kept = tuple(
            loop.limited(self.value(allotted[k - 1] / allotted[k] if _bound(shares, allotted, k) else ratio))
            for k, (loop, ratio) in enumerate(zip(loops, ratios, strict=True), 1)
        )
        missed = _missed(group, outputs, shares, allotted)
        reason = _reason(group, delays, outputs, shares, budgets, missed, total, self.most_ratio)
        evidence = group.evidence(
            {
                "delay_s": tuple(d.value_s if d else None for d in delays),
                "ratio": (None, *outputs),
                "process_ratio": (None, *ratios),
                "unmet": (None, *(1.0 if one else None for one in missed)),
            }
        )
        state = replace(state, loops=kept, asked=budgets)
        return state, Move(group.changes(budgets, now), reason, evidence, "saturated" if any(missed) else "relative")

    # Input and output of Eq. (1); a method on other ratios overrides these.

    def error(self, reference: float, output: float) -> float:
        """E_k(m) from VS_k and V_k(m)."""
        return reference - output

    def value(self, ratio: float) -> float:
        """U_k as Eq. (1) has it, from a ratio of processes."""
        return ratio

    def ratio(self, value: float) -> float:
        """The ratio of processes, from U_k as Eq. (1) has it."""
        return value

    def _followed(self, state: LoopsState, now: tuple[int, ...]) -> tuple[Pi, ...]:
        """The controllers, on from the budgets that are really in force."""
        values = [self.value(above / below) for above, below in pairwise(now)]
        if not state.loops:
            return tuple(Pi(value) for value in values)
        if now == state.asked:
            return state.loops
        return tuple(loop.limited(value) for loop, value in zip(state.loops, values, strict=True))

    def _output(self, group: Group, k: int, delays: tuple[Delay | None, ...]) -> float | None:
        """V_k(m); None when it is not known and no bound decides the sign of the error."""
        above, below = delays[k - 1], delays[k]
        if above is None or below is None or max(above.value_s, below.value_s) < self.least_delay_s:
            return None
        desired = group.desired[k] / group.desired[k - 1]
        value = max(below.value_s, self.least_delay_s) / max(above.value_s, self.least_delay_s)
        sure = (above.exact or value < desired) and (below.exact or value > desired)
        if not sure or (not above.exact and not below.exact):
            return None
        return min(value, self.most_ratio * desired)


def proportions(ratios: tuple[float, ...], total: int) -> tuple[float, ...]:
    """`control_relative_delay` of the paper: M P_k / S from the process ratios.

    Args:
        ratios: U_k for k = 1 to N-1, above 0.
        total: M.

    Returns:
        B_k before rounding, for k = 0 to N-1.
    """
    p = [1.0]  # P_(N-1)
    for ratio in reversed(ratios):
        p.append(p[-1] * ratio)  # P_k = P_(k+1) U_(k+1)
    s = sum(p)
    return tuple(total * share / s for share in reversed(p))  # Eq. (R1)


def floored(shares: tuple[float, ...], minimum: tuple[int, ...]) -> tuple[float, ...]:
    """The shares with every class at its minimum or above; the others keep their proportions and the sum."""
    low: set[int] = set()
    while True:
        left = sum(shares) - sum(minimum[k] for k in low)
        rest = sum(share for k, share in enumerate(shares) if k not in low)
        raised = [float(minimum[k]) if k in low else share * left / rest for k, share in enumerate(shares)]
        more = {k for k, share in enumerate(raised) if share < minimum[k] - 1e-9}
        if not more:
            return tuple(raised)
        low |= more


def whole(shares: tuple[float, ...], total: int) -> tuple[int, ...]:
    """Whole budgets that add up to the total, by largest remainders; the higher priority first in a tie."""
    down = [math.floor(share + 1e-9) for share in shares]
    order = sorted(range(len(shares)), key=lambda k: (down[k] - shares[k], k))
    for k in order[: total - sum(down)]:
        down[k] += 1
    return tuple(down)


def _bound(shares: tuple[float, ...], allotted: tuple[float, ...], k: int) -> bool:
    """Whether a minimum has changed the ratio of class k-1 to class k."""
    wanted, got = shares[k - 1] / shares[k], allotted[k - 1] / allotted[k]
    return abs(wanted - got) > 1e-9 * wanted


def _missed(
    group: Group, outputs: tuple[float | None, ...], shares: tuple[float, ...], allotted: tuple[float, ...]
) -> tuple[bool, ...]:
    """For every class but the first, whether its ratio is off because a minimum stands in the way."""
    desired = [below / above for above, below in pairwise(group.desired)]
    return tuple(
        v is not None and _bound(shares, allotted, k) and abs(v - want) > MISSED * want
        for k, (v, want) in enumerate(zip(outputs, desired, strict=True), 1)
    )


def _reason(
    group: Group,
    delays: tuple[Delay | None, ...],
    outputs: tuple[float | None, ...],
    shares: tuple[float, ...],
    budgets: tuple[int, ...],
    missed: tuple[bool, ...],
    total: int,
    most_ratio: float,
) -> str:
    """Reason for the operator: ratios, delays and budgets; for a guarantee that cannot be met, a way to meet it."""
    waits = ", ".join(f"{name} {shown(d)}" for name, d in zip(group.classes, delays, strict=True))
    said = []
    for k, v in enumerate(outputs, 1):
        pair, desired = f"{group.classes[k]}:{group.classes[k - 1]}", group.desired[k] / group.desired[k - 1]
        pair_delays = [delay for delay in delays[k - 1 : k + 1] if delay is not None and delay.exact]
        why = "nobody waits" if len(pair_delays) == 2 else f"{pair} is not known"
        bound = " or more" if v == most_ratio * desired else ""
        said.append(f"{why}, so its share stays" if v is None else f"{pair} is {v:.3g}{bound}, desired {desired:.3g}")
    given = ", ".join(f"{name} {budget}" for name, budget in zip(group.classes, budgets, strict=True))
    text = f"{'; '.join(said)} ({waits}): {given}"
    if not any(missed):
        return f"relative: {text}"
    need, name = max((m * total / s, name) for m, s, name in zip(group.minimum, shares, group.classes, strict=True))
    about = math.ceil(need - 1e-9)
    more = f"; with about {about} processes the share of {name} would be its minimum" if about > total else ""
    return f"relative: cannot be met with {total} processes and the reserved minima: {text}{more}"


CONTROLLER = RelativeDelay
