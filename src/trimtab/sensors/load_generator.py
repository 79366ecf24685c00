"""Sensor: times and rates of the clients of our own load generator.

It reads what the generator reports by itself and touches neither the server nor its traffic. A window takes the
intervals of which at least the later half lies within it, so its edges are off by half an interval at most: let
the generator report several times per window.

A mean time knows nothing of the requests that have no reply yet; when a server leaves clients waiting for good, it is
that of the lucky ones. The requests outstanding know: over the rate of requests they are the time that a request
takes, whoever it belongs to (Little's law). They know little of one that fails at once: `client_waited_s` counts it
until its time-out, and `client_patience_left_s` is what that adds in a window.

Means are weighted with the number of samples in each interval, so they are those of the window. The 95th percentile
is the same mean of the intervals' percentiles, because an interval carries no histogram: it follows the true one,
and lies below it where an interval holds fewer than 20 pages. The exact percentiles of a run are in its summary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from trimtab.core.metric import Metric
from trimtab.core.sensor import Clock, Precedence, Sensor
from trimtab.core.window import Readings
from trimtab.errors import NativeError, NotMeasured
from trimtab.load import LoadRun
from trimtab.load_reports import Class, Interval, Latency

_MEANS: dict[str, Callable[[Class], Latency]] = {
    "client_page_time_s": lambda c: c.page_intended,
    "client_request_time_s": lambda c: c.request_actual,
    "client_response_time_s": lambda c: c.request_intended,
    "client_connect_time_s": lambda c: c.connect,
}


class LoadGenerator(Sensor):
    """The client's side of a window.

    Args:
        run: the run whose clients these are.
        clock: the clock on which that run dates its intervals.
    """

    name = "load-generator"
    precedence = Precedence.CLIENTS
    metrics: tuple[Metric, ...] = (
        Metric("client_page_time_s", "s", "mean time per page seen by the client, from the intended start"),
        Metric("client_page_time_p95_s", "s", "95th percentile of the page time seen by the client"),
        Metric("client_request_time_s", "s", "mean time per request seen by the client, from the actual send"),
        Metric(
            "client_response_time_s", "s", "mean time per request seen by the client, from when it wants the object"
        ),
        Metric("client_connect_time_s", "s", "mean time to connect seen by the client"),
        Metric("client_request_rate_hz", "Hz", "responses received per second by the client", asked=True),
        Metric("client_page_rate_hz", "Hz", "pages completed per second by the client", asked=True),
        Metric("client_error_rate_hz", "Hz", "failed requests per second seen by the client", failed=True),
        Metric("client_byte_rate_bytes_hz", "bytes/s", "body bytes received per second by the client"),
        Metric("client_connection_rate_hz", "Hz", "connections established per second by the client"),
        Metric("client_outstanding_requests", "requests", "time average of requests due and without a reply"),
        Metric(
            "client_waited_s",
            "s",
            "time that requests waited since the load began, in sum, replied to or not; "
            "one that failed earlier counts until its time-out",
        ),
        Metric("client_patience_left_s", "s", "time that failed requests had left until their time-out, in sum"),
        Metric("client_unasked_rate_hz", "Hz", "requests per second that visits given up would still have asked for"),
        Metric("client_unsent_requests", "requests", "requests due and not yet sent: censored samples"),
    )

    def __init__(self, run: LoadRun, clock: Clock) -> None:
        self._run = run
        self._clock = clock
        self._began_s = clock.now_s()

    def begin(self) -> None:
        """Marks the start of a window."""
        self._began_s = self._clock.now_s()

    def read(self) -> Readings:
        """The client's readings since `begin`; a time without a sample is absent.

        Raises:
            NotMeasured: no interval has ended yet, or the generator has failed.
        """
        try:
            intervals = self._run.intervals_since(self._began_s)
        except NativeError as error:
            raise NotMeasured(f"load generator: {error}") from None
        if not intervals:
            raise NotMeasured("load generator: no interval has ended in this window")
        return {**aggregated(intervals), "client_waited_s": self._run.waited_s}


SENSOR = LoadGenerator


def aggregated(intervals: list[Interval]) -> Readings:
    """The client's readings over intervals, all classes together.

    Args:
        intervals: at least one, oldest first.
    """
    duration_s = sum(interval.duration_s for interval in intervals)
    classes = [one for interval in intervals for one in interval.classes]
    readings = {
        "client_request_rate_hz": sum(one.requests for one in classes) / duration_s,
        "client_page_rate_hz": sum(one.pages for one in classes) / duration_s,
        "client_byte_rate_bytes_hz": sum(one.body_bytes for one in classes) / duration_s,
        "client_connection_rate_hz": sum(one.connections for one in classes) / duration_s,
        "client_error_rate_hz": sum(sum(one.errors.values()) for one in classes) / duration_s,
        "client_outstanding_requests": sum(one.waited_s for one in intervals) / duration_s,
        "client_patience_left_s": sum(one.patience_left_s for one in intervals),
        "client_unasked_rate_hz": sum(one.unasked for one in classes) / duration_s,
        "client_unsent_requests": float(sum(one.unsent for one in intervals[-1].classes)),
    }
    means = {name: _weighted((of(c).count, of(c).mean_s) for c in classes) for name, of in _MEANS.items()}
    means["client_page_time_p95_s"] = _weighted((c.page_intended.count, c.page_intended.p95_s) for c in classes)
    return readings | {name: value for name, value in means.items() if value is not None}


def _weighted(samples: Iterable[tuple[int, float | None]]) -> float | None:
    counted = [(count, value) for count, value in samples if count and value is not None]
    total = sum(count for count, _ in counted)
    return sum(count * value for count, value in counted) / total if total else None
