"""Metrics that more than one sensor or plant gives, declared once."""

from __future__ import annotations

from trimtab.core.metric import Metric

ACCEPT_QUEUE_DELAY = Metric("accept_queue_delay_s", "s", "mean time a connection waits to be accepted", "AQT")
ACCEPT_QUEUE_LENGTH = Metric(
    "accept_queue_length", "connections", "time average of connections waiting to be accepted"
)
SERVICE_TIME = Metric("service_time_s", "s", "mean time from a request's start in a worker to its reply's end", "ST")
BURST_LENGTH = Metric("burst_length", "requests", "requests served per connection accepted", "BL")
RESPONSE_TIME = Metric(
    "response_time_s",
    "s",
    "server-side time per page, AQT + BL x ST, Eq. (1) of liu2003; of PHP-FPM and Tomcat per request, by Little's "
    "law, of MariaDB per statement",
    "RT",
)
REQUEST_TIME = Metric(
    "request_time_s", "s", "mean server-side time per request with its share of the waiting, AQT / BL + ST"
)
CONNECTION_RATE = Metric("connection_rate_hz", "Hz", "connections that entered the accept queue, per second")
REQUEST_RATE = Metric("request_rate_hz", "Hz", "requests completed per second", asked=True)
ERROR_RATE = Metric("error_rate_hz", "Hz", "requests per second that the server answered with an error", failed=True)
BYTE_RATE = Metric("byte_rate_bytes_hz", "bytes/s", "body bytes sent per second")
BUSY_WORKERS = Metric("busy_workers", "workers", "workers that hold a connection or a request")
IDLE_WORKERS = Metric("idle_workers", "workers", "workers that wait for work")
IDLE_CONNECTIONS = Metric("idle_connections", "connections", "time average of connections idle between requests")
STANDSTILL = Metric(
    "standstill_s", "s", "time in which a change lets no request begin: of the last one, expected before the first"
)
STANDSTILL_WAIT = Metric(
    "standstill_wait_s", "s", "time that connections waited longer, in sum, for the last change's standstill"
)
REGROWTH = Metric(
    "regrowth_s",
    "s",
    "standstill that costs as much as the workers whom a change takes from a pool, which has to grow again",
)
OPEN_CONNECTIONS = Metric(
    "open_connections", "connections", "time average of client connections that the server holds"
)
REQUESTS_UNDER_WAY = Metric("requests_under_way", "requests", "time average of requests begun and not yet answered")
HANDSHAKE = Metric(
    "handshake_s",
    "s",
    "mean time in which a client opens a connection: a round trip, two with TLS",
)
CUT_RATE = Metric(
    "cut_rate_hz", "Hz", "connections per second that would end sooner with a quarter of the keep-alive time"
)
IDLE_HELD_WORKERS = Metric("idle_held_workers", "workers", "time average of workers that wait for an idle connection")

OF_CLASSES = (
    Metric("connection_delay_s", "s", "mean time from accepted to given to a worker", "C_k", True),
    Metric("connection_delay_p95_s", "s", "95th percentile of the connection delay", "", True),
    Metric("oldest_wait_s", "s", "how long the first connection of the queue has waited", "", True),
    Metric("queue_length", "connections", "time average of connections queued in the gate", "", True),
    Metric("in_service", "connections", "time average of connections held by workers", "R_k", True),
    Metric("arrival_rate_hz", "Hz", "connections that came per second", "", True),
    Metric("dispatch_rate_hz", "Hz", "connections that workers got per second", "", True),
    Metric("refused_rate_hz", "Hz", "connections refused per second because the queue was full", "", True),
    Metric("aborted_rate_hz", "Hz", "connections per second whose client gave up in the queue", "", True),
)
"""Metrics of each class of clients, by a gate, real or simulated."""
