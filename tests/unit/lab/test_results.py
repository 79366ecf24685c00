from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests._stored_runs import track_of
from trimtab.core.trial import MoveState
from trimtab.errors import UsageError
from trimtab.lab._results import new_folder, write_raw
from trimtab.store import Store


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    assert new_folder(tmp_path / "a" / "b").is_dir()
    assert new_folder(tmp_path / "a" / "b").is_dir(), "an empty one may be used"


def test_results_are_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "summary.md").write_text("found")
    with pytest.raises(UsageError, match="has results already"):
        new_folder(tmp_path)
    assert (tmp_path / "summary.md").read_text() == "found"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is not a folder"):
        new_folder(tmp_path / "file")


def test_what_was_stored_can_be_read_back(tmp_path: Path) -> None:
    store = Store(None)
    moves = [(1, 40, MoveState.APPLIED), (2, 30, MoveState.REFUSED)]
    reason = 'memory, "full"\nand more'
    first = track_of(
        store,
        "trim",
        lambda i, m: {"response_time_s": 0.1 + i / 3, **({"cpu_ratio": 0.25} if i else {})},
        windows=4,
        moves=moves,
        group="switch",
        seed=7,
        reason=reason,
    )
    second = track_of(store, "fuzzy", lambda i, m: {"busy_workers": 3.0}, windows=1, group="switch", seed=8)
    write_raw(tmp_path, [first, second])

    with (tmp_path / "windows.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(r["label"], r["seed"], r["window"], r["max_request_workers"]) for r in rows] == [
        ("trim", "7", "0", "150"),
        ("trim", "7", "1", "150"),
        ("trim", "7", "2", "40"),
        ("trim", "7", "3", "40"),
        ("fuzzy", "8", "0", "150"),
    ]
    assert [float(r["response_time_s"]) for r in rows[:4]] == pytest.approx([0.1 + i / 3 for i in range(4)], rel=1e-5)
    assert [r["cpu_ratio"] for r in rows] == ["", "0.25", "0.25", "0.25", ""], "what was not measured is empty, not 0"
    assert (rows[2]["start_s"], rows[2]["duration_s"]) == ("4.000", "2.000")

    with (tmp_path / "moves.csv").open(newline="", encoding="utf-8") as file:
        changed = list(csv.DictReader(file))
    assert [(r["changes"], r["state"], r["took_s"], r["reason"]) for r in changed] == [
        ("max_request_workers=40", "applied", "0.25", reason),
        ("max_request_workers=30", "refused", "", reason),
    ]
    runs = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert [(r["group"], r["label"], r["seed"], r["status"]) for r in runs] == [
        ("switch", "trim", 7, "done"),
        ("switch", "fuzzy", 8, "done"),
    ]
    assert runs[0]["host"]["kernel"] == "Linux 6.1"
