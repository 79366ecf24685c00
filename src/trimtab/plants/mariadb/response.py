"""Response time of a MariaDB as a tier: the mean time of a statement in it, as MariaDB counts it."""

from __future__ import annotations

from trimtab.core import Metric, Readings
from trimtab.sensors._metrics import RESPONSE_TIME

METRICS: tuple[Metric, ...] = (RESPONSE_TIME,)
"""Metrics that `derived` gives."""


def derived(readings: Readings) -> dict[str, float]:
    """The response time: there is no queue before a thread that has its connection.

    Args:
        readings: those of the status.
    """
    return {"response_time_s": readings["service_time_s"]} if "service_time_s" in readings else {}
