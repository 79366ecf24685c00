"""Eq. (1) of liu2003: the response time per page as the server sees it.

    RT = AQT + BL x ST                                                          Eq. (1)

| paper | here                 | unit     | meaning                                                              |
|-------|----------------------|----------|----------------------------------------------------------------------|
| RT    | response_time_s      | s        | time from a page's first request to its last reply, on the server    |
| AQT   | accept_queue_delay_s | s        | mean wait of a connection in the accept queue                        |
| BL    | burst_length         | requests | requests served / connections that entered the accept queue          |
| ST    | service_time_s       | s        | mean time of a request in a worker, header read to reply sent        |

Departures from the paper:

- AQT is not from instrumentation in the kernel but from Little's law over the queue's length (`accept_queue`), and ST
  not from a patched Apache but from the totals of its status page (`server_status`). Of a server under `trimtab run`
  all terms are exact, counted in its own processes (`shim`).
- BL is requests per connection, and the paper takes a connection for a page. A connection that outlives the think
  time carries several pages, and RT is then that of all of them together; a client that opens several connections for
  one page makes it too small. RT is thus a time per connection, without think times and without the waits of kept
  connections; as a cost to be made least it serves as well, as long as the clients' habits stay the same.
- RT is nobody's time where a connection carries a hundred requests. `request_time_s` is the time of one of them.
- A window in which connections came and the queue was always found empty has an AQT of 0, which is measured. A window
  without connections, or without requests, has no RT.
- The intervals of AQT and ST differ by the time that the status page takes to answer.
"""

from __future__ import annotations

from trimtab.core.metric import Metric
from trimtab.core.window import Readings
from trimtab.sensors._metrics import BURST_LENGTH, REQUEST_TIME, RESPONSE_TIME

METRICS = (
    RESPONSE_TIME,
    REQUEST_TIME,
    BURST_LENGTH,
    Metric("residence_s", "s", "mean time that the server holds a connection, open connections / accepted", "W"),
)
"""Metrics that `eq1` gives."""


def eq1(readings: Readings) -> dict[str, float]:
    """The readings that follow, each absent when one of its terms is.

    `burst_length`, `response_time_s`, and `request_time_s`: what a client has of it, RT / BL, the time of a request
    with its share of its connection's wait. And `residence_s`, how long a connection is held, W = N / lambda.

    Args:
        readings: those of the accept queue and of the status page, by metric name.

    Returns:
        The new readings alone.
    """
    derived: dict[str, float] = {}
    requests_hz, connections_hz = readings.get("request_rate_hz"), readings.get("connection_rate_hz")
    if requests_hz is not None and connections_hz is not None and connections_hz > 0:
        derived["burst_length"] = requests_hz / connections_hz
    delay_s, service_s = readings.get("accept_queue_delay_s"), readings.get("service_time_s")
    if delay_s is not None and service_s is not None and "burst_length" in derived:
        derived["response_time_s"] = delay_s + derived["burst_length"] * service_s  # Eq. (1)
        if derived["burst_length"] > 0:
            derived["request_time_s"] = service_s + delay_s / derived["burst_length"]
    elif service_s is not None and connections_hz == 0:
        derived["request_time_s"] = service_s  # all came on kept connections: nobody waited to be accepted
    held, accepted_hz = readings.get("open_connections"), readings.get("accept_rate_hz")
    if held is not None and accepted_hz is not None and accepted_hz > 0:
        derived["residence_s"] = held / accepted_hz  # Little's law, W = N / lambda
    return derived
