"""The times that the load generator reports: from the intended moment, in full, and against other witnesses."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from hdrh.histogram import HdrHistogram

from tests._noise import noisy
from tests._scripted_server import ScriptedServer
from tests.servers._traffic import sessions, start, summary
from trimtab.load_reports import Latency
from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import Closed, Population, Url

pytestmark = [pytest.mark.server, noisy]


def measured(latency: Latency) -> tuple[float, float, float]:
    """Mean, 95th percentile and maximum in seconds."""
    assert latency.mean_s is not None
    assert latency.p95_s is not None
    assert latency.max_s is not None
    return latency.mean_s, latency.p95_s, latency.max_s


def test_a_known_service_time_is_measured() -> None:
    with ScriptedServer() as server:
        (one,) = summary(server.target, sessions(40, "/ok?ms=50", rate_hz=20), duration_s=3).classes
    for latency in (one.page_intended, one.request_intended, one.request_actual, one.first_byte):
        assert latency.p50_s == pytest.approx(0.05, abs=0.01)
        assert latency.mean_s is not None
        assert latency.mean_s >= 0.05


def test_the_histogram_in_the_summary_has_every_sample_and_the_same_percentiles() -> None:
    with ScriptedServer() as server:
        (one,) = summary(server.target, sessions(50, "/ok?ms=20"), duration_s=1).classes
    latency = one.request_actual
    assert latency.histogram is not None
    histogram = HdrHistogram.decode(latency.histogram)
    assert histogram.get_total_count() == latency.count == 50
    assert histogram.get_value_at_percentile(50) / 1e6 == pytest.approx(latency.p50_s, rel=0.002)
    assert histogram.get_max_value() / 1e6 == pytest.approx(latency.max_s, rel=0.002)


def test_a_page_takes_as_long_as_its_requests_one_after_the_other() -> None:
    with ScriptedServer() as server:
        shape = sessions(10, "/ok?ms=20", burst_requests=Constant(5), object_gap_s=Constant(0.01))
        (one,) = summary(server.target, shape, duration_s=1.5).classes
    assert one.page_actual.p50_s == pytest.approx(5 * 0.02 + 4 * 0.01, abs=0.03)


def test_a_server_stopped_for_2_s_shows_in_full() -> None:
    with ScriptedServer() as server, start(server.target, sessions(400, "/ok"), duration_s=6) as run:
        time.sleep(1)
        server.freeze(2)
        (one,) = run.wait().classes
    mean_s, p95_s, max_s = measured(one.request_intended)
    # 200 of the 400 requests are due while it is stopped and wait for 1 s on average; the worst 20 for over 1.8 s.
    assert one.requests == 400
    assert max_s == pytest.approx(2.0, abs=0.15)
    assert p95_s == pytest.approx(1.8, abs=0.15)
    assert mean_s == pytest.approx(0.5, abs=0.1)


def test_a_generator_that_is_late_owns_up_and_counts_from_the_intended_moment() -> None:
    with ScriptedServer() as server, start(server.target, sessions(300, "/ok"), duration_s=4) as run:
        time.sleep(1)
        os.kill(run.pid, signal.SIGSTOP)
        time.sleep(1)
        os.kill(run.pid, signal.SIGCONT)
        result = run.wait()
    (one,) = result.classes
    assert one.requests == 300
    assert measured(result.lateness)[2] == pytest.approx(1.0, abs=0.15)
    assert measured(one.request_intended)[2] == pytest.approx(1.0, abs=0.15)
    assert measured(one.request_actual)[2] < 0.5


def test_requests_still_waiting_at_the_end_are_censored_and_not_forgotten() -> None:
    users = Population(class_name="all", arrivals=Closed(7), pages=(Url("/hang"),))
    with ScriptedServer() as server:
        (one,) = summary(server.target, users, duration_s=0.5).classes
    assert (one.requests, one.errors, one.outstanding) == (0, {}, 7)


def test_little_s_law_holds_between_rate_time_and_users() -> None:
    users = Population(class_name="all", arrivals=Closed(10), session_pages=Constant(1e9), pages=(Url("/ok?ms=20"),))
    with ScriptedServer() as server:
        result = summary(server.target, users, duration_s=2)
    (one,) = result.classes
    assert one.requests / result.duration_s * measured(one.request_intended)[0] == pytest.approx(10, rel=0.03)


def test_intervals_add_up_to_the_summary() -> None:
    with ScriptedServer() as server, start(server.target, sessions(100, "/ok"), duration_s=2) as run:
        intervals = list(run.follow())
        (one,) = run.wait().classes
    assert sum(interval.classes[0].requests for interval in intervals) == one.requests == 100
    assert sum(interval.classes[0].connections for interval in intervals) == one.connections
    assert sum(interval.duration_s for interval in intervals) == pytest.approx(2, abs=0.05)
    assert [interval.at_s for interval in intervals] == sorted(interval.at_s for interval in intervals)


def test_reading_does_not_wait_for_the_generator() -> None:
    with ScriptedServer() as server, start(server.target, sessions(10, "/ok"), duration_s=30, interval_s=5) as run:
        began = time.monotonic()
        assert run.intervals_since(0) == []
        assert time.monotonic() - began < 0.5
        threads = [thread.name for thread in threading.enumerate()]
        assert "load-reports" in threads
    assert "load-reports" not in [thread.name for thread in threading.enumerate()]
