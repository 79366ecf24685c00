"""Sensor: delays and rates of each class of clients, from the gate's cumulative counters.

A reading is the difference of two answers over the time between them, both by the gate's own clock, so it is exact
however late the answers come.

| reading                    | from                                                                   |
|----------------------------|------------------------------------------------------------------------|
| connection_delay_s@        | sum of delays / dispatches; absent when nobody was dispatched          |
| connection_delay_p95_s@    | least bucket (its largest delay) that at least 95 % do not exceed      |
| oldest_wait_s@             | at the end of the window; 0 when nobody waits                          |
| queue_length@, in_service@ | integral / time                                                        |
| *_rate_hz@                 | arrivals, dispatches, refusals, clients that gave up / time            |

Of all classes together: `busy_workers` (in service) and `accept_queue_length`, `accept_queue_delay_s` and
`connection_rate_hz`, because the gate's queue stands where the accept queue was.

A delay counts in the window in which it ends. The buckets of the gate are log-linear, so the percentile is too large
by the width of one bucket at most. When both processes of a gate died, the next one counts from 0, and the window
in which that happened is not measured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from trimtab.core.metric import of_class
from trimtab.core.sensor import Precedence, Sensor
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured
from trimtab.gate.answers import Counters
from trimtab.gate.link import Link
from trimtab.sensors._metrics import (
    ACCEPT_QUEUE_DELAY,
    ACCEPT_QUEUE_LENGTH,
    BUSY_WORKERS,
    CONNECTION_RATE,
    OF_CLASSES,
)

_FRESH_S = 0.01
"""A window that begins this soon after the last was read begins with that reading."""
_RATES = {
    "arrival_rate_hz": "arrivals",
    "dispatch_rate_hz": "dispatched",
    "refused_rate_hz": "refused",
    "aborted_rate_hz": "aborted",
}
_MEANS = {"queue_length": "queue_connection_s", "in_service": "in_service_connection_s"}
_CUMULATIVE = (*_RATES.values(), *_MEANS.values(), "delay_sum_s")
P95 = 0.95
Buckets = Sequence[tuple[int, int]]


class Gate(Sensor):
    """The classes of one gate.

    Args:
        link: the conversation with it.
    """

    name = "gate"
    metrics = (*OF_CLASSES, ACCEPT_QUEUE_DELAY, ACCEPT_QUEUE_LENGTH, BUSY_WORKERS, CONNECTION_RATE)
    precedence = Precedence.GATE

    def __init__(self, link: Link) -> None:
        self._link = link
        self._mark: Counters | None = None
        self._last: Counters | None = None

    def begin(self) -> None:
        """Marks the start of a window.

        Raises:
            PlantGone: the gate does not answer.
        """
        now = self._link.readings()
        last = self._last
        fresh = last is not None and 0 <= now.now_s - last.now_s < _FRESH_S
        self._mark = last if fresh else now

    def read(self) -> Readings:
        """The readings since `begin`.

        Raises:
            NotMeasured: no time has passed, or the gate was started anew.
            PlantGone: the gate does not answer.
        """
        if self._mark is None:
            raise NotMeasured("the window has not begun")
        self._last = self._link.readings()
        return differences(self._mark, self._last)


def differences(first: Counters, last: Counters) -> dict[str, float]:
    """The readings between two answers of one gate.

    Args:
        first: the answer at the start.
        last: the answer at the end.

    Raises:
        NotMeasured: no time is between them, or they are not of one gate.
    """
    elapsed_s = last.now_s - first.now_s
    if elapsed_s <= 0:
        raise NotMeasured("no time has passed since the window began")
    before = {one.name: one for one in first.classes}
    readings: dict[str, float] = {}
    came = served = 0
    queue = busy = waited_s = 0.0
    for later in last.classes:
        was = before.get(later.name)
        if was is None or any(getattr(later, key) < getattr(was, key) for key in _CUMULATIVE):
            raise NotMeasured("the gate was started anew within the window, which resets its counters")
        change = {key: getattr(later, key) - getattr(was, key) for key in _CUMULATIVE}
        of_one = {name: change[key] / elapsed_s for name, key in (_RATES | _MEANS).items()}
        of_one["oldest_wait_s"] = later.oldest_wait_s
        if change["dispatched"] > 0:
            of_one["connection_delay_s"] = change["delay_sum_s"] / change["dispatched"]
        slow_s = percentile_s(was.delay_buckets, later.delay_buckets, P95)
        if slow_s is not None:
            of_one["connection_delay_p95_s"] = slow_s
        readings |= {of_class(name, later.name): value for name, value in of_one.items()}
        came, served = came + change["arrivals"], served + change["dispatched"]
        queue, busy = queue + of_one["queue_length"], busy + of_one["in_service"]
        waited_s += change["delay_sum_s"]
    readings |= {"accept_queue_length": queue, "busy_workers": busy, "connection_rate_hz": came / elapsed_s}
    if served > 0:
        readings["accept_queue_delay_s"] = waited_s / served
    return readings


def percentile_s(first: Buckets, last: Buckets, share: float) -> float | None:
    """A percentile of the delays that were counted between two states of a histogram, in seconds.

    Args:
        first: (largest delay of the bucket in microseconds, count so far) at the start; empty buckets may be absent.
        last: the same at the end.
        share: such as 0.95.

    Returns:
        the largest delay of the bucket that holds it; None when nothing was counted.

    Raises:
        NotMeasured: a count has become less.
    """
    counts: Counter[int] = Counter(dict(last))
    counts.subtract(Counter(dict(map(tuple, first))))  # type: ignore[arg-type]
    if min(counts.values(), default=0) < 0:
        raise NotMeasured("a bucket of the histogram has lost counts: a worker has written over its share")
    if counts.total() == 0:
        return None
    left = math.ceil(share * counts.total())
    for upper_us in sorted(counts):
        left -= counts[upper_us]
        if left <= 0:
            break
    return upper_us / 1e6


SENSOR = Gate
