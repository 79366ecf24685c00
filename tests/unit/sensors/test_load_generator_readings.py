"""The client's readings of a window follow from the generator's intervals."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec.structs import replace
from tests._memory_plant import StillClock

from trimtab.errors import NativeError, NotMeasured
from trimtab.load import LoadRun
from trimtab.load_reports import Class, Interval, Latency
from trimtab.sensors.load_generator import SENSOR, aggregated

NONE = Latency(0, None, None, None, None, None, None)
IDLE = Class("all", 0, 0, 0, 0, 0, NONE, NONE, NONE, NONE, NONE, NONE, {}, 0, 0, 0, 0, 0, 0)


def seen(count: int, mean_s: float, p95_s: float) -> Latency:
    return Latency(count, mean_s, mean_s, p95_s, p95_s, p95_s, None)


def interval(*classes: Class) -> Interval:
    return Interval(1.0, 0.5, classes, 0, NONE)


class Run:
    def __init__(self, intervals: list[Interval] | NativeError) -> None:
        self.intervals = intervals
        self.asked: list[float] = []

    def intervals_since(self, at_s: float) -> list[Interval]:
        self.asked.append(at_s)
        if isinstance(self.intervals, NativeError):
            raise self.intervals
        return self.intervals


def test_means_are_weighted_by_their_samples_over_intervals_and_classes() -> None:
    first = replace(
        IDLE,
        requests=10,
        pages=1,
        body_bytes=500,
        page_intended=seen(1, 4.0, 4.0),
        request_intended=seen(10, 0.3, 0.4),
        request_actual=seen(10, 0.1, 0.2),
        waited_s=4.0,
        outstanding=8,
        unsent=5,
    )
    second = replace(
        IDLE,
        requests=30,
        pages=3,
        page_intended=seen(3, 2.0, 8.0),
        connections=2,
        request_intended=seen(30, 0.7, 0.8),
        request_actual=seen(30, 0.3, 0.4),
        connect=seen(2, 0.5, 0.5),
        errors={"reset": 1, "timeout": 2},
        patience_left_s=9.5,
        unasked=6,
        waited_s=1.5,
        outstanding=3,
        unsent=2,
    )
    readings = aggregated(
        [interval(first, IDLE), interval(second, replace(IDLE, waited_s=0.5, outstanding=1, unsent=1))]
    )
    assert readings == pytest.approx(
        {
            "client_page_time_s": 2.5,
            "client_page_time_p95_s": 7.0,
            "client_request_time_s": 0.25,
            "client_response_time_s": 0.6,
            "client_byte_rate_bytes_hz": 500.0,
            "client_connection_rate_hz": 2.0,
            "client_outstanding_requests": 6.0,
            "client_patience_left_s": 9.5,
            "client_unasked_rate_hz": 6.0,
            "client_connect_time_s": 0.5,
            "client_request_rate_hz": 40.0,
            "client_page_rate_hz": 4.0,
            "client_error_rate_hz": 3.0,
            "client_unsent_requests": 3.0,
        }
    )
    assert set(readings) <= {one.name for one in SENSOR.metrics}


def test_a_time_without_a_sample_is_absent_while_a_rate_of_nothing_is_0() -> None:
    readings = aggregated([interval(IDLE)])
    assert readings["client_request_rate_hz"] == 0
    assert not any(name.endswith("_time_s") for name in readings)


def test_no_interval_yet_is_not_measured() -> None:
    run = Run([])
    sensor = SENSOR(cast(LoadRun, run), StillClock(7.0))
    sensor.begin()
    with pytest.raises(NotMeasured, match="no interval has ended"):
        sensor.read()
    assert run.asked == [7.0]


def test_a_failed_generator_is_not_measured_and_says_why() -> None:
    sensor = SENSOR(cast(LoadRun, Run(NativeError("it broke"))), StillClock(7.0))
    with pytest.raises(NotMeasured, match="it broke"):
        sensor.read()
