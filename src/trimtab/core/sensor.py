"""A sensor, the rank of what it measures, and the clock that it lives by."""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

from trimtab.core.metric import Metric
from trimtab.core.window import Readings


class Clock(Protocol):
    """Time as the loop sees it: the machine's, or a simulator's."""

    def now_s(self) -> float:
        """Seconds since an arbitrary origin; never runs backwards."""

    def sleep(self, duration_s: float) -> None:
        """Returns when that much time has passed on this clock."""


class Precedence(IntEnum):
    """Which value of a metric decisions go by where several sensors of a node measure it: that of the greatest.

    What is counted exactly where the work is done goes before what is sampled from outside, this before what a server
    says of itself on a page, which comes late when it is busy. That goes before what is inferred of it from outside,
    and this before what clients report, who see the network and their own delays too. A gate counts exactly as well,
    but only up to the worker.
    """

    CLIENTS = 1
    INFERRED = 2
    STATUS_PAGE = 3
    SAMPLED = 4
    GATE = 5
    COUNTED = 6


class Sensor:
    """Base of every sensor, which turns a running system into named readings. Its module names the class in `SENSOR`.

    The loop calls `begin`, then `sample` every `sampling_period_s` (never, when that is 0), then `read`, which
    may be called in mid-window too: it gives the readings since `begin` and does not end anything.

    Attributes:
        name: its registered name.
        metrics: the metrics that it may give; others are not believed.
        precedence: rank by which it counts where another sensor measures the same.
        most_samples: samples in a window where its period would give more; they cost CPU, and tell hardly anything.
        cheap: True when `read` costs, and touches the server, so little that it may be called in mid-window.
        plant: the part of a stack that it is of; empty where there is only one plant.
        node: the machine that it measures; empty for the one that trimtab runs on.
    """

    name: str = ""
    metrics: tuple[Metric, ...] = ()
    precedence: Precedence = Precedence.COUNTED
    sampling_period_s: float = 0.0
    most_samples: int = 50
    cheap: bool = True
    plant: str = ""
    node: str = ""

    @property
    def source(self) -> str:
        """Source of its readings: its name, after that of its plant where several plants are stacked."""
        return f"{self.plant}/{self.name}" if self.plant else self.name

    def begin(self) -> None:
        """Marks the start of a window.

        Raises:
            NotMeasured: the source cannot be read; the window goes on without this sensor.
        """
        raise NotImplementedError

    def sample(self) -> None:
        """Takes a sample of what is averaged over time, nothing where the source counts; raises as `begin` does."""

    def read(self) -> Readings:
        """The readings since `begin`, by metric name.

        Raises:
            NotMeasured: the source cannot be read, with the reason in one line.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Closes descriptors; may be called twice."""
