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

from trimtab.core import Window, of_class

MOST = 1e6
"""A larger number is no answer but a window that says nothing, such as one of a single dispatch."""


def processes(window: Window, class_name: str, desired_s: float) -> int | None:
    """Processes with which a class would meet its delay.

    Args:
        window: what was seen while it did not.
        class_name: the class.
        desired_s: W, in seconds.

    Returns:
        B of Eq. (L1), rounded up; None when the window does not say.
    """
    names = ("queue_length", "in_service", "dispatch_rate_hz")
    found = [window.readings.get(of_class(name, class_name)) for name in names]
    queued, in_service, dispatched_hz = (value or 0.0 for value in found)
    hold_s = in_service / dispatched_hz if dispatched_hz > 0 else math.inf
    if in_service <= 0 or hold_s == math.inf:
        return None
    arriving_hz = window.readings.get(of_class("arrival_rate_hz", class_name), dispatched_hz)
    needed = max(arriving_hz * hold_s, (queued + in_service) / (1 + desired_s / hold_s))  # Eq. (L1)
    return math.ceil(needed - 1e-9) if needed < MOST else None
