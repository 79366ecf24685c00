"""Metrics that are measured for each class carry it in their name."""

import pytest

from trimtab.core import METRICS, metric, of_class
from trimtab.errors import UsageError


def test_a_reading_of_a_class_has_the_unit_of_its_metric() -> None:
    assert metric(of_class("connection_delay_s", "premium")) is METRICS["connection_delay_s"]


@pytest.mark.parametrize("name", ["connection_delay_s", "connection_delay_s@", "response_time_s@premium", "delay@a"])
def test_a_metric_with_a_class_missing_or_too_many_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="unknown metric"):
        metric(name)
