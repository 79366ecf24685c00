"""Sensor: idle connections and request intervals, from inside the unmodified server.

The shim that `trimtab run` loads into the server sees each reply end and the next request begin, and adds to counters
and histograms in a mapped file. Reading them touches neither the server nor the kernel.

| reading                       | from                                                                     |
|-------------------------------|--------------------------------------------------------------------------|
| request_interval_s            | sum of request intervals / their number                                  |
| interval_rate_hz              | request intervals / time                                                 |
| idle_connections              | sum of all idle periods / time (Little's law)                            |
| idle_held_workers             | the part of it in which a worker waited for nothing else / time          |
| connections_cut_rate_hz       | idle periods that the shim ended / time                                  |
| connections_expired_rate_hz   | idle periods that the server ended by itself / time                      |
| connections_left_rate_hz      | idle periods that the client ended / time                                |
| server_keep_alive_s           | time that the server itself last asked for; absent where it was not seen |
| connection_setup_s            | wait for the first request + its service - service of the later requests |
| intervals_50ms@I, intervals@I | request intervals by bins                                                |
| intervals_ended@I             | idle periods that the shim or the server ended, by bins: censored        |
| intervals_left@I              | idle periods that the client ended, by bins                              |

An idle period counts in the window in which it ends; bins without a count are absent. What a connection costs more
than a further request is a difference of means: where first requests ask for other things than later ones, that is
in it, and where it is not above 0 nothing can be said, so it is absent.
"""

from __future__ import annotations

from dataclasses import astuple, replace

from trimtab.core.metric import Metric, of_class
from trimtab.core.window import Readings
from trimtab.sensors._mapped_window import MappedWindow
from trimtab.sensors._metrics import IDLE_CONNECTIONS, IDLE_HELD_WORKERS
from trimtab.sensors._shared_file import Counters, Histograms, Idle, SharedFile, must_grow

_NS = 1e9
_READ_AS = {
    "intervals_50ms": "intervals_50ms",
    "intervals": "intervals",
    "ended": "intervals_ended",
    "left": "intervals_left",
}
"""Histogram of the mapped file to the metric of its counts."""
State = tuple[Idle, Counters, Histograms]


class KeepAlive(MappedWindow[State]):
    """The idle periods of one server."""

    name = "keep-alive"
    metrics = (
        Metric("request_interval_s", "s", "mean time from a reply's last byte to the next request on its connection"),
        Metric("interval_rate_hz", "Hz", "request intervals seen per second"),
        IDLE_CONNECTIONS,
        IDLE_HELD_WORKERS,
        Metric("connections_cut_rate_hz", "Hz", "idle connections ended per second at the keep-alive time"),
        Metric("connections_expired_rate_hz", "Hz", "idle connections ended per second by the server itself"),
        Metric("connections_left_rate_hz", "Hz", "idle connections ended per second by the client"),
        Metric("server_keep_alive_s", "s", "time after which the server itself would end an idle connection"),
        Metric("connection_setup_s", "s", "mean worker time that a new connection costs more than a further request"),
        Metric("intervals_50ms", "intervals", "request intervals by bins of 50 ms, from 0", "hist", True),
        Metric("intervals", "intervals", "request intervals by logarithmic bins, eight to the octave", "", True),
        Metric("intervals_ended", "intervals", "idle periods that the server ended, by the same bins", "", True),
        Metric("intervals_left", "intervals", "idle periods that the client ended, by the same bins", "", True),
    )

    def counters(self, file: SharedFile) -> State:
        """The counters as they are now."""
        return file.idle(), file.counters(), file.histograms()

    @staticmethod
    def readings(elapsed_s: float, first: State, last: State) -> Readings:
        """The readings between two states.

        Raises:
            NotMeasured: a counter went backwards.
        """
        (one, all_one, bins_one), (two, all_two, bins_two) = first, last
        # The server's own time is no count.
        must_grow(astuple(replace(one, server_ms=0)), astuple(replace(two, server_ms=0)))
        must_grow(astuple(all_one), astuple(all_two))
        for name in _READ_AS:
            must_grow(getattr(bins_one, name), getattr(bins_two, name))
        intervals = two.intervals - one.intervals
        readings = {
            "interval_rate_hz": intervals / elapsed_s,
            "idle_connections": (two.idle_ns - one.idle_ns) / _NS / elapsed_s,
            "idle_held_workers": (two.held_ns - one.held_ns) / _NS / elapsed_s,
            "connections_cut_rate_hz": (two.cut - one.cut) / elapsed_s,
            "connections_expired_rate_hz": (two.expired - one.expired) / elapsed_s,
            "connections_left_rate_hz": (two.left - one.left) / elapsed_s,
        }
        if intervals > 0:
            readings["request_interval_s"] = (two.interval_ns - one.interval_ns) / intervals / _NS
        if two.server_ms > 0:
            readings["server_keep_alive_s"] = two.server_ms / 1e3
        setup_s = _setup_s(first, last)
        if setup_s is not None and setup_s > 0:
            readings["connection_setup_s"] = setup_s
        for kept, name in _READ_AS.items():
            before, after = getattr(first[2], kept), getattr(last[2], kept)
            readings |= {
                of_class(name, str(i)): b - a for i, (a, b) in enumerate(zip(before, after, strict=True)) if b > a
            }
        return readings


def _setup_s(first: State, last: State) -> float | None:
    """Worker time of a new connection beyond that of a further request, in seconds; None without one of both."""
    (one, all_one, _), (two, all_two, _) = first, last
    firsts = two.firsts - one.firsts
    later = all_two.requests - all_one.requests - firsts
    if firsts <= 0 or later <= 0:
        return None
    first_ns = two.first_service_ns - one.first_service_ns
    wait_ns = two.first_wait_ns - one.first_wait_ns
    later_ns = all_two.service_ns - all_one.service_ns - first_ns
    return ((wait_ns + first_ns) / firsts - later_ns / later) / _NS


SENSOR = KeepAlive
