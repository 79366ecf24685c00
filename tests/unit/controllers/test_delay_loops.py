"""The controllers of delay guarantees closed over a queueing system."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from tests._class_plant import ClassPlant
from trimtab.controllers.absolute_delay import AbsoluteDelay
from trimtab.controllers.hybrid_delay import HybridDelay
from trimtab.controllers.log_relative_delay import LogRelativeDelay
from trimtab.controllers.relative_delay import RelativeDelay
from trimtab.core import Controller, Move, Objective, Trial, Window

PERIOD_S = 60.0
OBJECTIVE = Objective("connection_delay_s@a")
Step = dict[int, tuple[str, int]]


def drive(controller: Controller, plant: ClassPlant, windows: int, steps: Step | None = None) -> list[Any]:
    """(delay of each class, move) of each window; `steps` adds clients before a window."""
    state = controller.start(plant.knobs(), 0)
    (sensor,), rows = plant.sensors(), []
    for index in range(windows):
        if steps and index in steps:
            plant.add(*steps[index])
        sensor.begin()
        plant.clock.sleep(PERIOD_S)
        window = Window(index, index * PERIOD_S, PERIOD_S, plant.configuration(), sensor.read())
        state, move = controller.step(state, Trial(window))
        plant.apply(move.changes)
        rows.append(({name: window.readings.get(f"connection_delay_s@{name}") for name in plant.names}, move))
    return rows


def mean(rows: list[Any], name: str) -> float:
    return statistics.fmean(delays[name] for delays, _ in rows if delays[name] is not None)


def phases(rows: list[tuple[Any, Move]]) -> set[str]:
    return {move.phase for _, move in rows}


@pytest.mark.parametrize("kind", [RelativeDelay, LogRelativeDelay])
def test_a_ratio_of_3_holds_before_and_after_the_load_doubles(kind: type[RelativeDelay]) -> None:
    plant = ClassPlant({"a": 60, "b": 120}, seed=1)
    rows = drive(kind(OBJECTIVE, ("a", "b"), (1.0, 3.0)), plant, 80, {40: ("a", 60)})
    for part in (rows[15:40], rows[55:]):
        assert mean(part, "b") / mean(part, "a") == pytest.approx(3, rel=0.1)
    assert sum(plant.budgets.values()) == plant.workers
    assert phases(rows) == {"relative"}


def test_three_classes_keep_1_2_4() -> None:
    plant = ClassPlant({"a": 60, "b": 60, "c": 60}, workers=48, seed=3)
    rows = drive(RelativeDelay(OBJECTIVE, ("a", "b", "c"), (1.0, 2.0, 4.0)), plant, 80)[30:]
    assert mean(rows, "b") / mean(rows, "a") == pytest.approx(2, rel=0.1)
    assert mean(rows, "c") / mean(rows, "b") == pytest.approx(2, rel=0.1)


def test_absolute_delays_are_met_and_in_overload_the_lower_class_is_violated_first() -> None:
    plant = ClassPlant({"a": 40, "b": 80}, workers=32, seed=4)
    controller = AbsoluteDelay(OBJECTIVE, ("a", "b"), (4.0, 8.0), gain=-0.5)
    rows = drive(controller, plant, 80, {40: ("a", 40)})
    assert mean(rows[15:40], "a") == pytest.approx(4, rel=0.1)
    assert mean(rows[15:40], "b") == pytest.approx(8, rel=0.1)
    assert "saturated" not in phases(rows[15:40])
    assert mean(rows[55:], "a") == pytest.approx(4, rel=0.1)
    assert mean(rows[55:], "b") > 1.5 * 8
    assert "saturated" in phases(rows[-1:])


def test_what_it_says_would_meet_all_delays_does() -> None:
    """The number in the reason is tried: with that many workers the same load is within its delays."""
    load, desired = {"a": 80, "b": 80}, (4.0, 8.0)
    controller = AbsoluteDelay(OBJECTIVE, ("a", "b"), desired, gain=-0.5)
    plant = ClassPlant(load, workers=32, seed=5)
    reason = drive(controller, plant, 40)[-1][1].reason
    assert "b cannot be met with 32 processes" in reason
    about = int(reason.partition("about ")[2].split()[0])
    assert 32 < about < 60
    rows = drive(controller, ClassPlant(load, workers=about, seed=5), 60)
    assert mean(rows[30:], "a") <= 1.1 * 4
    assert mean(rows[30:], "b") <= 1.1 * 8


def test_an_overload_that_goes_away_leaves_no_windup() -> None:
    """The lower class, saturated for 40 windows, is at its delay again a settling time after the load is gone."""
    plant = ClassPlant({"a": 1, "b": 1}, workers=32, seed=6)
    controller = AbsoluteDelay(OBJECTIVE, ("a", "b"), (4.0, 8.0), gain=-0.5)
    state = controller.start(plant.knobs(), 0)
    wanted = []
    for index in range(40):
        seen = {"connection_delay_s@a": 4.0, "connection_delay_s@b": 50.0}
        window = Window(index, index * PERIOD_S, PERIOD_S, plant.configuration(), seen)
        state, move = controller.step(state, Trial(window))
        plant.apply(move.changes)
        wanted.append(move.evidence["wanted@b"])
    assert max(wanted) < plant.workers + 0.5 * 42 + 1
    calm = {"connection_delay_s@a": 4.0, "connection_delay_s@b": 6.0}
    _, move = controller.step(state, Trial(Window(40, 0.0, PERIOD_S, plant.configuration(), calm)))
    assert move.changes["process_budget@b"] < plant.budgets["process_budget@b"]


def test_the_hybrid_guarantee_bounds_the_first_delay_and_returns() -> None:
    plant = ClassPlant({"a": 40, "b": 60}, workers=32, seed=7)
    controller = HybridDelay(OBJECTIVE, ("a", "b"), (5.0, 10.0), absolute_gain=-0.5, hysteresis_s=0.5)
    rows = drive(controller, plant, 70, {30: ("a", 60)})
    assert mean(rows[10:30], "b") / mean(rows[10:30], "a") == pytest.approx(2, rel=0.1)
    assert mean(rows[10:30], "a") < 5
    assert mean(rows[45:], "a") == pytest.approx(5, rel=0.15)
    assert mean(rows[45:], "b") > 12
    assert "relative" not in phases(rows[45:])
    assert any("hybrid, to absolute because a is" in move.reason for _, move in rows[30:36])


def test_a_class_without_traffic_keeps_its_budget_and_does_not_wind_up() -> None:
    plant = ClassPlant({"a": 60, "b": 0}, seed=8)
    rows = drive(RelativeDelay(OBJECTIVE, ("a", "b"), (1.0, 3.0)), plant, 30)
    assert not any(move.changes for _, move in rows)
    assert "b no connection" in rows[-1][1].reason
    plant.add("b", 120)
    rows = drive(RelativeDelay(OBJECTIVE, ("a", "b"), (1.0, 3.0)), plant, 40)
    assert mean(rows[15:], "b") / mean(rows[15:], "a") == pytest.approx(3, rel=0.1)
