"""The scenes of lu2001's lab, and its runs on the simulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.errors import TrimtabError
from trimtab.identification.signals import Kind
from trimtab.lab import Arm, Context
from trimtab.lab import _lu2001_scenes as scenes
from trimtab.lab._engine import Made, run_arm
from trimtab.lab._gated import Scene
from trimtab.lab._lu2001_scenes import designs
from trimtab.lab.lu2001 import LAB
from trimtab.records import Plan
from trimtab.store import Store
from trimtab.testbed.lu2001 import STEP_S


def test_all_users_turn_to_long_pages_at_one_moment() -> None:
    """Until then only the first two populations ask, from then on only the other two, of the same classes."""
    before, after = scenes.renewed("1", "3").populations[:2], scenes.renewed("1", "3").populations[2:]
    assert [p.class_name for p in before] == [p.class_name for p in after] == ["class0", "class1"]
    assert [p.arrivals for p in before] == [p.arrivals for p in after]
    assert [p.source for p in before] == [p.source for p in after]
    at_s = STEP_S / scenes.SCALE
    assert [[(s.at_s, s.factor) for s in p.schedule] for p in before] == [[(at_s, 0.0)]] * 2
    assert [[(s.at_s, s.factor) for s in p.schedule] for p in after] == [[(0.0, 0.0), (at_s, 1.0)]] * 2
    scales = {getattr(p.burst_requests, "scale", None) for p in after}
    assert scales == {scenes.LONG_PAGE_FILES}


def test_a_simulated_run_has_the_classes_and_budgets_of_the_scene_and_says_that_it_is_simulated(
    tmp_path: Path,
) -> None:
    """It is stored as a run on the plant `simulated`, never as one on the gate."""
    store = Store(tmp_path / "runs.sqlite")
    scene = scenes.with_budgets(scenes.stepped("relative", "1", "3"), {"class0": 40, "class1": 88})
    arm = replace(LAB.arms("delay", 1)[0], bed=replace(scene, simulated=True), duration_s=15.0)
    run = run_arm(arm, Context(store), Made(store))
    plan, windows = store.run(run).plan, store.windows(run)
    assert plan.plant == "simulated"
    assert dict(plan.initial) == pytest.approx(
        {**plan.initial, "process_budget@class0": 40, "process_budget@class1": 88, "max_request_workers": 128}
    )
    assert len(windows) == 10
    assert all(w.readings["in_service@class0"] <= 40 for w in windows)
    store.close()


def test_the_models_go_before_the_loops_that_are_designed_from_them() -> None:
    assert LAB.order(("relative", "delay")) == ("identify", "relative", "delay")
    assert LAB.order(("delay",)) == ("delay",)
    assert LAB.order(())[0] == "identify"
    assert "unscaled" not in LAB.order(()), "it takes half an hour for each seed"
    assert {arm.seed for arm in LAB.arms("identify", 5)} == {101, 102}, "whatever the seed of the loops"


def test_closed_loops_are_designed_from_the_excited_runs_and_open_ones_held_where_they_settled(
    tmp_path: Path,
) -> None:
    """The whole chain on the simulator, in virtual time."""
    store = Store(tmp_path / "runs.sqlite")
    made = Made(store)

    def run(arm: Arm) -> Plan:
        assert isinstance(arm.bed, Scene)
        virtual = replace(arm, bed=replace(arm.bed, simulated=True))
        made.ids[(arm.group, arm.label, arm.seed, arm.digest())] = run_id = run_arm(virtual, Context(store), made)
        return store.run(run_id).plan

    closed, *_, opened = LAB.arms("relative", 1)
    with pytest.raises(TrimtabError, match="identify: identify, seed 101 is needed and has not been run"):
        run(closed)
    for arm in LAB.arms("identify", 1):
        run(arm)
    plan = run(closed)
    known = designs(made)
    gain = known.gains(Kind.LOGARITHMIC)["gain"]
    assert plan.controller_options["gain"] == pytest.approx(gain)
    assert str(plan.host["design"]).startswith(f"g = {gain:g}")
    budgets = {name: value for name, value in run(opened).initial.items() if name.startswith("process_budget@")}
    assert sum(budgets.values()) == 128 and len(set(budgets.values())) == 2
    store.close()
