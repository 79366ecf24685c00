"""`runs`: list, show, replay, resume, report and undo."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests._memory_plant import MemoryPlant
from tests._stranger import STRANGER, his_directory, needs_root
from tests.unit.cli.conftest import Trimtab
from trimtab import discovery
from trimtab.cli import main, runs
from trimtab.errors import StoreError, UsageError
from trimtab.events import Status
from trimtab.store import Store, default_path

TUNE = ("tune", "memory", "--controller", "fuzzy", "--duration", "60s")


@pytest.fixture
def tuned(trimtab: Trimtab) -> Trimtab:
    """The command line after one run."""
    assert trimtab(*TUNE).code == 0
    return trimtab


def killed(store: Path) -> None:
    """Makes run 1 look as if its process had been killed within its third window."""
    for statement in (
        "UPDATE runs SET status = 'running', finished = NULL, pid_started = 1",
        "DELETE FROM windows WHERE idx > 1",
        "DELETE FROM states",
        "UPDATE moves SET state = 'open' WHERE idx = 1",
    ):
        Store(store).execute(statement, ())


def left_behind(text: str) -> None:
    """What the plant in memory says of an earlier run."""
    sys.modules["trimtab.plants.memory"].PLANT.left = text


def test_list_when_there_is_nothing(trimtab: Trimtab, store: Path) -> None:
    assert trimtab("runs", "list").out == "no runs yet\n"
    assert not store.exists()


def test_list_tells_a_killed_run_from_one_that_ended(tuned: Trimtab, store: Path) -> None:
    assert tuned("runs", "list").out.split()[3:] == ["done", "memory", "fuzzy"]
    killed(store)
    assert tuned("runs", "list").out.split()[3] == "killed"
    assert json.loads(tuned("runs", "list", "--json").out)["status"] == "killed"


def test_show_is_the_run_as_it_looked_while_it_went(trimtab: Trimtab) -> None:
    live = trimtab(*TUNE).out.splitlines()
    shown = trimtab("runs", "show", 1).out.splitlines()
    assert shown == live[2:-1]


def test_show_of_what_was_observed_names_choices_as_it_did_live(trimtab: Trimtab, store: Path) -> None:
    kept = ("--store", store)
    store.parent.mkdir()
    live = trimtab("observe", "memory", "--choice", "--duration", "10s", *kept).out.splitlines()
    assert "dynamic" in live[1]
    shown = trimtab("runs", "show", 1, *kept).out.splitlines()
    assert shown[: len(live)] == live
    assert "pool dynamic: response_time_s" in shown[-2]


def test_show_as_json_starts_with_the_plan(tuned: Trimtab) -> None:
    lines = [json.loads(line) for line in tuned("runs", "show", 1, "--json").out.splitlines()]
    assert (lines[0]["type"], lines[0]["controller"]) == ("run", "fuzzy")
    assert [line["type"] for line in lines[1:3]] == ["window", "move"]


def test_show_as_json_is_json_where_a_run_had_no_end(trimtab: Trimtab, store: Path) -> None:
    assert trimtab("observe", "memory", "--dies", 12, "--store", store).code == 1
    assert Store(store).run(1).plan.settings.duration_s == float("inf")
    lines = trimtab("runs", "show", 1, "--json").out.splitlines()
    plan, *_ = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert plan["settings"]["duration_s"] is None


def test_replay_finds_the_same_moves(tuned: Trimtab) -> None:
    said = tuned("runs", "replay", 1)
    assert (said.code, said.out) == (0, "run 1: all 5 moves were reproduced\n")


def test_replay_of_another_move_is_exit_code_1(tuned: Trimtab, store: Path) -> None:
    Store(store).execute("UPDATE readings SET value = 9 * value WHERE metric = 'response_time_s'", ())
    planted = "UPDATE moves SET proposed = json_set(proposed, '$.changes.workers', 99) WHERE idx = 2"
    Store(store).execute(planted, ())
    said = tuned("runs", "replay", 1)
    assert said.code == 1
    assert said.err.startswith("trimtab: run 1, window ")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [("tail", 1, "unknown field `tail`"), ("step_ratio", "wide", "Expected `float`, got `str` - at `$.step_ratio`")],
)
def test_an_option_that_the_controller_does_not_have_is_said(
    tuned: Trimtab, store: Path, option: str, value: object, says: str
) -> None:
    change = f"UPDATE runs SET plan = json_set(plan, '$.controller_options.{option}', ?)"
    Store(store).execute(change, (value,))
    said = tuned("runs", "replay", 1)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "fuzzy has other options now: " in said.err and says in said.err


def test_a_run_that_kept_only_its_last_windows_is_replayed_from_what_its_controller_knew_before_them(
    trimtab: Trimtab, store: Path
) -> None:
    assert trimtab(*TUNE, "--window", "2s", "--keep-windows", 8).code == 0
    first = Store(store).windows(1)[0].index
    moves = len(Store(store).moves(1))
    assert first > 4 and moves >= 8
    said = trimtab("runs", "replay", 1)
    whole = f"run 1: all {moves} moves were reproduced, from window {first} on: those before were not kept\n"
    assert (said.code, said.out, said.err) == (0, whole, "")
    planted = "UPDATE moves SET proposed = json_set(proposed, '$.changes.workers', 99) WHERE idx = ?"
    Store(store).execute(planted, (first,))
    said = trimtab("runs", "replay", 1)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert said.err.startswith(f"trimtab: run 1, window {first}: the controller now")


def test_replay_says_what_is_missing_of_a_run_whose_first_windows_an_older_trimtab_forgot(
    trimtab: Trimtab, store: Path
) -> None:
    assert trimtab(*TUNE, "--keep-windows", 2).code == 0
    Store(store).execute("DELETE FROM checkpoints", ())
    said = trimtab("runs", "replay", 1)
    first = Store(store).windows(1)[0].index
    missing = f"only the windows from {first} on were kept, and not what the controller knew before them"
    assert (said.code, said.out, said.err) == (2, "", f"trimtab: run 1 cannot be replayed: {missing}\n")


def test_replay_of_states_that_the_controller_does_not_know_is_said(trimtab: Trimtab, store: Path) -> None:
    assert trimtab(*TUNE, "--keep-windows", 2).code == 0
    spoil = "UPDATE checkpoints SET past = json_set(past, '$.standing.state.step_ratio', 'wide')"
    Store(store).execute(spoil, ())
    said = trimtab("runs", "replay", 1)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "run 1 cannot be replayed, fuzzy keeps other states now: Expected `float`, got `str`" in said.err


def test_replay_of_a_run_without_decisions_is_a_usage_error(trimtab: Trimtab) -> None:
    trimtab(*TUNE, "--mode", "observe")
    said = trimtab("runs", "replay", 1)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "nothing to replay" in said.err


def test_resume_goes_on_with_a_killed_run(tuned: Trimtab, store: Path) -> None:
    killed(store)
    assert tuned("runs", "resume", 1).code == 0
    run = Store(store).run(1)
    assert run.status is Status.DONE
    assert [window.index for window in Store(store).windows(1)] == [0, 1, 2, 3, 4]
    assert Store(store).moves(1)[1].detail == "trimtab was killed while it was applied"


def test_resume_finds_a_store_that_is_named_from_where_the_user_is(
    tuned: Trimtab, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(store)
    monkeypatch.chdir(store.parent)
    assert tuned("runs", "resume", 1, "--store", store.name).code == 0
    assert Store(store).run(1).status is Status.DONE


def test_resume_goes_by_the_plan_and_needs_only_the_last_windows(trimtab: Trimtab, store: Path) -> None:
    """Whatever has become of defaults and of the windows before: what it knew is stored."""
    assert trimtab(*TUNE, "--keep-windows", 2).code == 0
    longer = (
        "UPDATE runs SET status = 'running', pid_started = 1, plan = json_set(plan, '$.settings.duration_s', 100.0)"
    )
    Store(store).execute(longer, ())
    before = [window.index for window in Store(store).windows(1)]
    assert before[0] > 0
    said = trimtab("runs", "resume", 1)
    assert (said.code, said.err) == (0, "")
    assert [window.index for window in Store(store).windows(1)][-1] > before[-1] + 2
    assert Store(store).run(1).status is Status.DONE
    Store(store).execute("DELETE FROM states", ())
    Store(store).execute("UPDATE runs SET status = 'running', pid_started = 1", ())
    said = trimtab("runs", "resume", 1)
    assert said.code == 2
    assert "only the windows from" in said.err


def test_a_state_that_the_controller_does_not_know_is_said(tuned: Trimtab, store: Path) -> None:
    spoil = "UPDATE states SET past = json_set(past, '$.standing.state.step_ratio', 'wide')"
    for statement in ("UPDATE runs SET status = 'running', pid_started = 1", spoil):
        Store(store).execute(statement, ())
    said = tuned("runs", "resume", 1)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "fuzzy keeps other states now: Expected `float`, got `str` - at `$.step_ratio`" in said.err


def test_a_search_of_another_trimtabs_is_said(trimtab: Trimtab, store: Path, tmp_path: Path) -> None:
    assert trimtab("tune", "memory", "--controller", "nelder_mead", "--trials", 3, "--remeasure", 0).code == 0
    Store(store).execute("UPDATE states SET past = json_set(past, '$.standing.state.since', 1)", ())
    for words in (("show", 1), ("report", 1, "--out", tmp_path / "page.html")):
        said = trimtab("runs", *words)
        assert (said.code, said.err.count("\n")) == (1, 1)
        assert "the search of run 1 cannot be read: Object contains unknown field `since`" in said.err


def test_resume_of_a_run_that_ended_is_a_usage_error(tuned: Trimtab) -> None:
    said = tuned("runs", "resume", 1)
    assert (said.code, said.err) == (2, "trimtab: run 1 cannot be resumed: it is done\n")


def test_an_undo_that_finds_nothing_left_of_a_killed_run_is_not_advised_again(tuned: Trimtab, store: Path) -> None:
    killed(store)
    said = tuned("runs", "undo", 1)
    assert (said.code, said.out, said.err) == (0, "run 1: nothing is left to undo\n", "")
    assert "undone" in tuned("runs", "list").out
    assert tuned(*TUNE).err == ""


def test_an_undo_that_finds_nothing_left_on_another_server_does_not_settle_a_killed_run(
    trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the trial on the run's own server would be taken for the operator's choice."""
    monkeypatch.setattr(MemoryPlant, "pid", 7)
    assert trimtab(*TUNE).code == 0
    killed(store)
    monkeypatch.setattr(MemoryPlant, "pid", 8)
    monkeypatch.setattr("trimtab.cli._leftovers.start_of", lambda pid: 0.0 if pid == 7 else None)
    assert trimtab("runs", "undo", 1).out == "run 1: nothing is left to undo\n"
    assert Store(store).run(1).unfinished


def test_undo_takes_away_what_a_run_left(tuned: Trimtab, store: Path) -> None:
    left_behind("a file is left from an earlier run")
    said = tuned("runs", "undo", 1)
    assert (said.code, said.out) == (0, "run 1: undone; in force now: workers 10, timeout 100\n")
    assert Store(store).run(1).status is Status.UNDONE
    assert tuned("runs", "undo", 1).out == "run 1: nothing is left to undo\n"


def test_no_line_on_a_run_steers_the_terminal(tuned: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steers, shown = "\x1b]0;a title\x07\udcff", r"\x1b]0;a title\x07\udcff"
    left_behind("a file is left from an earlier run")
    monkeypatch.setattr(sys.modules["trimtab.plants.memory"].PLANT, "notes", (steers,), raising=False)
    monkeypatch.setattr("trimtab.cli.runs.in_words", lambda values, knobs: steers)
    said = tuned("runs", "undo", 1)
    assert (said.code, said.err) == (0, "")
    assert said.out == f"note: {shown}\nrun 1: undone; in force now: {shown}\n"
    Store(store).execute("UPDATE runs SET plan = json_set(plan, '$.label', ?)", ("\x1b[2J",))
    assert tuned("runs", "list").out.endswith(r"\x1b[2J" + "\n")


def test_where_a_server_was_started_anew_its_process_now_is_taken_in_place_of_that_of_then(
    trimtab: Trimtab, store: Path
) -> None:
    assert trimtab(*TUNE, "--pid", 7).code == 0
    killed(store)
    left_behind("a file is left from an earlier run")
    sys.modules["trimtab.plants.memory"].PLANT.first = 8
    for action in (("undo", 1), ("undo", 1, "--script"), ("resume", 1)):
        refused = trimtab("runs", *action)
        hint = "pid 7 is not the first process of Memory; there is pid 8; name a server that was started anew since"
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
        assert refused.err == f"trimtab: {hint} with --pid PID\n"
    wrong = trimtab("runs", "undo", 1, "--pid", 9)
    assert wrong.err == "trimtab: pid 9 is not the first process of Memory; there is pid 8\n"
    assert trimtab("runs", "undo", 1, "--script", "--pid", 8).out == "#!/bin/sh\ntrue\n"
    assert trimtab("runs", "resume", 1, "--pid", 8).code == 0
    assert Store(store).run(1).status is Status.DONE
    assert trimtab("runs", "undo", 1, "--pid", 8).out.startswith("run 1: undone; in force now: ")


def test_a_pid_is_refused_where_it_replaces_none(tuned: Trimtab, store: Path) -> None:
    run = Store(store).run(1)

    def taken(*command: str) -> object:
        return runs._command(replace(run, plan=replace(run.plan, command=("tune", *command))), 9)[1].pid

    assert taken("apache") == taken("apache", "--pid", "5") == 9
    assert taken("linux", "--pid", "5") == [9]
    for command in (("stack", "shop.toml"), ("linux", "--pid", "5", "--pid", "6"), ("linux",)):
        with pytest.raises(UsageError, match=r"^--pid 9: run 1, of memory, was not given one --pid to replace$"):
            taken(*command)


def test_paths_of_a_run_start_where_they_started_then_also_those_that_may_be_repeated(
    tuned: Trimtab, store: Path, tmp_path: Path
) -> None:
    run, web = Store(store).run(1), tmp_path / "web"
    for command in (("linux", "--cgroup", "web"), ("linux", "--cgroup", str(web))):
        then = replace(run.plan, command=("tune", *command), directory=str(tmp_path))
        assert runs._command(replace(run, plan=then), None)[1].cgroup == [web]


def test_a_path_in_the_script_that_is_not_utf_8_stays_as_it_is(
    tuned: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = discovery.load("trimtab.plants", "memory").PLANT
    monkeypatch.setattr(plant, "undo_script", lambda self: "cat /a/\udcff\n")
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="utf-8"))
    assert main(["runs", "undo", "1", "--script"]) == 0
    assert written.getvalue() == b"cat /a/\xff\n"


def test_undo_can_print_its_script_instead(tuned: Trimtab, store: Path) -> None:
    assert tuned("runs", "undo", 1, "--script").out == "#!/bin/sh\ntrue\n"
    assert Store(store).run(1).status is Status.DONE


def test_a_plan_with_what_no_trimtab_stores_is_refused(tuned: Trimtab, store: Path) -> None:
    """A script, above all: what is stored is never executed."""
    Store(store).execute("UPDATE runs SET plan = json_set(plan, '$.undo', 'touch /tmp/planted')", ())
    for action in (("undo", 1, "--script"), ("list",), ("replay", 1)):
        said = tuned("runs", *action)
        assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
        assert "run 1 of the store cannot be read: Object contains unknown field `undo` - at `$`" in said.err


@pytest.mark.parametrize("action", [("undo", 1), ("undo", 1, "--script"), ("resume", 1), ("list",), ("show", 1)])
@needs_root
def test_a_run_that_somebody_else_has_planted_is_not_looked_at(
    tuned: Trimtab, store: Path, action: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(store)
    left_behind("a file is left from an earlier run")
    with his_directory() as his:
        planted = his / ".local/state/trimtab/runs.sqlite"
        planted.parent.mkdir(parents=True)
        shutil.copy(store, planted)
        for path in (his, *his.rglob("*")):
            os.chown(path, STRANGER, STRANGER)
        said = tuned("runs", *action, "--store", planted)
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
        assert "is not opened" in said.err and f"belongs to uid {STRANGER}" in said.err
        monkeypatch.delenv("XDG_STATE_HOME")
        monkeypatch.setenv("HOME", str(his))
        assert not default_path().is_relative_to(his), "a HOME that sudo has kept is not root's"


def test_no_stored_directory_is_entered(tuned: Trimtab, store: Path, tmp_path: Path) -> None:
    killed(store)
    left_behind("a file is left from an earlier run")
    Store(store).execute("UPDATE runs SET plan = json_set(plan, '$.directory', ?)", (str(tmp_path),))
    before = os.getcwd()
    assert tuned("runs", "undo", 1).code == 0
    assert os.getcwd() == before


def test_a_resumed_run_writes_its_report_where_it_was_to_be(
    trimtab: Trimtab, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert trimtab(*TUNE, "--report", "tuned.html").code == 0
    (tmp_path / "tuned.html").unlink()
    killed(store)
    monkeypatch.chdir("/")
    assert trimtab("runs", "resume", 1).code == 0
    assert (tmp_path / "tuned.html").exists()
    assert os.getcwd() == "/"


def test_undo_of_a_simulated_run_says_that_there_is_nothing(trimtab: Trimtab) -> None:
    trimtab("tune", "simulated", "--duration", "10s")
    said = trimtab("runs", "undo", 1)
    assert said.code == 2
    assert said.err == "trimtab: run 1 left nothing to undo: its simulated plant ended with it\n"


def test_a_report_of_several_runs(tuned: Trimtab, tmp_path: Path) -> None:
    tuned(*TUNE, "--label", "again")
    said = tuned("runs", "report", 1, 2, "--out", tmp_path / "both.html")
    assert said.out == f"report: {tmp_path / 'both.html'}\n"
    assert "again" in (tmp_path / "both.html").read_text()


def test_no_report_takes_the_place_of_a_run_store(tuned: Trimtab, store: Path) -> None:
    """It did, without a word, and all runs were gone with what their undo needs."""
    why = f"trimtab: {store} is a database, as run stores are: choose another name\n"
    said = tuned("runs", "report", 1, "--out", store)
    assert (said.code, said.err) == (2, why)
    said = tuned(*TUNE, "--report", store)
    assert (said.code, said.err) == (2, why)
    assert [run.id for run in Store(store).runs()] == [1]


def test_a_label_of_bytes_that_are_no_characters_takes_no_report_away(tuned: Trimtab, tmp_path: Path) -> None:
    """matplotlib cannot draw it, so a run that had gone well ended with an internal error and without its report."""
    said = tuned(*TUNE, "--label", os.fsdecode(b"fr\xfch"), "--report", tmp_path / "page.html")
    assert (said.code, said.err) == (0, "")
    assert r"fr\udcfch" in (tmp_path / "page.html").read_text()


def test_undo_says_what_an_earlier_run_had_kept_and_that_this_is_undone_too(
    tuned: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = sys.modules["trimtab.plants.memory"].PLANT
    Store(store).execute("UPDATE runs SET plan = json_set(plan, '$.initial.workers', 30)", ())
    left_behind("a file is left from two earlier runs")
    now = {"workers": 40, "timeout": 100}
    monkeypatch.setattr(memory, "configuration", lambda plant: dict(now))
    monkeypatch.setattr(memory, "undo_leftover", lambda plant: now.update(workers=10))
    said = tuned("runs", "undo", 1)
    undone = "run 1: undone; in force now: workers 10, timeout 100; it began with workers 30, which is undone too\n"
    assert (said.code, said.out) == (0, undone)


def test_an_undo_names_what_it_has_no_leave_to_undo_and_what_does(
    tuned: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tuned("tune", "memory", "--choice", "--controller", "fuzzy", "--duration", "40s").code == 0
    memory = sys.modules["trimtab.plants.memory"].PLANT
    monkeypatch.setattr(memory, "out_of_reach", lambda plant: {"pool": ""}, raising=False)
    left_behind("a file is left from an earlier run")
    stays = "pool stays as an earlier run has set it, which this one has no leave to undo"
    said = tuned("runs", "undo", 1)
    assert (said.code, said.out) == (1, "run 1: undone; in force now: workers 10, timeout 100\n")
    assert said.err == f"trimtab: run 1: {stays}: 'trimtab runs undo 2' undoes it\n"
    assert Store(store).run(1).status is Status.UNDONE
    monkeypatch.setattr(memory, "out_of_reach", lambda plant: {"pool": "restart Memory"}, raising=False)
    said = tuned("runs", "undo", 1)
    assert (said.code, said.out) == (1, "run 1: nothing is left to undo\n")
    assert said.err == f"trimtab: run 1: {stays}: restart Memory\n"
    monkeypatch.setattr(memory, "out_of_reach", lambda plant: {"policy": "restart Memory"}, raising=False)
    assert tuned("runs", "undo", 1).code == 0, "no run could have set it: it is the operator's own edit"


def test_an_undo_that_cannot_be_stored_is_said_all_the_same(
    tuned: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_behind("a file is left from an earlier run")

    def full(kept: Store, run_id: int, outcome: object) -> None:
        raise StoreError("database or disk is full")

    monkeypatch.setattr(Store, "finish", full)
    said = tuned("runs", "undo", 1)
    assert said.out == "run 1: undone; in force now: workers 10, timeout 100\n"
    assert (said.code, said.err) == (1, "trimtab: database or disk is full\n")
