"""The metrics: every reading that a sensor may give, with its unit and meaning.

Sensors, objectives, the store and the report all take names and units from `METRICS`; a reading whose name is
not here is refused by the loop. What is measured for each class of clients carries the class after an `@`:
`connection_delay_s@premium`. What is counted by the bins of a histogram carries the
index of the bin there: `intervals_50ms@6`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from trimtab.errors import UsageError


@dataclass(frozen=True)
class Metric:
    """A measured quantity.

    Args:
        name: the name, ending in its unit where it has one.
        unit: s, Hz, bytes, ratio, or what is counted.
        description: what it is, in one sentence.
        symbol: the symbol of the paper where it has one.
    """

    name: str
    unit: str
    description: str
    symbol: str = ""
    per_class: bool = False
    """True when it is measured for every class of clients, or counted for every bin, by itself."""


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric("response_time_s", "s", "server-side time per page, AQT + BL x ST, Eq. (1) of liu2003", "RT"),
        Metric(
            "request_time_s", "s", "mean server-side time per request with its share of the waiting, AQT / BL + ST"
        ),
        Metric("accept_queue_delay_s", "s", "mean time a connection waits to be accepted", "AQT"),
        Metric("accept_queue_length", "connections", "time average of connections waiting to be accepted"),
        Metric("service_time_s", "s", "mean time from a request's start in a worker to its reply's end", "ST"),
        Metric("burst_length", "requests", "requests served per connection accepted", "BL"),
        Metric("connection_rate_hz", "Hz", "connections that entered the accept queue, per second"),
        Metric("accept_rate_hz", "Hz", "connections that the server accepted, per second"),
        Metric("residence_s", "s", "mean time that the server holds a connection, open connections / accepted", "W"),
        Metric("page_time_s", "s", "mean server-side time per page, pages told apart by the pauses between requests"),
        Metric("page_rate_hz", "Hz", "pages begun per second, told apart by the pauses between requests"),
        Metric("request_rate_hz", "Hz", "requests completed per second"),
        Metric("byte_rate_bytes_hz", "bytes/s", "body bytes sent per second"),
        Metric("listen_overflow_rate_hz", "Hz", "connections refused per second because the accept queue was full"),
        Metric("busy_workers", "workers", "workers that hold a connection or a request"),
        Metric("idle_workers", "workers", "workers that wait for work"),
        Metric("slow_request_rate_hz", "Hz", "requests per second that the server itself counts as slow"),
        Metric("children_limit_rate_hz", "Hz", "times per second that a pool would have grown and was at its limit"),
        Metric("cpu_ratio", "ratio", "CPU time used, of what the server may use"),
        Metric("memory_ratio", "ratio", "memory demand (resident and swapped), of the limit; above 1 it swaps"),
        Metric("memory_bytes", "bytes", "memory demand: resident without reclaimable file pages, plus swapped"),
        Metric("memory_limit_bytes", "bytes", "memory the server may use"),
        Metric("swap_bytes", "bytes", "swapped-out part of the memory demand"),
        Metric("swap_free_bytes", "bytes", "swap that the server may still fill"),
        Metric("swap_in_rate_hz", "Hz", "major page faults per second"),
        Metric("cpu_pressure_ratio", "ratio", "share of time in which some task waited for CPU"),
        Metric("memory_pressure_ratio", "ratio", "share of time in which some task waited for memory"),
        Metric("worker_memory_bytes", "bytes", "memory demand that one more worker adds"),
        Metric("connection_delay_s", "s", "mean time from accepted to given to a worker", "C_k", True),
        Metric("connection_delay_p95_s", "s", "95th percentile of the connection delay", "", True),
        Metric("oldest_wait_s", "s", "how long the first connection of the queue has waited", "", True),
        Metric("queue_length", "connections", "time average of connections queued in the gate", "", True),
        Metric("in_service", "connections", "time average of connections held by workers", "R_k", True),
        Metric("arrival_rate_hz", "Hz", "connections that came per second", "", True),
        Metric("dispatch_rate_hz", "Hz", "connections that workers got per second", "", True),
        Metric("refused_rate_hz", "Hz", "connections refused per second because the queue was full", "", True),
        Metric("aborted_rate_hz", "Hz", "connections per second whose client gave up in the queue", "", True),
        Metric("request_interval_s", "s", "mean time from a reply's last byte to the next request on its connection"),
        Metric("interval_rate_hz", "Hz", "request intervals seen per second"),
        Metric("idle_connections", "connections", "time average of connections idle between requests"),
        Metric("open_connections", "connections", "time average of client connections that the server holds"),
        Metric("requests_under_way", "requests", "time average of requests begun and not yet answered"),
        Metric("idle_held_workers", "workers", "time average of workers that wait for an idle connection"),
        Metric("connections_cut_rate_hz", "Hz", "idle connections ended per second at the keep-alive time"),
        Metric("connections_expired_rate_hz", "Hz", "idle connections ended per second by the server itself"),
        Metric("connections_left_rate_hz", "Hz", "idle connections ended per second by the client"),
        Metric("connection_setup_s", "s", "mean worker time that a new connection costs more than a further request"),
        Metric("intervals_50ms", "intervals", "request intervals by bins of 50 ms, from 0", "hist", True),
        Metric("intervals", "intervals", "request intervals by logarithmic bins, eight to the octave", "", True),
        Metric("intervals_ended", "intervals", "idle periods that the server ended, by the same bins", "", True),
        Metric("intervals_left", "intervals", "idle periods that the client ended, by the same bins", "", True),
        Metric("client_page_time_s", "s", "mean time per page seen by the client, from the intended start"),
        Metric("client_page_time_p95_s", "s", "95th percentile of the page time seen by the client"),
        Metric("client_request_time_s", "s", "mean time per request seen by the client, from the actual send"),
        Metric(
            "client_response_time_s", "s", "mean time per request seen by the client, from when it wants the object"
        ),
        Metric("client_connect_time_s", "s", "mean time to connect seen by the client"),
        Metric("client_request_rate_hz", "Hz", "responses received per second by the client"),
        Metric("client_page_rate_hz", "Hz", "pages completed per second by the client"),
        Metric("client_error_rate_hz", "Hz", "failed requests per second seen by the client"),
        Metric("client_byte_rate_bytes_hz", "bytes/s", "body bytes received per second by the client"),
        Metric("client_connection_rate_hz", "Hz", "connections established per second by the client"),
        Metric("client_outstanding_requests", "requests", "time average of requests due and without a reply"),
        Metric("client_unsent_requests", "requests", "requests due and not yet sent: censored samples"),
    )
}


def metric(name: str) -> Metric:
    """The metric of a reading, `METRIC` or `METRIC@CLASS`.

    Raises:
        UsageError: there is none; the message offers the nearest.
    """
    base, at, class_name = name.partition("@")
    if base not in METRICS:
        close = difflib.get_close_matches(base, METRICS, 1) or [", ".join(sorted(METRICS))]
        raise UsageError(f"unknown metric {name!r}; did you mean {close[0]}?")
    if METRICS[base].per_class != bool(class_name) or (at and not class_name):
        wanted = f"{base}@CLASS" if METRICS[base].per_class else base
        raise UsageError(f"unknown metric {name!r}: it is written {wanted}")
    return METRICS[base]


def of_class(name: str, class_name: str) -> str:
    """The name that a metric or a knob has for one class of clients, such as `connection_delay_s@premium`."""
    return f"{name}@{class_name}"
