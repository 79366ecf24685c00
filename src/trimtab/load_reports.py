"""Messages of the load generator, as types; parsed strictly, for an unknown key means another protocol."""

from __future__ import annotations

import msgspec


class _Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the generator's protocol."""


class Latency(_Report, frozen=True):
    """Figures of one duration, in seconds; None was not measured.

    Args:
        count: samples.
        mean_s: mean.
        p50_s: median.
        p95_s: 95th percentile.
        p99_s: 99th percentile.
        max_s: largest.
        histogram: HDR histogram of microseconds, V2, base64; in the summary only.
    """

    count: int
    mean_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    max_s: float | None
    histogram: str | None


class Interaction(_Report, frozen=True):
    """Counts and times of one page's interactions.

    Args:
        page: its name.
        time: from the click to the last byte of the page and its images, without failed ones.
        p90_s: 90th percentile of that time.
        errors: interactions that failed, by kind: as of requests.
    """

    page: str
    time: Latency
    p90_s: float | None
    errors: dict[str, int]


class Browsing(_Report, frozen=True):
    """Browsers' work in an interval, or in the measured part of the run.

    Args:
        duration_s: length of that interval or part.
        interactions: by page, in the order of the graph.
        think: think times drawn.
        session: lengths of the sessions that ended.
        cache_hits: images found in the browsers' caches.
    """

    duration_s: float
    interactions: tuple[Interaction, ...]
    think: Latency
    session: Latency
    cache_hits: int


class Class(_Report, frozen=True, omit_defaults=True, rename={"class_name": "class"}):
    """Counts and times of one class, in an interval or in the whole run.

    Args:
        class_name: its name.
        requests: requests with a complete reply.
        pages: pages completed.
        sessions: sessions started.
        connections: connections opened.
        body_bytes: bytes of reply bodies.
        page_intended: page time from the intended start.
        page_actual: page time from the actual start.
        request_intended: request time from the intended send.
        request_actual: request time from the actual send.
        connect: time to connect.
        first_byte: time from the actual send to the reply's first byte.
        errors: failed requests by kind: connect, reset, timeout, malformed, http_4xx, http_5xx, wrong_page,
            local.
        patience_left_s: patience left to those when they failed, in sum, in seconds; 0 for one that timed out.
        unasked: requests that visits given up after a failure would still have asked for.
        resent: requests sent again because the server had closed the idle connection; not errors.
        waited_s: for how long requests were due and without a reply, in sum, answered or not, in seconds.
        outstanding: requests due and without a reply at the end: censored.
        unsent: requests due and not yet sent at the end: censored.
        browsing: its browsers' work; only for classes that walk a graph.
        redirected: those of `requests` that were answered by a redirect (300 to 399); browsers alone follow them.
    """

    class_name: str
    requests: int
    pages: int
    sessions: int
    connections: int
    body_bytes: int
    page_intended: Latency
    page_actual: Latency
    request_intended: Latency
    request_actual: Latency
    connect: Latency
    first_byte: Latency
    errors: dict[str, int]
    patience_left_s: float
    unasked: int
    resent: int
    waited_s: float
    outstanding: int
    unsent: int
    browsing: Browsing | None = None
    redirected: int = 0


class Interval(_Report, frozen=True, tag="interval"):
    """One interval of a run.

    Args:
        at_s: its end, in seconds since the run's start.
        duration_s: its length in seconds.
        classes: by class, in the order of the populations.
        active_sessions: sessions in progress at its end.
        lateness: how late the generator itself acted against its own schedule.
    """

    at_s: float
    duration_s: float
    classes: tuple[Class, ...]
    active_sessions: int
    lateness: Latency

    @property
    def waited_s(self) -> float:
        """Seconds that requests waited for their replies, answered or not."""
        return sum(one.waited_s for one in self.classes)

    @property
    def patience_left_s(self) -> float:
        """Seconds of patience left to the requests that failed in it, in sum."""
        return sum(one.patience_left_s for one in self.classes)


class Summary(_Report, frozen=True, tag="summary"):
    """The whole run.

    Args:
        duration_s: its length in seconds.
        classes: by class, in the order of the populations.
        lateness: how late the generator itself acted against its own schedule.
        cpu_s: CPU seconds that the generator used.
        stopped_early: True when it was stopped before its duration.
    """

    duration_s: float
    classes: tuple[Class, ...]
    lateness: Latency
    cpu_s: float
    stopped_early: bool
