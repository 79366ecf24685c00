"""What every sensor declares, for each that discovery finds and each that stands beside its plant."""

from __future__ import annotations

import pytest

from trimtab import discovery
from trimtab.core import Sensor

SUFFIXES = {"s": "_s", "Hz": "_hz", "bytes": "_bytes", "bytes/s": "_bytes_hz", "ratio": "_ratio"}
ROOM: dict[str, type[Sensor]] = {
    name: discovery.load("trimtab.sensors", name).SENSOR for name in discovery.names("trimtab.sensors")
}
BESIDE: list[type[Sensor]] = [
    sensor
    for name in discovery.names("trimtab.plants")
    for sensor in discovery.load("trimtab.plants", name).PLANT.own_sensors
]
ALL = [*ROOM.values(), *BESIDE]


@pytest.mark.parametrize("name", ROOM)
def test_it_goes_by_its_file_name(name: str) -> None:
    assert ROOM[name].name == name


def test_no_two_have_one_name() -> None:
    names = [sensor.name for sensor in ALL]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("sensor", ALL, ids=lambda sensor: sensor.name)
def test_it_declares_what_it_measures_with_the_unit_in_the_name(sensor: type[Sensor]) -> None:
    assert sensor.metrics
    for metric in sensor.metrics:
        assert metric.description
        assert metric.name.endswith(SUFFIXES.get(metric.unit, "")), metric


@pytest.mark.parametrize("sensor", ALL, ids=lambda sensor: sensor.name)
def test_it_says_itself_whether_it_goes_before_others(sensor: type[Sensor]) -> None:
    assert any("precedence" in one.__dict__ for one in sensor.__mro__ if one is not Sensor)
