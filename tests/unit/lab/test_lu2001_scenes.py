"""The scenes of lu2001's lab, and its runs on the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.controllers.static import Static
from trimtab.lab import Context
from trimtab.lab import _lu2001_scenes as scenes
from trimtab.lab._gated import run_guarantee
from trimtab.lab._lu2001_designs import OBJECTIVE
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
    run = run_guarantee(
        scene, Context(store), ("static", Static(OBJECTIVE)), 1, 15.0, "relative", "simulated", simulated=True
    )
    plan, windows = store.run(run).plan, store.windows(run)
    assert plan.plant == "simulated"
    assert dict(plan.initial) == pytest.approx(
        {**plan.initial, "process_budget@class0": 40, "process_budget@class1": 88, "max_request_workers": 128}
    )
    assert len(windows) == 10
    assert all(w.readings["in_service@class0"] <= 40 for w in windows)
    store.close()
