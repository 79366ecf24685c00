"""A store of an older trimtab becomes one of today, with all that it holds, or stays as it was."""

from __future__ import annotations

import json
import lzma
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests._memory_plant import Climber
from trimtab import schema
from trimtab.cli import main
from trimtab.core import Move, Objective, Role, Subject, Window, of_role
from trimtab.core.trial import MoveState
from trimtab.decision import Decider, Oversight
from trimtab.errors import StoreError
from trimtab.events import NoteKind, Outcome, Status
from trimtab.guarantee import DelayGuarantee
from trimtab.guard import standard
from trimtab.processes import identify
from trimtab.records import StoredMove
from trimtab.replay import Past, replayed
from trimtab.store import Store

STORED = Path(__file__).parents[1] / "data" / "schema1.sqlite.xz"
"""Of 22 November 2026: tune (by trim; by fuzzy, killed in a change), observe, guarantee, and two runs of the plant in
memory in which a knob stood down, within a change and between two windows."""
TUNED, KILLED, OBSERVED, GUARANTEED, IN_CHANGE, BETWEEN = range(1, 7)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A copy of the stored file."""
    file = tmp_path / "runs.sqlite"
    file.touch(mode=0o600)
    file.write_bytes(lzma.decompress(STORED.read_bytes()))
    return file


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(Store(path)) as opened:
        yield opened


def contents(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [*db.iterdump(), str(db.execute("PRAGMA user_version").fetchone())]


def test_a_store_of_schema_2_gets_the_table_that_it_lacks_and_keeps_all_else(path: Path) -> None:
    Store(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.executescript("DROP TABLE checkpoints; PRAGMA user_version = 2")
    before = contents(path)
    with closing(Store(path)) as store:
        assert store.checkpoint(TUNED) is None
    after = contents(path)
    assert [line for line in after[:-1] if "checkpoints" not in line] == before[:-1]
    assert len(after) == len(before) + 1


def test_every_window_move_and_note_is_there_again_as_it_was(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        windows = db.execute("SELECT * FROM windows ORDER BY run, idx").fetchall()
        moves = db.execute("SELECT * FROM moves ORDER BY number").fetchall()
        notes = db.execute("SELECT * FROM notes ORDER BY rowid").fetchall()
        runs = db.execute("SELECT id, started, finished, status, detail, restored FROM runs").fetchall()
    with closing(Store(path)) as store:
        found = [(run.id, window) for run in store.runs() for window in store.windows(run.id)]
        assert [(row[0], window_of(row)) for row in windows] == found
        assert [list(json.loads(row[5])) for row in windows] == [list(window.readings) for _, window in found]
        done = [(run.id, move) for run in store.runs() for move in store.moves(run.id)]
        assert [(row[1], move_of(row)) for row in moves] == [(r, replace(move, sequence=0)) for r, move in done]
        assert [row[1:] for row in notes] == [
            (note.at_s, note.kind, note.text, note.knob) for run in store.runs() for note in store.notes(run.id)
        ]
        assert runs == [(r.id, r.started, r.finished, r.status, r.detail, r.restored) for r in store.runs()]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []


def window_of(row: tuple[Any, ...]) -> Window:
    """A row of schema 1 as a window."""
    _, index, start_s, duration_s, configuration, readings, samples, problems, aborted = row
    seen = (json.loads(configuration), json.loads(readings))
    return Window(index, start_s, duration_s, *seen, samples, tuple(json.loads(problems)), aborted)


def move_of(row: tuple[Any, ...]) -> StoredMove:
    """A row of schema 1 as a stored move."""
    _, _, index, proposed, move, state, detail, took_s, configuration = row
    moves = (Move(*json.loads(proposed)), Move(*json.loads(move)))
    after = None if configuration is None else json.loads(configuration)
    return StoredMove(0, index, *moves, MoveState(state), detail, took_s, after)


def test_what_stood_in_other_places_stands_in_its_own(store: Store) -> None:
    plans = {run.id: run.plan for run in store.runs()}
    assert plans[TUNED].subjects == (Subject("simulated"),)
    worker = of_role(plans[KILLED].knobs, Role.WORKER_LIMIT)
    assert worker is not None, "a knob from before there were roles has its own"
    assert plans[GUARANTEED].guarantee == DelayGuarantee(
        "relative", ("a", "b"), (1.0, 3.0), ("connection_delay_s@a", "connection_delay_s@b")
    )
    assert plans[GUARANTEED].settings.duration_s == float("inf")
    assert (plans[BETWEEN].workload, plans[BETWEEN].guarantee) == ("fixed, 100 clients", None)
    assert plans[BETWEEN].extra("steady", tuple[tuple[str, float, float], ...]) == (("large", 10.0, 50.0),)
    assert plans[BETWEEN].host == {"clients": 100}


def test_a_run_of_then_replays_as_it_was(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "replay", str(GUARANTEED), "--store", os.fspath(path)]) == 0
    assert "were reproduced" in capsys.readouterr().out


def test_where_a_method_decides_otherwise_today_the_replay_says_where(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "replay", str(TUNED), "--store", os.fspath(path)]) == 1
    assert f"run {TUNED}, window " in capsys.readouterr().err


@pytest.mark.parametrize("run", [IN_CHANGE, BETWEEN])
def test_a_knob_that_stood_down_then_stands_down_at_the_same_place(store: Store, run: int) -> None:
    objective = Objective()
    decider = Decider(Climber(objective), Oversight(standard(objective)))
    past = replayed(decider, Past(decider.start(store.run(run).plan.knobs)), store.events(run))
    assert isinstance(past, Past)
    assert (past.windows, [knob.name for knob in past.standing.knobs]) == (6, ["timeout"])
    (note,) = (note for note in store.notes(run) if note.kind is NoteKind.STAND_DOWN)
    stood_down = [move.state for move in store.moves(run)].count(MoveState.STOOD_DOWN)
    assert stood_down == (run == IN_CHANGE)
    before = [event for event in store.events(run) if event.stamp.sequence < note.stamp.sequence]
    assert type(before[-1]).__name__ == "MoveDone"


def test_events_are_numbered_from_0_without_a_gap(store: Store) -> None:
    for run in store.runs():
        assert [event.stamp.sequence for event in store.events(run.id)] == list(range(len(store.events(run.id))))
        assert {(event.stamp.run, event.stamp.node) for event in store.events(run.id)} == {(run.id, "")}


def test_a_killed_run_of_then_goes_on(path: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert store.run(KILLED).unfinished
    assert store.moves(KILLED)[-1].state is MoveState.OPEN
    assert main(["runs", "resume", str(KILLED), "--store", os.fspath(path)]) == 2
    assert "its simulated plant ended with it" in capsys.readouterr().err
    assert store.past(KILLED) is None
    store.resume(KILLED).finish(Outcome(Status.STOPPED, "", 6, False))
    assert store.run(KILLED).status is Status.STOPPED


def test_a_new_run_gets_a_number_that_was_never_used(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA foreign_keys=OFF")
        for table in ("moves", "windows", "notes"):
            db.execute(f"DELETE FROM {table} WHERE run = {BETWEEN}")
        db.execute(f"DELETE FROM runs WHERE id = {BETWEEN}")
    with closing(Store(path)) as store:
        assert store.begin(store.run(TUNED).plan).run_id == BETWEEN + 1


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        ("UPDATE runs SET plan = 'not JSON' WHERE id = 4", "run 4, written by an older trimtab, cannot be read"),
        ("UPDATE runs SET plan = json_set(plan, '$.tail', 1) WHERE id = 6", "unknown field `tail`"),
        ("UPDATE moves SET move = '[1]' WHERE run = 6", "run 6, written by an older trimtab"),
        ("UPDATE windows SET readings = '[1]' WHERE run = 5", "run 5, written by an older trimtab"),
        ("CREATE TABLE readings (value)", "table readings already exists"),
    ],
)
def test_a_failure_at_any_point_leaves_the_file_as_it_was(path: Path, spoil: str, says: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(spoil)
    before = contents(path)
    with pytest.raises(StoreError, match=says):
        Store(path)
    assert contents(path) == before


def test_a_store_that_an_older_trimtab_still_writes_into_is_left_to_it(path: Path) -> None:
    this = identify(os.getpid())
    assert this is not None
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE runs SET pid = ?, pid_started = ? WHERE id = 2", (this.pid, this.start_ticks))
    before = contents(path)
    with pytest.raises(StoreError, match=f"run 2 of an older trimtab .process {this.pid}. still writes into it"):
        Store(path)
    assert contents(path) == before


def test_a_store_of_today_is_refused_by_an_older_trimtab(path: Path) -> None:
    """It reads `user_version` and refuses what is above 1."""
    Store(path).close()
    assert contents(path)[-1] == "(3,)"


starting = st.lists(st.integers(0, 100), min_size=1, max_size=8, unique=True).map(sorted)


@settings(deadline=None)
@given(starting, st.lists(st.sampled_from([0.5 * i for i in range(240) if i % 2]), max_size=6).map(sorted))
def test_the_notes_of_any_run_come_between_the_windows_of_their_time(starts: list[int], noted: list[float]) -> None:
    db = sqlite3.connect(":memory:", isolation_level=None)
    schema.bring_up(db)
    windows = [(1, index, float(start), 0.25, "{}", "{}", None, "[]", "") for index, start in enumerate(starts)]
    schema.events_from_first(db, windows, [], [(1, at_s, "plant", "said", "") for at_s in noted])
    found = db.execute(
        "SELECT sequence, start_s FROM windows UNION SELECT sequence, at_s FROM notes ORDER BY sequence"
    ).fetchall()
    assert found == list(enumerate(sorted([*map(float, starts), *noted])))
