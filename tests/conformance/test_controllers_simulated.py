"""Every controller behind the standard guards on the simulated plant: a model of a server, not a server."""

from __future__ import annotations

import dataclasses
import functools
import statistics
from typing import Any

import pytest

from tests.conformance.test_controllers import PROMISING
from trimtab import discovery
from trimtab.core import Controller, Objective, Trial, Window
from trimtab.guard import review_all, standard
from trimtab.plants._simulated_server import SimulatedServer, default_traffic
from trimtab.plants.simulated import Simulated
from trimtab.workloads._population import Closed, Population

NAME = "max_request_workers"
WITHIN = 1.25
WINDOW_S = 5.0
WARM_S = 60.0

moving = pytest.mark.parametrize("name", PROMISING)


def plant(workers: int, seed: int) -> Simulated:
    """300 users of WAGON pages in a closed loop: the best limit is 10 to 30, 150 is 13 times slower."""
    server = SimulatedServer(max_request_workers=workers, keep_alive_timeout_ms=100)
    wagon = [population for population in default_traffic(server) if isinstance(population, Population)]
    simulated = Simulated(
        server, [dataclasses.replace(population, arrivals=Closed(300)) for population in wagon], seed
    )
    simulated.clock.sleep(WARM_S)
    return simulated


def measured(simulated: Simulated, index: int, duration_s: float) -> Window:
    (sensor,) = simulated.sensors()
    sensor.begin()
    simulated.clock.sleep(duration_s)
    readings = sensor.read()
    samples = round(readings.get("request_rate_hz", 0.0) * duration_s)
    return Window(index, index * duration_s, duration_s, simulated.configuration(), readings, samples)


@functools.cache
def best_s() -> float:
    """The least response time of a sweep of fixed limits."""
    times = []
    for workers in (10, 15, 20, 25, 30):
        simulated = plant(workers, seed=1)
        times.append(measured(simulated, 0, 120.0).readings["response_time_s"])
        simulated.close()
    return min(times)


def tuned_s(controller: Controller, seed: int) -> float:
    """Mean response time of the last ten of forty windows, from the shipped default of 150."""
    simulated = plant(150, seed)
    knobs = tuple(knob for knob in simulated.knobs() if knob.name == NAME)
    state, guards = controller.start(knobs, seed), standard(Objective())
    states: tuple[Any, ...] = tuple(guard.start(knobs) for guard in guards)
    times = []
    for index in range(40):
        window = measured(simulated, index, WINDOW_S)
        state, move = controller.step(state, Trial(window))
        states, move = review_all(guards, states, window, move)
        times.append(window.readings.get("response_time_s"))
        if any(window.configuration[knob] != value for knob, value in move.changes.items()):
            simulated.apply(move.changes)
            simulated.clock.sleep(1.0)
    simulated.close()
    return statistics.fmean(time for time in times[-10:] if time is not None)


@moving
def test_from_the_shipped_default_it_is_within_a_quarter_of_the_best_after_forty_windows(name: str) -> None:
    controller = discovery.load("trimtab.controllers", name).CONTROLLER(Objective())
    ratios = [tuned_s(controller, seed) / best_s() for seed in range(5)]
    assert statistics.median(ratios) <= WITHIN, ratios


def test_the_shipped_default_is_at_least_ten_times_slower_than_the_best() -> None:
    simulated = plant(150, seed=1)
    assert measured(simulated, 0, 120.0).readings["response_time_s"] > 10 * best_s()
    simulated.close()
