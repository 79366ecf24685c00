"""Lets no move ask for more workers than the measured memory holds.

Promises that a worker limit which passes fits, as far as the readings tell:

    base     = max(0, memory_bytes - worker_memory_bytes * workers)                        (G1)
    feasible = (margin_ratio * memory_limit_bytes - base) / worker_memory_bytes            (G2)

where workers are those that exist, busy and idle, not those that the limit allows. A proposal that does not fit is
lowered to what does, and the figures are said.

While workers come or go, memory (read at the window's end) and their number (its average) do not belong together,
and the difference of two large figures would be a base of any size. So the base is taken from windows in which the
number was steady: near the limit, or near that of the window before. Until there was one it is 0, which the margin
has to cover.

It starts no change by itself: a controller that holds at a limit which does not fit is left alone, or the baseline
of a comparison would not be one. What was not measured holds nothing back, and that is said once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from trimtab.core import Knob, Move, Window

NEEDED = ("worker_memory_bytes", "memory_limit_bytes", "memory_bytes")
MIB = 2**20


@dataclass(frozen=True)
class FeasibilityState:
    """What the guard knows.

    Args:
        knob: the worker limit's knob, None where it is not moved.
        base_bytes: memory of the server without workers, from the last window that could tell.
        workers: how many existed in the window before; None when not measured.
        said: whether it was said that memory is not measured.
    """

    knob: Knob | None
    base_bytes: float = 0.0
    workers: float | None = None
    said: bool = False


@dataclass(frozen=True)
class Feasibility:
    """The guard of the memory.

    Args:
        knob: name of the knob that sets how many workers there may be.
        margin_ratio: share of the memory limit that may be planned for; the rest is for what grows under load.
        steady_ratio: the number of workers is steady when it differs by at most this share.
    """

    knob: str = "max_request_workers"
    margin_ratio: float = 0.9
    steady_ratio: float = 0.1

    def start(self, knobs: tuple[Knob, ...]) -> FeasibilityState:
        """Finds the knob."""
        return FeasibilityState(next((knob for knob in knobs if knob.name == self.knob), None))

    def review(self, state: FeasibilityState, window: Window, move: Move) -> tuple[FeasibilityState, Move]:
        """The move, with the worker limit lowered to what fits."""
        state = self._learned(state, window)
        knob, wanted = state.knob, move.changes.get(self.knob)
        if knob is None or wanted is None:
            return state, move
        missing = [name for name in NEEDED if not window.readings.get(name, 0.0) > 0]
        if missing:
            why = f"{', '.join(missing)} not measured, so whether {wanted} fit is not checked"
            return replace(state, said=True), move if state.said else move.amended(move.changes, why)
        each, total, _ = (window.readings[name] for name in NEEDED)
        fit = math.floor((self.margin_ratio * total - state.base_bytes) / each)  # Eq. (G2)
        domain = knob.domain
        most = max(domain.minimum, domain.clip(domain.minimum + (fit - domain.minimum) // domain.step * domain.step))
        if wanted <= most:
            return state, move
        least = f", and {most} is the least there is" if most > fit else ""
        figures = (
            f"{state.base_bytes / MIB:.0f} MiB and {each / MIB:.1f} MiB for each worker "
            f"in {self.margin_ratio:.0%} of {total / MIB:.0f} MiB"
        )
        why = f"{wanted} workers do not fit, {max(0, fit)} do ({figures}){least}"
        return state, move.amended({**move.changes, self.knob: most}, why)

    def _learned(self, state: FeasibilityState, window: Window) -> FeasibilityState:
        """The state with the base of this window, where its workers were steady."""
        readings, limit = window.readings, window.configuration.get(self.knob)
        if "busy_workers" not in readings or "idle_workers" not in readings:
            return replace(state, workers=None)
        workers = readings["busy_workers"] + readings["idle_workers"]
        steady = any(
            other is not None and abs(workers - other) <= self.steady_ratio * other
            for other in (limit, state.workers)
        )
        state = replace(state, workers=workers)
        if not steady or not {"memory_bytes", "worker_memory_bytes"} <= readings.keys():
            return state
        base_bytes = readings["memory_bytes"] - readings["worker_memory_bytes"] * workers  # Eq. (G1)
        return replace(state, base_bytes=max(0.0, base_bytes))

    def abort(self, state: FeasibilityState, partial: Window) -> str:
        """Never: it judges proposals, not windows."""
        return ""


GUARD = Feasibility
