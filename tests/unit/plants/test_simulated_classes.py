"""The simulated plant with classes of clients: budgets as live knobs, readings for each class."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.clock import SystemClock
from trimtab.core import How, of_class
from trimtab.errors import ApplyRefused, UsageError
from trimtab.metrics import metric
from trimtab.plants import simulated
from trimtab.plants._simulated_classes import parse_class, started
from trimtab.plants.simulated import Simulated, SimulatedClass, SimulatedServer, lu2001_server
from trimtab.workloads._distribution import Constant, Pareto
from trimtab.workloads._population import Closed, Population, Url

Build = Callable[..., Simulated]
SERVER = SimulatedServer(max_request_workers=16, keep_alive_timeout_ms=500, reload_s=0.25)


@pytest.fixture
def build() -> Iterator[Build]:
    plants: list[Simulated] = []

    def start(*classes: SimulatedClass, server: SimulatedServer = SERVER, users: int = 40) -> Simulated:
        names = [one.name for one in classes]
        plants.append(Simulated(server, [surfers(name, users) for name in names], 1, classes))
        return plants[-1]

    yield start
    for plant in plants:
        plant.close()


def surfers(name: str, users: int) -> Population:
    return Population(
        class_name=name,
        arrivals=Closed(users),
        session_pages=Constant(1e9),
        think_s=Pareto(0.2, 1.5),
        pages=(Url("/", cpu_s=0.001),),
        timeout_s=1e6,
    )


def delay_after(plant: Simulated, class_name: str) -> float:
    plant.clock.sleep(20.0)
    (sensor,) = plant.sensors()
    sensor.begin()
    plant.clock.sleep(100.0)
    return sensor.read()[of_class("connection_delay_s", class_name)]


def test_the_budgets_are_live_knobs_and_so_is_the_worker_limit(build: Build) -> None:
    plant = build(SimulatedClass("gold", 10), SimulatedClass("basic", 6))
    assert plant.configuration() == {
        "max_request_workers": 16,
        "keep_alive_timeout_ms": 500,
        "process_budget@gold": 10,
        "process_budget@basic": 6,
    }
    how = {knob.name: knob.how for knob in plant.knobs()}
    assert how.pop("keep_alive_timeout_ms") is How.RELOAD
    assert set(how.values()) == {How.LIVE}
    assert next(iter(how)) == "max_request_workers"


def test_a_change_of_budgets_takes_no_time_and_one_of_the_keep_alive_time_takes_the_reload(build: Build) -> None:
    plant = build(SimulatedClass("gold"), SimulatedClass("basic"))
    applied = plant.apply({"process_budget@gold": 12, "process_budget@basic": 4, "max_request_workers": 15})
    assert applied.took_s == plant.clock.now_s() == 0.0
    assert applied.configuration["process_budget@gold"] == 12
    assert plant.apply({"process_budget@gold": 9, "keep_alive_timeout_ms": 100}).took_s == pytest.approx(0.25)
    plant.restore()
    assert plant.configuration()["process_budget@gold"] == 8


def test_every_class_has_its_readings_under_known_names(build: Build) -> None:
    plant = build(SimulatedClass("gold"), SimulatedClass("basic"))
    assert delay_after(plant, "gold") > 0
    readings = plant.sensors()[0].read()
    for name in readings:
        metric(name)
    per_class = {"connection_delay_s", "connection_delay_p95_s", "oldest_wait_s", "queue_length", "in_service"}
    per_class |= {"arrival_rate_hz", "dispatch_rate_hz", "aborted_rate_hz"}
    for name in per_class:
        assert {of_class(name, one) for one in ("gold", "basic")} <= set(readings)
    assert readings["in_service@gold"] + readings["in_service@basic"] == pytest.approx(readings["busy_workers"])
    assert readings["connection_delay_p95_s@gold"] > readings["connection_delay_s@gold"]


def test_a_class_that_got_no_worker_has_no_delay(build: Build) -> None:
    plant = build(SimulatedClass("gold", 16), SimulatedClass("basic", 16), users=500)
    plant.clock.sleep(30.0)
    (sensor,) = plant.sensors()
    sensor.begin()
    plant.clock.sleep(5.0)
    readings = sensor.read()
    assert "connection_delay_s@basic" not in readings
    assert readings["oldest_wait_s@basic"] > 30.0
    assert readings["dispatch_rate_hz@basic"] == 0.0


def test_budget_moves_delay_from_one_class_to_the_other(build: Build) -> None:
    gold = [
        delay_after(build(SimulatedClass("gold", n), SimulatedClass("basic", 16 - n)), "gold") for n in (4, 8, 12)
    ]
    assert gold[0] > 1.5 * gold[1] > 2.0 * gold[2]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"process_budget@gold": 0}, "outside 1..256"),
        ({"process_budget@gold": 300}, "ServerLimit"),
        ({"process_budget@gold": 3, "process_budget@iron": 3}, "unknown knob 'process_budget@iron'"),
    ],
)
def test_a_budget_that_is_not_allowed_is_refused_and_nothing_changes(
    build: Build, changes: dict[str, int], says: str
) -> None:
    plant = build(SimulatedClass("gold"), SimulatedClass("basic"))
    before = plant.configuration()
    with pytest.raises(ApplyRefused, match=says):
        plant.apply(changes)
    assert plant.configuration() == before


def test_workers_are_shared_equally_where_no_budget_is_given() -> None:
    found = started([SimulatedClass("a"), SimulatedClass("b", 9), SimulatedClass("c")], 128)
    assert [one.budget for one in found] == [43, 9, 42]
    assert started((), 5) == ()


@pytest.mark.parametrize(
    ("classes", "says"),
    [
        ([SimulatedClass("a"), SimulatedClass("a")], "class 'a'"),
        ([SimulatedClass(" ")], "class ' '"),
        ([SimulatedClass("a@b")], "without '@'"),
        ([SimulatedClass("a", 0)], "budget 0 of class a"),
        ([SimulatedClass("a", 9)], "must be 1 to 8 workers"),
        ([SimulatedClass("a"), SimulatedClass("b"), SimulatedClass("c")], "budget 0 of class c"),
    ],
)
def test_classes_without_sense_are_refused(classes: list[SimulatedClass], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        started(classes, 2 if len(classes) == 3 else 8)


def test_classes_need_populations_of_their_name() -> None:
    with pytest.raises(UsageError, match="need populations"):
        Simulated(classes=[SimulatedClass("a")])
    with pytest.raises(UsageError, match='"b" belongs to no class'):
        Simulated(populations=[surfers("b", 3)], classes=[SimulatedClass("a")])


def test_a_class_is_typed_as_its_name_and_budget() -> None:
    assert parse_class("gold") == SimulatedClass("gold")
    assert parse_class("gold=7") == SimulatedClass("gold", 7)
    with pytest.raises(UsageError, match="NAME=BUDGET"):
        parse_class("gold=many")


def test_classes_alone_are_the_server_and_the_users_of_lu2001_at_any_scale() -> None:
    plant = typed("--class", "gold", "--class", "basic", "--time-scale", "30", "--users", "50", "--server", "cores=2")
    assert plant.server == replace(lu2001_server(30.0), cores=2.0)
    assert plant.configuration()["keep_alive_timeout_ms"] == 500
    assert plant.configuration()["process_budget@gold"] == 64
    plant.close()
    with pytest.raises(UsageError, match="time_scale 0"):
        typed("--class", "gold", "--time-scale", "0")
    with pytest.raises(UsageError, match="rate_scale"):
        typed("--class", "gold", "--rate-scale", "2")


def typed(*words: str) -> Simulated:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    simulated.add_arguments(parser)
    return simulated.from_arguments(parser.parse_args(words), SystemClock())


def test_each_class_gets_the_workload_or_the_populations_of_its_name(tmp_path: Path) -> None:
    plant = typed("--class", "gold=100", "--class", "basic", "--workload", "wagon", "--time-scale", "30")
    plant.clock.sleep(5.0)
    assert plant.configuration()["process_budget@gold"] == 100
    assert plant.configuration()["process_budget@basic"] == 64
    readings = plant.sensors()[0].read()
    plant.close()
    assert readings["arrival_rate_hz@gold"] > 0 < readings["arrival_rate_hz@basic"]
    file = tmp_path / "clients.json"
    file.write_text(json.dumps([{"workload": "closed-loop", "class": "gold", "connections": 3, "think": "1s"}]))
    plant = typed("--class", "gold", "--class", "basic", "--populations", str(file))
    plant.clock.sleep(5.0)
    readings = plant.sensors()[0].read()
    plant.close()
    assert readings["arrival_rate_hz@gold"] > 0 == readings["arrival_rate_hz@basic"]
    with pytest.raises(UsageError, match="brings its own"):
        typed("--class", "gold", "--populations", str(file), "--workload", "wagon")
