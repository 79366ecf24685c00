"""The arms of liu2003's parts and the summary of what they left in the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests._stored_runs import always, whole, write_run
from trimtab.core.trial import MoveState
from trimtab.errors import UsageError
from trimtab.lab import FIXED, Arm, Context
from trimtab.lab._beds import OnApache
from trimtab.lab._engine import run_lab
from trimtab.lab._gated import LiveLimit
from trimtab.lab._results import STORE, write_results
from trimtab.lab.liu2003 import DEBIANS_SPARE, GUARDED, LAB, METHODS, PARTS, SWITCH_AT_S
from trimtab.store import Store
from trimtab.testbed import setups


def bed(arm: Arm) -> OnApache:
    assert isinstance(arm.bed, OnApache)
    return arm.bed


@pytest.mark.parametrize("part", [p for p in PARTS if p.startswith("sweep-")])
def test_a_sweep_tries_every_setting_once(part: str) -> None:
    arms = LAB.arms(part, 4)
    setup = setups.SETUPS[part.removeprefix("sweep-")]
    assert [(a.seed, bed(a).start) for a in arms] == [(4, m) for m in setup.sweep]
    assert all(a.label == str(bed(a).start) and a.controller == "static" and not a.guarded for a in arms)
    assert {bed(a).setup for a in arms} == {setup}


@pytest.mark.parametrize("part", list(METHODS))
def test_methods_alternate_within_each_seed(part: str) -> None:
    arms = LAB.arms(part, 4)
    assert [(a.seed, a.label) for a in arms] == [(4, m) for m in METHODS[part]]
    assert all(a.group == part for a in arms)
    assert all(a.controller == ("static" if a.label == FIXED else a.label.removesuffix(GUARDED)) for a in arms)


@pytest.mark.parametrize("part", list(METHODS))
def test_only_trim_and_what_is_called_so_have_guards_and_all_methods_start_from_the_shipped_default(
    part: str,
) -> None:
    arms = LAB.arms(part, 4)
    assert {a.label for a in arms if a.guarded} == {m for m in METHODS[part] if m == "trim" or m.endswith(GUARDED)}
    assert all(bed(a).start == (bed(a).setup.reference if a.label == FIXED else None) for a in arms)
    assert all(bed(a).setup.spec.max_request_workers == 150 for a in arms)
    if part != "switch":
        assert len({(a.duration_s, a.window_s) for a in arms}) == 1, "all for the same time"


def test_only_the_switch_changes_its_clients() -> None:
    assert not any(bed(a).populations for p in PARTS if p != "switch" for a in LAB.arms(p, 4))
    arms = [a for a in LAB.arms("switch", 4) if a.label != FIXED]
    assert {bed(a).populations for a in arms} == {setups.switch(SWITCH_AT_S)}
    assert all(a.duration_s > SWITCH_AT_S + 24 for a in arms), "twelve windows and more after it"


def test_a_gate_is_only_where_m_moves_live_and_idle_processes_go_only_there_and_in_debians_pool() -> None:
    arms = [arm for part in PARTS for arm in LAB.arms(part, 4)]
    live = [a for a in arms if isinstance(a.bed, LiveLimit)]
    assert {a.group for a in live} == {"live-dynamic"}
    assert {bed(a).setup.workload for a in live} == {setups.DYNAMIC.workload}
    assert {bed(a).setup.spec.spare_workers for a in live} == {DEBIANS_SPARE}
    debians = [a for a in arms if a.group.startswith("debian-")]
    assert {bed(a).setup.spec.spare_workers for a in debians} == {DEBIANS_SPARE}
    assert {bed(a).setup.spec.start_servers for a in arms} == {None, 5}
    assert {bed(a).setup.spec.spare_workers for a in arms if a not in live + debians} == {None}
    # One process leaves in a second, and as many have to as the default is beyond the best.
    assert all(a.duration_s > 150 - bed(a).setup.reference for a in live)


def test_the_server_starts_with_the_shipped_limit_unless_the_bed_says_another() -> None:
    assert OnApache(setups.DYNAMIC).spec() == setups.DYNAMIC.spec
    assert OnApache(setups.DYNAMIC, start=32).spec() == replace(setups.DYNAMIC.spec, max_request_workers=32)


def test_clients_are_those_of_the_set_up_unless_the_bed_has_its_own() -> None:
    assert OnApache(setups.DYNAMIC).clients() == setups.DYNAMIC.workload.populations()
    assert OnApache(setups.DYNAMIC, populations=setups.switch(1.0)).clients() == setups.switch(1.0)


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown part 'sweep'; choose from: sweep-dynamic"):
        run_lab(LAB, ("sweep",), Context(Store(None)))


# The summary.

BEST_S = {"dynamic": 0.1, "static": 0.05}


def swept(store: Store, name: str) -> list[int]:
    """A curve with its best at 16 workers: twice that at 8, 30 times that at the default; seeds differ by 10 %."""
    times = {8: 2.0, 16: 1.0, 150: 30.0}
    return [
        write_run(
            store,
            str(m),
            always(whole(times[m] * BEST_S[name] * (1 + 0.1 * (seed - 2)), client_page_time_s=0.5)),
            group=f"sweep-{name}",
            seed=seed,
            start=m,
            windows=5,
            controller="static",
        )
        for seed in (1, 2, 3)
        for m in times
    ]


def method(store: Store, label: str, group: str, late_s: float, seed: int, after: int = 3, windows: int = 40) -> int:
    """A run from 3 s to `late_s`, which sets 16 workers after window `after`."""
    return write_run(
        store,
        label,
        lambda i, m: whole(3.0 if m == 150 else late_s),
        group=group,
        seed=seed,
        windows=windows,
        moves=[(after, 16, MoveState.APPLIED)] if label != "static" else [],
        controller=label,
    )


def summary(folder: Path, store: Store, ids: list[int]) -> list[str]:
    write_results(LAB, folder, store, ids)
    for picture in folder.glob("*.svg"):
        ElementTree.parse(picture)
    return (folder / "summary.md").read_text(encoding="utf-8").splitlines()


def test_the_sweeps_best_worst_and_default_are_named(tmp_path: Path) -> None:
    store = Store(None)
    lines = summary(tmp_path, store, swept(store, "dynamic"))
    text = "\n".join(lines)
    assert "Best: 16 workers, 100 ms. Worst: 150 workers, 3 s, 30 times the best." in text
    assert "Concave upward within 10 % from setting to setting: yes." in text
    assert "The shipped default 150: 3 s, 30 times the best." in text
    (row,) = [line for line in lines if line.startswith("| 16 |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:9] == ["16", "100 ms", "10 ms", "25 ms", "18.8 ms", "4", "50%", "110%", "500 ms"]
    assert cells[9] != "-", "the model's forecast"
    assert {p.name for p in tmp_path.glob("*.svg")} == {f"fig{n}-dynamic.svg" for n in (4, 6, 10)}
    assert (tmp_path / STORE).exists()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "times",
    [{8: 0.2, 16: 0.1, 32: 0.5, 64: 0.2, 150: 3.0}, {8: 0.2, 16: 0.8, 32: 0.1, 64: 0.2, 150: 3.0}],
    ids=["right", "left"],
)
def test_a_sweep_with_two_valleys_is_not_concave(tmp_path: Path, times: dict[int, float]) -> None:
    store = Store(None)
    ids = [write_run(store, str(m), always(whole(t)), group="sweep-dynamic", start=m) for m, t in times.items()]
    assert any("to setting: no." in line for line in summary(tmp_path, store, ids))


@pytest.mark.usefixtures("undrawn")
def test_methods_are_measured_against_the_sweep(tmp_path: Path) -> None:
    """trim settles at 1.05 times the best, the default stays at 3 s: 28.6 times slower."""
    store = Store(None)
    ids = swept(store, "dynamic")
    ids += [
        method(store, label, "compare-dynamic", late_s, seed)
        for seed in (1, 2, 3)
        for label, late_s in (("static", 3.0), ("fuzzy", 0.12), ("trim", 0.105))
    ]
    lines = summary(tmp_path, store, ids)
    rows = {
        line.split("|")[1].strip(): [c.strip() for c in line.strip("|").split("|")] for line in lines if "|" in line
    }
    assert rows["trim"] == [
        "trim",
        "105 ms (105 ms to 105 ms)",
        "1.05 (1.05 to 1.05)",
        "28.6",
        "4, 4, 4",
        "16, 16, 16",
        "0, 0, 0",
        "1.00",
    ]
    assert rows["fuzzy"][4] == "4, 4, 4", "20 % is within the quarter that fuzzy is allowed"
    assert rows["static"][3:5] == ["1", "never, never, never"]
    assert len(list(tmp_path.glob("trajectories-dynamic-*.svg"))) == 3


@pytest.mark.usefixtures("undrawn")
def test_methods_without_a_sweep_are_not_measured_against_anything(tmp_path: Path) -> None:
    store = Store(None)
    ids = [method(store, "trim", "compare-static", 0.1, 1)]
    text = "\n".join(summary(tmp_path, store, ids))
    assert "nothing to compare with" in text
    assert "times best" not in text


@pytest.mark.usefixtures("undrawn")
def test_a_fixed_reference_of_the_same_seed_goes_before_the_sweep(tmp_path: Path) -> None:
    store = Store(None)
    ids = [*swept(store, "dynamic"), method(store, "trim", "compare-dynamic", 0.21, 1)]
    ids.append(method(store, "fixed", "compare-dynamic", 0.2, 1))
    rows = [line for line in summary(tmp_path, store, ids) if line.startswith("| trim |")]
    assert rows[0].split("|")[3].strip() == "1.05"


def test_what_a_live_change_takes_stands_beside_a_reload_and_when_the_memory_was_back(tmp_path: Path) -> None:
    """A change takes a quarter of a second; trim's memory fits from 40 s on, the default's never."""
    store = Store(None)

    def leaving(index: int, limit: int) -> dict[str, float]:
        return {**whole(0.1), "memory_ratio": 0.9 if index >= 20 and limit == 16 else 3.0}

    ids = [method(store, "trim", "compare-dynamic", 0.1, 1), method(store, "fixed", "compare-dynamic", 0.1, 1)]
    moves = [(3, 16, MoveState.APPLIED)]
    ids.append(write_run(store, "trim", leaving, group="live-dynamic", windows=40, moves=moves, plant="gate"))
    ids += [
        write_run(store, label, leaving, group="live-dynamic", windows=40, plant="gate", controller="static")
        for label in ("static", "fixed", "saturation")
    ]
    lines = summary(tmp_path, store, ids)
    assert any(
        line.startswith("## M of a gate moved live, in place of reloads, dynamic (Fig. 13, 14") for line in lines
    )
    assert "| trim | 250 ms | 250 ms | 40 s | 100 ms |" in lines
    assert "| static | - | - | never | - |" in lines
    assert (tmp_path / "trajectories-live-dynamic-1.svg").exists()
    assert (tmp_path / "trajectories-dynamic-1.svg").exists()


@pytest.mark.usefixtures("undrawn")
def test_the_switch_counts_windows_from_the_change_of_the_workload(tmp_path: Path) -> None:
    """The workload changes at 30 s, with window 15; trim sets 16 after window 22, and is there from 23 on."""
    store = Store(None)
    ids = swept(store, "static")
    ids += [method(store, "trim", "switch", 0.055, seed, after=22) for seed in (1, 2)]
    ids += [method(store, "fuzzy", "switch", 0.2, seed, after=22) for seed in (1, 2)]
    lines = summary(tmp_path, store, ids)
    assert "| trim | 8, 8 | 150, 150 | 16, 16 |" in lines
    assert "| fuzzy | never, never | 150, 150 | 16, 16 |" in lines


@pytest.mark.usefixtures("undrawn")
def test_the_summary_says_how_to_repeat_it(tmp_path: Path) -> None:
    store = Store(None)
    text = "\n".join(summary(tmp_path, store, swept(store, "dynamic")))
    assert "trimtab lab run liu2003 --part sweep-dynamic --seeds 1-3 --results FOLDER" in text
    assert "- kernel: Linux 6.1" in text
