"""Response time of a Tomcat by Little's law: the requests under way, by the rate at which they end.

    response_time_s = (L_q + R) / request_rate_hz                                 (T1)
    thread_wait_s   = max(0, R - busy_workers) / request_rate_hz                  (T2)

L_q is the length of the accept queue; R the requests under way, those that wait for a thread too, as the kernel sees
them on the connections (`connections`). Tomcat's own time of a request begins when a thread takes it, so it lacks
both waits. A connection of HTTP/2 has many requests under way at a time and the kernel sees one, so where a window
has such requests neither follows.
"""

from __future__ import annotations

from trimtab.core import Metric, Readings
from trimtab.sensors._metrics import RESPONSE_TIME

METRICS = (
    RESPONSE_TIME,
    Metric("thread_wait_s", "s", "mean time that a request waits for a thread on a connection that was accepted"),
)
"""Metrics that `derived` gives."""


def derived(readings: Readings) -> dict[str, float]:
    """The readings that follow, each absent when one of its terms is.

    Args:
        readings: those of the accept queue, the connections and the server itself.
    """
    rate_hz, under_way = readings.get("request_rate_hz", 0.0), readings.get("requests_under_way")
    if rate_hz <= 0 or under_way is None or readings.get("http2_request_rate_hz", 0.0) > 0:
        return {}
    found = {}
    queue, busy = readings.get("accept_queue_length"), readings.get("busy_workers")
    if queue is not None:
        found["response_time_s"] = (queue + under_way) / rate_hz  # Eq. (T1)
    if busy is not None:
        found["thread_wait_s"] = max(0.0, under_way - busy) / rate_hz  # Eq. (T2)
    return found
