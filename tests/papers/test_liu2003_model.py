"""The analytic model of liu2003, Section III: Eq. (2), N by Little's result, Fig. 6's shape."""

from __future__ import annotations

import random
import statistics

import pytest

from trimtab.core import Window
from trimtab.queueing.liu2003 import (
    Measured,
    Sessions,
    calibrate,
    concurrent_sessions,
    fig6,
    held_lognormal_s,
    predict,
    service_rate_hz,
)

TABLE_II = Sessions(session_rate_hz=10.0, session_pages=8.0, burst_length=7.0, think_s=30.0, held_s=15.0)
"""Table II, with the paper's default KeepAliveTimeout of 15 s."""


def slowing(servers: int) -> Measured:
    """ST_m that grows with m, slowly at first and then past what memory holds, as the paper measured."""
    return Measured(servers, 0.01 + 1e-5 * servers + 2e-3 * max(0, servers - 1500), 7.0)


def test_eq_2_is_the_reciprocal_of_burst_and_keep_alive_time() -> None:
    assert service_rate_hz(7.0, 0.1, 15.0) == pytest.approx(1 / 15.7)


def test_n_is_session_rate_times_session_duration() -> None:
    page_rate_hz = service_rate_hz(7.0, 0.1, 15.0)
    duration_s = 8 * 15.7 + 7 * 30.0
    assert concurrent_sessions(TABLE_II, page_rate_hz) == pytest.approx(10.0 * duration_s)


def test_the_prediction_is_concave_upward_in_maxclients() -> None:
    settings = range(900, 3100, 100)
    times = [predict(slowing(m), TABLE_II).response_time_s for m in settings]
    best = times.index(min(times))
    assert 0 < best < len(times) - 1
    assert times[: best + 1] == sorted(times[: best + 1], reverse=True)
    assert times[best:] == sorted(times[best:])
    assert min(times[0], times[-1]) > 10 * times[best]


def test_without_growing_service_times_more_workers_never_hurt() -> None:
    times = [predict(Measured(m, 0.01, 7.0), TABLE_II).response_time_s for m in range(900, 3100, 100)]
    assert times == sorted(times, reverse=True)


def test_the_time_in_system_contains_the_keep_alive_time_and_the_response_time_does_not() -> None:
    result = predict(slowing(1000), TABLE_II)
    assert result.residence_s == pytest.approx(result.response_time_s + TABLE_II.held_s)


@pytest.mark.parametrize("keep_alive_s", [0.0, 0.05, 0.5, 3.0, 100.0])
def test_a_worker_is_held_for_the_lesser_of_think_and_keep_alive_time(keep_alive_s: float) -> None:
    rng = random.Random(5)
    # mean = sigma = 1 s: variance of the logarithm ln 2, its mean -ln(2) / 2.
    thinks = [rng.lognormvariate(-0.34657359, 0.83255461) for _ in range(100_000)]
    expected = statistics.fmean(min(think, keep_alive_s) for think in thinks)
    assert held_lognormal_s(1.0, 1.0, keep_alive_s) == pytest.approx(expected, rel=0.02)


def window(
    index: int, workers: int, service_s: float, burst: float, samples: int | None, aborted: str = ""
) -> Window:
    readings = {"service_time_s": service_s, "burst_length": burst, "response_time_s": 1.0 + service_s * burst}
    return Window(index, 0.0, 1.0, {"max_request_workers": workers}, readings, samples, (), aborted)


def test_calibration_weighs_the_windows_of_each_setting_by_their_requests() -> None:
    windows = [
        window(0, 20, 0.1, 7.0, 100),
        window(1, 10, 0.2, 6.0, 300),
        window(2, 20, 0.4, 10.0, 200),
        window(3, 20, 9.0, 99.0, 500, aborted="response time ran away"),
        Window(4, 0.0, 1.0, {"max_request_workers": 20}, {"service_time_s": 5.0}, 10),
    ]
    ten, twenty = calibrate(windows, "max_request_workers")
    assert (ten.servers, twenty.servers) == (10, 20)
    assert ten.service_time_s == pytest.approx(0.2)
    assert ten.burst_length == pytest.approx(6.0)
    assert twenty.service_time_s == pytest.approx(0.3)
    assert twenty.burst_length == pytest.approx(9.0)


def test_calibration_counts_windows_alike_when_their_requests_are_not_known() -> None:
    (only,) = calibrate([window(0, 5, 0.1, 7.0, None), window(1, 5, 0.3, 7.0, 900)], "max_request_workers")
    assert only.service_time_s == pytest.approx(0.2)


def test_fig_6_puts_the_prediction_beside_what_was_measured() -> None:
    (row,) = fig6([window(0, 1200, 0.02, 7.0, 10)], "max_request_workers", TABLE_II)
    assert row.measured_s == pytest.approx(1.14)
    assert row == predict(Measured(1200, 0.02, 7.0, 1.0 + 0.02 * 7.0), TABLE_II)
