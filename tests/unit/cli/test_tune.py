"""What `tune` and `observe` say and store, on a plant in memory."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests._memory_plant import TIMEOUT, WORKERS, FakeSensor, MemoryPlant
from tests._stranger import STRANGER, his_directory, needs_root
from tests.unit.cli.conftest import Trimtab
from trimtab import discovery, metrics
from trimtab.cli import _run, tune
from trimtab.core import Applied, Domain, How, Knob, PlantDefaults, Prepared
from trimtab.core.trial import MoveState
from trimtab.errors import ApplyFailed, ApplyLater
from trimtab.events import Status
from trimtab.observer import Stop
from trimtab.store import Store

TUNE = ("tune", "memory", "--controller", "fuzzy", "--duration", "60s")


def test_a_run_shows_a_line_for_each_window_and_ends_with_what_came_of_it(trimtab: Trimtab, store: Path) -> None:
    said = trimtab(*TUNE)
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == "run 1: fuzzy on memory, minimize response_time_s, autonomous"
    assert lines[1] == "cost:  workers: nothing"
    assert [line.split()[0] for line in lines[3:8]] == ["0", "1", "2", "3", "4"]
    assert "workers 10 -> " in lines[3]
    assert [line.split(":")[0] for line in lines[-6:]] == ["start", "end", "so", "basis", "cost", "undo"]
    assert lines[-2] == "cost:  workers: a change took 0.01 s the last 5 times"
    assert lines[-1].endswith("trimtab runs undo 1")
    run = Store(store).run(1)
    assert (run.status, run.plan.controller, run.plan.command) == (Status.DONE, "fuzzy", TUNE)
    assert [knob.name for knob in run.plan.knobs] == ["workers"]


def test_a_choice_is_shown_by_its_name(trimtab: Trimtab) -> None:
    said = trimtab("tune", "memory", "--choice", "--controller", "fuzzy", "--duration", "40s", "--on-exit", "restore")
    assert "pool dynamic -> static: fuzzy" in said.out
    assert {line.split()[4] for line in said.out.splitlines()[3:6]} == {"static", "dynamic"}
    assert "start: pool dynamic: " in said.out
    observed = trimtab("observe", "memory", "--choice", "--duration", "10s").out
    assert observed.splitlines()[1].split()[4] == "dynamic"


def test_a_choice_that_is_not_moved_is_shown_by_its_name_too(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, domain = MemoryPlant.__init__, Domain.choice("static", "dynamic")
    pool = Knob("pool", "pm", "", domain, 1, How.LIVE, "nothing", "How the pool grows.")

    def growing(plant: MemoryPlant, *sensors: FakeSensor) -> None:
        made(plant, *sensors)
        plant.values["pool"] = 1

    monkeypatch.setattr(MemoryPlant, "__init__", growing)
    monkeypatch.setattr(MemoryPlant, "knobs", lambda plant: (WORKERS, TIMEOUT, pool))
    for said in (trimtab(*TUNE), trimtab("runs", "show", 1)):
        assert "start: workers 10, timeout 100, pool dynamic: " in said.out, said.err


def test_json_is_one_object_per_line(trimtab: Trimtab) -> None:
    lines = [json.loads(line) for line in trimtab(*TUNE, "--json").out.splitlines()]
    assert [line["type"] for line in lines[:3]] == ["run", "window", "move"]
    assert lines[1]["readings"]["response_time_s"] == pytest.approx(1.0)
    assert lines[2]["state"] == "applied"
    assert lines[2]["move"]["changes"]
    assert lines[-1] == {"type": "end", "run": 1, "status": "done", "detail": "", "restored": False}


def test_restore_on_exit(trimtab: Trimtab, store: Path) -> None:
    said = trimtab(*TUNE, "--on-exit", "restore")
    assert "undo:" not in said.out
    assert Store(store).run(1).restored


def test_a_run_that_could_not_put_back_what_was_there_is_exit_code_1_and_its_undo_says_so(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "the file is as it was, but the server was not reloaded to it"

    def refused(_: MemoryPlant) -> None:
        raise ApplyFailed(why)

    monkeypatch.setattr(MemoryPlant, "restore", refused)
    said = trimtab(*TUNE, "--on-exit", "restore")
    assert (said.code, said.err) == (1, f"trimtab: run 1 could not restore the configuration: {why}\n")
    left = "run 1: nothing is left to undo; at its end it could not restore the configuration"
    assert trimtab("runs", "undo", 1).out == f"{left}: {why}\n"


def test_options_of_the_controller_are_used_and_stored(trimtab: Trimtab, store: Path) -> None:
    trimtab("tune", "memory", "--option", "worthwhile=0.5", "--duration", "10s")
    options = Store(store).run(1).plan.controller_options
    assert options["worthwhile"] == 0.5
    assert options["margin"] == 0.85


def test_a_knob_and_an_objective_that_are_asked_for_are_used(trimtab: Trimtab, store: Path) -> None:
    trimtab(
        "tune",
        "memory",
        "--controller",
        "static",
        "--knob",
        "timeout",
        "--maximize",
        "request_rate_hz",
        "--duration",
        "10s",
        "--label",
        "a",
    )
    plan = Store(store).run(1).plan
    assert ([knob.name for knob in plan.knobs], plan.label) == (["timeout"], "a")
    assert (plan.settings.objective.metric, plan.settings.objective.minimize) == ("request_rate_hz", False)


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_observe_and_advise_change_nothing_and_claim_nothing(trimtab: Trimtab, store: Path, mode: str) -> None:
    said = trimtab(*TUNE, "--mode", mode)
    assert said.code == 0
    assert "so:    Nothing was changed\n" in said.out
    assert "undo:" not in said.out
    assert MoveState.APPLIED not in {move.state for move in Store(store).moves(1)}


def test_a_server_that_ends_is_exit_code_1_with_what_was_measured(trimtab: Trimtab, store: Path) -> None:
    said = trimtab(*TUNE, "--dies", "25")
    assert said.code == 1
    assert said.err == "trimtab: run 1 ended early: pid 7 has ended; what was measured is stored\n"
    assert Store(store).run(1).status is Status.GONE
    assert len(Store(store).windows(1)) == 3


def test_the_report_is_named_and_is_one_file(trimtab: Trimtab, tmp_path: Path) -> None:
    said = trimtab(*TUNE, "--report", tmp_path / "page.html")
    assert said.out.splitlines()[-1] == f"report: {tmp_path / 'page.html'}"
    assert (tmp_path / "page.html").read_text().lstrip().lower().startswith("<!doctype html>")


@needs_root
def test_a_report_that_cannot_be_written_takes_nothing_from_what_came_of_the_run(
    trimtab: Trimtab, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", os.fspath(file))

    monkeypatch.setattr(_run, "write_whole", full)
    said = trimtab(*TUNE, "--report", tmp_path / "page.html")
    assert said.code == 1
    assert said.err == (
        f"trimtab: the report {tmp_path / 'page.html'} cannot be written: No space left on device; "
        "'trimtab runs report 1 --out FILE' writes it from the store\n"
    )
    assert "\nso:    " in said.out and said.out.splitlines()[-1].startswith("undo:  ")
    assert Store(store).run(1).status is Status.DONE


def test_that_there_is_no_report_is_said(trimtab: Trimtab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def stopped() -> Iterator[Stop]:
        stop = Stop()
        stop.reason = "SIGINT"
        yield stop

    monkeypatch.setattr(tune, "stopping", stopped)
    said = trimtab(*TUNE, "--report", tmp_path / "page.html")
    assert said.code == 130
    assert said.out.splitlines()[-1] == "report: none, since no window was measured"
    assert not (tmp_path / "page.html").exists()


def test_a_report_in_the_place_of_a_stranger_s_file_is_refused_before_the_run(
    trimtab: Trimtab, store: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    page.touch(0o666)
    os.chown(page, STRANGER, STRANGER)
    said = trimtab(*TUNE, "--report", page)
    why = f"{page} belongs to uid {STRANGER}: remove it, or choose another name"
    assert (said.code, said.err, store.exists()) == (2, f"trimtab: {why}\n", False)


def test_a_killed_run_before_is_said(trimtab: Trimtab, store: Path) -> None:
    trimtab(*TUNE)
    Store(store).execute("UPDATE runs SET status = 'running', pid_started = 1", ())
    said = trimtab(*TUNE)
    assert said.err == "note: run 1 was killed before its end; 'trimtab runs resume 1' goes on with it instead\n"


def test_a_killed_run_of_a_store_that_is_named_goes_on_with_that_store(trimtab: Trimtab, tmp_path: Path) -> None:
    kept = tmp_path / "kept.sqlite"
    trimtab(*TUNE, "--store", kept)
    Store(kept).execute("UPDATE runs SET status = 'running', pid_started = 1", ())
    said = trimtab(*TUNE, "--store", kept)
    assert f"; 'trimtab runs resume 1 --store {kept}' goes on with it instead\n" in said.err


def test_observe_reads_and_stores_nothing_unless_asked(trimtab: Trimtab, store: Path, tmp_path: Path) -> None:
    said = trimtab("observe", "memory", "--duration", "15s", "--all")
    assert said.code == 0
    assert "response_time_s (RT)" in said.out
    assert "by Little's law, of MariaDB per statement" in " ".join(said.out.split())
    assert not store.exists()
    trimtab("observe", "memory", "--duration", "15s", "--store", tmp_path / "kept.sqlite")
    kept = Store(tmp_path / "kept.sqlite")
    assert (len(kept.windows(1)), kept.moves(1)) == (3, [])


def test_what_shows_every_reading_is_loaded_before_the_first_window(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who shows a window is not waited for: what came while all plants and sensors were loaded was not shown."""
    loading: list[threading.Thread] = []
    real = discovery.named

    def named(room: str, attribute: str) -> list[Any]:
        loading.append(threading.current_thread())
        return real(room, attribute)

    monkeypatch.setattr(discovery, "named", named)
    metrics.known.cache_clear()
    said = trimtab("observe", "simulated", "--window", "5s", "--duration", "10s", "--all")
    assert said.out.count("  requests completed per second") == 2
    assert set(loading) == {threading.main_thread()}


def test_observe_as_json(trimtab: Trimtab) -> None:
    said = trimtab("observe", "memory", "--duration", "10s", "--json")
    assert [json.loads(line)["type"] for line in said.out.splitlines()] == ["window", "window"]


@needs_root
@pytest.mark.usefixtures("memory_alone")
def test_doctor_warns_of_an_installation_that_others_can_change(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with his_directory() as his:
        monkeypatch.setattr(sys, "path", [*sys.path, str(his)])
        found = next(json.loads(line) for line in trimtab("doctor", "--json").out.splitlines())
    assert (found["subject"], found["usable"]) == ("installation", False)
    assert f"others can change what runs as this user: {his} belongs to uid {STRANGER}" in found["detail"]


@pytest.mark.usefixtures("memory_alone")
def test_doctor_shows_what_would_enable_what_cannot_be_used(trimtab: Trimtab) -> None:
    said = trimtab("doctor")
    assert said.code == 0
    assert "no   memory: is forgetful\n     to enable: write things down\n" in said.out
    found = [json.loads(line) for line in trimtab("doctor", "--json").out.splitlines()]
    (memory,) = [finding for finding in found if finding["member"] == "memory"]
    assert memory == {
        "room": "plants",
        "member": "memory",
        "subject": "memory",
        "usable": False,
        "detail": "is forgetful",
        "enable": "write things down",
    }


def test_a_plant_with_habits_of_its_own_is_tuned_by_them_unless_told_otherwise(
    trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = discovery.load("trimtab.plants", "memory")
    monkeypatch.setattr(memory, "DEFAULTS", PlantDefaults("fuzzy", "service_time_s", "5s"), raising=False)
    assert trimtab("tune", "memory", "--duration", "20s").code == 0
    told = ("--controller", "static", "--maximize", "request_rate_hz", "--window", "10s")
    assert trimtab("tune", "memory", "--duration", "20s", *told).code == 0
    plans = [Store(store).run(number).plan for number in (1, 2)]
    assert [plan.controller for plan in plans] == ["fuzzy", "static"]
    assert [str(plan.settings.objective) for plan in plans] == ["minimize service_time_s", "maximize request_rate_hz"]
    assert [plan.settings.window_s for plan in plans] == [5, 10]


@pytest.mark.parametrize("asked", [("--keep-windows", "16"), ()], ids=["as asked", "unless more are asked for"])
def test_a_long_run_stores_only_its_last_windows(
    trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]
) -> None:
    monkeypatch.setattr("trimtab.cli.tune.KEPT_WINDOWS", 1 << 20 if asked else 16)
    assert trimtab("tune", "memory", "--duration", "220s", "--window", "1s", *asked).code == 0
    kept = Store(store).windows(1)
    assert 16 <= len(kept) <= 18
    assert kept[-1].index > 200
    assert trimtab("runs", "show", 1).code == 0


def test_a_long_run_that_forgot_its_changes_does_not_say_that_nothing_was_changed(
    trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trimtab("observe", "memory", "--duration", "10s").code == 0  # loads the plant
    memory, made = sys.modules["trimtab.plants.memory"].PLANT, list[int]()

    def once(plant: MemoryPlant, prepared: Prepared) -> Applied:
        if made:
            raise ApplyLater("not now")
        made.append(1)
        return MemoryPlant.commit(plant, prepared)

    monkeypatch.setattr(memory, "commit", once)
    command = ("tune", "memory", "--controller", "fuzzy", "--duration", "10m", "--window", "10s")
    said = trimtab(*command, "--keep-windows", "16")
    assert said.code == 0
    assert all(move.configuration is None for move in Store(store).moves(1)), "its change is forgotten"
    assert "Nothing was changed" not in said.out
    assert "which alone were kept" in said.out
    assert said.out.rstrip().endswith("undo:  trimtab runs undo 1"), "what it changed is in force"


def test_a_knob_that_cannot_be_moved_here_is_refused_with_what_would_enable_it(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trimtab("observe", "memory", "--duration", "10s").code == 0  # loads the plant
    note = "processes is set in its file, line 2: --edit-in-place lets trimtab change it there"
    monkeypatch.setattr(sys.modules["trimtab.plants.memory"].PLANT, "notes", ("all is well", note))
    said = trimtab("tune", "memory", "--knob", "processes")
    assert (said.code, said.out) == (2, "")
    assert said.err == f"trimtab: unknown knob 'processes': memory has workers, timeout; {note}\n"
