"""The analytic model of liu2003 against the simulator: equal where its assumptions hold, a guide elsewhere."""

from __future__ import annotations

import statistics

import pytest

from trimtab.core import Readings, Window
from trimtab.plants.simulated import Simulated, SimulatedServer
from trimtab.queueing.liu2003 import Sessions, fig6, held_lognormal_s
from trimtab.queueing.mmmkn import Mmmkn
from trimtab.workloads._distribution import Constant, Exponential
from trimtab.workloads._population import Closed, Population, Url

STUDENT_T = 4.781
"""Two-sided 99.9 % quantile with 9 degrees of freedom."""


def readings_of(server: SimulatedServer, seed: int, populations: tuple[Population, ...] = ()) -> Readings:
    plant = Simulated(server, populations, seed)
    try:
        (sensor,) = plant.sensors()
        plant.clock.sleep(60.0)
        sensor.begin()
        plant.clock.sleep(600.0)
        return sensor.read()
    finally:
        plant.close()


@pytest.mark.parametrize(("workers", "users", "think_s", "service_s"), [(1, 6, 0.5, 0.05), (8, 60, 1.0, 0.12)])
def test_it_is_the_simulator_where_service_and_thinking_are_exponential(
    workers: int, users: int, think_s: float, service_s: float
) -> None:
    server = SimulatedServer(
        max_request_workers=workers,
        keep_alive_timeout_ms=0,
        cores=float(workers),
        memory_limit_bytes=1e15,
    )
    clients = Population(
        class_name="closed",
        arrivals=Closed(users),
        session_pages=Constant(1e9),
        think_s=Exponential(think_s),
        pages=(Url("/", cpu_s=service_s),),
        timeout_s=1e6,
    )
    runs = [readings_of(server, seed, (clients,)) for seed in range(10)]
    theory = Mmmkn(users, workers, 1 / think_s, 1 / service_s).solve()
    for name, expected in (
        ("response_time_s", theory.residence_s),
        ("accept_queue_delay_s", theory.queue_delay_s),
        ("request_rate_hz", theory.throughput_hz),
    ):
        values = [run[name] for run in runs]
        half = STUDENT_T * statistics.stdev(values) / 10**0.5
        assert half < 0.2 * expected
        assert statistics.fmean(values) == pytest.approx(expected, abs=half), name


def test_it_finds_the_best_maxclients_of_wagon_traffic_and_is_concave_upward_around_it() -> None:
    settings = (18, 20, 22, 24, 26, 28, 30, 32, 34)
    windows = []
    for workers in settings:
        readings = readings_of(SimulatedServer(max_request_workers=workers), 1)
        windows.append(Window(0, 0.0, 600.0, {"max_request_workers": workers}, readings))
    # 70 % of one core at 2.2 ms a request and 56 requests a session; think times of 1 s, kept for at most 0.5 s.
    sessions = Sessions(0.7 / (0.0022 * 56), 8.0, 7.0, 1.0, held_lognormal_s(1.0, 1.0, 0.5))
    rows = fig6(windows, "max_request_workers", sessions)
    predicted = [row.response_time_s for row in rows]
    measured = [row.measured_s or 0.0 for row in rows]
    best = predicted.index(min(predicted))
    assert abs(best - measured.index(min(measured))) <= 1
    for times in (predicted, measured):
        assert times[: best - 1] == sorted(times[: best - 1], reverse=True)
        assert times[best + 1 :] == sorted(times[best + 1 :])
