"""Folders of results: written once, and made again from what they keep."""

from __future__ import annotations

import errno
import json
import lzma
import os
from pathlib import Path

import pytest

from tests._stored_runs import always, whole, write_run
from trimtab.core.trial import MoveState
from trimtab.errors import TrimtabError, UsageError
from trimtab.lab import _liu2003_results as liu2003_results
from trimtab.lab import _results
from trimtab.lab._results import STORE, new_folder, unpacked, write_results
from trimtab.lab.liu2003 import LAB
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
    with pytest.raises(UsageError, match="cannot be made: Not a directory"):
        new_folder(tmp_path / "file" / "below")


def two_runs(store: Store) -> list[int]:
    moves = [(1, 40, MoveState.APPLIED), (2, 30, MoveState.REFUSED)]
    at = always({"response_time_s": 0.1})
    first = write_run(store, "8", at, windows=4, moves=moves, group="sweep-dynamic", seed=7, start=8)
    write_run(store, "left out", at, windows=3, group="other", seed=7)
    return [first, write_run(store, "16", at, windows=1, group="sweep-dynamic", seed=8, start=16)]


def test_the_same_results_can_be_written_from_what_is_kept(tmp_path: Path) -> None:
    """Figures, tables and decisions: the compressed store has these runs whole, and no others."""
    store = Store(tmp_path / "runs.sqlite")
    ids = two_runs(store)
    write_results(LAB, new_folder(tmp_path / "first"), store, ids)
    with unpacked(tmp_path / "first" / STORE) as copy:
        assert [run.id for run in copy.runs()] == ids
        for run_id in ids:
            assert copy.windows(run_id) == store.windows(run_id)
            assert copy.moves(run_id) == store.moves(run_id)
        write_results(LAB, new_folder(tmp_path / "second"), copy, ids)
    for name in ("summary.md", "runs.jsonl", "fig4-dynamic.svg"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    store.close()


@pytest.mark.usefixtures("undrawn")
def test_results_that_could_not_be_written_leave_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(store: Store, run_ids: list[int], reads: tuple[str, ...] = ()) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    store, folder = Store(None), new_folder(tmp_path / "a")
    ids = two_runs(store)
    with monkeypatch.context() as patched:
        patched.setattr(_results, "packed", full)
        with pytest.raises(TrimtabError, match=f"cannot be written to {folder}: No space left on device; the same"):
            write_results(LAB, folder, store, ids)
    write_results(LAB, new_folder(folder), store, ids)
    assert {"summary.md", "runs.jsonl", STORE} <= {one.name for one in folder.iterdir()}
    assert not [one for one in folder.iterdir() if one.name.startswith(".")]


@pytest.mark.usefixtures("undrawn")
def test_what_is_too_large_for_a_repository_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_results, "MOST_STORED_BYTES", 100)
    store, said = Store(None), list[str]()
    write_results(LAB, new_folder(tmp_path / "a"), store, two_runs(store), said.append)
    assert not (tmp_path / "a" / STORE).exists()
    assert "is left out" in said[0]


@pytest.mark.usefixtures("undrawn")
def test_what_is_too_large_with_all_readings_is_kept_with_those_that_the_page_is_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, said = Store(tmp_path / "runs.sqlite"), list[str]()
    many = always({"response_time_s": 0.1, **{f"other_{k}": float(hash((k, k))) for k in range(40)}})
    ids = [write_run(store, "8", many, windows=40, group="sweep-dynamic", start=8)]
    monkeypatch.setattr(liu2003_results, "READS", ("response_time_s",), raising=False)
    thin = len(_results.packed(store, ids, ("response_time_s",)))
    assert thin < len(_results.packed(store, ids))
    monkeypatch.setattr(_results, "MOST_STORED_BYTES", thin)
    write_results(LAB, new_folder(tmp_path / "a"), store, ids, said.append)
    assert "no others" in said[0]
    with unpacked(tmp_path / "a" / STORE) as copy:
        assert [dict(window.readings) for window in copy.windows(1)] == 40 * [{"response_time_s": 0.1}]
    store.close()


def test_a_file_that_is_no_compressed_store_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / STORE
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(UsageError, match="is no compressed store"), unpacked(path):
        pass
    path.write_bytes(lzma.compress(b"x" * 1000))
    with pytest.raises(UsageError, match="is no compressed store"), unpacked(path):
        pass
    monkeypatch.setattr(_results, "MOST_READ_BYTES", 999)
    with pytest.raises(UsageError, match="holds more than"), unpacked(path):
        pass
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UsageError, match="it is not a regular file"), unpacked(path):
        pass


@pytest.mark.usefixtures("undrawn")
def test_what_is_known_of_each_run_is_kept_beside_the_figures(tmp_path: Path) -> None:
    store = Store(None)
    write_results(LAB, new_folder(tmp_path / "a"), store, two_runs(store))
    runs = [json.loads(line) for line in (tmp_path / "a" / "runs.jsonl").read_text().splitlines()]
    assert [(r["label"], r["seed"], r["status"]) for r in runs] == [("8", 7, "done"), ("16", 8, "done")]
    assert runs[0]["host"]["kernel"] == "Linux 6.1"


@pytest.mark.usefixtures("undrawn")
def test_runs_of_two_versions_are_told_apart_from_those_of_one(tmp_path: Path) -> None:
    store, at = Store(None), always({"response_time_s": 0.1})
    ids = [
        write_run(store, str(limit), at, windows=2, group="sweep-dynamic", start=limit, version=version)
        for limit, version in ((8, "1.0"), (16, "1.1"), (30, "1.0"))
    ]
    write_results(LAB, new_folder(tmp_path / "one"), store, ids[:1])
    write_results(LAB, new_folder(tmp_path / "two"), store, ids)
    said = [(tmp_path / name / "summary.md").read_text() for name in ("one", "two")]
    assert "- trimtab: 1.0\n" in said[0] and "not the same" not in said[0]
    assert "- trimtab: 1.0, 1.1; not the same in all runs\n" in said[1]
    assert "- kernel: Linux 6.1\n" in said[1]


@pytest.mark.usefixtures("undrawn")
def test_a_claim_is_held_against_the_runs_that_are_there(tmp_path: Path) -> None:
    store = Store(None)
    times = {8: 1.0, 16: 0.1, 150: 3.0}
    ids = [write_run(store, str(m), always(whole(t)), group="sweep-dynamic", start=m) for m, t in times.items()]
    write_results(LAB, new_folder(tmp_path / "a"), store, ids)
    lines = (tmp_path / "a" / "summary.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith(("| dynamic: ", "| static: "))]
    assert [row.rsplit("|", 3)[1:3] for row in rows] == [[" 30.00 ", " yes "], [" 30.00 ", " yes "]]
