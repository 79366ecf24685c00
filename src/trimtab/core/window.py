"""A window: what was seen over one interval and the configuration that was really in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Configuration = Mapping[str, int]
"""Knob name to value in force, in the knob's unit."""

Readings = Mapping[str, float]
"""Metric name to value, in the unit that `METRICS` gives. What could not be measured is absent, never 0."""


@dataclass(frozen=True)
class Window:
    """One interval of observation.

    Args:
        index: 0 for the first window of the run.
        start_s: start on the run's clock, in seconds since the run began.
        duration_s: length in seconds, without the settling time after a change.
        configuration: what was in force, as read back from the running server.
        readings: what was measured.
        samples: requests completed in it, the sample size behind the means; None when not known.
        problems: what could not be measured, and why, one line each.
        aborted: why the window was cut short; empty when it ran in full.
    """

    index: int
    start_s: float
    duration_s: float
    configuration: Configuration
    readings: Readings
    samples: int | None = None
    problems: tuple[str, ...] = field(default=())
    aborted: str = ""
