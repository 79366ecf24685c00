"""How many processes a class would need to meet its delay, by Little's law on one window.

With Q connections queued, R in service, X dispatched per second and A arriving per second (time averages), a
connection holds its process for h = R / X seconds. B processes then dispatch B / h per second, and a delay of W
means W B / h queued. Whoever does not queue is in service, so B + W B / h is at most the Q + R there are now:

    B = max(A h, (Q + R) / (1 + W / h))                                                    (L1)

The first term is what an open stream of arrivals asks for whatever the delay; the second is exact for clients that
come back at once, and too high for those that think first: it promises enough, not the least.

    here         unit    shape
    queued       1       scalar
    in_service   1       scalar
    hold_s       s       scalar, h
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from trimtab.core import Window, of_class

FEW = 10
"""With fewer dispatches than this in a window, a class's own h is noise."""
MOST = 1e6
"""A larger number comes of a window that is of no use, such as one of a single dispatch."""


def processes(window: Window, class_name: str, desired_s: float, classes: Sequence[str] = ()) -> int | None:
    """Processes with which a class would meet its delay.

    Args:
        window: a window in which it did not.
        class_name: the class.
        desired_s: W, in seconds.
        classes: all classes; their h together stands for that of a class with too few dispatches to know its own.

    Returns:
        B of Eq. (L1), rounded up; None when the window does not say.
    """
    queued = window.readings.get(of_class("queue_length", class_name), 0.0)
    in_service = window.readings.get(of_class("in_service", class_name), 0.0)
    dispatched_hz = window.readings.get(of_class("dispatch_rate_hz", class_name), 0.0)
    known = dispatched_hz * window.duration_s >= FEW
    hold_s = _hold_s(window, (class_name,) if known or not classes else classes)
    if hold_s is None or in_service <= 0:
        return None
    arriving_hz = window.readings.get(of_class("arrival_rate_hz", class_name), dispatched_hz)
    needed = max(arriving_hz * hold_s, (queued + in_service) / (1 + desired_s / hold_s))  # Eq. (L1)
    return math.ceil(needed - 1e-9) if needed < MOST else None


def _hold_s(window: Window, classes: Sequence[str]) -> float | None:
    """h of some classes together, in seconds; None when nothing was dispatched or is in service."""
    in_service, dispatched_hz = (
        sum(window.readings.get(of_class(name, one), 0.0) for one in classes)
        for name in ("in_service", "dispatch_rate_hz")
    )
    hold_s = in_service / dispatched_hz if dispatched_hz > 0 else math.inf
    return hold_s if 0 < hold_s < math.inf else None
