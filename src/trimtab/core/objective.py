"""An objective: which reading to make least or greatest."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core.metric import metric
from trimtab.core.window import Window


@dataclass(frozen=True)
class Objective:
    """What a controller strives for.

    Args:
        metric: name of the reading.
        minimize: True to make it least, False to make it greatest.

    Raises:
        UsageError: there is no such metric.
    """

    metric: str = "response_time_s"
    minimize: bool = True

    def __post_init__(self) -> None:
        metric(self.metric)

    def cost(self, window: Window) -> float | None:
        """The value to make least: the reading, negated when it is to be greatest; None when not measured."""
        value = window.readings.get(self.metric)
        if value is None:
            return None
        return value if self.minimize else -value

    def __str__(self) -> str:
        return f"{'minimize' if self.minimize else 'maximize'} {self.metric}"
