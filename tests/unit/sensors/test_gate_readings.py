"""The readings of a window from the gate's cumulative counters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests._fake_gate import FakeGate, counters, read, readings
from tests._memory_plant import FakeClock

from trimtab.errors import NotMeasured, PlantGone
from trimtab.gate.link import Link
from trimtab.metrics import metric
from trimtab.sensors.gate import SENSOR, differences, percentile_s

FIRST = read(
    100.0,
    counters(
        "premium",
        arrivals=10,
        dispatched=8,
        delay_sum_s=4.0,
        delay_buckets=[[500_000, 8]],
        queue_connection_s=3.0,
        in_service_connection_s=50.0,
    ),
    counters("basic"),
)
LAST = read(
    110.0,
    counters(
        "premium",
        arrivals=70,
        dispatched=48,
        refused=5,
        aborted=2,
        delay_sum_s=24.0,
        delay_buckets=[[250_000, 20], [500_000, 26], [900_000, 2]],
        queue=15,
        queue_connection_s=33.0,
        in_service_connection_s=350.0,
        oldest_wait_s=0.75,
    ),
    counters("basic", arrivals=3, queue=3, queue_connection_s=10.0, oldest_wait_s=9.0),
)


def test_readings_are_differences_over_the_gates_own_time() -> None:
    found = differences(FIRST, LAST)
    assert {n: v for n, v in found.items() if n.endswith("@premium")} == pytest.approx(
        {
            "arrival_rate_hz@premium": 6.0,
            "dispatch_rate_hz@premium": 4.0,
            "refused_rate_hz@premium": 0.5,
            "aborted_rate_hz@premium": 0.2,
            "queue_length@premium": 3.0,
            "in_service@premium": 30.0,
            "oldest_wait_s@premium": 0.75,
            "connection_delay_s@premium": 0.5,
            "connection_delay_p95_s@premium": 0.5,
        }
    )
    assert all(metric(name) for name in found)


def test_a_class_without_a_dispatch_has_no_delay_and_keeps_its_other_readings() -> None:
    found = differences(FIRST, LAST)
    assert "connection_delay_s@basic" not in found and "connection_delay_p95_s@basic" not in found
    assert (found["queue_length@basic"], found["oldest_wait_s@basic"]) == (1.0, 9.0)


def test_all_classes_together_stand_where_the_accept_queue_was() -> None:
    found = differences(FIRST, LAST)
    assert found["accept_queue_length"] == pytest.approx(4.0)
    assert found["busy_workers"] == pytest.approx(30.0)
    assert found["connection_rate_hz"] == pytest.approx(6.3)
    assert found["accept_queue_delay_s"] == pytest.approx(0.5)


def test_a_gate_that_counts_from_0_again_is_not_measured_and_neither_is_no_time() -> None:
    anew = read(111.0, counters("premium", arrivals=1), counters("basic"))
    with pytest.raises(NotMeasured, match="was started anew"):
        differences(LAST, anew)
    with pytest.raises(NotMeasured, match="was started anew"):
        differences(read(1.0), LAST)
    with pytest.raises(NotMeasured, match="no time has passed"):
        differences(LAST, LAST)


def test_the_percentile_is_that_of_the_window_alone() -> None:
    before, after = [(100, 1000)], [(100, 1000), (200, 95), (3000, 5)]
    assert percentile_s(before, after, 0.95) == 0.0002
    assert percentile_s(before, after, 0.96) == 0.003
    assert percentile_s(before, before, 0.95) is None
    assert percentile_s([], [(7, 1)], 0.95) == 7e-6
    with pytest.raises(NotMeasured, match="has lost counts"):
        percentile_s([(1, 5)], [(2, 6)], 0.95)


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=60),
    st.lists(st.integers(1, 1000), max_size=60),
    st.floats(0.01, 1.0),
)
def test_the_percentile_is_the_one_of_the_sorted_delays(new: list[int], old: list[int], share: float) -> None:
    def histogram(delays: list[int]) -> list[tuple[int, int]]:
        return [(d, delays.count(d)) for d in sorted(set(delays))]

    found = percentile_s(histogram(old), histogram(old + new), share)
    assert found is not None
    at_most = sum(d / 1e6 <= found for d in new)
    below = sum(d / 1e6 < found for d in new)
    assert at_most >= share * len(new) > below


def test_a_window_begins_with_what_the_last_was_read_with_when_it_follows_at_once(gate: FakeGate) -> None:
    link = Link(gate.run_dir, FakeClock())
    sensor = SENSOR(link)
    with pytest.raises(NotMeasured, match="the window has not begun"):
        sensor.read()

    def at(now_s: float, arrivals: int) -> dict[str, Any]:
        return readings(now_s, counters("premium", arrivals=arrivals), counters("basic"))

    gate.readings = at(10.0, 0)
    sensor.begin()
    sensor.sample()
    gate.readings = at(20.0, 10)
    assert sensor.read()["arrival_rate_hz@premium"] == 1.0
    gate.readings = at(20.001, 11)
    sensor.begin()
    gate.readings = at(30.0, 20)
    assert sensor.read()["arrival_rate_hz@premium"] == 1.0
    gate.readings = {"type": "readings", "now_s": 31.0, "classes": [{"class": "premium"}]}
    with pytest.raises(PlantGone, match="is not the control socket of a gate: it sent"):
        sensor.read()
    gate.die()
    with pytest.raises(PlantGone):
        sensor.begin()
    sensor.close()
    link.close()
