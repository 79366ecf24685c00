"""The times that the load generator reports: from the intended moment, in full, and against other witnesses."""

from __future__ import annotations

import os
import signal
import statistics
import threading

import pytest
from hdrh.histogram import HdrHistogram

from tests._scripted_server import ScriptedServer
from tests.servers._traffic import finished, sessions, start, summary
from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.load_reports import Latency
from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import Closed, Population, Url

pytestmark = pytest.mark.server


def measured(latency: Latency) -> tuple[float, float, float]:
    """Mean, 95th percentile and maximum in seconds."""
    assert latency.mean_s is not None
    assert latency.p95_s is not None
    assert latency.max_s is not None
    return latency.mean_s, latency.p95_s, latency.max_s


def mean_s(latency: Latency) -> float:
    """The mean."""
    return measured(latency)[0]


def sum_s(latency: Latency) -> float:
    """The sum of all samples."""
    return mean_s(latency) * latency.count


def served(server: ScriptedServer, count: int) -> None:
    """Waits until the server has seen so many requests."""
    until(lambda: sum(server.seen()["requests"].values()) >= count, "there is no traffic")


def test_a_service_time_is_in_every_time_that_is_measured_and_the_parts_are_in_the_whole() -> None:
    with ScriptedServer() as server:
        (one,) = finished(server.target, sessions(40, "/ok?ms=50", rate_hz=20), count=40).classes
    parts = [one.first_byte, one.request_actual, one.request_intended, one.page_intended]
    means_s = [mean_s(latency) for latency in parts]
    assert means_s[0] >= 0.05
    assert means_s == sorted(means_s)


def test_the_histogram_in_the_summary_has_every_sample_and_the_same_percentiles() -> None:
    with ScriptedServer() as server:
        (one,) = finished(server.target, sessions(50, "/ok?ms=20"), count=50).classes
    latency = one.request_actual
    assert latency.histogram is not None
    histogram = HdrHistogram.decode(latency.histogram)
    assert histogram.get_total_count() == latency.count == 50
    assert histogram.get_value_at_percentile(50) / 1e6 == pytest.approx(latency.p50_s, rel=0.002)
    assert histogram.get_max_value() / 1e6 == pytest.approx(latency.max_s, rel=0.002)


def test_a_page_takes_as_long_as_its_requests_one_after_the_other() -> None:
    with ScriptedServer() as server:
        shape = sessions(10, "/ok?ms=20", burst_requests=Constant(5), object_gap_s=Constant(0.01))
        (one,) = finished(server.target, shape, count=10).classes
    # An object is intended a gap after the reply before it, so the page is exactly its requests and its gaps.
    assert mean_s(one.page_intended) == pytest.approx(5 * mean_s(one.request_intended) + 4 * 0.01, rel=0.005)


def test_a_server_stopped_for_2_s_shows_in_full() -> None:
    with ScriptedServer() as server, start(server.target, sessions(400, "/ok"), duration_s=60) as run:
        served(server, 20)
        server.freeze(2)
        served(server, 400)
        (one,) = run.stop().classes
    # 200 requests are due while it is stopped and wait for 1 s on average, 20 of them for over 1.8 s. How long
    # exactly is tested in the generator itself, on a clock of its own.
    assert one.requests == 400
    assert measured(one.request_intended)[2] >= 1.98
    assert measured(one.request_intended)[1] >= 1.75
    assert sum_s(one.request_intended) >= 0.98 * 200


def test_a_generator_that_is_late_owns_up_and_counts_from_the_intended_moment() -> None:
    with ScriptedServer() as server, start(server.target, sessions(300, "/ok"), duration_s=60) as run:
        served(server, 20)
        os.kill(run.pid, signal.SIGSTOP)
        SystemClock().sleep(1)
        os.kill(run.pid, signal.SIGCONT)
        served(server, 300)
        result = run.stop()
    (one,) = result.classes
    assert one.requests == 300
    assert measured(result.lateness)[2] >= 0.98
    assert sum_s(result.lateness) >= 0.98 * 50, "100 requests were late, by half a second on average"
    assert sum_s(one.request_intended) - sum_s(one.request_actual) >= 0.99 * sum_s(result.lateness)


def test_requests_still_waiting_at_the_end_are_censored_and_not_forgotten() -> None:
    users = Population(class_name="all", arrivals=Closed(7), pages=(Url("/hang"),))
    with ScriptedServer() as server:
        (one,) = summary(server.target, users, duration_s=0.5).classes
    assert (one.requests, one.errors, one.outstanding) == (0, {}, 7)


def test_users_are_always_waiting_and_the_times_of_their_requests_add_up_to_that() -> None:
    """Little's law: 10 users without pauses spend all of the time in requests."""
    users = Population(class_name="all", arrivals=Closed(10), session_pages=Constant(1e9), pages=(Url("/ok?ms=20"),))
    with ScriptedServer() as server, start(server.target, users, duration_s=3, interval_s=0.2) as run:
        intervals = list(run.follow())
        (one,) = run.wait().classes
    in_requests = [sum_s(each.classes[0].request_intended) / (10 * each.duration_s) for each in intervals[1:-1]]
    # A request counts where it ends: the machine standing still puts some into the next interval, hence the median.
    assert statistics.median(in_requests) == pytest.approx(1, abs=0.1)
    assert sum_s(one.request_intended) <= 10 * sum(each.duration_s for each in intervals) / 0.99


def test_intervals_add_up_to_the_summary() -> None:
    with ScriptedServer() as server, start(server.target, sessions(100, "/ok"), duration_s=2) as run:
        intervals = list(run.follow())
        result = run.wait()
    (one,) = result.classes
    assert sum(interval.classes[0].requests for interval in intervals) == one.requests
    assert sum(interval.classes[0].connections for interval in intervals) == one.connections
    assert one.sessions == 100
    # A rest of less than a millisecond is no interval.
    assert sum(interval.duration_s for interval in intervals) == pytest.approx(result.duration_s, abs=0.001)
    assert [interval.at_s for interval in intervals] == sorted(interval.at_s for interval in intervals)


def test_reading_does_not_wait_for_the_generator() -> None:
    with ScriptedServer() as server, start(server.target, sessions(10, "/ok"), duration_s=600, interval_s=300) as run:
        assert run.intervals_since(0) == [], "had it waited, there would be one"
        threads = [thread.name for thread in threading.enumerate()]
        assert "load-reports" in threads
    assert "load-reports" not in [thread.name for thread in threading.enumerate()]
