"""Where a histogram of request intervals shows the end of a page, and the time of a page from counters."""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.errors import NotMeasured
from trimtab.sensors._shared_file import Counters, floor_ns
from trimtab.sensors.pages import Pages, threshold

BINS = 512
FLOORS = [floor_ns(i) for i in range(BINS)]
NOTHING = Counters(0, 0, 0, 0, 0, 0)


def histogram(intervals_s: Iterable[float]) -> tuple[int, ...]:
    counts = [0] * BINS
    for one in intervals_s:
        counts[bisect.bisect_right(FLOORS, int(one * 1e9)) - 1] += 1
    return tuple(counts)


def drawn(median_s: float, sigma: float, number: int) -> list[float]:
    source = random.Random(number)
    return [median_s * source.lognormvariate(0, sigma) for _ in range(number)]


OBJECTS, NEAR, THOUGHTS = drawn(0.1, 0.4, 3000), drawn(0.002, 0.4, 3000), drawn(7.0, 0.6, 1000)


def theta_s(intervals_s: Iterable[float]) -> float | None:
    found = threshold(histogram(intervals_s))
    return None if found is None else FLOORS[found] / 1e9


def test_pages_end_where_the_intervals_of_browsers_and_of_readers_part() -> None:
    found = theta_s(OBJECTS + THOUGHTS)
    assert found is not None and 0.3 < found < 2.5


def test_two_kinds_of_networks_do_not_end_a_page() -> None:
    found = theta_s(OBJECTS + NEAR + THOUGHTS)
    assert found is not None and 0.3 < found < 2.5


@pytest.mark.parametrize(
    "intervals_s",
    [
        [],
        OBJECTS,
        OBJECTS + THOUGHTS[:15],
        drawn(0.1, 0.5, 3000) + drawn(0.5, 0.5, 3001),
        [random.Random(i).expovariate(1.0) for i in range(20_000)],
    ],
    ids=["none", "one hill", "too few thoughts", "hills that overlap", "exponential"],
)
def test_a_histogram_without_a_valley_does_not_tell_pages_apart(intervals_s: list[float]) -> None:
    assert theta_s(intervals_s) is None


@settings(deadline=None)
@given(st.integers(100, 350), st.integers(20, 200), st.integers(20, 10_000), st.integers(20, 10_000))
def test_the_threshold_lies_between_two_hills_wherever_they_are(at: int, apart: int, left: int, right: int) -> None:
    counts = [0] * BINS
    counts[at], counts[min(BINS - 9, at + apart)] = left, right
    found = threshold(counts)
    assert found is not None and at < found <= min(BINS - 9, at + apart)


def test_waits_services_and_intervals_within_pages_make_the_time_of_a_page() -> None:
    before = histogram([0.1] * 60 + [7.0] * 40)
    after = histogram([0.1] * 90 + [7.0] * 45)
    last = Counters(connections=5, delay_ns=2 * 10**9, requests=40, service_ns=4 * 10**9, sent_bytes=0, clipped=0)
    found = Pages.readings(10.0, (NOTHING, before), (last, after))
    # Five pages begin with a connection and five after a thought; thirty intervals of 0.1 s are within pages.
    assert found["page_rate_hz"] == 1.0
    assert found["page_time_s"] == pytest.approx((2 + 4 + 3) / 10, rel=0.03)
    assert Pages.readings(10.0, (last, after), (last, after)) == {"page_rate_hz": 0.0}


def test_what_cannot_be_told_is_said() -> None:
    with pytest.raises(NotMeasured, match="do not show where a page ends"):
        Pages.readings(1.0, (NOTHING, histogram([])), (NOTHING, histogram(OBJECTS)))
    both = histogram(OBJECTS + THOUGHTS)
    with pytest.raises(NotMeasured, match="backwards"):
        Pages.readings(1.0, (NOTHING, both), (NOTHING, histogram(OBJECTS)))
