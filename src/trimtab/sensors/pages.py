"""Sensor: the time of a page as a client has it, from inside the unmodified server.

Eq. (1) of liu2003 takes a connection for a page. Where connections outlive the reading of a page, the pauses between
requests tell pages apart: a browser asks for the objects of a page within moments, and its user then reads. The
shim's histogram of request intervals (last byte of a reply to first byte of the next request) shows both.

    page_time = (sum of waits to be accepted + sum of service times + sum of intervals within pages) / pages      (P1)
    pages     = connections received + intervals of theta or longer                                               (P2)
    theta     = the bottom of the last valley of the histogram                                                    (P3)

| symbol | here         | unit | meaning                                                          |
|--------|--------------|------|------------------------------------------------------------------|
| theta  | threshold    | bins | bin of the histogram, eight to the octave                        |
| -      | page_time_s  | s    | mean time from a page's wait or first byte to its last byte sent |
| -      | page_rate_hz | Hz   | pages begun per second                                           |

A valley is where an octave of the histogram holds at most a quarter of what the fullest octaves on both sides of it
hold, and these hold 20 intervals or more: an octave that should hold 20 holds 5 or fewer by chance less than once in
ten thousand times. The histogram is that of the server's whole life, because a window has too few intervals. Of
several valleys the last one counts, since reading takes longer than anything that a browser does. Where there is
none, pages cannot be told apart, and both readings are absent.

Departures from what a client sees. The network's part of a page's first request and last reply is not in it, nor is
the handshake. A browser with several connections for one page counts as several users; a page whose connection was
ended between two of its objects counts as two. The sum of the intervals within pages is from the middles of bins,
right within 5 %. There are no percentiles: the shim counts intervals, not pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from trimtab.core.metric import Metric
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured
from trimtab.sensors._mapped_window import MappedWindow
from trimtab.sensors._own_requests import Own
from trimtab.sensors._shared_file import Counters, SharedFile, floor_ns, must_grow

_OCTAVE = 8
_LEAST = 20
_DEPTH = 4
State = tuple[Counters, tuple[int, ...]]


class Pages(MappedWindow[State]):
    """The pages of one server."""

    name = "pages"
    metrics = (
        Metric("page_time_s", "s", "mean server-side time per page, pages told apart by the pauses between requests"),
        Metric("page_rate_hz", "Hz", "pages begun per second, told apart by the pauses between requests", asked=True),
    )

    def counters(self, file: SharedFile) -> State:
        """The counters and the histogram as they are now."""
        return file.counters(), file.histograms().intervals

    def without(self, first: State, last: State, began: Own, ended: Own) -> State:
        """The state at the end of a window without our own requests, each of which would be a page."""
        return self._own.without(first[0], last[0], began, ended), last[1]

    @staticmethod
    def readings(elapsed_s: float, first: State, last: State) -> Readings:
        """The readings between two states.

        Raises:
            NotMeasured: pages cannot be told apart, or a counter went backwards.
        """
        (one, before), (two, after) = first, last
        must_grow((*astuple(one), *before), (*astuple(two), *after))
        theta = threshold(after)
        if theta is None:
            raise NotMeasured("the intervals between requests do not show where a page ends")
        new = [b - a for a, b in zip(before, after, strict=True)]
        pages = two.connections - one.connections + sum(new[theta:])  # (P2)
        within_ns = sum(n * (floor_ns(i) + floor_ns(i + 1)) / 2 for i, n in enumerate(new[:theta]) if n)
        readings = {"page_rate_hz": pages / elapsed_s}
        if pages > 0:
            busy_ns = two.delay_ns - one.delay_ns + two.service_ns - one.service_ns
            readings["page_time_s"] = (busy_ns + within_ns) / pages / 1e9  # (P1)
        return readings


def threshold(counts: Sequence[int]) -> int | None:
    """The first bin of the intervals that separate pages; None where the histogram does not show it.

    Args:
        counts: request intervals by logarithmic bins.
    """
    octaves = [sum(counts[i : i + _OCTAVE]) for i in range(len(counts) - _OCTAVE + 1)]
    fullest, bottom = 0, -1
    for i in range(len(octaves) - 1, -1, -1):
        if bottom < 0:
            fullest = max(fullest, octaves[i])
            if fullest >= _LEAST and _DEPTH * octaves[i] <= fullest:
                bottom = i
        elif octaves[i] < octaves[bottom]:
            bottom = i
        elif octaves[i] >= max(_LEAST, _DEPTH * octaves[bottom]):
            return _middle(octaves, bottom)  # (P3)
    return None


def _middle(octaves: Sequence[int], last: int) -> int:
    """The bin amid a bottom that is flat down from its last octave."""
    first = last
    while first > 0 and octaves[first - 1] == octaves[last]:
        first -= 1
    return (first + last + _OCTAVE) // 2


SENSOR = Pages
