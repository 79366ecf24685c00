"""The phases of a run, of which only the middle one is measured, and a workload's verdict on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Phases:
    """How long each part takes.

    Args:
        ramp_up_s: before the measurement.
        measure_s: the measurement.
        ramp_down_s: after it.
    """

    ramp_up_s: float
    measure_s: float
    ramp_down_s: float

    @property
    def duration_s(self) -> float:
        """Length of the run."""
        return self.ramp_up_s + self.measure_s + self.ramp_down_s

    @property
    def measured(self) -> tuple[float, float]:
        """Start and end of the measured phase."""
        return self.ramp_up_s, self.ramp_up_s + self.measure_s


class Judged(Protocol):
    """Verdict of a workload's own rules on a run: a record that becomes JSON."""

    def table(self) -> str:
        """The verdict as text."""
        ...
