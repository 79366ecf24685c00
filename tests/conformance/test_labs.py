"""Every experiment there is, through one kit."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab import discovery
from trimtab.errors import UsageError
from trimtab.lab import Context, Lab
from trimtab.lab._engine import run_lab, write_lab
from trimtab.metrics import metric
from trimtab.store import Store

ROOM = "trimtab.lab"

every = pytest.mark.parametrize("name", discovery.names(ROOM))


def lab_of(name: str) -> Lab:
    lab: Lab = discovery.load(ROOM, name).LAB
    return lab


@every
def test_it_says_in_one_line_what_it_shows(name: str) -> None:
    lab = lab_of(name)
    assert lab.description and "\n" not in lab.description


@every
def test_what_it_shows_window_by_window_is_known(name: str) -> None:
    lab = lab_of(name)
    assert lab.knobs
    assert metric(lab.objective)


@every
def test_its_parts_are_described_and_can_be_typed(name: str) -> None:
    parts = lab_of(name).parts
    assert parts
    for part, what in parts.items():
        assert part.replace("-", "").isalnum() and part == part.lower()
        assert what and "\n" not in what


@every
def test_an_unknown_part_is_refused_before_anything_is_done(name: str, tmp_path: Path) -> None:
    store = Store(None)
    lab = lab_of(name)
    for parts in (("nosuch",), (*lab.parts, "nosuch")):
        with pytest.raises(UsageError, match="unknown part 'nosuch'; choose from: "):
            run_lab(lab, parts, Context(store, results=tmp_path / "results", report=tmp_path / "report.html"))
    assert store.runs() == []
    assert list(tmp_path.iterdir()) == []


@every
def test_every_part_has_arms_of_its_own_lab(name: str) -> None:
    lab = lab_of(name)
    for part in lab.parts:
        arms = [arm for seed in range(1, 6) for arm in lab.arms(part, seed)]  # some run on some of the seeds
        assert arms
        assert {arm.group for arm in arms} <= set(lab.parts)
        assert all(arm.settings().window_s <= arm.duration_s for arm in arms)


@every
def test_a_lab_writes_results_or_a_report_and_refuses_the_other(name: str, tmp_path: Path) -> None:
    lab, store = lab_of(name), Store(None)
    assert bool(lab.results) != bool(lab.report)
    wrong = Context(store, report=tmp_path / "x") if lab.results else Context(store, results=tmp_path / "x")
    with pytest.raises(UsageError, match="writes no"):
        run_lab(lab, (), wrong)
    with pytest.raises(UsageError, match="writes no"):
        write_lab(lab, (), wrong)
    assert list(tmp_path.iterdir()) == []
