"""Lets no move ask for more workers than the measured memory holds.

Promises that a worker limit which passes fits, as far as the readings tell, by the line of `trimtab.core.memory`. A
proposal that does not fit is lowered to what does, and the figures are said.

Where a referee judges each change, swap counts as memory, and only what is above the limit in force is lowered: what
workers hold is more than what they need, so what it costs is for the evidence to say. What must not be is that the
kernel ends workers because there is neither memory nor swap.

It starts no change by itself: a controller that holds at a limit which does not fit is left alone, or the baseline
of a comparison would not be one. What was not measured holds nothing back, and that is said once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from trimtab.core import Knob, Move, Role, Window, of_role
from trimtab.core.memory import MARGIN_RATIO, MIB, MemoryLine, not_above

NEEDED = ("worker_memory_bytes", "memory_limit_bytes", "memory_bytes")


@dataclass(frozen=True)
class FeasibilityState:
    """State of the guard.

    Args:
        knob: the worker limit's knob, None where it is not moved.
        memory: the fitted line of the server's memory.
        said: whether the operator was told that memory is not measured.
    """

    knob: Knob | None
    memory: MemoryLine = field(default_factory=MemoryLine)
    said: bool = False


@dataclass(frozen=True)
class Feasibility:
    """The guard of the memory.

    Args:
        margin_ratio: share of the memory limit that may be planned for; the rest is for what grows under load.
        judged: whether a referee judges each change.
    """

    margin_ratio: float = MARGIN_RATIO
    judged: bool = False

    def start(self, knobs: tuple[Knob, ...]) -> FeasibilityState:
        """Finds the knob."""
        return FeasibilityState(of_role(knobs, Role.WORKER_LIMIT))

    def review(self, state: FeasibilityState, window: Window, move: Move) -> tuple[FeasibilityState, Move]:
        """The move, with the worker limit lowered to fit the memory."""
        knob = state.knob
        if knob is None:
            return state, move
        line = state.memory.learned(window.readings, window.configuration.get(knob.name))
        state, wanted = replace(state, memory=line), move.changes.get(knob.name)
        if wanted is None:
            return state, move
        missing = [name for name in NEEDED if not window.readings.get(name, 0.0) > 0]
        if missing:
            why = f"{', '.join(missing)} not measured, so whether {wanted} fit is not checked"
            return replace(state, said=True), move if state.said else move.amended(move.changes, why)
        each, total, _ = (window.readings[name] for name in NEEDED)
        total += window.readings.get("swap_free_bytes", 0.0) if self.judged else 0.0
        fit = line.fitting(each, total, self.margin_ratio)
        now = window.configuration.get(knob.name, 0) if self.judged else 0
        most = max(not_above(knob.domain, fit), now)
        if wanted <= most:
            return state, move
        least = f", and {most} is the least there is" if most > fit else ""
        figures = (
            f"{line.base_bytes / MIB:.0f} MiB and {each / MIB:.1f} MiB for each worker "
            f"in {self.margin_ratio:.0%} of {total / MIB:.0f} MiB"
        )
        why = f"{wanted} workers do not fit into memory, {max(0, fit)} do ({figures}){least}"
        return state, move.amended({**move.changes, knob.name: most}, why)

    def abort(self, state: FeasibilityState, partial: Window) -> str:
        """Never: it judges proposals, not windows."""
        return ""


GUARD = Feasibility
