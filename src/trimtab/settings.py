"""Settings of a run, given to the loop at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from trimtab.core.objective import Objective
from trimtab.errors import UsageError

LEAST_WINDOW_S = 0.001
"""In less nothing is measured, and a run of such windows only fills the store."""


class Mode(StrEnum):
    """How far trimtab may go."""

    OBSERVE = "observe"
    ADVISE = "advise"
    APPROVE = "approve"
    AUTONOMOUS = "autonomous"


@dataclass(frozen=True)
class Settings:
    """How a run goes.

    Args:
        window_s: length of a window, in seconds; at least a millisecond.
        duration_s: length of the run, in seconds; infinite to go on until stopped.
        objective: the objective.
        mode: how far to go.
        settle_s: wait after a change before the next window, in seconds; None for a second or half a window.
        early: share of a window after which the guards may cut it short; 0 for never.
        restore: True to put back the configuration from before the run at its end.
        failures: this many changes in a row that failed end the run, and so does one that is refused so often,
            but for a trial of a search.
        missing: this many windows in a row without the objective are worth a note.
        seed: source of the run's randomness.
    """

    window_s: float
    duration_s: float
    objective: Objective = field(default_factory=Objective)
    mode: Mode = Mode.AUTONOMOUS
    settle_s: float | None = None
    early: float = 0.5
    restore: bool = False
    failures: int = 3
    missing: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.window_s >= LEAST_WINDOW_S:
            raise UsageError(f"a window of {self.window_s:g} s is too short: it must be {LEAST_WINDOW_S:g} s or more")
        if self.window_s > self.duration_s:
            raise UsageError(f"the window ({self.window_s:g} s) is longer than the duration ({self.duration_s:g} s)")
        if not 0 <= self.early < 1:
            raise UsageError(f"early {self.early:g} must be 0 or more and less than 1")
