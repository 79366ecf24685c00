"""What the peers share: methods of other projects, to be compared with in the lab, unjudged as their users run them.

A peer promises nothing of a server: it is not for `tune`. Each says where its equations come from; no code is copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from trimtab.core import Knob, Window
from trimtab.core.memory import not_above


def seen(window: Window) -> tuple[float, float] | None:
    """Mean time of a request in a worker, in seconds, and connections in workers; None when not measured.

    What a limiter of concurrency calls latency and inflight: the time since a request was let in.
    """
    latency_s, inflight = (window.readings.get(name, 0.0) for name in ("service_time_s", "busy_workers"))
    return (latency_s, inflight) if latency_s > 0 and inflight > 0 else None


def values_at(knobs: Sequence[Knob], point: Sequence[float]) -> dict[str, int]:
    """Settings at a point of the unit cube, equal steps in it being equal factors.

    Args:
        knobs: those that are moved, one for each coordinate.
        point: coordinates; outside of 0 to 1 the nearest edge.
    """
    settings = {}
    for knob, x in zip(knobs, point, strict=True):
        low, span = knob.domain.minimum, knob.domain.maximum - knob.domain.minimum
        value = low + math.expm1(min(1.0, max(0.0, x)) * math.log1p(span))
        settings[knob.name] = not_above(knob.domain, round(value))
    return settings


def point_of(knobs: Sequence[Knob], values: Sequence[int]) -> tuple[float, ...]:
    """The point of the unit cube at which these settings are."""
    return tuple(
        math.log1p(max(0, value - k.domain.minimum)) / math.log1p(max(1, k.domain.maximum - k.domain.minimum))
        for k, value in zip(knobs, values, strict=True)
    )
