"""The engine of the labs: what was stopped goes on where it was, and nothing is made twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from trimtab import discovery
from trimtab.errors import PlantError, TrimtabError
from trimtab.events import Event, Status, WindowDone
from trimtab.lab import Arm, Context, Lab, Page, Runs, World
from trimtab.lab._engine import run_lab
from trimtab.lab._results import STORE
from trimtab.lab._tables import means, table
from trimtab.lab.demo import OnSimulated
from trimtab.store import Store

LABELS = ("static", "trim")
SEEDS = (1, 2)


def arms(part: str, seed: int) -> list[Arm]:
    return [Arm(part, label, seed, OnSimulated(), label, 20.0) for label in LABELS]


LAB = Lab("tiny", "two methods on the simulator", {"compare": "both"}, arms, results=__name__, programs=())


def summary(page: Page) -> list[str]:
    """As a lab's module of results has it; found by name."""
    labels = page.parts["compare"]
    return table(("run", "times"), ((k, str(means(repeats, "response_time_s"))) for k, repeats in labels.items()))


def stopping_after(windows: int, context: Context) -> Context:
    """The context of a user who presses Ctrl-C after so many windows."""
    seen = []

    def watch(event: Event) -> None:
        seen.extend([event] if isinstance(event, WindowDone) else [])
        if len(seen) == windows:
            context.stop.reason = "SIGINT"

    return replace(context, on_event=watch)


def done(store: Store) -> list[tuple[str, int]]:
    """Label and seed of the runs that came to an end."""
    return [(r.plan.label, r.plan.settings.seed) for r in store.runs() if r.status is Status.DONE]


@pytest.mark.parametrize("windows", [1, 8, 15, 25, 33])
def test_a_lab_that_was_stopped_goes_on_to_the_same_runs_and_tables(tmp_path: Path, windows: int) -> None:
    through, halted, said = Store(None), Store(None), list[str]()
    run_lab(LAB, (), Context(through, tmp_path / "through", seeds=SEEDS))
    first = Context(halted, tmp_path / "out", seeds=SEEDS)
    with pytest.raises(TrimtabError, match="of 4 runs are stored, the same command goes on") as stopped:
        run_lab(LAB, (), stopping_after(windows, first))
    kept = len(done(halted))
    assert f"; {kept} of 4 runs" in str(stopped.value)
    assert list((tmp_path / "out").iterdir()) == [], "no results of a part of the runs"
    run_lab(LAB, (), Context(halted, tmp_path / "out", seeds=SEEDS, say=said.append))
    assert done(halted) == done(through) == [(label, seed) for seed in SEEDS for label in LABELS]
    assert said[0].startswith(f"{kept} of 4 runs are in the store" if kept else "[1/4]")
    texts = [(tmp_path / name / "summary.md").read_text() for name in ("through", "out")]
    assert texts[0] == texts[1] and "| trim |" in texts[0]


BATTERY: Lab = discovery.load("trimtab.lab", "battery").LAB
CONTEST: Lab = discovery.load("trimtab.lab", "contest").LAB
FEW = replace(CONTEST, arms=lambda part, seed: CONTEST.arms(part, seed)[:3], conditions=lambda context: None)
"""Three methods on the first surface: the rest of the contest takes minutes."""


def results(folder: Path) -> dict[str, str]:
    """All that a results folder says, but for its compressed store."""
    return {path.name: path.read_text() for path in folder.iterdir() if path.name != STORE}


@pytest.mark.parametrize(
    ("lab", "part", "seeds"),
    [(BATTERY, "trim", (1, 2, 3, 4, 5, 6)), (FEW, "short", (1, 2))],
    ids=["battery", "contest"],
)
def test_what_is_only_computed_is_stored_as_it_comes_and_goes_on_too(
    tmp_path: Path, lab: Lab, part: str, seeds: tuple[int, ...]
) -> None:
    whole, path = Store(None), tmp_path / "halted.sqlite"
    run_lab(lab, (part,), Context(whole, tmp_path / "through", seeds=seeds))
    context = Context(Store(path), seeds=seeds)

    def stopping(text: str) -> None:
        if text.startswith("[4/6]"):
            context.stop.reason = "SIGINT"

    with pytest.raises(TrimtabError, match="stopped by SIGINT; 3 of 6 runs are stored, the same command goes on"):
        run_lab(lab, (part,), replace(context, say=stopping))
    context.store.close()
    store, said = Store(path), list[str]()
    before = store.runs()
    assert done(store) == done(whole)[:3]
    run_lab(lab, (part,), Context(store, tmp_path / "out", seeds=seeds, say=said.append))
    assert said[0] == "3 of 6 runs are in the store and not made again (--fresh makes them)"
    assert [text[:5] for text in said if text.startswith("[")] == ["[4/6]", "[5/6]", "[6/6]"]
    assert store.runs()[:3] == before and done(store) == done(whole)
    assert results(tmp_path / "out") == results(tmp_path / "through")
    store.close()


@pytest.mark.parametrize("lab", [LAB, BATTERY], ids=["loop", "computed"])
def test_further_seeds_are_appended_to_a_store_that_holds_some(tmp_path: Path, lab: Lab) -> None:
    through, store, part = Store(None), Store(None), next(iter(lab.parts))
    run_lab(lab, (part,), Context(through, tmp_path / "through", seeds=(1, 2, 3)))
    run_lab(lab, (part,), Context(store, seeds=(1, 3)))
    before = store.runs()
    run_lab(lab, (part,), Context(store, tmp_path / "out", seeds=(1, 2, 3)))
    assert store.runs()[: len(before)] == before
    assert [run.plan.settings.seed for run in store.runs()[len(before) :]] == [2] * (len(before) // 2)
    assert (tmp_path / "out" / "summary.md").read_text() == (tmp_path / "through" / "summary.md").read_text()


def test_a_run_that_was_killed_in_the_middle_counts_for_nothing() -> None:
    store = Store(None)
    run_lab(LAB, (), Context(store, seeds=(1,)))
    second = store.runs()[1]
    store.execute("UPDATE runs SET status = ?, pid = 0, pid_started = 0 WHERE id = ?", (Status.RUNNING, second.id))
    run_lab(LAB, (), Context(store, seeds=(1,)))
    assert [run.plan.label for run in store.runs()] == ["static", "trim", "trim"]


def test_nothing_is_made_again_unless_asked() -> None:
    store = Store(None)
    for fresh, count in ((False, 2), (False, 2), (True, 4)):
        run_lab(LAB, (), Context(store, seeds=(1,), fresh=fresh))
        assert len(store.runs()) == count


def test_a_part_finds_the_runs_of_another_part_that_was_made_before() -> None:
    found = []

    def after(arm: Arm, made: Runs) -> Arm:
        found.append(made.track("compare", "trim", arm.seed).label)
        return arm

    def some(part: str, seed: int) -> list[Arm]:
        return arms(part, seed) if part == "compare" else [replace(arms(part, seed)[0], resolved=after)]

    store, said = Store(None), list[str]()
    lab = replace(LAB, parts={"compare": "both", "then": "one that goes by them"}, arms=some)
    run_lab(lab, ("compare",), Context(store, seeds=(1,)))
    run_lab(lab, ("then",), Context(store, seeds=(1,), say=said.append))
    assert found == ["trim"]
    assert done(store) == [("static", 1), ("trim", 1), ("static", 1)]
    assert said[0].startswith("[1/1] then: static, seed 1")


def test_a_declaration_that_changed_is_another_run() -> None:
    store = Store(None)
    run_lab(LAB, (), Context(store, seeds=(1,)))
    longer = replace(LAB, arms=lambda part, seed: [replace(arm, duration_s=24.0) for arm in arms(part, seed)])
    run_lab(longer, (), Context(store, seeds=(1,)))
    assert len(store.runs()) == 4


@dataclass(frozen=True)
class Broken:
    """A bed that cannot be set up, or that has a mistake in it."""

    mistaken: bool = False

    @contextmanager
    def open(self, arm: Arm, context: Context) -> Iterator[World]:
        raise ZeroDivisionError("division by zero") if self.mistaken else PlantError("apache2 found no free port")
        yield


@pytest.mark.parametrize(
    ("mistaken", "said"), [(False, "apache2 found no free port"), (True, "ZeroDivisionError: division by zero")]
)
def test_a_run_that_cannot_be_made_is_recorded_and_tried_again_where_the_lab_survives_it(
    mistaken: bool, said: str
) -> None:
    """Also a peer's own mistake: hours of other runs do not end with it."""

    def some(part: str, seed: int) -> list[Arm]:
        broken, sound = arms(part, seed)
        return [replace(broken, bed=Broken(mistaken)), sound]

    store, lab = Store(None), replace(LAB, arms=some)
    with pytest.raises((PlantError, ZeroDivisionError)):
        run_lab(lab, (), Context(store, seeds=(1,)))
    run_lab(replace(lab, survives=True), (), Context(store, seeds=(1,)))
    assert [(r.plan.label, r.status, r.detail) for r in store.runs()] == [
        ("static", Status.FAILED, said),
        ("trim", Status.DONE, ""),
    ]
    run_lab(replace(lab, survives=True), (), Context(store, seeds=(1,)))
    assert [r.plan.label for r in store.runs()] == ["static", "trim", "static"]


def test_progress_says_which_run_of_how_many_and_how_long_is_left() -> None:
    said: list[str] = []
    run_lab(LAB, (), Context(Store(None), seeds=(1,), say=said.append))
    assert re.fullmatch(r"\[1/2\] compare: static, seed 1, 20 s; \d+s left|.*m.*left", said[0]), said
    assert said[1].startswith("") and any(line.startswith("[2/2] compare: trim, seed 1, 20 s; ") for line in said)


@pytest.mark.parametrize("name", discovery.names("trimtab.lab"))
def test_what_every_arm_is_known_by_says_nothing_of_this_process(name: str) -> None:
    """Neither an address in memory nor an order of a set: or a lab could not go on in another process."""
    lab: Lab = discovery.load("trimtab.lab", name).LAB

    def made() -> list[Arm]:
        return [arm for part in lab.parts for arm in lab.arms(part, 1)]

    first, again = made(), made()
    assert not any(re.search(r" at 0x|<function|frozenset|\bset\(", repr(arm)) for arm in first)
    assert [arm.digest() for arm in first] == [arm.digest() for arm in again]
    keys = [(arm.group, arm.label, arm.seed, arm.digest()) for arm in first]
    assert len(keys) == len(set(keys)), "no two arms are taken for the same"
