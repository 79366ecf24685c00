"""The run store: what is written is there again, after SIGKILL too, and for the owner alone."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests._memory_plant import TIMEOUT, WORKERS
from tests._stranger import STRANGER, needs_root
from trimtab.core import Applied, Move, Objective, Reading, Subject, Window
from trimtab.core.trial import MoveState
from trimtab.decision import Standing
from trimtab.errors import StoreError, UsageError
from trimtab.events import Note, NoteKind, Outcome, Stamp, Status, to_json
from trimtab.locks import locked
from trimtab.records import Plan
from trimtab.replay import Past
from trimtab.schema import VERSION
from trimtab.settings import Mode, Settings
from trimtab.store import Store, default_path

PLAN = Plan(
    command=("tune", "memory"),
    directory="/",
    subjects=(Subject("memory", 812),),
    knobs=(WORKERS, TIMEOUT),
    controller="trim",
    controller_options={"margin": 0.9},
    settings=Settings(1.5, float("inf"), Objective("cpu_ratio", False), Mode.ADVISE, seed=7),
    initial={"workers": 10, "timeout": 100},
    host={"cores": 2, "kernel": "Linux"},
    label="tuned",
    group="comparison",
    workload="8 users",
    extras={"steady": [["large", 0.5, 50.0]]},
)
WINDOW = Window(0, 0.1, 1.5, {"workers": 10}, {"response_time_s": 0.1 + 0.2}, 30, ("status: off",), "too slow")
MOVE = Move({"workers": 12}, "because", {"gain": 1 / 3}, "probe")

UNWRITABLE = """
import sys
from pathlib import Path
from trimtab.errors import StoreError
from trimtab.events import Outcome, Status
from trimtab.store import Store
found = Store(Path(sys.argv[1]), create=False)
print(*(window.index for window in found.windows(1)))
try:
    found.finish(1, Outcome(Status.UNDONE, "", 1, True))
except StoreError as error:
    print("not stored")
"""
WRITER = """
import sys
from pathlib import Path
from tests.unit.test_store import PLAN, WINDOW, MOVE
from trimtab.events import MoveState
from trimtab.store import Store
writer = Store(Path(sys.argv[1])).begin(PLAN)
writer.window(WINDOW)
writer.move(0, MOVE, MOVE, MoveState.OPEN)
print("written", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "runs.sqlite"


@pytest.mark.parametrize("taken", ["removed", "replaced", "its directory moved"])
def test_nothing_goes_on_in_a_store_that_nobody_finds_again(path: Path, taken: str) -> None:
    writer = Store(path).begin(PLAN)
    writer.window(WINDOW)
    if taken == "its directory moved":
        path.parent.rename(path.parent.with_name("elsewhere"))
    else:
        path.unlink()
    if taken == "replaced":
        path.touch(0o600)
    with pytest.raises(StoreError, match=r"No such file|another file is in its place"):
        writer.window(replace(WINDOW, index=1))


def test_a_run_comes_back_as_it_was_written(path: Path) -> None:
    store = Store(path)
    writer = store.begin(PLAN)
    writer.window(WINDOW)
    stamp = writer.move(0, MOVE, MOVE.amended({"workers": 11}, "one at a time"), MoveState.OPEN)
    writer.outcome(stamp, MoveState.APPLIED, "took effect", Applied({"workers": 11, "timeout": 100}, 0.25))
    writer.note(Note(1.0, NoteKind.STAND_DOWN, "edited by hand", "timeout"))
    writer.finish(Outcome(Status.STOPPED, "SIGINT", 1, True))
    store.close()

    again = Store(path)
    run = again.run(writer.run_id)
    assert run.plan == PLAN
    assert (run.status, run.detail, run.restored, run.unfinished) == (Status.STOPPED, "SIGINT", True, False)
    assert run.finished is not None and run.finished >= run.started
    assert again.windows(run.id) == [WINDOW]
    (move,) = again.moves(run.id)
    assert (move.proposed, move.move.changes, move.state) == (MOVE, {"workers": 11}, MoveState.APPLIED)
    assert (move.took_s, move.configuration) == (0.25, {"workers": 11, "timeout": 100})
    assert again.notes(run.id) == [Note(1.0, NoteKind.STAND_DOWN, "edited by hand", "timeout")]


def test_all_that_was_measured_comes_back_with_its_source_and_what_was_chosen(path: Path) -> None:
    measured = (
        Reading("cpu_ratio", 0.5, "resources"),
        Reading("cpu_ratio", 0.25, "resources", "db1"),
        Reading("busy_workers", 3.0, "server_status"),
        Reading("busy_workers", 4.0, "shim"),
    )
    readings = {"response_time_s": 0.1, "busy_workers": 4.0, "cpu_ratio": 0.5}
    window = Window(0, 0.0, 1.0, {}, readings, measured=measured)
    store = Store(path)
    writer = store.begin(PLAN)
    writer.window(window)
    (again,) = Store(path).windows(writer.run_id)
    assert again == window
    assert list(again.readings) == list(readings)


def test_events_carry_run_and_a_sequence_that_goes_on_in_a_run_that_is_resumed(path: Path) -> None:
    store = Store(path)
    store.begin(PLAN)
    writer = store.begin(PLAN)
    stamps = [writer.window(WINDOW), writer.move(0, MOVE, MOVE, MoveState.HELD)]
    stamps.append(store.resume(writer.run_id).note(Note(1.0, NoteKind.PLANT, "said")))
    assert stamps == [Stamp(writer.run_id, sequence) for sequence in range(3)]
    assert [event.stamp for event in store.events(writer.run_id)] == stamps
    assert [event.stamp for event in store.events(writer.run_id, after=1)] == stamps[2:]
    assert [to_json(event)["type"] for event in store.events(writer.run_id)] == ["window", "move", "note"]
    assert all(to_json(event)["run"] == writer.run_id for event in store.events(writer.run_id))


def test_a_window_that_cannot_be_written_leaves_nothing_of_itself(path: Path) -> None:
    store = Store(path)
    writer = store.begin(PLAN)
    with pytest.raises(StoreError, match="NOT NULL"):
        writer.window(Window(0, 0.0, 1.0, {}, {"cpu_ratio": float("nan")}))
    assert store.windows(writer.run_id) == []
    writer.window(WINDOW)
    assert store.windows(writer.run_id) == [WINDOW]


def test_where_a_run_stands_takes_the_place_of_where_it_stood(path: Path) -> None:
    store = Store(path)
    writer = store.begin(PLAN)
    assert store.past(writer.run_id) is None
    for index in range(3):
        writer.window(Window(index, 2.0 * index, 1.5, {}, {}))
        if index < 2:
            writer.stand(Past(Standing((WORKERS,), {"seen": index}), index + 1, 2.0 * index))
    found = Store(path).past(writer.run_id)
    assert found is not None
    assert found[0] == Past(Standing((WORKERS,), {"seen": 1}), 2, 2.0)
    assert [event.stamp.sequence for event in found[1]] == [2]


def test_only_the_owner_can_read_it(path: Path) -> None:
    store = Store(path)
    store.begin(PLAN)
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_writer_that_is_killed_leaves_all_it_had_written(path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, os.fspath(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == b"written\n"
    assert Store(path).run(1).alive
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()

    store = Store(path)
    (run,) = store.runs()
    assert (run.status, run.alive, run.unfinished) == (Status.RUNNING, False, True)
    assert store.windows(run.id) == [WINDOW]
    assert [move.state for move in store.moves(run.id)] == [MoveState.OPEN]


def test_a_killed_run_that_is_resumed_runs_here_and_has_no_open_move(path: Path) -> None:
    store = Store(path)
    writer = store.begin(PLAN)
    writer.window(WINDOW)
    writer.move(0, MOVE, MOVE, MoveState.OPEN)
    store.execute("UPDATE runs SET pid_started = 1", ())
    assert store.run(writer.run_id).unfinished
    store.resume(writer.run_id).window(Window(1, 2.0, 1.5, {}, {}))
    assert store.run(writer.run_id).alive
    assert [move.state for move in store.moves(writer.run_id)] == [MoveState.FAILED]
    assert [window.index for window in store.windows(writer.run_id)] == [0, 1]


def test_runs_of_a_group_are_found(path: Path) -> None:
    store = Store(path)
    first = store.begin(PLAN).run_id
    assert [run.id for run in store.runs("comparison")] == [first]
    assert store.runs("another") == []


def test_a_run_that_does_not_exist_is_named_with_those_that_do(path: Path) -> None:
    store = Store(path)
    with pytest.raises(UsageError, match=r"no run 3 .* it has none"):
        store.run(3)
    store.begin(PLAN)
    with pytest.raises(UsageError, match=r"no run 3 .* it has 1 to 1"):
        store.run(3)


def test_a_window_is_written_once(path: Path) -> None:
    writer = Store(path).begin(PLAN)
    writer.window(WINDOW)
    with pytest.raises(StoreError, match="UNIQUE"):
        writer.window(WINDOW)


def test_a_move_without_its_window_is_refused(path: Path) -> None:
    writer = Store(path).begin(PLAN)
    with pytest.raises(StoreError, match="FOREIGN KEY"):
        writer.move(0, MOVE, MOVE, MoveState.OPEN)


def test_reading_a_store_that_does_not_exist_makes_none(path: Path) -> None:
    assert Store(path, create=False).runs() == []
    assert not path.parent.exists()


def test_processes_that_open_a_new_store_at_once_share_it(path: Path) -> None:
    opening = "import sys; from pathlib import Path; from trimtab.store import Store; sys.stdin.read(1);"
    opening += "[Store(Path(sys.argv[1] + str(i))) for i in range(20)]"
    path.parent.mkdir()
    command = [sys.executable, "-c", opening, os.fspath(path)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"!")
        process.stdin.close()
    for process in processes:
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait()) == (b"", 0)
        process.stderr.close()


@needs_root
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(
    "limited", ["--bind -o ro {0}", "-t tmpfs -o size=1m,mode=700 t"], ids=["that cannot be written", "that is full"]
)
def test_on_a_disk(path: Path, tmp_path: Path, limited: str, killed: bool) -> None:
    """What there is is read all the same; what cannot be stored is said."""
    store, left = Store(path), tmp_path / "left"
    store.begin(PLAN).window(WINDOW)
    if not killed:
        store.close()
    shutil.copytree(path.parent, left)  # with the log that SQLite takes away at an orderly end
    store.close()
    there = path.parent
    mount = f"mount {limited.format(left)} {there}; cp -a {left}/. {there}; cat /dev/zero > {there}/0"
    reads = [sys.executable, "-c", UNWRITABLE, os.fspath(path)]
    words = ["unshare", "-m", "sh", "-c", f'{mount}; exec "$0" "$@"', *reads]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    assert said.stdout == "0\nnot stored\n", said.stderr


def test_a_newer_store_is_refused(path: Path) -> None:
    Store(path).close()
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {VERSION + 1}")
    database.close()
    with pytest.raises(StoreError, match="newer trimtab"):
        Store(path)


def test_a_file_that_is_no_store_is_refused_and_kept(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("a letter to a friend, long enough to be looked at as a database header\n" * 10)
    for create in (False, True):
        with pytest.raises(UsageError, match="is no run store: name another file by --store"):
            Store(path, create)
    assert path.read_text().startswith("a letter")
    assert list(path.parent.iterdir()) == [path], "no lock is left beside it"


@pytest.mark.parametrize("version", [0, 2, VERSION])
@pytest.mark.parametrize("create", [False, True])
def test_a_database_of_another_program_is_refused_and_kept(path: Path, version: int, create: bool) -> None:
    path.parent.mkdir()
    database = sqlite3.connect(path)
    database.executescript(f"CREATE TABLE runs (miles REAL); PRAGMA user_version = {version}")
    database.close()
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is no run store"):
        Store(path, create)
    assert path.read_bytes() == before


def test_the_store_is_in_the_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", os.fspath(tmp_path))
    assert default_path() == tmp_path / "trimtab" / "runs.sqlite"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    assert default_path() == tmp_path / ".local" / "state" / "trimtab" / "runs.sqlite"


@needs_root
def test_a_store_that_somebody_else_could_change_is_not_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(path).close()

    def opened(*_: object, **__: object) -> None:
        pytest.fail("SQLite was given the file")

    monkeypatch.setattr(sqlite3, "connect", opened)
    for one in (path, path.parent, path.parent.parent):
        os.chown(one, STRANGER, STRANGER)
        with pytest.raises(UsageError, match=f"is not opened: {one} belongs to uid {STRANGER}"):
            Store(path)
        os.chown(one, 0, 0)
        mode = one.stat().st_mode & 0o777
        for loose in (0o020, 0o002):
            one.chmod(mode | loose)
            with pytest.raises(UsageError, match=f"is not opened: {one} can be written by"):
                Store(path)
        one.chmod(mode)


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_a_store_that_is_a_link_or_has_one_beside_it_is_not_opened(path: Path, tmp_path: Path, suffix: str) -> None:
    Store(path).close()
    (tmp_path / "elsewhere").write_text("kept")
    beside = path.with_name(path.name + suffix)
    beside.unlink(missing_ok=True)
    beside.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=f"{beside} is a link"):
        Store(path)
    assert (tmp_path / "elsewhere").read_text() == "kept"


def test_what_is_no_file_is_no_store_and_gets_no_lock_beside_it(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path, 0o600)
    for create in (True, False):
        with pytest.raises(UsageError, match="is no run store"):
            Store(path, create=create)
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_store_is_not_made_where_everybody_can_put_files(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(UsageError, match="can be written by everybody: use a directory of your own"):
        Store(tmp_path / "runs.sqlite")
    with pytest.raises(UsageError, match="others can make it"):
        Store(tmp_path / "below" / "runs.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_no_umask_makes_a_store_that_others_can_change(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Store(tmp_path / "a" / "b" / "runs.sqlite").close()
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / part).stat().st_mode) for part in ("a", "a/b", "a/b/runs.sqlite")]
    assert modes == [0o700, 0o700, 0o600]


def test_a_run_that_keeps_its_last_windows_holds_no_more_than_those_and_a_lump(path: Path) -> None:
    store = Store(path)
    whole = store.begin(PLAN)
    whole.window(WINDOW)
    writer = store.begin(PLAN, keep=32)
    most = 0
    for index in range(200):
        writer.window(Window(index, 2.0 * index, 1.5, {}, {}))
        writer.move(index, MOVE, MOVE, MoveState.HELD)
        writer.note(Note(2.0 * index + 1.5, NoteKind.PLANT, "said again"))
        most = max(most, len(store.windows(writer.run_id)))
    indices = [window.index for window in store.windows(writer.run_id)]
    assert indices == list(range(indices[0], 200))
    assert 32 <= len(indices) <= most <= 32 + 2
    assert [move.index for move in store.moves(writer.run_id)] == indices
    assert len(indices) <= len(store.notes(writer.run_id)) <= len(indices) + 2
    assert store.windows(whole.run_id) == [WINDOW]


def test_a_lock_that_somebody_keeps_is_said_and_not_waited_for_without_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.locks.locked", partial(locked, patience_s=0.0))
    Store(path).close()
    his = os.open(f"{path}-lock", os.O_RDONLY)
    fcntl.flock(his, fcntl.LOCK_EX)
    with pytest.raises(StoreError, match=f"the run store {path}: {path}-lock is locked by another"):
        Store(path)
    os.close(his)
    assert Store(path).runs() == []


def test_nothing_that_others_may_open_is_locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.locks.locked", partial(locked, patience_s=0.0))
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.parent.chmod(0o755)
    his = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(his, fcntl.LOCK_EX)
    assert Store(path).runs() == []
    os.close(his)
    beside = {one.name: one.stat().st_mode & 0o077 for one in path.parent.glob(f"{path.name}*")}
    assert f"{path.name}-lock" in beside and set(beside.values()) == {0}


def test_texts_of_bytes_that_are_no_characters_are_stored_escaped(path: Path) -> None:
    text = os.fsdecode(b"/etc/m\xfcller.conf was edited")
    store = Store(path)
    writer = store.begin(replace(PLAN, label=text))
    writer.window(replace(WINDOW, aborted=text, problems=(text,)))
    stamp = writer.move(0, MOVE, MOVE, MoveState.OPEN)
    writer.outcome(stamp, MoveState.STOOD_DOWN, text)
    writer.note(Note(1.0, NoteKind.STAND_DOWN, text, "workers"))
    writer.finish(Outcome(Status.FAILED, text, 1, True))
    shown = r"/etc/m\udcfcller.conf was edited"
    assert [move.detail for move in store.moves(writer.run_id)] == [shown]
    assert [note.text for note in store.notes(writer.run_id)] == [shown]
    assert (store.run(writer.run_id).detail, store.windows(writer.run_id)[0].aborted) == (shown, shown)


def test_what_was_in_force_in_a_run_is_told_once_each_and_its_last_move(path: Path) -> None:
    store = Store(path)
    writer = store.begin(PLAN)
    assert (store.configurations(1), store.last_move(1)) == ([], None)
    for index, workers in enumerate((10, 10, 20)):
        writer.window(replace(WINDOW, index=index, configuration={"workers": workers}))
    writer.move(1, MOVE, MOVE, MoveState.HELD)
    stamp = writer.move(2, MOVE, MOVE, MoveState.OPEN)
    writer.outcome(stamp, MoveState.APPLIED, "", Applied({"workers": 30}))
    assert sorted(one["workers"] for one in store.configurations(1)) == [10, 20, 30]
    last = store.last_move(1)
    assert last is not None and (last.index, last.state) == (2, MoveState.APPLIED)


def test_events_after_a_place_are_read_with_their_readings_alone(path: Path) -> None:
    store = Store(path)
    writer = store.begin(PLAN)
    stamps = [writer.window(replace(WINDOW, index=index)) for index in range(4)]
    writer.move(3, MOVE, MOVE, MoveState.HELD)
    late = store.events(1, after=stamps[1].sequence)
    assert late == store.events(1)[2:]
    assert len(late) == 3
