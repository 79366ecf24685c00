"""The runs of chung2004's parts, and the summary of what they left in the store."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from trimtab.clock import SystemClock
from trimtab.core import Move, MoveState, Window
from trimtab.events import Outcome, Status
from trimtab.lab import Arm
from trimtab.lab._engine import Made, _plan
from trimtab.lab._results import write_results
from trimtab.lab.chung2004 import LAB, METRIC, MIX, MIXES, OURS, PARTS, SINGLE, THEIRS, WINNERS, InTurn, arms, winner
from trimtab.plants.stack.clients import Clients
from trimtab.report.track import tracks
from trimtab.search.pace import PACE
from trimtab.store import Store
from trimtab.trials import MEASURE

SETTING = SINGLE["5 threads, none spare"]


def stored(store: Store, arm: Arm, gain: float, seed: int, speed: float = 1.0, wanders: float = 0.0) -> int:
    """A synthetic run: three trials at the start, the others so many times better; speed is the machine's, which
    wanders by so much and is measured then."""
    chance = Random(f"{seed}/{arm.label}")
    if arm.group == "cross":
        arm = replace(arm, extras={**arm.extras, WINNERS: {mix: {"a": 2} for mix in MIXES}})
    writer = store.begin(_plan(arm, initial={"a": 1}))
    for index in range(15):
        moved = index % 2 == 1 if arm.group == "cross" else index > 2 and arm.controller != "static"
        now = speed * math.exp(chance.gauss(0.0, wanders)) if wanders else speed
        rate = 100 * now * (gain if moved else 1.0) * chance.uniform(0.99, 1.01)
        readings = {METRIC: rate, MIX: float(index // 5)} | ({PACE: 1e-4 / now} if wanders else {})
        writer.window(Window(index, index * 10.0, 10.0, {"a": 2 if moved else 1}, readings))
        move = Move({}, "", incumbent={"a": 2} if arm.controller != "static" else None)
        refused = arm.controller == THEIRS and index < 9
        writer.move(index, move, move, MoveState.REFUSED if refused else MoveState.HELD)
    writer.finish(Outcome(Status.DONE, "", 15, False))
    return writer.run_id


def test_the_winner_is_what_the_search_named_last_where_it_is_not_the_start() -> None:
    store = Store(None)
    run = stored(store, arms("search-shopping", 1)[0], 1.1, 1)
    assert winner(tracks(store, [run])[0]) == {"a": 2}


def test_each_winner_is_measured_anew_in_turn_with_the_start_under_every_mix() -> None:
    store = Store(None)
    made = Made(store)
    for mix in MIXES:
        arm = arms(f"search-{mix}", 1)[0]
        made.ids[arm.group, arm.label, arm.seed, arm.digest()] = stored(store, arm, 1.1, 1)
    cross = arms("cross", 1)
    assert [arm.label for arm in cross] == list(MIXES)
    for arm in cross:
        assert arm.resolved is not None
        complete = arm.resolved(arm, made)
        assert complete.options == {"settings": "a=2;a=2;a=2"}
        assert complete.extras[WINNERS] == {mix: {"a": 2} for mix in MIXES}


@pytest.mark.parametrize("part", PARTS)
def test_every_search_has_as_many_trials(part: str) -> None:
    lengths = {arm.duration_s for arm in arms(part, 1)}
    assert len(lengths) == 1


def test_the_summary_says_what_was_gained_and_what_it_cost(tmp_path: Path) -> None:
    store, ids = Store(None), []
    for seed in (1, 2):
        for part in PARTS:
            ids += [stored(store, arm, 1.2, seed) for arm in arms(part, seed)]
    write_results(LAB, tmp_path, store, ids)
    text = (tmp_path / "summary.md").read_text()
    assert OURS in text and THEIRS in text
    assert "| 15 | 9 |" in next(line for line in text.splitlines() if line.startswith(f"| {THEIRS} | 1 |"))
    row = next(line for line in text.splitlines() if line.startswith("| trust_region | 1 |"))
    of_all, after_the_tenth = (float(cell) for cell in row.split(" | ")[5:7])
    assert (of_all, after_the_tenth) == pytest.approx((1.16, 1.2), abs=0.02), "three of the fifteen are the start"
    assert "| winner of browsing | 1.2" in text or "| winner of browsing | 1.19" in text
    (row,) = (line for line in text.splitlines() if line.startswith("| shopping: the winner measured anew"))
    assert row.endswith("200 trials | 1.19 | yes |"), "the lower end: a mean above 1 alone is no gain"
    (row,) = (line for line in text.splitlines() if line.startswith("| trust_region | 1 | browsing | 5 |"))
    assert row.endswith("| 4 |"), "three trials at the start, then near to what the winner gives"


def test_a_shop_that_gets_faster_by_itself_is_no_gain_of_the_search(tmp_path: Path) -> None:
    store = Store(None)
    arm = arms("search-ordering", 1)[0]
    writer = store.begin(_plan(arm, initial={"a": 1}))
    for index in range(20):
        found = {"a": 1 if index < 3 or index == 19 else 2}
        writer.window(Window(index, index * 10.0, 10.0, found, {METRIC: 100.0 + 2 * index}))
        move = Move({}, "", phase=MEASURE if index > 15 else "trial", incumbent={"a": 2})
        writer.move(index, move, move, MoveState.HELD)
    writer.finish(Outcome(Status.DONE, "", 20, False))
    write_results(LAB, tmp_path, store, [writer.run_id])
    (row,) = (line for line in (tmp_path / "summary.md").read_text().splitlines() if line.startswith(f"| {OURS} |"))
    assert "| 17 | 0 | 1.000 | 1.000 | 1.000 | 0% |" in row, "the start's own windows at the end are as fast"


def test_a_start_that_comes_back_to_a_wrecked_shop_is_no_measure_of_what_was_tried_before(tmp_path: Path) -> None:
    store = Store(None)
    arm = arms("search-shopping", 1)[0]
    writer = store.begin(_plan(arm, initial={"a": 1}))
    seen = [(1, 100.0, 0.0), *[(2, 80.0, 0.0)] * 4, (2, 3.0, 300.0), (1, 40.0, 120.0)]
    for index, (value, rate, failed) in enumerate(seen):
        readings = {METRIC: rate, "client_error_rate_hz": failed}
        writer.window(Window(index, index * 10.0, 10.0, {"a": value}, readings))
        move = Move({}, "", phase=MEASURE if index > 4 else "trial", incumbent={"a": 1})
        writer.move(index, move, move, MoveState.HELD)
    writer.finish(Outcome(Status.DONE, "", 7, False))
    write_results(LAB, tmp_path, store, [writer.run_id])
    (row,) = (line for line in (tmp_path / "summary.md").read_text().splitlines() if line.startswith(f"| {OURS} |"))
    assert "| 0.705 | 0.705 | 0.030 | 83% |" in row


def test_a_single_setting_is_compared_with_the_start_as_it_would_have_been_at_that_time(tmp_path: Path) -> None:
    store = Store(None)
    (arm,) = arms("single", 1)
    writer = store.begin(_plan(arm, initial=dict.fromkeys(SETTING, 0)))
    for index in range(9):
        setting = SETTING if index % 3 == 1 else dict.fromkeys(SETTING, 0)
        speed = 100.0 + 10 * index  # the machine gets faster: a plain ratio of means would be another
        rate = speed * (1.1 if setting is SETTING else 1.0)
        writer.window(Window(index, index * 10.0, 10.0, setting, {METRIC: rate}))
    writer.finish(Outcome(Status.DONE, "", 9, False))
    write_results(LAB, tmp_path, store, [writer.run_id])
    text = (tmp_path / "summary.md").read_text()
    assert "| 5 threads, none spare | 1.100 (0.000) |" in text
    assert "| 20 threads | - |" in text


def test_how_near_a_search_came_is_not_told_by_what_another_machine_sold(tmp_path: Path) -> None:
    store, ids = Store(None), []
    for part, gain in (("change", 1.2), ("cross", 1.2)):
        for arm in arms(part, 1):
            ids.append(stored(store, arm, gain, 1, 0.5 if part == "cross" else 1.0))
    write_results(LAB, tmp_path, store, ids)
    text = (tmp_path / "summary.md").read_text()
    (row,) = (line for line in text.splitlines() if "| trust_region | 1 | browsing" in line)
    assert row.endswith("| - | - |"), "it sold half as much"


def test_how_near_a_search_came_is_told_where_the_machine_s_pace_was_measured_in_both(tmp_path: Path) -> None:
    store, ids = Store(None), []
    for part in ("noise", "change", "cross"):
        for arm in arms(part, 1):
            ids.append(stored(store, arm, 1.2, 1, 0.7 if part == "cross" else 1.0, 0.1))
    write_results(LAB, tmp_path, store, ids)
    lines = (tmp_path / "summary.md").read_text().splitlines()
    (row,) = (line for line in lines if "| trust_region | 1 | browsing" in line)
    assert row.endswith("| 4 |")
    (row,) = (line for line in lines if line.startswith("| start, shopping | 1 |"))
    raw, level = (float(cell.strip().rstrip("%")) for cell in row.split("|")[4:6])
    assert raw > 5 > 2 > level


def test_a_winner_under_another_mix_is_shown_with_the_interval_of_its_turns_whatever_the_machine_does(
    tmp_path: Path,
) -> None:
    store = Store(None)
    arm = arms("cross", 1)[0]
    writer = store.begin(
        _plan(replace(arm, extras={**arm.extras, WINNERS: {"shopping": {"a": 2}}}), initial={"a": 1})
    )
    for index, gain in enumerate([1.0, 1.2, 1.0, 1.1, 1.0, 1.15, 1.0]):
        rate = (100.0 + 20 * index) * gain  # the machine gets faster
        writer.window(Window(index, index * 10.0, 10.0, {"a": 1 if gain == 1.0 else 2}, {METRIC: rate}))
    writer.finish(Outcome(Status.DONE, "", 7, False))
    write_results(LAB, tmp_path, store, [writer.run_id])
    text = (tmp_path / "summary.md").read_text()
    assert "| winner of shopping | 1.150 (1.026 to 1.274) | - | - |" in text, "t of 2 degrees: 4.303 x 0.05 / sqrt 3"


def test_the_browsers_go_over_to_the_next_mix_after_so_many_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(Clients, "start", lambda self: started.append(self._traffic))
    monkeypatch.setattr(Clients, "close", lambda self: started.append("end"))
    monkeypatch.setattr(Clients, "read", lambda self: {METRIC: 1.0})
    clients = InTurn(("first", "second"), 2, SystemClock())  # type: ignore[arg-type]
    clients.start()
    seen = []
    for _ in range(6):
        clients.begin()
        seen.append(clients.read()[MIX])
    assert seen == [0, 0, 1, 1, 1, 1]
    assert started == ["first", "end", "second"]


def test_a_search_is_run_as_tune_stack_runs_it_and_ends_by_its_trials() -> None:
    for arm in arms("search-ordering", 1):
        assert arm.search is not None and math.isinf(arm.settings().duration_s)
    assert all(arm.search is None for arm in arms("change", 1))
