"""An arm says what its run is made of; a plant with more sensors is otherwise the plant."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from trimtab.core import Plant, Readings, Sensor
from trimtab.lab._arm import LAST_CHANGE_S, WARM_S, Arm, WithSensors
from trimtab.testbed import setups

ARM = Arm("compare-dynamic", "trim", setups.DYNAMIC, "trim", 1, 56.0)


class Says:
    """A sensor that always reads the same."""

    sampling_period_s = 0.0
    cheap = True

    def __init__(self, **readings: float) -> None:
        self.name = "says"
        self._readings = readings

    def begin(self) -> None:
        """Nothing."""

    def sample(self) -> None:
        """Nothing."""

    def read(self) -> Readings:
        """What it was made with."""
        return self._readings

    def close(self) -> None:
        """Nothing."""


class Bare:
    """A plant with one sensor and a name."""

    name = "bare"

    def sensors(self) -> tuple[Sensor, ...]:
        """The one."""
        return (Says(busy_workers=2.0, service_time_s=0.2),)


def test_the_server_starts_with_the_shipped_limit_unless_the_arm_says_another() -> None:
    assert ARM.spec() == setups.DYNAMIC.spec
    assert replace(ARM, start=32).spec() == replace(setups.DYNAMIC.spec, max_request_workers=32)


def test_clients_are_those_of_the_set_up_unless_the_arm_has_its_own() -> None:
    assert ARM.clients() == setups.DYNAMIC.workload.populations()
    assert replace(ARM, populations=setups.switch(1.0)).clients() == setups.switch(1.0)


def test_the_load_lasts_until_a_last_change_is_through() -> None:
    assert ARM.load_s() == pytest.approx(WARM_S + 56.0 + LAST_CHANGE_S)


def test_readings_of_sensors_before_give_way_to_the_plants_and_those_after_do_not() -> None:
    status, client = Says(busy_workers=1.0, idle_workers=7.0), Says(service_time_s=0.3)
    whole = WithSensors(cast(Plant, Bare()), (status,), (client,))
    readings = {name: value for sensor in whole.sensors() for name, value in sensor.read().items()}
    assert readings == {"busy_workers": 2.0, "idle_workers": 7.0, "service_time_s": 0.3}
    assert whole.name == "bare"
