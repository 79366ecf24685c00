"""A window: the readings of one interval and the configuration that was really in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Configuration = Mapping[str, int]
"""Knob name to value in force, in the knob's unit."""

Readings = Mapping[str, float]
"""Metric name to value, in the unit that `METRICS` gives. What could not be measured is absent, never 0."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading with its source; a long run has millions of them.

    Args:
        metric: name of the metric, as in `Readings`.
        value: in the metric's unit.
        source: registered name of the sensor, or of the plant where it was derived.
        node: the machine it was measured on; empty for the one that trimtab runs on.
    """

    metric: str
    value: float
    source: str
    node: str = ""


@dataclass(frozen=True)
class Window:
    """One interval of observation.

    Args:
        index: 0 for the first window of the run.
        start_s: start on the run's clock, in seconds since the run began.
        duration_s: length in seconds, without the settling time after a change.
        configuration: the configuration in force, as read back from the running server.
        readings: readings that decisions go by: one value for a metric, of the source that precedes the others.
        samples: requests completed in it, the sample size behind the means; None when not known.
        problems: failures to measure and their reasons, one line each.
        aborted: why the window was cut short; empty when it ran in full.
        measured: all that was measured, by every source and node; `readings` is chosen from it.
    """

    index: int
    start_s: float
    duration_s: float
    configuration: Configuration
    readings: Readings
    samples: int | None = None
    problems: tuple[str, ...] = field(default=())
    aborted: str = ""
    measured: tuple[Reading, ...] = field(default=())
