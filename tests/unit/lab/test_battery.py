"""The battery on the simulated server: all runs of a draw see the same clients, and the table says what came out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.errors import UsageError
from trimtab.lab import Context
from trimtab.lab._battery_draw import ALONE, DRAIN_S, LENGTH_S, ROUNDS, TRIM, Drawn, Had, plant_of, tuned, untouched
from trimtab.lab._battery_summary import outcome, ratios
from trimtab.lab._engine import run_lab
from trimtab.lab._scenario import Scenario, draw
from trimtab.lab.battery import LAB
from trimtab.store import Store


def steady() -> Scenario:
    """A server with nothing to gain: a third of what it can serve, in memory for all."""
    return replace(draw(1), shape="steady", load_ratio=0.3, cpu_s=0.02, wait_s=0.0, lock_ratio=0.0, clients="open")


def of(trim_s: float, best_s: float, seed: int = 1) -> Drawn:
    had = {ALONE: 100.0, "40": best_s, "60": 2 * best_s, TRIM: trim_s}
    return Drawn(replace(draw(1), seed=seed), {label: Had(value, 10.0, 1.0) for label, value in had.items()})


def test_a_run_that_changes_nothing_is_the_run_left_alone() -> None:
    assert tuned(steady(), "static").waited_s == untouched(steady()).waited_s
    assert tuned(steady(), TRIM) == replace(untouched(steady()), said=tuned(steady(), TRIM).said)


def test_a_fixed_setting_is_in_force_from_the_start() -> None:
    with_own, with_three = plant_of(steady()), plant_of(steady(), 3)
    try:
        assert with_own.configuration()["max_request_workers"] == steady().max_request_workers
        assert with_three.configuration()["max_request_workers"] == 3
    finally:
        with_own.close()
        with_three.close()


def test_visitors_who_are_driven_away_do_not_lower_the_cost() -> None:
    """Twice what the server can serve: what those who give up no longer ask for still counts."""
    crowd = replace(steady(), load_ratio=2.0, session_pages=10.0, patience_s=5.0)
    plant = plant_of(crowd, 3)
    before = plant.totals()
    plant.clock.sleep(LENGTH_S + DRAIN_S)
    had = {name: value - before[name] for name, value in plant.totals().items()}
    plant.close()
    mean_s = had["waited_s"] / (had["replies"] + had["given_up"])
    assert had["unsent"] > had["given_up"] > 0
    assert untouched(crowd, 3).waited_s == pytest.approx(had["waited_s"] + had["unsent"] * mean_s)


def test_a_setting_that_is_better_shows_as_a_gain() -> None:
    one = of(trim_s=60.0, best_s=50.0)
    assert (one.best_fixed, one.ratio, one.to_gain) == ("40", 0.6, 2.0)


def test_the_table_counts_harm_and_lists_the_worst_first() -> None:
    text = "\n".join(outcome([of(100.0, 100.0, 1), of(120.0, 100.0, 2), of(60.0, 50.0, 3)]))
    assert "| trim | 1.000 | 1.200 | 1.200 | 1.200 |" in text
    assert "| 66.7% | 0 of 1 | 80% | 1 |" in text
    assert text.index("seed 2: trim 1.200") < text.index("seed 1: trim 1.000") < text.index("Most left")
    assert ratios([of(60.0, 50.0)]).startswith("<svg")


def test_more_waiting_with_more_served_is_told_from_a_plain_loss() -> None:
    lost, fewer_went, served = of(120.0, 100.0, 1), of(120.0, 100.0, 2), of(120.0, 100.0, 3)
    fewer_went = replace(fewer_went, runs={**fewer_went.runs, TRIM: Had(120.0, 10.4, 0.0)})
    served = replace(served, runs={**served.runs, TRIM: Had(120.0, 10.6, 0.0)})
    assert "| 0.0% | 1 of 3 |" in "\n".join(outcome([lost, fewer_went, served]))


def test_it_writes_a_table_a_figure_and_every_draw(tmp_path: Path) -> None:
    said: list[str] = []
    run_lab(LAB, ("trim",), Context(Store(None), tmp_path / "found", seeds=(1, 6), say=said.append))
    lines = (tmp_path / "found" / "draws.jsonl").read_text().splitlines()
    assert [json.loads(line)["seed"] for line in lines] == [1, 6]
    assert {ALONE, TRIM, "40"} <= json.loads(lines[0])["runs"].keys()
    assert (tmp_path / "found" / "summary.md").read_text().endswith(said[-1])
    assert (tmp_path / "found" / "ratios.svg").stat().st_size > 0
    assert [row[0] for row in json.loads((tmp_path / "found" / "waits.json").read_text())["rows"]] == [1, 6]


def test_what_it_does_not_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no report"):
        run_lab(LAB, ("trim",), Context(Store(None), report=tmp_path / "page.html"))


def test_both_parts_are_one_run_of_each_draw() -> None:
    assert LAB.order(()) == LAB.order(("trim", "peers")) == LAB.order(("peers",)) == ("peers",)
    assert LAB.order(("trim",)) == ("trim",)


def test_slow_reloads_are_a_part_of_their_own(tmp_path: Path) -> None:
    assert LAB.order(("slow",)) == ("slow",)
    with pytest.raises(UsageError, match="--part slow runs alone"):
        LAB.order(("trim", "slow"))
    run_lab(LAB, ("slow",), Context(Store(None), tmp_path / "found", seeds=(1,)))
    assert "no request begin for 10 s" in (tmp_path / "found" / "summary.md").read_text()


def test_a_long_run_is_a_part_of_its_own_with_the_same_demand_eight_times(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--part long runs alone"):
        LAB.order(("long", "peers"))
    (arm,) = LAB.arms("long", 1)
    assert arm.duration_s == ROUNDS * LENGTH_S
    short, long = untouched(steady(), 3), untouched(replace(steady(), rounds=3), 3)
    assert long.replies == pytest.approx(3 * short.replies, rel=0.1)
    run_lab(LAB, ("long",), Context(Store(None), tmp_path / "found", seeds=(11,)))
    said = (tmp_path / "found" / "summary.md").read_text()
    assert "The course of the demand comes 8 times" in said and "changed something in 1 of 1 draws: " in said


def test_a_slow_reload_stops_the_server_for_so_long_and_is_told_before() -> None:
    plant = plant_of(steady(), reload_s=7.0)
    try:
        began_s = plant.clock.now_s()
        plant.apply({"keep_alive_timeout_ms": 1})
        assert plant.clock.now_s() - began_s == pytest.approx(7.0)
        assert plant.derive({}) == {"standstill_s": 7.0}
    finally:
        plant.close()
