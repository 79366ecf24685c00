"""Sensor: the exact terms of Eq. (1) of liu2003, from inside the unmodified server.

The shim that `trimtab run` loads into the server sees each connection come and each request begin and end, and adds
to counters in a mapped file. Reading them touches neither the server nor the kernel.

| reading              | from                                                                              |
|----------------------|-----------------------------------------------------------------------------------|
| accept_queue_delay_s | sum of waits / connections that a worker received in the window                   |
| service_time_s       | sum of times from first byte read to last byte written / requests answered        |
| burst_length         | requests answered / connections received                                          |
| connection_rate_hz   | connections received / time                                                       |
| request_rate_hz      | requests answered / time                                                          |
| byte_rate_bytes_hz   | bytes written / time, the replies' headers among them                             |

A connection's wait is from the end of its handshake to the worker's accept, in steps of the kernel's clock (4 ms at
250 Hz), which is right on average; with a gate, from the gate's accept to the worker's, in nanoseconds, so the time
in the queue of its class is in it. A connection counts in the window in which a worker
receives it and a request in the one in which it ends. Where `trimtab run` was told ports, only connections to them
count; those that Apache makes to itself to wake its workers do not, nor those that trimtab makes to read the status
page (`_own_requests`).
"""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

from trimtab.core.finding import Finding
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured
from trimtab.sensors._mapped_window import MappedWindow
from trimtab.sensors._metrics import (
    ACCEPT_QUEUE_DELAY,
    BURST_LENGTH,
    BYTE_RATE,
    CONNECTION_RATE,
    REQUEST_RATE,
    SERVICE_TIME,
)
from trimtab.sensors._own_requests import Own
from trimtab.sensors._shared_file import Counters, SharedFile, must_grow

_MOST_CLIPPED_RATIO = 0.01
"""Share of connections unseen above which means of the others do not stand for all."""


class Shim(MappedWindow[Counters]):
    """The counters of the shim in one server."""

    name = "shim"
    metrics = (ACCEPT_QUEUE_DELAY, SERVICE_TIME, BURST_LENGTH, CONNECTION_RATE, REQUEST_RATE, BYTE_RATE)

    def counters(self, file: SharedFile) -> Counters:
        """The counters as they are now."""
        return file.counters()

    def without(self, first: Counters, last: Counters, began: Own, ended: Own) -> Counters:
        """The counters at the end of a window without our own requests in it."""
        return self._own.without(first, last, began, ended)

    @staticmethod
    def readings(elapsed_s: float, first: Counters, last: Counters) -> Readings:
        """The readings between two states of the counters.

        Raises:
            NotMeasured: too many connections could not be followed, or a counter went backwards.
        """
        must_grow(astuple(first), astuple(last))
        connections, requests = last.connections - first.connections, last.requests - first.requests
        clipped = last.clipped - first.clipped
        if clipped > _MOST_CLIPPED_RATIO * connections:
            many = f"{clipped} connections of {connections}"
            raise NotMeasured(f"the shim could not follow {many}: too many descriptors")
        readings = {
            "connection_rate_hz": connections / elapsed_s,
            "request_rate_hz": requests / elapsed_s,
            "byte_rate_bytes_hz": (last.sent_bytes - first.sent_bytes) / elapsed_s,
        }
        if connections > 0:
            readings["accept_queue_delay_s"] = (last.delay_ns - first.delay_ns) / connections / 1e9
            readings["burst_length"] = requests / connections
        if requests > 0:
            readings["service_time_s"] = (last.service_ns - first.service_ns) / requests / 1e9
        return readings


def probe(path: Path) -> tuple[Finding, ...]:
    """Whether the counters of a server can be read.

    Args:
        path: the mapped file.
    """
    subject = f"shim at {path}"
    try:
        file = SharedFile(path)
    except NotMeasured as error:
        return (Finding(subject, False, str(error), "run as the user who started 'trimtab run', or as root"),)
    counters, senses = file.counters(), file.senses()
    file.close()
    if not senses:
        return (Finding(subject, False, "counting is switched off", "start the server anew with 'trimtab run'"),)
    return (Finding(subject, True, f"exact delays and service times, {counters.connections} connections so far"),)


SENSOR = Shim
