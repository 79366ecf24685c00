"""Absolute delay guarantees: each class waits its desired time, by feedback on its process budget (lu2001, 4.4.1).

Promises, for gains designed from the server's model, that the delay of every class settles at its W_k while there
are processes for it. When the budgets together exceed the M processes there are, they are served in the order of
priority: the lowest class misses its delay first, and every class keeps its reserved minimum. That is said in the
reason, with the number of processes that would meet all delays, by Little's law (`_needed.py`).

Equations

    E_k(m) = W_k - C_k(m)                                                                  (Table 1)
    U_k(m) = U_k(m-1) + g (E_k(m) - r E_k(m-1))                                            Eq. (1)

    paper     here            unit                 shape
    W_k       desired         s                    one per class
    C_k       delays          s                    one per class
    E_k       error           s                    one per class
    U_k, B_k  value, budgets  processes            one per class
    g         gain            processes per s      scalar, below 0: more processes make a delay shorter
    r         zero            1                    scalar
    M         total           processes            scalar

The defaults of g and r are the paper's design, Eq. (11b), for its own server: 128 processes, samples of 30 s, delays
of tens of seconds. On any other server they have to be designed from its own model.

Departures from the paper
- U_k is real-valued in the state and rounded where it is put out, so that small errors add up.
- Anti-windup: what was really allotted is where Eq. (1) goes on from, also when a guard or an operator changed it.
  The paper accepts that a saturated controller "becomes unstable".
- A class without a dispatch has no C_k. If connections of it wait longer than W_k already, the oldest one's wait
  stands for it; otherwise its budget stays as it is.
- A budget is at most what the higher classes leave of M less the minima of the lower ones, at every sample; the paper
  lets the sum exceed M and leaves it to the scheduler.
- The paper's first error is not given: see `_pi.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trimtab.controllers import _needed
from trimtab.controllers._classes import ClassControl, Delay, Group, LoopsState, seconds, shown
from trimtab.controllers._knob import require
from trimtab.controllers._pi import Pi
from trimtab.core import Knob, Move, Trial, Window

MISSED = 1.1
"""A delay above the desired one by this factor is missed, where the budget cannot grow; the paper's 10 %."""


@dataclass(frozen=True)
class AbsoluteDelay(ClassControl):
    """PI control of each class's delay by its process budget.

    Args:
        gain: g of Eq. (1), in processes per second of delay; the paper's for its own server.
        zero: r of Eq. (1).
    """

    gain: float = -4.6
    zero: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.gain < 0, "gain", self.gain, "less than 0: more processes make a delay shorter")
        require(-1 < self.zero < 1, "zero", self.zero, "between -1 and 1")

    def start(self, knobs: tuple[Knob, ...], seed: int) -> LoopsState:
        """The state before the first window; the seed is not used, the method draws nothing."""
        return LoopsState(self.group(knobs, "absolute-delay", 1))

    def step(self, state: LoopsState, trial: Trial) -> tuple[LoopsState, Move]:
        """One sample of every controller, and the budgets in the order of priority."""
        window = trial.window
        group = state.group
        now = group.in_force(window)
        if now is None:
            return state, Move.hold("absolute: the budgets in force are not known")
        total = group.total(window, now)
        if sum(group.minimum) > total:
            return state, Move.hold(f"absolute: {total} processes are fewer than the minima {group.minimum} together")
        delays = group.delays(window)
        loops = tuple(self._next(loop, k, delays[k], group) for k, loop in enumerate(followed(state, now)))
        budgets, limited = allot(loops, group, total)
        wanted = tuple(loop.value for loop in loops)
        state = replace(state, loops=limited, asked=budgets)
        # Too long a wait, and no larger budget to be had.
        missed = tuple(
            delay is not None and delay.value_s > MISSED * desired and want > got.value
            for delay, desired, want, got in zip(delays, group.desired, wanted, limited, strict=True)
        )
        reason = self._reason(group, window, delays, budgets, missed, total)
        evidence = group.evidence(
            {
                "delay_s": tuple(d.value_s if d else None for d in delays),
                "wanted": wanted,
                "allotted": budgets,
                "unmet": tuple(1.0 if one else None for one in missed),
            }
        )
        return state, Move(group.changes(budgets, now), reason, evidence, "saturated" if any(missed) else "absolute")

    def _next(self, loop: Pi, k: int, delay: Delay | None, group: Group) -> Pi:
        """CA_k after one more sample."""
        if delay is None or (not delay.exact and delay.value_s <= group.desired[k]):
            return loop.held()
        return loop.next(group.desired[k] - delay.value_s, self.gain, self.zero)

    def _reason(
        self,
        group: Group,
        window: Window,
        delays: tuple[Delay | None, ...],
        budgets: tuple[int, ...],
        missed: tuple[bool, ...],
        total: int,
    ) -> str:
        """Reason for the operator: delays and budgets; for a guarantee that cannot be met, what would meet it."""
        rows = list(zip(group.classes, delays, group.desired, budgets, missed, strict=True))
        said = ", ".join(f"{name} {shown(d)} of {seconds(w)} gets {b}" for name, d, w, b, _ in rows)
        if not any(missed):
            return f"absolute: {said}"
        needs = [_needed.processes(window, name, w, group.classes) if miss else b for name, _, w, b, miss in rows]
        known = [need for need in needs if need is not None]
        names = ", ".join(name for name, *_, miss in rows if miss)
        text = f"absolute: {names} cannot be met with {total} processes: {said}"
        if len(known) == len(needs) and sum(known) > total:
            text += f"; about {sum(known)} would meet all, by Little's law on this window"
        return text


def followed(state: LoopsState, now: tuple[int, ...]) -> tuple[Pi, ...]:
    """The controllers, on from the budgets that are really in force."""
    if not state.loops:
        return tuple(Pi(float(budget)) for budget in now)
    rows = zip(state.loops, state.asked, now, strict=True)
    return tuple(loop if asked == budget else loop.limited(float(budget)) for loop, asked, budget in rows)


def allot(loops: tuple[Pi, ...], group: Group, total: int) -> tuple[tuple[int, ...], tuple[Pi, ...]]:
    """The budgets in the order of priority, each class keeping its minimum (lu2001, section 4.4.1).

    Args:
        loops: the controllers with what they ask for.
        group: their classes.
        total: M.

    Returns:
        (budgets, the controllers limited to what was allotted).
    """
    budgets: list[int] = []
    limited: list[Pi] = []
    left = total - sum(group.minimum)
    for loop, knob, least in zip(loops, group.knobs, group.minimum, strict=True):
        most = max(least, min(least + left, knob.domain.maximum))
        value = max(float(least), min(float(most), loop.value))
        budget = min(most, max(least, round(value)))
        left -= budget - least
        budgets.append(budget)
        limited.append(loop.limited(value))
    return tuple(budgets), tuple(limited)


CONTROLLER = AbsoluteDelay
