"""Settling time, overshoot and what is allowed."""

from __future__ import annotations

import math

import pytest

from trimtab.design.specification import Specification, overshoot_ratio, settling_samples
from trimtab.errors import UsageError


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ([0.0, 0.5, 0.99, 1.0], 2),
        ([0.0, 1.5, 1.0, 1.0], 2),
        ([0.0, 1.0, 0.9, 1.0], 3),
        ([1.0, 1.0], 0),
        ([0.0, 0.5, 0.9], None),
        ([0.0, 1.0, 0.5], None),
        ([0.0, math.nan, math.nan], None),
        ([0.0, 1.02, 0.98], 1),
        ([0.0, 1.021, 1.0], 2),
    ],
)
def test_it_has_settled_from_the_first_sample_after_the_last_one_outside(
    response: list[float], expected: int | None
) -> None:
    assert settling_samples(response, 0.02 + 1e-12) == expected


def test_a_wider_band_is_reached_sooner() -> None:
    response = [1 - 0.8**k for k in range(60)]
    found = [settling_samples(response, band) for band in (0.01, 0.02, 0.05, 0.1)]
    assert found == [math.ceil(math.log(band) / math.log(0.8)) for band in (0.01, 0.02, 0.05, 0.1)]


def test_overshoot_is_what_passes_the_reference() -> None:
    assert overshoot_ratio([0.0, 1.25, 0.9]) == pytest.approx(0.25)
    assert overshoot_ratio([0.0, 0.9]) == 0.0


def test_a_settling_time_is_counted_in_whole_samples() -> None:
    assert Specification(300.0, 30.0).samples == 10
    assert Specification(299.0, 30.0).samples == 9
    assert Specification(0.3, 0.1).samples == 3


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"period_s": 0.0}, "sampling period"),
        ({"period_s": -1.0}, "sampling period"),
        ({"settling_s": 20.0}, "before the first sample"),
        ({"settling_s": math.nan}, "before the first sample"),
        ({"settling_s": 3.6e9, "period_s": 0.001}, "more than 10000 sampling periods of 0.001 s"),
        ({"settling_s": math.inf}, "more than 10000 sampling periods"),
        ({"band_ratio": 0.0}, "band"),
        ({"band_ratio": 1.0}, "band"),
        ({"steady_state_error_ratio": 0.0}, "steady-state error"),
        ({"overshoot_ratio": -0.1}, "overshoot"),
        ({"overshoot_ratio": math.nan}, "overshoot"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(given: dict[str, float], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Specification(**given)
