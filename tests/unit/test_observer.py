"""What several sources and nodes measure, and which of it decisions go by."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests._memory_plant import FakeSensor, MemoryPlant
from trimtab.core import Precedence, Reading, Readings, Sensor, Window
from trimtab.errors import NotMeasured, TrimtabError
from trimtab.observer import Observer, Stop


def says(name: str, precedence: Precedence, value: float, node: str = "") -> FakeSensor:
    """A sensor that measures the rate of requests."""
    return FakeSensor(
        lambda: {"request_rate_hz": value}, name, gives="request_rate_hz", precedence=precedence, node=node
    )


def seen(*sensors: FakeSensor) -> Window:
    """One window of a plant with these sensors."""
    window = Observer(MemoryPlant(*sensors), Stop(), seed=0).window(0, 1.0, {}, 0.0, lambda partial: "")
    assert window is not None
    return window


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_decisions_go_by_the_source_of_the_greatest_precedence_whatever_the_order(order: tuple[int, ...]) -> None:
    sensors = (
        says("clients", Precedence.CLIENTS, 1.0),
        says("shim", Precedence.COUNTED, 2.0),
        says("page", Precedence.STATUS_PAGE, 3.0),
    )
    window = seen(*(sensors[i] for i in order))
    assert window.readings == {"request_rate_hz": 2.0}
    assert {(one.source, one.value) for one in window.measured} == {("clients", 1.0), ("shim", 2.0), ("page", 3.0)}


def test_where_the_first_source_cannot_read_the_next_one_counts() -> None:
    def fail() -> dict[str, float]:
        raise NotMeasured("too many connections were not followed")

    shim = FakeSensor(fail, "shim", gives="request_rate_hz")
    window = seen(shim, says("page", Precedence.STATUS_PAGE, 3.0))
    assert window.readings == {"request_rate_hz": 3.0}
    assert window.problems == ("shim: too many connections were not followed",)


def test_readings_of_another_node_are_measured_and_decide_nothing() -> None:
    here, there = says("shim", Precedence.COUNTED, 2.0), says("shim", Precedence.COUNTED, 9.0, node="web2")
    window = seen(there, here)
    assert window.readings == {"request_rate_hz": 2.0}
    assert set(window.measured) == {
        Reading("request_rate_hz", 2.0, "shim"),
        Reading("request_rate_hz", 9.0, "shim", "web2"),
    }


def test_what_is_measured_goes_before_what_is_derived_and_both_are_kept() -> None:
    sensor = FakeSensor(lambda: {"response_time_s": 0.5, "burst_length": 7.0}, "shim")
    window = seen(sensor)
    assert window.readings["burst_length"] == 7.0
    assert Reading("burst_length", 2.0, "memory") in window.measured


def test_two_sources_of_one_precedence_are_an_error_before_the_first_window() -> None:
    with pytest.raises(TrimtabError, match="one and other measure request_rate_hz with the same precedence"):
        seen(says("one", Precedence.SAMPLED, 1.0), says("other", Precedence.SAMPLED, 2.0))


def test_a_plant_may_name_the_source_that_decides() -> None:
    class Named(MemoryPlant):
        def decisive(self, metric: str, sensors: object) -> Sensor | None:
            return other

    one, other = says("one", Precedence.SAMPLED, 1.0), says("other", Precedence.SAMPLED, 2.0)
    window = Observer(Named(one, other), Stop(), seed=0).window(0, 1.0, {}, 0.0, lambda partial: "")
    assert window is not None
    assert window.readings == {"request_rate_hz": 2.0}


def test_two_sensors_of_one_name_are_an_error() -> None:
    with pytest.raises(TrimtabError, match="two sensors of memory are called shim"):
        seen(says("shim", Precedence.COUNTED, 1.0), says("shim", Precedence.SAMPLED, 2.0))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["", "web2", "web3"]), st.sampled_from(list(Precedence))), unique=True))
def test_nothing_that_was_measured_is_lost_and_readings_are_chosen_from_it(
    where: list[tuple[str, Precedence]],
) -> None:
    sensors = [says(f"s{i}", precedence, float(i), node) for i, (node, precedence) in enumerate(where)]
    window = seen(*sensors, FakeSensor(lambda: {"cpu_ratio": 0.5}, "always", gives="cpu_ratio"))
    assert len([one for one in window.measured if one.metric == "request_rate_hz"]) == len(sensors)
    local = {precedence: float(i) for i, (node, precedence) in enumerate(where) if not node}
    assert window.readings.get("request_rate_hz") == (local[max(local)] if local else None)


@pytest.mark.parametrize("value", [1e30, 1e308, -1e16, math.inf, math.nan])
def test_a_reading_beyond_all_measure_is_discarded_and_said(value: float) -> None:
    window = seen(says("page", Precedence.STATUS_PAGE, value), says("clients", Precedence.CLIENTS, 3.0))
    assert window.readings == {"request_rate_hz": 3.0}
    assert window.problems == (f"page: discarded request_rate_hz = {value}",)
    assert window.samples == 3


def test_the_requests_of_a_long_window_can_be_stored_whatever_rate_is_measured() -> None:
    plant = MemoryPlant(says("page", Precedence.STATUS_PAGE, 1e15))
    window = Observer(plant, Stop(), seed=0).window(0, 20_000.0, {}, 0.0, lambda partial: "")
    assert window is not None and window.samples is not None
    assert window.samples < 1 << 63, "more than SQLite's integers hold"


@pytest.mark.parametrize("where", ["begin", "sample", "read"])
def test_a_machine_that_is_short_of_something_costs_a_sensor_its_window_and_not_the_run(where: str) -> None:
    def short(*_: object) -> Readings:
        raise OSError(24, "Too many open files")

    one = FakeSensor(lambda: {"cpu_ratio": 0.5}, "one", period_s=0.1, gives="cpu_ratio")
    other = FakeSensor(lambda: {"busy_workers": 3.0}, "other", gives="busy_workers")
    setattr(one, "_read" if where == "read" else where, short)
    window = seen(one, other)
    assert window.readings == {"busy_workers": 3.0}
    assert window.problems == ("one: [Errno 24] Too many open files",)
