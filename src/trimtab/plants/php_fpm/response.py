"""Waits and response time of a pool, by Little's law: the number inside is the arrival rate times the mean stay.

    N = lambda W

| term   | here                                   | meaning                                             |
|--------|----------------------------------------|-----------------------------------------------------|
| N      | accept_queue_length + busy_workers     | requests that wait or are served, mean over time    |
| lambda | request_rate_hz                        | requests begun per second                           |
| W      | response_time_s                        | from the web server's connect to the reply's end    |

With N of the queue alone W is accept_queue_delay_s, with N of the workers alone it is service_time_s. The law holds
for any arrivals and any service, over a window that begins and ends with about as many in the pool. A queue
that grows by more in a window than is served in it makes W too small; so windows are to be several times as long as
W. The means are of samples (the queue every 40 ms, the workers every 100 ms): unbiased, with a noise that falls with
the length of the window. Where the web server keeps its connections to FPM (nginx: fastcgi_keep_conn) a worker is
held by an idle connection, which the queue shows and busy_workers does not. The shim of `trimtab run` is not used: it
would count the requests for the status page with the others.
"""

from __future__ import annotations

from trimtab.core import Readings
from trimtab.sensors._metrics import ACCEPT_QUEUE_DELAY, RESPONSE_TIME, SERVICE_TIME

METRICS = (RESPONSE_TIME, ACCEPT_QUEUE_DELAY, SERVICE_TIME)
"""Metrics that `derived` gives."""


def derived(readings: Readings) -> dict[str, float]:
    """The readings that follow, each absent when one of its terms is.

    Args:
        readings: those of the queue and of the status page.
    """
    rate_hz = readings.get("request_rate_hz", 0.0)
    if rate_hz <= 0:
        return {}
    found = {}
    length, busy = readings.get("accept_queue_length"), readings.get("busy_workers")
    if length is not None and "accept_queue_delay_s" not in readings:
        found["accept_queue_delay_s"] = length / rate_hz
    if busy is not None:
        found["service_time_s"] = busy / rate_hz
    if length is not None and busy is not None:
        found["response_time_s"] = (length + busy) / rate_hz
    return found
