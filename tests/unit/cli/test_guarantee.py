"""What `guarantee` says, stores and refuses, on a queueing system in memory."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Said, Trimtab
from tests.unit.cli.test_runs import killed
from trimtab import plants as trimtab_plants
from trimtab.cli._gains import CONTROLLER_OF
from trimtab.errors import ApplyFailed, ApplyRefused
from trimtab.events import Status
from trimtab.identification.model import Model
from trimtab.identification.model_file import ModelFile
from trimtab.identification.signals import Kind, Pair
from trimtab.processes import identify
from trimtab.store import Store

SPEC = """
listen = [8080]
workers = 32
period = "60s"
guarantee = "relative"

[[class]]
name = "a"
match = [{ source = "127.0.1.0/24" }]
desired = 1

[[class]]
name = "b"
desired = 3
minimum = 2
"""
CLASSY = '''"""The queueing system as a member of the room."""
from tests._class_plant import ClassPlant

class Classy(ClassPlant):
    leases = []

    def lease(self, timeout_s):
        self.leases.append(timeout_s)

    def end_lease(self):
        self.leases.append("ended")

def add_arguments(parser):
    parser.add_argument("--users", type=int, default=60, help="clients of each class")

def from_arguments(args, clock):
    return Classy({"a": args.users, "b": args.users}, workers=32)

PLANT = Classy
'''
GAINS = ("--gain", "0.3", "--zero", "0.05")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(SPEC)
    return path


@pytest.fixture
def guarantee(trimtab: Trimtab, tmp_path: Path, spec: Path, monkeypatch: pytest.MonkeyPatch) -> Trimtab:
    """`trimtab guarantee` on that plant."""
    room = tmp_path / "classy"
    room.mkdir()
    (room / "classy.py").write_text(CLASSY)
    monkeypatch.setattr(trimtab_plants, "__path__", [*trimtab_plants.__path__, str(room)])
    monkeypatch.delitem(sys.modules, "trimtab.plants.classy", raising=False)

    def run(*arguments: object) -> Said:
        return trimtab("guarantee", spec, "--plant", "classy", *arguments)

    return run


def test_a_run_shows_what_each_class_gets_and_the_reason_and_ends_with_what_each_class_got(
    guarantee: Trimtab, store: Path
) -> None:
    said = guarantee(*GAINS, "--duration", "20m")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == "relative controller: gain 0.3, zero 0.05, as given"
    assert lines[1] == "run 1: relative-delay on classy, relative delay guarantee, autonomous"
    columns = ["b, of 3 x a", "a delay", "b delay", "process_budget@a", "process_budget@b", "a queue", "b queue"]
    assert re.sub(" +", " ", lines[2]).startswith(f"window time {' '.join(columns)} ")
    assert lines[3].split()[0] == "0" and lines[4].split()[0] == "1"
    assert "process_budget@a 16 -> " in lines[3] and "relative: b:a is" in lines[3]
    assert [line.split()[0] for line in lines[-3:]] == ["a:", "b:", "so:"]
    assert "desired 3 x a" in lines[-2]
    plan = Store(store).run(1).plan
    assert plan.guarantee is not None
    assert (plan.guarantee.kind, plan.guarantee.classes, plan.guarantee.desired) == ("relative", ("a", "b"), (1, 3))
    assert plan.controller_options["minimum"] == [1, 2]
    assert (plan.settings.window_s, plan.settings.settle_s, plan.settings.early) == (60, 0, 0)


def test_it_is_in_charge_for_as_long_as_the_spec_says(guarantee: Trimtab) -> None:
    guarantee(*GAINS, "--duration", "2m")
    assert sys.modules["trimtab.plants.classy"].PLANT.leases == [90.0]
    guarantee(*GAINS, "--duration", "2m", "--on-exit", "restore")
    assert sys.modules["trimtab.plants.classy"].PLANT.leases == [90.0, 90.0, "ended"], "what was put back holds"


def test_what_it_decided_comes_out_again_and_is_shown_again(guarantee: Trimtab, trimtab: Trimtab) -> None:
    live = guarantee(*GAINS, "--duration", "10m").out.splitlines()
    assert trimtab("runs", "replay", 1).out == "run 1: all 10 moves were reproduced\n"
    shown = trimtab("runs", "show", 1).out.splitlines()
    assert shown[0] == live[2]
    assert shown[-4:] == live[-4:]


def test_a_killed_run_is_gone_on_with_by_its_own_gains(guarantee: Trimtab, trimtab: Trimtab, store: Path) -> None:
    guarantee("--gain", "0.2", "--zero", "0.1", "--duration", "5m")
    killed(store)
    plant = sys.modules["trimtab.plants.classy"].PLANT
    plant.lasting = True
    said = trimtab("runs", "resume", 1)
    assert (said.code, said.err) == (0, "")
    run = Store(store).run(1)
    assert (run.status, len(Store(store).windows(1))) == (Status.DONE, 5)
    assert (run.plan.controller_options["gain"], run.plan.controller_options["zero"]) == (0.2, 0.1)


def test_an_identification_that_was_killed_is_not_gone_on_with_as_a_guarantee(
    guarantee: Trimtab, trimtab: Trimtab, store: Path
) -> None:
    guarantee("--identify", "40m", "--duration", "5m", "--settling", "20m")
    killed(store)
    sys.modules["trimtab.plants.classy"].PLANT.lasting = True
    said = trimtab("runs", "resume", 1)
    assert (said.code, said.out) == (2, "")
    why = "it identifies the server, which 'trimtab guarantee' begins anew"
    assert said.err == f"trimtab: run 1 cannot be resumed: {why}\n"
    assert len(Store(store).windows(1)) == 2


def test_without_gains_the_server_is_identified_and_the_controller_designed(guarantee: Trimtab, store: Path) -> None:
    said = guarantee("--identify", "40m", "--duration", "5m", "--settling", "20m")
    assert (said.code, said.err) == (0, "")
    runs = Store(store).runs()
    assert [run.plan.controller for run in runs] == ["excitation", "excitation", "log-relative-delay"]
    (line,) = [line for line in said.out.splitlines() if line.startswith("logarithmic controller: gain")]
    assert "identified by runs 1 and 2" in line
    assert "identified by runs 1 and 2" in str(runs[-1].plan.host["logarithmic controller"])
    leases = sys.modules["trimtab.plants.classy"].PLANT.leases
    assert leases == [180.0, "ended", 90.0], "three periods while it identifies, then as the SPEC says"
    gain = float(line.split("gain ")[1].split(",")[0])
    assert runs[-1].plan.controller_options["gain"] == pytest.approx(gain, rel=1e-3)


def test_a_given_model_is_designed_for(guarantee: Trimtab, store: Path) -> None:
    said = guarantee("--model", "0.74,-0.37,0.95,-0.12", "--duration", "2m")
    assert said.out.startswith("relative controller: gain ")
    assert Store(store).run(1).plan.controller_options["gain"] > 0


def test_a_model_file_says_which_controller_it_is_for(guarantee: Trimtab, store: Path, tmp_path: Path) -> None:
    model = Model((0.74, -0.37), (0.95, -0.12))
    for number, kind in enumerate((Kind.RELATIVE, Kind.LOGARITHMIC), 1):
        path = tmp_path / f"{kind}.json"
        ModelFile(model, Pair(kind, "a", "b"), 60.0, {}).write(path)
        assert guarantee("--model-file", path, "--duration", "2m").code == 0
        assert Store(store).run(number).plan.controller == CONTROLLER_OF[kind]
    ModelFile(model, Pair(Kind.ABSOLUTE, "a", "b"), 60.0, {}).write(path)
    assert "it is a model for absolute delays, wanted is relative" in guarantee("--model-file", path).err
    ModelFile(model, Pair(Kind.RELATIVE, "a", "b"), 30.0, {}).write(path)
    assert "it holds for samples of 30 s, the SPEC's period is 60 s" in guarantee("--model-file", path).err


def test_self_tuning_begins_with_the_model_and_its_design(guarantee: Trimtab, trimtab: Trimtab, store: Path) -> None:
    model = "0.74,-0.37,0.95,-0.12"
    said = guarantee("--controller", "self-tuning", "--model", model, "--duration", "10m", "--settling", "15m")
    assert (said.code, said.err) == (0, "")
    options = Store(store).run(1).plan.controller_options
    assert (options["guarantee"], options["model"]) == ("relative", model)
    assert (options["period_s"], options["settling_s"]) == (60, 900)
    assert f"gain {options['gain']:g}" in said.out
    assert trimtab("runs", "replay", 1).code == 0


def test_the_open_loop_never_moves_and_is_judged_by_the_same_guarantee(guarantee: Trimtab, store: Path) -> None:
    said = guarantee("--controller", "static", "--duration", "10m")
    assert said.out.startswith("run 1: static on classy, relative delay guarantee")
    assert "process_budget@a stays at 16, process_budget@b stays at 16" in said.out
    assert said.out.splitlines()[-1] == "so:    Relative delay guarantee: not kept for b"
    assert not any(move.move.changes for move in Store(store).moves(1))


def test_json_is_one_object_per_line(guarantee: Trimtab) -> None:
    lines = [json.loads(line) for line in guarantee(*GAINS, "--duration", "2m", "--json").out.splitlines()]
    assert [line["type"] for line in lines] == ["gains", "run", "window", "move", "window", "move", "end"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--gain", "0.3"), "--gain and --zero belong together"),
        ((*GAINS, "--identify", "10m"), "--identify has no meaning with a gain"),
        (("--model", "0.7,0.9", "--identify", "10m"), "--identify has no meaning with a gain or a model"),
        ((*GAINS, "--settling", "10m"), "--settling has no meaning with a gain"),
        (("--controller", "static", *GAINS), "--gain has no meaning with --controller static"),
        (("--controller", "static", "--settling", "10m"), "--settling has no meaning with --controller static"),
        ((*GAINS, "--model", "0.7,0.9"), "two ways to say the same"),
        (("--model", "0.7,-0.9"), "more processes lower the output"),
        (("--model", "0.7,0"), "model"),
        ((*GAINS, "--absolute-gain", "-2"), "are for hybrid, not relative"),
        ((*GAINS, "--duration", "2m", "--seed", "-1"), "--seed -1 is not allowed: it must be 0 to 2^64 - 1"),
        (("--gain", "-0.3", "--zero", "0"), "option gain is -0.3, allowed is more than 0"),
        (("--gain", "0.3", "--zero", "2"), "option zero is 2, allowed is between -1 and 1"),
        (
            (*GAINS, "--controller", "absolute-delay"),
            "can have relative-delay, log-relative-delay, self-tuning, static",
        ),
        ((*GAINS, "--controller", "self-tuning"), "self-tuning begins with a model"),
        ((*GAINS, "--controller", "relativ"), "unknown controller 'relativ'"),
        ((*GAINS, "--duration", "10s"), "the window (60 s) is longer than the duration (10 s)"),
        (("--model-file", "/nowhere"), "--model-file /nowhere"),
    ],
)
def test_bad_input_is_one_line_and_exit_2_and_nothing_is_stored(
    guarantee: Trimtab, store: Path, arguments: tuple[str, ...], says: str
) -> None:
    said = guarantee(*arguments)
    assert said.code == 2
    assert said.err.count("\n") == 1 and says in said.err
    assert not store.exists()


def test_a_class_that_the_plant_does_not_have_is_refused(guarantee: Trimtab, spec: Path) -> None:
    spec.write_text(SPEC.replace('"b"', '"gold"'))
    said = guarantee(*GAINS)
    assert said.code == 2
    assert "class 'gold' of the SPEC is unknown to the classy plant, it has a, b" in said.err


def test_a_spec_without_a_guarantee_is_refused(guarantee: Trimtab, spec: Path) -> None:
    text = SPEC.replace('guarantee = "relative"\n', "").replace('period = "60s"\n', "")
    spec.write_text(text.replace("desired = 1\n", "").replace("desired = 3\n", ""))
    said = guarantee(*GAINS)
    assert said.code == 2
    assert "guarantees nothing" in said.err


def test_without_a_spec_it_says_so(trimtab: Trimtab) -> None:
    said = trimtab("guarantee", "--plant", "classy")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "unknown plant" in said.err or "no SPEC" in said.err


def test_its_help_needs_no_spec_and_shows_the_options_of_the_plant(trimtab: Trimtab) -> None:
    said = trimtab("guarantee", "--help")
    assert said.code == 0
    assert "--settling" in said.out and "options of gate" in said.out


def test_a_run_that_does_not_begin_leaves_no_lease_by_which_the_gate_would_open(
    guarantee: Trimtab, tmp_path: Path
) -> None:
    (tmp_path / "letter").write_text("not a database\n" * 100)
    said = guarantee(*GAINS, "--duration", "2m", "--store", tmp_path / "letter")
    assert said.code == 2 and "is no run store" in said.err
    assert sys.modules["trimtab.plants.classy"].PLANT.leases == []


def test_a_lease_that_is_refused_ends_the_run_that_had_begun(
    guarantee: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert guarantee(*GAINS, "--duration", "2m").code == 0

    def refuses(plant: object, timeout_s: float) -> None:
        raise ApplyRefused("a lease of 0 s")

    monkeypatch.setattr(sys.modules["trimtab.plants.classy"].PLANT, "lease", refuses)
    said = guarantee(*GAINS, "--duration", "2m")
    assert (said.code, said.err) == (1, "trimtab: a lease of 0 s\n")
    assert (Store(store).run(2).status, Store(store).run(2).detail) == (Status.FAILED, "a lease of 0 s")


def test_beside_another_run_on_its_server_nothing_is_identified(
    guarantee: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert guarantee(*GAINS, "--duration", "2m").code == 0
    monkeypatch.setattr(sys.modules["trimtab.plants.classy"].PLANT, "pid", 7)
    assert guarantee(*GAINS, "--duration", "2m").code == 0
    here = identify(os.getpid())
    assert here is not None
    goes_on = "UPDATE runs SET status = 'running', finished = NULL, pid_started = ? WHERE id = 2"
    Store(store).execute(goes_on, (here.start_ticks,))
    said = guarantee("--identify", "40m", "--duration", "5m")
    assert (said.code, said.out) == (2, "")
    assert said.err == "trimtab: run 2 still runs on this server, and would be taken for an operator: end it first\n"
    assert len(Store(store).runs()) == 2


def test_where_a_run_fails_and_the_budgets_from_before_it_are_back_they_hold(
    guarantee: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert guarantee(*GAINS, "--duration", "2m").code == 0
    plant = sys.modules["trimtab.plants.classy"].PLANT

    def fails(part: object, prepared: object) -> None:
        raise ApplyFailed("the gate clips it")

    monkeypatch.setattr(plant, "commit", fails)
    plant.leases.clear()
    said = guarantee(*GAINS, "--duration", "20m")
    assert said.code == 1 and "run 2 ended early: 3 changes in a row failed" in said.err
    assert (Store(store).run(2).restored, plant.leases) == (True, [90.0, "ended"])
