"""What a killed run left in force is undone before another one changes the server; what one has kept stays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests._memory_plant import MemoryPlant
from tests.unit.cli.conftest import Said, Trimtab
from trimtab.core import Applied, Prepared
from trimtab.errors import ApplyFailed
from trimtab.events import Status
from trimtab.store import Store

TUNE = ("tune", "memory", "--controller", "fuzzy", "--duration", "40s")
STACK = """
[tiers.web]
plant = "memory"
[tiers.db]
plant = "other"
"""
SEARCH = ("--controller", "nelder_mead", "--window", "2s", "--trials", 4, "--remeasure", 0)
OTHER = '''"""Another plant in memory, by whose clock a stack of both lives."""
from tests._memory_plant import FakeClock, FakeSensor, MemoryPlant

CLOCK = FakeClock()
UNDONE = []

class Other(MemoryPlant):
    name = "other"

    def __init__(self):
        super().__init__()
        self.clock = CLOCK
        self._sensors = (FakeSensor(self.readings, gives="response_time_s request_rate_hz"),)

    def undo_leftover(self):
        UNDONE.append(self.tier)

def add_arguments(parser):
    pass

def from_arguments(args, clock):
    return Other()

PLANT = Other
'''
OPERATOR_S = {"workers": 10, "timeout": 100}


class Server:
    """A server that outlives its runs: what is in force, and how often something earlier was undone.

    Args:
        monkeypatch: puts it behind the plant in memory.
        store: the store of its runs.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: Path) -> None:
        self.values, self.undone, self.store = dict(OPERATOR_S), 0, store
        self.error: ApplyFailed | None = None
        server, memory = self, sys.modules["trimtab.plants.memory"].PLANT

        def attach(plant: MemoryPlant) -> None:
            MemoryPlant.__init__(plant)
            plant.values = dict(server.values)

        def commit(plant: MemoryPlant, prepared: Prepared) -> Applied:
            applied = MemoryPlant.commit(plant, prepared)
            server.values = dict(plant.values)
            return applied

        def undo_leftover(plant: MemoryPlant) -> None:
            if server.error is not None:
                raise server.error
            server.undone += 1
            plant.values = dict(OPERATOR_S)
            server.values = dict(OPERATOR_S)

        monkeypatch.setattr(memory, "__init__", attach)
        monkeypatch.setattr(memory, "commit", commit)
        monkeypatch.setattr(memory, "undo_leftover", undo_leftover)
        monkeypatch.setattr(
            memory, "leftover", lambda plant: "" if server.values == OPERATOR_S else "left from an earlier run"
        )

    def kill(self, run_id: int) -> None:
        """Makes a run look as if it had been killed, and its process had ended."""
        Store(self.store).execute(
            "UPDATE runs SET status = 'running', finished = NULL, pid_started = 1 WHERE id = ?", (run_id,)
        )

    def looks(self, run_id: int, status: str) -> None:
        """Makes a run look as if it had ended so."""
        Store(self.store).execute("UPDATE runs SET status = ? WHERE id = ?", (status, run_id))

    def tried(self, run_id: int) -> int:
        """The workers that a run set last."""
        after = [move.configuration for move in Store(self.store).moves(run_id)]
        return [one["workers"] for one in after if one is not None][-1]

    def at_start(self, run_id: int) -> int:
        """The workers that a run found."""
        return Store(self.store).run(run_id).plan.initial["workers"]


@pytest.fixture
def server(trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    assert trimtab("observe", "memory", "--duration", "10s").code == 0  # loads the plant
    return Server(monkeypatch, store)


def killed_in_a_trial(trimtab: Trimtab, server: Server, run_id: int = 1) -> int:
    """The workers that a killed run has left in force."""
    assert trimtab(*TUNE).code == 0
    server.values["workers"] = server.tried(run_id)
    server.kill(run_id)
    assert server.values != OPERATOR_S
    return server.values["workers"]


def cut_in_its_second_change(server: Server) -> None:
    """Makes run 1 look as if it had been killed while that was applied."""
    for statement in (
        "DELETE FROM windows WHERE idx > 1",
        "DELETE FROM states",
        "UPDATE moves SET state = 'open', configuration = NULL WHERE idx = 1",
    ):
        Store(server.store).execute(statement, ())


def test_the_trial_of_a_killed_run_is_undone_before_the_next_one_begins(trimtab: Trimtab, server: Server) -> None:
    killed_in_a_trial(trimtab, server)
    said = trimtab(*TUNE)
    line = "note: run 1 was killed before its end; what it left is undone, in force again: workers 10"
    assert (said.code, said.err) == (0, f"{line}; 'trimtab runs resume 1' goes on with it instead\n")
    assert (server.at_start(2), server.undone) == (10, 1)


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_a_run_that_changes_nothing_only_says_so(trimtab: Trimtab, server: Server, mode: str) -> None:
    trial = killed_in_a_trial(trimtab, server)
    said = trimtab(*TUNE, "--mode", mode)
    assert said.err.splitlines() == [
        "note: run 1 was killed before its end; 'trimtab runs undo 1' undoes it",
        "note: left from an earlier run",
    ]
    assert (said.code, server.undone, server.values["workers"]) == (0, 0, trial)


def test_where_it_cannot_be_undone_nothing_begins(trimtab: Trimtab, server: Server) -> None:
    trial = killed_in_a_trial(trimtab, server)
    server.error = ApplyFailed("no reload")
    said = trimtab(*TUNE)
    why = "run 1 was killed, and what it left in force cannot be undone: no reload"
    assert (said.code, said.out, said.err) == (2, "", f"trimtab: {why}\n")
    assert (len(Store(server.store).runs()), server.values["workers"]) == (1, trial)


def test_it_is_undone_also_where_nothing_else_may_be_changed(trimtab: Trimtab, server: Server) -> None:
    """A PHP-FPM that had not loaded the trial yet was to be reloaded by hand first, which brought that into force."""
    killed_in_a_trial(trimtab, server)
    said = trimtab(*TUNE, "--forbid")
    assert "run 1 was killed before its end; what it left is undone" in said.err
    assert (said.code, server.undone, server.values["workers"]) == (2, 1, 10)
    assert said.err.endswith("trimtab: no permission to reload pid 7: run as root\n")


def test_what_a_run_has_kept_stays(trimtab: Trimtab, server: Server) -> None:
    assert trimtab(*TUNE).code == 0
    server.values["workers"] = kept = 30
    said = trimtab(*TUNE)
    assert (said.code, said.err) == (0, "note: left from an earlier run\n")
    assert (server.at_start(2), server.undone) == (kept, 0)


def test_what_a_run_has_kept_comes_back_where_a_killed_one_began_with_it(trimtab: Trimtab, server: Server) -> None:
    assert trimtab(*TUNE).code == 0
    server.values["workers"] = kept = 30
    killed_in_a_trial(trimtab, server, 2)
    said = trimtab(*TUNE)
    assert said.code == 0 and "run 2 was killed before its end; what it left is undone" in said.err
    assert "in force again: workers 30" in said.err
    assert (server.at_start(3), server.undone) == (kept, 1)


def test_what_a_run_has_kept_comes_back_also_from_a_trial_of_what_was_there_before_all(
    trimtab: Trimtab, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial of the one before stayed, told of as undone."""
    memory = sys.modules["trimtab.plants.memory"].PLANT
    monkeypatch.setattr(memory, "leftover", lambda plant: "" if server.undone else "left from an earlier run")
    server.values["workers"] = kept = 30
    alternate = ("--controller", "alternate", "--option", "settings=workers=10")
    assert trimtab("tune", "memory", *alternate, "--duration", "20s").code == 0
    server.values["workers"] = OPERATOR_S["workers"]
    server.kill(1)
    said = trimtab(*TUNE)
    assert said.code == 0 and "what it left is undone, in force again: workers 30" in said.err
    assert (server.at_start(2), server.undone) == (kept, 1)


@pytest.mark.parametrize("changes", [True, False])
def test_the_trial_that_a_killed_run_had_begun_with_is_undone_too(
    changes: bool, trimtab: Trimtab, server: Server
) -> None:
    """As trimtab once did."""
    trial = killed_in_a_trial(trimtab, server)
    server.looks(1, "done")
    if changes:
        killed_in_a_trial(trimtab, server, 2)
    else:
        assert trimtab("tune", "memory", "--controller", "static", "--duration", "20s").code == 0
        server.kill(2)
    server.kill(1)
    assert server.at_start(2) == trial
    assert trimtab(*TUNE).code == 0
    assert (server.at_start(3), server.undone) == (10, 1)


def test_what_others_kept_stays_where_the_killed_run_has_changed_nothing(trimtab: Trimtab, server: Server) -> None:
    assert trimtab(*TUNE).code == 0
    server.values["workers"] = kept = 30
    assert trimtab("tune", "memory", "--controller", "static", "--duration", "20s").code == 0
    server.kill(2)
    assert trimtab(*TUNE).code == 0
    assert (server.at_start(3), server.undone) == (kept, 0)


def test_what_the_operator_has_set_since_stays(trimtab: Trimtab, server: Server) -> None:
    killed_in_a_trial(trimtab, server)
    server.values["workers"] = 77
    assert trimtab(*TUNE).code == 0
    assert (server.at_start(2), server.undone) == (77, 0)


def test_a_killed_run_that_another_one_followed_is_past(trimtab: Trimtab, server: Server) -> None:
    killed_in_a_trial(trimtab, server)
    assert trimtab(*TUNE).code == 0
    server.values["workers"] = kept = server.tried(2)
    said = trimtab(*TUNE)
    assert "was killed" not in said.err
    assert (server.at_start(3), server.undone) == (kept, 1)


@pytest.mark.parametrize(("started", "undone"), [(0.0, 0), (1e12, 1)], ids=["another server", "an id used again"])
def test_a_run_on_another_server_that_still_runs_is_not_meant(
    started: float, undone: int, trimtab: Trimtab, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryPlant, "pid", 7)
    killed_in_a_trial(trimtab, server)
    monkeypatch.setattr(MemoryPlant, "pid", 8)
    monkeypatch.setattr("trimtab.cli._leftovers.start_of", lambda pid: started if pid == 7 else None)
    assert trimtab(*TUNE).code == 0
    assert server.undone == undone


def test_a_killed_run_that_goes_on_finds_its_own_trial(trimtab: Trimtab, server: Server) -> None:
    killed_in_a_trial(trimtab, server)
    Store(server.store).execute("DELETE FROM windows WHERE idx > 1", ())
    Store(server.store).execute("DELETE FROM states", ())
    Store(server.store).execute("DELETE FROM moves WHERE idx > 1", ())
    assert trimtab("runs", "resume", 1).code == 0
    assert server.undone == 0
    assert Store(server.store).run(1).status is Status.DONE


@dataclass
class Stack:
    """A stack of the server and another one.

    Args:
        tune: tunes it.
        server: the server.
        undone: the tier of the other one, each time that something earlier is undone there.
    """

    tune: Callable[[], Said]
    server: Server
    undone: list[str]

    def kill(self, run_id: int) -> None:
        """Makes a run of the stack look as if it had been killed in a trial."""
        store = Store(self.server.store)
        tried = {one["web.workers"] for move in store.moves(run_id) if (one := move.configuration)}
        tried.discard(store.run(run_id).plan.initial["web.workers"])
        self.server.values["workers"] = min(tried)
        self.server.kill(run_id)


@pytest.fixture
def stack(trimtab: Trimtab, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """The server as the first of two tiers."""
    (tmp_path / "plants" / "other.py").write_text(OTHER)
    (tmp_path / "stack.toml").write_text(STACK)
    assert trimtab("observe", "other", "--duration", "10s").code == 0
    other = sys.modules["trimtab.plants.other"]
    memory = sys.modules["trimtab.plants.memory"].PLANT
    attach = memory.__init__

    def attached(plant: MemoryPlant) -> None:
        attach(plant)
        plant.clock = other.CLOCK

    monkeypatch.setattr(memory, "__init__", attached)
    words = ("tune", "stack", tmp_path / "stack.toml", *SEARCH)
    yield Stack(lambda: trimtab(*words), server, other.UNDONE)
    sys.modules.pop("trimtab.plants.other")


def test_what_a_killed_run_of_a_stack_left_on_a_server_is_undone_before_that_is_tuned_alone(
    trimtab: Trimtab, server: Server, stack: Stack
) -> None:
    assert stack.tune().code == 0
    stack.kill(1)
    said = trimtab("tune", "memory", "--mode", "advise", *TUNE[2:])
    assert said.err.splitlines()[0] == "note: run 1 was killed before its end; 'trimtab runs undo 1' undoes it"
    said = trimtab(*TUNE)
    assert said.err.splitlines() == [
        "note: run 1 was killed before its end; what it left is undone, in force again: workers 10; "
        "'trimtab runs undo 1' undoes its db too; 'trimtab runs resume 1' goes on with it instead"
    ]
    assert (said.code, server.at_start(3), server.undone, stack.undone) == (0, 10, 1, [])


def test_what_a_killed_run_left_on_a_server_is_undone_before_a_stack_that_has_it_is_tuned(
    trimtab: Trimtab, server: Server, stack: Stack
) -> None:
    killed_in_a_trial(trimtab, server)
    said = stack.tune()
    line = "note: run 1 was killed before its end; what it left is undone, in force again: web.workers 10"
    assert (said.code, said.err) == (0, f"{line}; 'trimtab runs resume 1' goes on with it instead\n")
    assert Store(server.store).run(2).plan.initial["web.workers"] == 10
    assert (server.undone, stack.undone) == (1, [])


def test_a_killed_stack_is_undone_tier_by_tier_and_what_a_later_run_has_kept_on_one_of_them_stays(
    trimtab: Trimtab, server: Server, stack: Stack
) -> None:
    assert stack.tune().code == 0
    stack.kill(1)
    assert trimtab(*TUNE).code == 0
    server.values["workers"] = kept = 30
    assert stack.tune().code == 0
    assert Store(server.store).run(3).plan.initial["web.workers"] == kept
    assert server.undone == 1
    stack.kill(3)
    said = stack.tune()
    assert "run 3 was killed before its end; what it left is undone, in force again: web.workers 30" in said.err
    assert (Store(server.store).run(4).plan.initial["web.workers"], server.undone) == (kept, 2)


def test_the_tier_in_which_it_cannot_be_undone_is_named_and_nothing_begins(server: Server, stack: Stack) -> None:
    assert stack.tune().code == 0
    stack.kill(1)
    server.error = ApplyFailed("no reload")
    said = stack.tune()
    why = "run 1 was killed, and what it left in force cannot be undone: web: no reload"
    assert (said.code, said.err) == (2, f"trimtab: {why}\n")
    assert len(Store(server.store).runs()) == 1


def test_a_change_that_was_under_way_at_the_kill_is_undone_also_after_a_vain_attempt_to_go_on(
    trimtab: Trimtab, server: Server
) -> None:
    killed_in_a_trial(trimtab, server)
    store = Store(server.store)
    wanted = store.moves(1)[1].move.changes["workers"]
    cut_in_its_second_change(server)
    store.execute("UPDATE moves SET proposed = json_set(proposed, '$.changes.workers', 99) WHERE idx = 0", ())
    server.values["workers"] = wanted
    assert wanted not in [window.configuration["workers"] for window in store.windows(1)]
    said = trimtab("runs", "resume", 1)
    assert said.code == 1 and "does not lead to the move that is stored" in said.err
    server.kill(1)
    said = trimtab(*TUNE)
    assert "run 1 was killed before its end; what it left is undone" in said.err
    assert (server.at_start(2), server.undone) == (10, 1)


def test_a_change_that_was_written_and_not_in_force_at_the_kill_is_undone(
    trimtab: Trimtab, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next reload, such as that of a rotation of logs, brought it into force, and nobody judged it."""
    killed_in_a_trial(trimtab, server)
    cut_in_its_second_change(server)
    server.values = dict(OPERATOR_S)
    memory = sys.modules["trimtab.plants.memory"].PLANT
    monkeypatch.setattr(memory, "leftover", lambda plant: "" if server.undone else "left from an earlier run")
    said = trimtab(*TUNE)
    assert "run 1 was killed before its end; what it left is undone, in force again: workers 10" in said.err
    assert (said.code, server.at_start(2), server.undone) == (0, 10, 1)


@pytest.mark.parametrize("verb", ["undo", "tune"])
def test_the_trial_that_is_in_force_without_its_file_is_undone(
    verb: str, trimtab: Trimtab, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill between the file's going and the reload to that."""
    killed_in_a_trial(trimtab, server)
    monkeypatch.setattr(sys.modules["trimtab.plants.memory"].PLANT, "leftover", lambda plant: "")
    said = trimtab(*TUNE) if verb == "tune" else trimtab("runs", "undo", 1)
    assert "what it left is undone" in said.err or "run 1: undone; in force now: workers 10" in said.out
    assert (said.code, server.undone, server.at_start(2) if verb == "tune" else 10) == (0, 1, 10)


def test_what_a_killed_undo_has_put_back_and_not_loaded_is_loaded_before_the_next_run(
    trimtab: Trimtab, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in force is not known then: by the server's files it is as it was."""
    killed_in_a_trial(trimtab, server)
    server.values = dict(OPERATOR_S)
    memory, owed = sys.modules["trimtab.plants.memory"].PLANT, ["it may still run with what was on trial"]
    for name in ("leftover", "not_loaded"):
        monkeypatch.setattr(memory, name, lambda plant: "".join(owed))
    monkeypatch.setattr(memory, "undo_killed", lambda plant: owed.clear())
    said = trimtab(*TUNE)
    assert "run 1 was killed before its end; what it left is undone, in force again: workers 10" in said.err
    assert (said.code, owed) == (0, [])


def test_where_that_cannot_be_undone_an_undo_says_so_and_settles_nothing(
    trimtab: Trimtab, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, memory = killed_in_a_trial(trimtab, server), sys.modules["trimtab.plants.memory"].PLANT
    monkeypatch.setattr(memory, "leftover", lambda plant: "")
    monkeypatch.setattr(memory, "undo_leftover", lambda plant: None)
    said = trimtab("runs", "undo", 1)
    there = f"but workers {trial}, which it tried, is in force: reload the server where nobody chose that"
    assert (said.code, said.out) == (0, f"run 1: nothing is left to undo, {there}\n")
    assert Store(server.store).run(1).unfinished
    assert "undone" not in trimtab(*TUNE).err


def test_a_run_that_went_on_has_not_ended_before_what_its_first_part_left_is_undone(
    trimtab: Trimtab, server: Server
) -> None:
    assert trimtab(*TUNE, "--on-exit", "restore").code == 0
    server.values["workers"] = server.tried(1)
    server.kill(1)
    for table in ("windows", "moves"):
        Store(server.store).execute(f"DELETE FROM {table} WHERE idx > 1", ())
    Store(server.store).execute("DELETE FROM states", ())
    server.error = ApplyFailed("no reload")
    said = trimtab("runs", "resume", 1)
    assert (said.code, said.err) == (1, "trimtab: no reload\n")
    assert Store(server.store).run(1).status is Status.RUNNING, "to the next one it is a run that was killed"
    server.kill(1)
    server.error = None
    assert trimtab(*TUNE).code == 0
    assert (server.at_start(2), server.undone) == (10, 1)


def test_where_the_store_cannot_be_read_in_that_moment_nothing_begins(
    trimtab: Trimtab, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = killed_in_a_trial(trimtab, server)
    tries = iter([False])
    monkeypatch.setattr("trimtab.locks.locked", lambda fd: next(tries, True))
    said = trimtab(*TUNE)
    assert said.code == 1 and "is locked by another process" in said.err
    assert (len(Store(server.store).runs()), server.values["workers"]) == (1, trial)
