"""The metrics are those that sensors and plants declare."""

from __future__ import annotations

import pytest

from trimtab.core import Metric, Sensor, of_class
from trimtab.errors import UsageError
from trimtab.metrics import failed, gathered, known, metric


def test_a_reading_of_a_class_has_the_unit_of_its_metric() -> None:
    assert metric(of_class("connection_delay_s", "premium")) is known()["connection_delay_s"]


@pytest.mark.parametrize("name", ["connection_delay_s", "connection_delay_s@", "response_time_s@premium", "delay@a"])
def test_a_metric_with_a_class_missing_or_too_many_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="unknown metric"):
        metric(name)


def test_an_unknown_metric_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match=r"unknown metric 'respnse_time_s'; did you mean response_time_s\?"):
        metric("respnse_time_s")


class One(Sensor):
    name = "one"
    metrics = (Metric("speed_hz", "Hz", "turns per second"),)


class Same(One):
    name = "same"


class Other(Sensor):
    name = "other"
    metrics = (Metric("speed_hz", "Hz", "something else"),)


def test_two_may_declare_the_same_metric_and_not_two_metrics_of_one_name() -> None:
    assert gathered([One, Same]) == {"speed_hz": One.metrics[0]}
    with pytest.raises(ValueError, match=r"other declares .*something else.*, which is declared elsewhere as"):
        gathered([One, Other])


def test_metrics_that_sensors_beside_a_plant_declare_are_known() -> None:
    assert {"open_connections", "children_limit_rate_hz"} <= known().keys()


def test_what_counts_failures_is_told_from_all_else() -> None:
    counts = dict.fromkeys(("client_error_rate_hz", "error_rate_hz", "failed_connection_rate_hz"), 1.0)
    counts["listen_overflow_rate_hz"] = 2.0
    assert failed({**counts, "request_rate_hz": 5.0, "unknown_hz": 1.0}) == counts
