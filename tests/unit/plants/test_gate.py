"""The gate as a plant: knobs, one order for each change, edits from outside, and a gate that was started anew."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests._fake_gate import START, FakeGate
from tests._memory_plant import FakeClock
from trimtab.core import How
from trimtab.errors import ApplyFailed, ApplyRefused, OperatorEdit, PlantGone, UsageError
from trimtab.gate.run_directory import RunDirectory
from trimtab.plants.gate import Gate

LIMIT, PREMIUM, BASIC = "max_request_workers", "process_budget@premium", "process_budget@basic"


@pytest.fixture
def plant(gate: FakeGate) -> Iterator[Gate]:
    made = Gate(FakeClock(), gate.run_dir)
    yield made
    made.close()


def test_its_knobs_are_m_and_the_budgets_in_order_of_priority(plant: Gate) -> None:
    knobs = plant.knobs()
    assert [knob.name for knob in knobs] == [LIMIT, PREMIUM, BASIC]
    assert [(k.domain.minimum, k.domain.maximum) for k in knobs] == [(3, 100), (1, 100), (2, 100)]
    assert {knob.how for knob in knobs} == {How.LIVE}
    assert plant.configuration() == START
    assert plant.classes == ("premium", "basic")


def test_a_change_is_one_order_and_is_read_back(gate: FakeGate, plant: Gate) -> None:
    gate.orders.clear()
    applied = plant.apply({PREMIUM: 10, BASIC: 20})
    assert applied.configuration == {**START, PREMIUM: 10, BASIC: 20}
    assert applied.notes == ()
    changing = [order["changes"] for order in gate.orders if order["changes"]]
    assert changing == [{PREMIUM: 10, BASIC: 20}]


def test_an_open_gate_is_noted(gate: FakeGate, plant: Gate) -> None:
    gate.mode = "open"
    assert "the gate is open" in plant.apply({PREMIUM: 10}).notes[0]


@pytest.mark.parametrize("changes", [{PREMIUM: 0}, {BASIC: 1}, {LIMIT: 101}, {PREMIUM: 5, "workers": 3}])
def test_what_is_not_valid_is_refused_before_it_is_sent(gate: FakeGate, plant: Gate, changes: dict[str, int]) -> None:
    gate.orders.clear()
    with pytest.raises(ApplyRefused):
        plant.apply(changes)
    assert gate.orders == []


def test_a_value_that_the_gate_clips_is_a_failure_and_what_was_before_returns(gate: FakeGate, plant: Gate) -> None:
    gate.clipped = {PREMIUM: 7}
    with pytest.raises(ApplyFailed, match="process_budget@premium is 7, not 30; what was before is restored"):
        plant.apply({PREMIUM: 30, BASIC: 30})
    assert gate.orders[-1]["changes"] == {PREMIUM: 60, BASIC: 40}


def test_an_edit_from_outside_is_said_once_and_is_not_undone(gate: FakeGate, plant: Gate) -> None:
    plant.apply({PREMIUM: 30, BASIC: 30})
    gate.values[PREMIUM] = 55
    with pytest.raises(OperatorEdit, match="process_budget@premium is 55 in the gate, where trimtab had set 30") as e:
        plant.configuration()
    assert e.value.knob == PREMIUM
    assert plant.configuration() == {**START, PREMIUM: 55, BASIC: 30}
    with pytest.raises(OperatorEdit):
        plant.apply({PREMIUM: 20})
    plant.restore()
    assert gate.values == {**START, PREMIUM: 55}


def test_a_change_to_a_knob_that_was_edited_just_now_is_not_made(gate: FakeGate, plant: Gate) -> None:
    plant.apply({PREMIUM: 30})
    gate.values[PREMIUM] = 55
    with pytest.raises(OperatorEdit):
        plant.apply({PREMIUM: 20})
    assert gate.values[PREMIUM] == 55


def test_a_gate_that_was_started_anew_gets_its_settings_back(gate: FakeGate, plant: Gate) -> None:
    plant.apply({PREMIUM: 30})
    gate.die()
    gate.return_anew()
    assert gate.values == START
    assert plant.configuration() == {**START, PREMIUM: 30}
    assert gate.values[PREMIUM] == 30


def test_a_change_to_a_gate_that_was_started_anew_brings_all_settings_back(gate: FakeGate, plant: Gate) -> None:
    plant.apply({PREMIUM: 30})
    gate.die()
    gate.return_anew()
    assert plant.apply({BASIC: 9}).configuration == {**START, PREMIUM: 30, BASIC: 9}


def test_restore_brings_back_what_was_found(gate: FakeGate, plant: Gate) -> None:
    plant.apply({LIMIT: 50})
    plant.apply({PREMIUM: 30})
    plant.restore()
    plant.restore()
    assert gate.values == START


def test_what_another_run_left_is_found_and_undone(gate: FakeGate) -> None:
    gate.values[LIMIT] = 7
    plant = Gate(FakeClock(), gate.run_dir)
    assert plant.leftover() == "the gate was moved since its start: max_request_workers is 7, not 100"
    done = subprocess.run(["sh"], input=plant.undo_script(), capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, gate.values) == ("undone\n", START)
    gate.values[LIMIT] = 7
    plant.undo_leftover()
    assert (gate.values, plant.leftover()) == (START, "")
    plant.close()


def test_a_gate_that_opened_when_its_controller_was_gone_is_left_over_and_an_undo_closes_it(gate: FakeGate) -> None:
    gate.mode = "open"
    plant = Gate(FakeClock(), gate.run_dir)
    assert plant.leftover() == "the gate is open, because its controller's lease ran out"
    plant.undo_leftover()
    assert (gate.mode, gate.orders[-1]["type"], plant.leftover()) == ("budgets", "end_lease", "")
    gate.mode, gate.values[PREMIUM] = "open", 7
    assert plant.leftover().endswith(
        "process_budget@premium is 7, not 60; the gate is open, because its controller's lease ran out"
    )
    done = subprocess.run(["sh"], input=plant.undo_script(), capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, gate.mode, gate.orders[-1]["type"], gate.values) == (
        "undone\n",
        "budgets",
        "end_lease",
        START,
    )
    plant.close()


def test_the_undo_script_works_without_trimtab(gate: FakeGate, plant: Gate) -> None:
    script = plant.undo_script()
    assert script.startswith("#!/bin/sh\n")
    plant.apply({LIMIT: 50, PREMIUM: 3})

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh"], input=script, capture_output=True, text=True, check=False, timeout=300)

    done = run()
    assert (done.returncode, done.stdout) == (0, "undone\n"), done.stderr
    assert gate.values == START
    gate.answers.append({"type": "refused", "message": "no"})
    assert run().returncode == 1
    gate.die()
    gate.run_dir.control.unlink()
    assert (run().returncode, run().stdout.startswith("no gate runs at ")) == (0, True)


def test_a_run_without_a_gate_and_a_gate_that_is_gone_are_said(tmp_path: Path, gate: FakeGate) -> None:
    with pytest.raises(UsageError, match="the run 'none' has no gate: start it with 'trimtab run --gate SPEC'"):
        Gate(FakeClock(), RunDirectory("none", tmp_path / "none"))
    gate.die()
    with pytest.raises(PlantGone):
        Gate(FakeClock(), gate.run_dir)


def test_a_run_on_it_is_known_by_the_first_process_of_its_server(
    gate: FakeGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.plants.gate.plant.server_of", lambda run_dir: 7)
    plant = Gate(FakeClock(), gate.run_dir)
    assert [subject.pid for subject in plant.subjects] == [7], "by which two runs on one gate find one another"
    plant.close()
