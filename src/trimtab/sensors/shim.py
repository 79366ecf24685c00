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
count; those that Apache makes to itself to wake its workers do not.
"""

from __future__ import annotations

from pathlib import Path

from trimtab.core.finding import Finding
from trimtab.core.plant import Clock
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured
from trimtab.sensors._shared_file import Counters, SharedFile

_FRESH_S = 0.01
"""A window that begins this soon after the last was read begins with what was read."""
_MOST_CLIPPED_RATIO = 0.01
"""With more connections than this unseen, means of the others do not stand for all."""


class Shim:
    """The counters of the shim in one server.

    Args:
        path: the mapped file.
        clock: the loop's clock.
    """

    name = "shim"
    sampling_period_s = 0.0
    cheap = True

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._file: SharedFile | None = None
        self._mark: tuple[float, Counters] | None = None
        self._last: tuple[float, Counters] | None = None

    def begin(self) -> None:
        """Marks the start of a window.

        Raises:
            NotMeasured: the mapped file cannot be read.
        """
        if self._file is None:
            self._file = SharedFile(self._path)
        if self._last is not None and self._clock.now_s() - self._last[0] < _FRESH_S:
            self._mark = self._last
        else:
            self._mark = self._clock.now_s(), self._file.counters()

    def sample(self) -> None:
        """Takes nothing: the shim counts by itself."""

    def read(self) -> Readings:
        """The readings since `begin`; a mean over nothing is absent.

        Raises:
            NotMeasured: no time has passed, or the shim could not follow its connections.
        """
        if self._file is None or self._mark is None:
            raise NotMeasured("the window has not begun")
        self._last = self._clock.now_s(), self._file.counters()
        return differences(self._last[0] - self._mark[0], self._mark[1], self._last[1])

    def close(self) -> None:
        """Unmaps the file; may be called twice."""
        if self._file is not None:
            self._file.close()
            self._file = self._mark = self._last = None


def differences(elapsed_s: float, first: Counters, last: Counters) -> dict[str, float]:
    """The readings between two states of the counters.

    Args:
        elapsed_s: time between them.
        first: the counters at the start.
        last: the counters at the end.

    Raises:
        NotMeasured: no time is between them, or too many connections could not be followed.
    """
    if elapsed_s <= 0:
        raise NotMeasured("no time has passed since the window began")
    connections, requests = last.connections - first.connections, last.requests - first.requests
    clipped = last.clipped - first.clipped
    if clipped > _MOST_CLIPPED_RATIO * connections:
        raise NotMeasured(f"the shim could not follow {clipped} connections of {connections}: too many descriptors")
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
