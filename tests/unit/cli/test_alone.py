"""One run at a time changes a server, and a search that goes on does so from what is the operator's."""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests._memory_plant import MemoryPlant
from tests.unit.cli.conftest import Said, Trimtab
from trimtab.cli._leftovers import alone, last_turn_ns, require_alone
from trimtab.core import Plant
from trimtab.errors import UsageError
from trimtab.locks import held
from trimtab.plants._stack import Stack
from trimtab.processes import identify
from trimtab.store import Store

TUNE = ("tune", "memory", "--controller", "fuzzy", "--duration", "60s")
SEARCH = ("tune", "memory", "--controller", "trust_region", "--knob", "*", "--window", "2s", "--trials", 6)
REFUSED = "trimtab: run 1 still runs on this server, and would be taken for an operator: end it first\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plant in memory has a server with a process of its own."""
    monkeypatch.setattr(MemoryPlant, "pid", 7)


def goes_on(store: Path, alive: bool = True) -> None:
    """Makes run 1 look as if it had not ended, and as if its process were there or not."""
    here = identify(os.getpid())
    assert here is not None
    ticks = here.start_ticks if alive else 1
    with contextlib.closing(Store(store)) as kept:
        kept.execute("UPDATE runs SET status = 'running', finished = NULL, pid_started = ? WHERE id = 1", (ticks,))


def again(trimtab: Trimtab, store: Path, *words: str, alive: bool = True) -> Said:
    """A run on a server while another one, of these words, has not ended."""
    assert trimtab(*TUNE, *words).code == 0
    goes_on(store, alive)
    return trimtab(*TUNE)


def test_a_second_run_that_changes_the_same_server_is_refused(server: None, trimtab: Trimtab, store: Path) -> None:
    said = again(trimtab, store)
    assert (said.code, said.out, said.err) == (2, "", REFUSED)
    assert len(Store(store).runs()) == 1
    assert trimtab(*TUNE, "--mode", "advise").code == 0, "it changes nothing"


def test_a_run_beside_one_that_only_looks_is_not_refused(server: None, trimtab: Trimtab, store: Path) -> None:
    assert again(trimtab, store, "--mode", "observe").code == 0


def test_a_run_after_one_that_was_killed_is_not_refused(server: None, trimtab: Trimtab, store: Path) -> None:
    said = again(trimtab, store, alive=False)
    assert said.code == 0 and "run 1 was killed before its end" in said.err


def test_a_run_on_another_server_of_the_kind_is_not_refused(
    trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryPlant, "pid", os.getpid())
    assert trimtab(*TUNE).code == 0
    goes_on(store)
    monkeypatch.setattr(MemoryPlant, "pid", 8)
    assert trimtab(*TUNE).code == 0


def test_a_run_whose_change_has_started_the_server_anew_is_still_the_only_one_on_it(
    trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.cli._leftovers.start_of", lambda pid: None)
    monkeypatch.setattr(MemoryPlant, "pid", 7)
    assert trimtab(*TUNE).code == 0
    goes_on(store)
    monkeypatch.setattr(MemoryPlant, "pid", 8)
    said = trimtab(*TUNE)
    assert (said.code, len(Store(store).runs())) == (2, 1)
    assert "run 1 still runs on the memory that was pid 7, maybe this one by now" in said.err


def test_a_run_is_not_undone_under_another_that_goes_on_on_its_server(
    server: None, trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert trimtab(*TUNE).code == 0
    goes_on(store)
    memory = sys.modules["trimtab.plants.memory"].PLANT
    monkeypatch.setattr(memory, "left", "what run 1 has on trial")
    said = trimtab("runs", "undo", 2)
    assert (said.code, said.err) == (2, REFUSED)
    assert memory.left, "it was left alone"
    assert trimtab("runs", "undo", 2, "--script").code == 0, "which does nothing"


def test_a_run_that_goes_on_keeps_its_store_where_another_program_looks_at_that(
    server: None, trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened twice in one process it had no lock: the other one took its log away, and all that was written then."""
    assert trimtab(*TUNE).code == 0
    goes_on(store, alive=False)
    look, kept = require_alone, list[bool]()

    def looked_at(there: Store, plant: Plant) -> None:
        look(there, plant)
        if not kept:
            code = f"import sqlite3; sqlite3.connect({str(store)!r}).execute('SELECT * FROM runs').fetchall()"
            subprocess.run([sys.executable, "-c", code], check=True)
            kept.append(Path(f"{store}-wal").exists())

    monkeypatch.setattr("trimtab.cli._run.require_alone", looked_at)
    assert trimtab("runs", "resume", 1).code == 0
    assert kept == [True]


def test_a_plant_without_a_process_is_nobody_s_alone(trimtab: Trimtab, store: Path) -> None:
    assert again(trimtab, store).code == 0


def test_a_killed_run_does_not_go_on_beside_another_on_its_server(
    server: None, trimtab: Trimtab, store: Path
) -> None:
    for _ in range(2):
        assert trimtab(*TUNE).code == 0
    goes_on(store)
    Store(store).execute("UPDATE runs SET status = 'running', pid_started = 1 WHERE id = 2", ())
    assert trimtab("runs", "resume", 2).err == REFUSED
    assert Store(store).run(2).unfinished


@pytest.mark.parametrize(("words", "undone"), [(SEARCH, True), (TUNE, False)], ids=["a search", "another method"])
def test_the_trial_under_way_is_undone_before_a_killed_search_goes_on(
    words: tuple[object, ...], undone: bool, trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trimtab(*words).code == 0
    for statement in ("DELETE FROM windows WHERE idx > 3", "DELETE FROM states", "DELETE FROM moves WHERE idx > 3"):
        Store(store).execute(statement, ())
    goes_on(store, alive=False)
    memory = sys.modules["trimtab.plants.memory"].PLANT

    def attached(plant: MemoryPlant) -> None:
        MemoryPlant.__init__(plant)
        plant.values["workers"] = 30

    monkeypatch.setattr(memory, "__init__", attached)
    monkeypatch.setattr(memory, "undo_leftover", lambda plant: plant.values.update(workers=10))
    said = trimtab("runs", "resume", 1)
    assert said.code == 0, said.err
    assert Store(store).windows(1)[4].configuration["workers"] == (10 if undone else 30)


@pytest.mark.parametrize("verb", ["tune", "resume"])
def test_of_two_runs_that_begin_at_once_on_one_server_one_is_refused(
    verb: str, server: None, trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert trimtab(*TUNE).code == 0
    look, looks = require_alone, list[int]()

    def raced(kept: Store, plant: Plant) -> None:
        look(kept, plant)
        looks.append(1)
        if len(looks) == 1:  # the other one begins just after this one has looked
            goes_on(store)

    monkeypatch.setattr("trimtab.cli._run.require_alone", raced)
    if verb == "resume":
        Store(store).execute("UPDATE runs SET status = 'running', pid_started = 1 WHERE id = 2", ())
    said = trimtab(*TUNE) if verb == "tune" else trimtab("runs", "resume", 2)
    assert (said.code, said.err) == (2, REFUSED)
    assert [run.id for run in Store(store).runs()] == [1, 2]
    assert Store(store).run(2).unfinished == (verb == "resume")


def test_between_the_last_look_and_the_begin_of_a_run_nobody_else_begins(
    server: None, trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trimtab(*TUNE).code == 0
    free = list[bool]()

    def looks(kept: Store, plant: Plant) -> None:
        with contextlib.closing(sqlite3.connect(store, timeout=0.0, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
                free.append(True)
            except sqlite3.OperationalError:
                free.append(False)

    monkeypatch.setattr("trimtab.cli._run.require_alone", looks)
    assert trimtab(*TUNE).code == 0
    assert not free[-1]


def test_a_killed_run_that_somebody_else_goes_on_with_is_not_gone_on_with_twice(
    trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trimtab(*TUNE).code == 0
    goes_on(store, alive=False)
    looks = list[int]()

    def raced(kept: Store, plant: Plant) -> None:
        looks.append(1)
        if len(looks) == 1:
            goes_on(store)

    monkeypatch.setattr("trimtab.cli._run.require_alone", raced)
    said = trimtab("runs", "resume", 1)
    assert (said.code, said.err) == (2, "trimtab: run 1 cannot be resumed: somebody else goes on with it\n")


@pytest.mark.parametrize("words", [TUNE, ("runs", "undo", 1)], ids=["tune", "undo"])
def test_a_run_that_is_stored_elsewhere_is_found_too(
    words: tuple[object, ...], server: None, trimtab: Trimtab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trimtab(*TUNE).code == 0
    monkeypatch.setattr("trimtab.cli._leftovers._ENDING_S", 0.0)
    memory = sys.modules["trimtab.plants.memory"].PLANT
    with alone(memory(), last_turn_ns()):
        said = trimtab(*words)
        assert (said.code, said.err) == (2, "trimtab: another trimtab changes memory (pid 7): end it first\n")
        assert trimtab(*TUNE, "--mode", "observe").code == 0, "which changes nothing"
    assert trimtab(*words).code == 0, "it has ended"


def test_a_server_that_a_run_has_started_anew_is_found_too_where_that_is_stored_elsewhere(
    server: None, trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A MariaDB that was restarted by the one has another process than the lock was named after."""
    assert trimtab(*TUNE).code == 0
    monkeypatch.setattr("trimtab.cli._leftovers._ENDING_S", 0.0)
    monkeypatch.setattr(MemoryPlant, "known_by", "fe01-7")
    with alone(sys.modules["trimtab.plants.memory"].PLANT(), last_turn_ns()):
        monkeypatch.setattr(MemoryPlant, "pid", 8)
        said = trimtab(*TUNE)
    assert (said.code, said.err) == (2, "trimtab: another trimtab changes memory (pid 8): end it first\n")
    assert trimtab(*TUNE).code == 0, "it has ended"


def test_a_run_that_is_just_ending_is_waited_for_and_what_it_had_on_trial_is_not_taken_for_the_operators(
    server: None, trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the controller of `trimtab run` is, once `keep-alive set` has taken the time from it."""
    assert trimtab(*TUNE).code == 0
    memory, in_force = sys.modules["trimtab.plants.memory"].PLANT, {"workers": 30}
    ending, waits = alone(memory(), last_turn_ns()), list[float]()

    def attached(plant: MemoryPlant) -> None:
        MemoryPlant.__init__(plant)
        plant.values |= in_force

    def ends(seconds: float) -> None:
        waits.append(seconds)
        in_force["workers"] = 10
        ending.__exit__(None, None, None)

    monkeypatch.setattr(memory, "__init__", attached)
    assert ending.__enter__()
    monkeypatch.setattr("trimtab.locks.time", SimpleNamespace(monotonic=itertools.count().__next__, sleep=ends))
    assert trimtab(*TUNE).code == 0
    assert len(waits) == 1
    assert Store(store).run(2).plan.initial["workers"] == 10


@pytest.mark.parametrize("killed", [False, True])
def test_a_run_that_ends_while_another_attaches_is_not_taken_for_the_operator(
    killed: bool,
    server: None,
    trimtab: Trimtab,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert trimtab(*TUNE).code == 0
    memory, in_force = sys.modules["trimtab.plants.memory"].PLANT, {"workers": 30}
    ending = alone(memory(), last_turn_ns())

    def attached(plant: MemoryPlant) -> None:
        MemoryPlant.__init__(plant)
        plant.values |= in_force
        if in_force["workers"] == 30:  # it ends right after it was looked at
            in_force["workers"] = 10
            if killed:
                goes_on(store, alive=False)
            ending.__exit__(None, None, None)

    assert ending.__enter__()
    if killed:
        goes_on(store)
    os.utime(tmp_path / "transient-runs", (0, 0))  # a clock's ticks may be longer than all this takes
    monkeypatch.setattr(memory, "__init__", attached)
    said = trimtab(*TUNE)
    assert (said.code, "run 1 was killed before its end" in said.err) == (0, killed), said.err
    assert Store(store).run(2).plan.initial["workers"] == 10


def test_an_undo_looks_anew_at_what_a_run_has_left_that_ended_while_it_attached(
    server: None, trimtab: Trimtab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trimtab(*TUNE).code == 0
    memory, looks = sys.modules["trimtab.plants.memory"].PLANT, list[int]()
    ending = alone(memory(), last_turn_ns())

    def attached(plant: MemoryPlant) -> None:
        MemoryPlant.__init__(plant)
        looks.append(1)
        if len(looks) == 1:
            ending.__exit__(None, None, None)

    assert ending.__enter__()
    os.utime(tmp_path / "transient-runs", (0, 0))
    monkeypatch.setattr(memory, "__init__", attached)
    assert trimtab("runs", "undo", 1).code == 0
    assert len(looks) == 2


def test_a_run_leaves_no_lock(server: None, trimtab: Trimtab, tmp_path: Path) -> None:
    assert trimtab(*TUNE).code == 0
    assert not list((tmp_path / "transient-runs").iterdir())


def test_a_lock_of_a_killed_run_goes_with_its_server(server: None, trimtab: Trimtab, tmp_path: Path) -> None:
    here, locks = identify(os.getpid()), tmp_path / "transient-runs"
    assert here is not None and trimtab(*TUNE).code == 0
    ended, there, in_use = (locks / f"web-{os.getpid()}-{here.start_ticks + later}" for later in (1, 0, 2))
    ended.touch()
    there.touch()
    lock = held(in_use, 0.0)
    assert lock is not None and trimtab(*TUNE).code == 0
    os.close(lock)
    assert {*locks.iterdir()} == {there, in_use}


def test_two_pools_of_one_server_are_no_two_runs(
    server: None, trimtab: Trimtab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.cli._leftovers._ENDING_S", 0.0)
    pools = MemoryPlant(), MemoryPlant()
    pools[0].tier, pools[1].tier = "www", "shop"
    with (
        alone(Stack(*pools), last_turn_ns()),
        pytest.raises(UsageError, match="another trimtab changes memory"),
        alone(MemoryPlant(), last_turn_ns()),
    ):
        pass
    assert not list((tmp_path / "transient-runs").iterdir())


def test_where_no_lock_can_be_made_a_run_begins_all_the_same(server: None, trimtab: Trimtab, tmp_path: Path) -> None:
    (tmp_path / "transient-runs").write_text("no directory")
    assert trimtab(*TUNE).code == 0
