"""Request intervals and idle connections from the shim's counters and histograms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests._idle_file import NONE, SECOND_NS, a_run, count, served
from tests._memory_plant import FakeClock

from trimtab.errors import NotMeasured
from trimtab.metrics import metric
from trimtab.sensors.keep_alive import SENSOR

MS = SECOND_NS // 1000


def test_a_window_holds_what_was_counted_in_it_alone(tmp_path: Path) -> None:
    path, clock = a_run(tmp_path).shared, FakeClock()
    before = replace(NONE, intervals=100, interval_ns=7 * SECOND_NS, idle_ns=9 * SECOND_NS, cut=3, server_ms=5000)
    count(path, before, intervals_50ms={1: 60, 4: 40}, intervals={200: 100}, ended={230: 3})
    sensor = SENSOR(path, clock)
    sensor.begin()
    clock.sleep(10.0)
    after = replace(before, intervals=120, interval_ns=9 * SECOND_NS, idle_ns=29 * SECOND_NS)
    after = replace(after, held_ns=5 * SECOND_NS, cut=8, expired=2, left=10)
    count(path, after, intervals_50ms={1: 60, 4: 45, 1023: 15}, intervals={200: 105, 259: 15}, ended={230: 10})
    readings = dict(sensor.read())
    assert readings == pytest.approx(
        {
            "request_interval_s": 0.1,
            "interval_rate_hz": 2.0,
            "idle_connections": 2.0,
            "idle_held_workers": 0.5,
            "connections_cut_rate_hz": 0.5,
            "connections_expired_rate_hz": 0.2,
            "connections_left_rate_hz": 1.0,
            "server_keep_alive_s": 5.0,
            "intervals_50ms@4": 5,
            "intervals_50ms@1023": 15,
            "intervals@200": 5,
            "intervals@259": 15,
            "intervals_ended@230": 7,
        }
    )
    assert all(metric(name) for name in readings)
    sensor.begin()
    clock.sleep(10.0)
    quiet = sensor.read()
    assert "request_interval_s" not in quiet and not any("@" in name for name in quiet)
    assert quiet["idle_connections"] == 0
    sensor.close()
    sensor.close()


def test_what_a_new_connection_costs_is_its_wait_and_what_its_first_request_takes_longer(tmp_path: Path) -> None:
    path, clock = a_run(tmp_path).shared, FakeClock()
    sensor = SENSOR(path, clock)
    sensor.begin()
    clock.sleep(1.0)
    count(path, replace(NONE, firsts=10, first_wait_ns=20 * MS, first_service_ns=50 * MS))
    served(path, connections=10, requests=10, service_ns=50 * MS)
    assert "connection_setup_s" not in sensor.read(), "without a later request there is nothing to compare with"
    served(path, connections=10, requests=30, service_ns=(50 + 40) * MS)
    assert sensor.read()["connection_setup_s"] == pytest.approx(0.002 + 0.005 - 0.002)
    served(path, connections=10, requests=30, service_ns=(50 + 400) * MS)
    assert "connection_setup_s" not in sensor.read(), "a cost below 0 says that first requests ask for something else"


def test_what_cannot_be_read_is_not_measured(tmp_path: Path) -> None:
    sensor = SENSOR(tmp_path / "none", FakeClock())
    with pytest.raises(NotMeasured, match="No such file"):
        sensor.begin()
    with pytest.raises(NotMeasured, match="has not begun"):
        sensor.read()
    sensor = SENSOR(a_run(tmp_path).shared, FakeClock())
    sensor.begin()
    with pytest.raises(NotMeasured, match="no time has passed"):
        sensor.read()
