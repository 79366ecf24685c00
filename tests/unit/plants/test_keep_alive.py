"""The keep-alive time as a plant: live, read back, left to whoever else sets it, and given back."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests._idle_file import NONE, count, settings
from tests._memory_plant import FakeClock
from trimtab.errors import ApplyFailed, ApplyRefused, OperatorEdit, PlantGone, UsageError
from trimtab.gate.keep_alive import OF_SERVER, InCharge, KeepAliveTime, Setting
from trimtab.gate.run_directory import RunDirectory
from trimtab.plants.keep_alive import KeepAlive
from trimtab.plants.keep_alive.knobs import KEEP_ALIVE
from trimtab.processes import Process

FIXED, AUTO = InCharge.FIXED, InCharge.AUTO


@pytest.fixture
def plant(run_dir: RunDirectory) -> Iterator[KeepAlive]:
    made = KeepAlive(FakeClock(), run_dir)
    yield made
    made.close()
    made.close()


def test_the_servers_own_time_is_what_is_in_force_before_any_other(run_dir: RunDirectory, plant: KeepAlive) -> None:
    assert plant.configuration() == {KEEP_ALIVE: 15_000}
    assert "15000 ms were taken for it" in plant.apply({KEEP_ALIVE: 500}).notes[0]
    plant.restore()
    count(run_dir.shared, replace(NONE, server_ms=5000))
    assert plant.configuration() == {KEEP_ALIVE: 5000}
    assert plant.apply({KEEP_ALIVE: 500}).notes == ()


def test_what_is_applied_is_in_force_at_once_and_goes_back(run_dir: RunDirectory, plant: KeepAlive) -> None:
    assert plant.apply({KEEP_ALIVE: 450}).configuration == {KEEP_ALIVE: 450}
    assert settings(run_dir.shared) == (450_000_000, 950_000_000, 32, FIXED)
    plant.apply({KEEP_ALIVE: 700})
    plant.restore()
    assert settings(run_dir.shared) == (0, 0, 0, 0)


def test_the_appointed_controller_leaves_the_time_to_auto(run_dir: RunDirectory) -> None:
    plant = KeepAlive(FakeClock(), run_dir, appointed=True)
    plant.time.write(Setting(AUTO, 900))
    plant.check_permissions()
    plant.apply({KEEP_ALIVE: 450})
    assert plant.time.setting() == Setting(AUTO, 450)
    assert plant.leftover() == ""
    plant.restore()
    assert plant.time.setting() == Setting(AUTO, 900)


@pytest.mark.parametrize("theirs", [Setting(FIXED, 400), OF_SERVER])
def test_the_appointed_controllers_first_move_leaves_a_time_that_was_taken_from_it_just_now(
    run_dir: RunDirectory, theirs: Setting
) -> None:
    plant = KeepAlive(FakeClock(), run_dir, appointed=True)
    plant.time.write(Setting(AUTO, 900))
    prepared = plant.prepare({KEEP_ALIVE: 450})
    KeepAliveTime(run_dir.shared).write(theirs)
    with pytest.raises(ApplyRefused, match=f"is no longer learned: it is {theirs}"):
        plant.commit(prepared)
    assert plant.time.setting() == theirs
    plant.close()


def test_nobody_else_moves_a_time_that_is_learned_already(plant: KeepAlive) -> None:
    plant.time.write(Setting(AUTO, 900))
    with pytest.raises(
        UsageError, match="learned already: take charge first with 'trimtab keep-alive set server --name web'"
    ):
        plant.check_permissions()
    with pytest.raises(ApplyRefused, match="the controller of 'trimtab run' has taken charge"):
        plant.apply({KEEP_ALIVE: 450})
    assert plant.time.setting() == Setting(AUTO, 900)


@pytest.mark.parametrize("theirs", [Setting(FIXED, 800), Setting(AUTO, 450), OF_SERVER])
def test_an_edit_from_outside_is_said_once_and_stands(
    run_dir: RunDirectory, plant: KeepAlive, theirs: Setting
) -> None:
    plant.apply({KEEP_ALIVE: 450})
    other = KeepAliveTime(run_dir.shared)
    other.write(theirs)
    with pytest.raises(OperatorEdit, match="where trimtab had set fixed, 450ms") as edit:
        plant.configuration()
    assert edit.value.knob == KEEP_ALIVE
    assert plant.configuration() == {KEEP_ALIVE: theirs.time_ms or 15_000}
    with pytest.raises(OperatorEdit):
        plant.apply({KEEP_ALIVE: 500})
    plant.restore()
    assert other.setting() == theirs


def test_an_edit_just_before_a_change_stands(run_dir: RunDirectory, plant: KeepAlive) -> None:
    plant.apply({KEEP_ALIVE: 450})
    KeepAliveTime(run_dir.shared).write(Setting(FIXED, 800))
    with pytest.raises(OperatorEdit):
        plant.apply({KEEP_ALIVE: 500})
    assert plant.time.setting() == Setting(FIXED, 800)


def test_a_change_that_does_not_take_is_a_failure_and_what_was_before_returns(
    plant: KeepAlive, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant.apply({KEEP_ALIVE: 450})
    write = plant.time.write
    asked: list[Setting] = []

    def clipped(wanted: Setting) -> Setting:
        asked.append(wanted)
        return write(replace(wanted, time_ms=7) if len(asked) == 1 else wanted)

    monkeypatch.setattr(plant.time, "write", clipped)
    with pytest.raises(ApplyFailed, match="is fixed, 7ms, not fixed, 500ms; what was before is restored"):
        plant.apply({KEEP_ALIVE: 500})
    assert plant.configuration() == {KEEP_ALIVE: 450}


@pytest.mark.parametrize("changes", [{KEEP_ALIVE: 0}, {KEEP_ALIVE: 3_600_001}, {KEEP_ALIVE: 5, "workers": 3}])
def test_what_is_not_valid_is_refused(run_dir: RunDirectory, plant: KeepAlive, changes: dict[str, int]) -> None:
    with pytest.raises(ApplyRefused):
        plant.apply(changes)
    assert settings(run_dir.shared) == (0, 0, 0, 0)


def test_a_run_that_has_ended_is_gone(run_dir: RunDirectory, plant: KeepAlive) -> None:
    run_dir.release()
    with pytest.raises(PlantGone, match="the run 'web' has ended"):
        plant.configuration()
    with pytest.raises(PlantGone):
        plant.apply({KEEP_ALIVE: 400})
    with pytest.raises(UsageError):
        KeepAlive(FakeClock(), run_dir)


def test_what_another_run_left_is_found_and_undone(run_dir: RunDirectory, plant: KeepAlive) -> None:
    KeepAliveTime(run_dir.shared).write(Setting(FIXED, 450))
    assert plant.leftover() == (
        "the keep-alive time is fixed, 450ms; 'trimtab keep-alive set server --name web' gives it back"
    )
    plant.undo_leftover()
    assert (settings(run_dir.shared), plant.leftover()) == ((0, 0, 0, 0), "")


def test_the_undo_script_works_without_trimtab(run_dir: RunDirectory, plant: KeepAlive) -> None:
    plant.apply({KEEP_ALIVE: 450})
    before = run_dir.shared.read_bytes()

    def run() -> tuple[int, str]:
        done = subprocess.run(["sh"], input=plant.undo_script(), capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    assert run() == (0, "undone\n")
    after = run_dir.shared.read_bytes()
    assert settings(run_dir.shared) == (0, 0, 0, 0)
    assert (after[:256], after[280:]) == (before[:256], before[280:]), "nothing else was touched"
    run_dir.release()
    code, said = run()
    assert (code, said.startswith("no server runs with")) == (0, True)


def test_a_run_on_it_is_known_by_the_first_process_of_its_server(
    run_dir: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.plants.keep_alive.plant.processes_of", lambda run_dir: [Process(7, 1)])
    plant = KeepAlive(FakeClock(), run_dir)
    assert [subject.pid for subject in plant.subjects] == [7], "by which two runs on one server find one another"
    plant.close()
