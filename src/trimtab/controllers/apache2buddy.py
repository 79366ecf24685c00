"""apache2buddy's rule: as many workers as fit into memory, once. A peer for the lab; it promises nothing.

Equations (apache2buddy, README and report: "maximum potential"):

    MaxRequestWorkers = memory for Apache / memory of its largest process

| symbol | here | unit | shape |
|---|---|---|---|
| memory for Apache | memory_limit_bytes | bytes | scalar |
| its largest process | worker_memory_bytes | bytes | scalar |

Departures: a worker's memory is what one more adds, as trimtab measures it, and not the largest resident size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from trimtab.controllers._knob import integer_knob, unjudged
from trimtab.core import Knob, Move, Objective, Trial
from trimtab.core.memory import not_above


@dataclass(frozen=True)
class Apache2buddyState:
    """State of the rule.

    Args:
        knob: the worker limit.
        done: whether it has set it.
    """

    knob: Knob
    done: bool = False


@dataclass(frozen=True)
class Apache2buddy:
    """The rule.

    Args:
        objective: the objective, reported only.
    """

    objective: Objective
    peer: ClassVar[bool] = True

    def start(self, knobs: tuple[Knob, ...], seed: int) -> Apache2buddyState:
        """The state before the first window; the seed is not used."""
        return Apache2buddyState(integer_knob(knobs, "apache2buddy"))

    def step(self, state: Apache2buddyState, trial: Trial) -> tuple[Apache2buddyState, Move]:
        """The limit from the first window in which memory was measured; after that nothing."""
        window, knob = trial.window, state.knob
        if missing := unjudged(self.objective, window, knob, 1):
            return state, Move.hold(f"apache2buddy: {missing}")
        total, each = (window.readings.get(name, 0.0) for name in ("memory_limit_bytes", "worker_memory_bytes"))
        if state.done or total <= 0 or each <= 0:
            return state, Move.hold(f"apache2buddy: {'set once' if state.done else 'memory was not measured'}")
        target = not_above(knob.domain, int(min(total / max(1.0, each), knob.domain.maximum)))
        return replace(state, done=True), Move({knob.name: target}, f"apache2buddy: {target} workers fit into memory")


CONTROLLER = Apache2buddy
