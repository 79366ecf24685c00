"""The simulated plant keeps the promises of a plant, in virtual time."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trimtab import native
from trimtab.core import Readings
from trimtab.errors import ApplyFailed, ApplyRefused, NativeError, NotMeasured, PlantGone, UsageError
from trimtab.metrics import known
from trimtab.plants import simulated
from trimtab.plants.simulated import PLANT, Simulated, SimulatedServer, probe
from trimtab.workloads._population import Closed, Poisson, Population, Url

Build = Callable[..., Simulated]


@pytest.fixture
def build() -> Iterator[Build]:
    plants: list[Simulated] = []

    def start(*args: object, **kwargs: object) -> Simulated:
        plants.append(Simulated(*args, **kwargs))  # type: ignore[arg-type]
        return plants[-1]

    yield start
    for plant in plants:
        plant.close()


def reading_after(plant: Simulated, warm_s: float, length_s: float) -> Readings:
    (sensor,) = plant.sensors()
    plant.clock.sleep(warm_s)
    sensor.begin()
    plant.clock.sleep(length_s)
    return sensor.read()


def test_it_starts_as_its_server_says_at_time_0(build: Build) -> None:
    plant = build(SimulatedServer(max_request_workers=20, keep_alive_timeout_ms=700))
    assert plant.configuration() == {"max_request_workers": 20, "keep_alive_timeout_ms": 700}
    assert plant.clock.now_s() == 0.0
    assert PLANT is Simulated


def test_sleeping_lets_exactly_that_much_virtual_time_pass(build: Build) -> None:
    plant = build()
    plant.clock.sleep(1.5)
    plant.clock.sleep(0.0)
    plant.clock.sleep(-1.0)
    assert plant.clock.now_s() == 1.5


def test_every_reading_is_a_known_metric_and_all_that_liu2003_needs_are_there(build: Build) -> None:
    readings = reading_after(build(SimulatedServer(max_request_workers=25)), 5.0, 20.0)
    assert set(readings) <= set(known())
    needed = "response_time_s accept_queue_delay_s service_time_s burst_length cpu_ratio memory_ratio busy_workers"
    assert set(needed.split()) <= set(readings)
    rt = readings["accept_queue_delay_s"] + readings["burst_length"] * readings["service_time_s"]
    assert readings["response_time_s"] == pytest.approx(rt)
    assert build().derive(readings) == {"standstill_s": SimulatedServer().reload_s}


def test_by_default_the_traffic_keeps_the_core_busy_for_seventy_percent(build: Build) -> None:
    readings = reading_after(build(SimulatedServer(max_request_workers=26)), 30.0, 600.0)
    assert readings["cpu_ratio"] == pytest.approx(0.7, abs=0.03)
    assert readings["client_error_rate_hz"] == 0.0


def test_the_shipped_default_is_far_worse_than_the_best_and_both_sides_rise(build: Build) -> None:
    curve = {
        workers: reading_after(build(SimulatedServer(max_request_workers=workers)), 60.0, 120.0)["response_time_s"]
        for workers in (10, 18, 22, 26, 40, 80, 150)
    }
    assert curve[10] > curve[18] > curve[22] > curve[26]
    assert curve[26] < curve[40] < curve[80] < curve[150]
    assert curve[150] > 100 * curve[26]


def test_the_same_seed_gives_the_same_readings_and_another_seed_others(build: Build) -> None:
    first, second, other = (reading_after(build(seed=seed), 3.0, 10.0) for seed in (7, 7, 8))
    assert first == second
    assert first != other


def test_a_read_in_mid_window_ends_nothing(build: Build) -> None:
    readings = []
    for peeks in (0, 3):
        plant = build(seed=3)
        (sensor,) = plant.sensors()
        sensor.begin()
        for _ in range(4):
            plant.clock.sleep(1.0)
            if peeks:
                sensor.read()
        readings.append(sensor.read())
    assert readings[0] == readings[1]


def test_nothing_is_read_before_time_has_passed(build: Build) -> None:
    (sensor,) = build().sensors()
    sensor.begin()
    with pytest.raises(NotMeasured, match="no virtual time"):
        sensor.read()
    assert sensor.sampling_period_s == 0.0
    assert sensor.cheap


def test_a_change_takes_the_reload_time_and_is_read_back(build: Build) -> None:
    plant = build(SimulatedServer(reload_s=0.25))
    plant.clock.sleep(1.0)
    applied = plant.apply({"max_request_workers": 30, "keep_alive_timeout_ms": 100})
    assert applied.configuration == plant.configuration() == {"max_request_workers": 30, "keep_alive_timeout_ms": 100}
    assert applied.took_s == pytest.approx(0.25)
    assert plant.clock.now_s() == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"max_request_workers": 0}, "outside 1..256"),
        ({"max_request_workers": 257}, "ServerLimit"),
        ({"keep_alive_timeout_ms": -1}, "outside 0..60000"),
        ({"max_request_workers": 9, "max_clients": 9}, "unknown knob 'max_clients'"),
    ],
)
def test_a_change_outside_its_domain_is_refused_and_nothing_changes(
    build: Build, changes: dict[str, int], says: str
) -> None:
    plant = build()
    before = plant.configuration()
    with pytest.raises(ApplyRefused, match=says):
        plant.apply(changes)
    assert plant.configuration() == before
    assert plant.clock.now_s() == 0.0


def test_a_change_that_the_simulator_does_not_make_is_a_failure(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = build()
    monkeypatch.setattr(plant, "configuration", lambda: {"max_request_workers": 150, "keep_alive_timeout_ms": 500})
    with pytest.raises(ApplyFailed, match="max_request_workers is 150, not 30"):
        plant.apply({"max_request_workers": 30})


def test_restore_puts_back_the_start_and_costs_nothing_the_second_time(build: Build) -> None:
    plant = build()
    before = plant.configuration()
    plant.apply({"max_request_workers": 30})
    plant.apply({"keep_alive_timeout_ms": 30})
    plant.restore()
    assert plant.configuration() == before
    now_s = plant.clock.now_s()
    plant.restore()
    assert plant.clock.now_s() == now_s


def test_lowering_the_limit_recovers_a_server_that_swaps(build: Build) -> None:
    plant = build()
    swapping = reading_after(plant, 60.0, 10.0)
    plant.apply({"max_request_workers": 26})
    recovered = reading_after(plant, 120.0, 30.0)
    assert swapping["memory_ratio"] > 4.0
    assert recovered["request_rate_hz"] > 20 * swapping["request_rate_hz"]


def test_a_url_without_a_cost_takes_the_servers_and_one_with_a_cost_keeps_it(build: Build) -> None:
    server = SimulatedServer(exponential_service=False, request_cpu_s=0.03, max_request_workers=1)
    for cpu_s, expected in ((0.0, 0.03), (0.05, 0.05)):
        clients = Population(class_name="one", arrivals=Closed(1), pages=(Url("/", cpu_s=cpu_s),))
        readings = reading_after(build(server, (clients,)), 0.0, 10.0)
        assert readings["service_time_s"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (SimulatedServer(cores=0.0), "cores"),
        (SimulatedServer(worker_memory_bytes=math.inf), "worker_memory_bytes inf is not allowed: it must be finite"),
        (SimulatedServer(accept_queue=-1), "accept_queue -1 is not allowed: it must be 0 to"),
        (SimulatedServer(spare_workers=2**32), r"spare_workers 4.29497e\+09 is not allowed: it must be 0 to"),
        (SimulatedServer(swap_bytes_hz=0.0), "swap_bytes_hz"),
        (SimulatedServer(max_request_workers=300), "max_request_workers 300 is outside 1..256"),
    ],
)
def test_a_server_outside_its_domain_is_a_usage_error(build: Build, server: SimulatedServer, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        build(server, (Population(class_name="one", arrivals=Closed(1)),))


def test_a_simulator_that_dies_is_a_plant_that_is_gone(build: Build) -> None:
    plant = build()
    (sensor,) = plant.sensors()
    os.kill(plant._link._native.pid, signal.SIGKILL)
    for use in (plant.configuration, sensor.begin, lambda: plant.apply({"max_request_workers": 5})):
        with pytest.raises(PlantGone, match="simulator has ended"):
            use()


def test_more_sessions_than_can_be_kept_end_the_plant_with_the_reason(build: Build) -> None:
    plant = build(populations=(Population(class_name="flood", arrivals=Poisson(1e6)),))
    with pytest.raises(PlantGone, match="sessions in progress"):
        plant.clock.sleep(20.0)


def test_close_may_be_called_twice_and_leaves_no_process(build: Build) -> None:
    plant = build()
    pid = plant._link._native.pid
    plant.close()
    plant.close()
    assert not Path(f"/proc/{pid}").exists()


def test_the_undo_script_does_nothing_and_succeeds(build: Build) -> None:
    assert subprocess.run(["sh", "-c", build().undo_script()], check=False, capture_output=True).returncode == 0


def test_the_probe_says_whether_the_program_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(finding.usable for finding in probe())

    def missing() -> Path:
        raise NativeError("trimtab-native is not installed")

    monkeypatch.setattr(native, "program", missing)
    (finding,) = probe()
    assert not finding.usable
    assert "setup" in finding.enable


def test_every_field_of_the_server_is_documented_and_crosses_the_border() -> None:
    text = SimulatedServer.__doc__ or ""
    fields = {field.name for field in dataclasses.fields(SimulatedServer)}
    assert all(f"{name}:" in text for name in fields)
    assert set(SimulatedServer().to_wire()) == fields - {"server_limit", "request_cpu_s"}
    assert simulated.Simulated.name == "simulated"
