"""What `trimtab identify` says, on a plant whose difference equation is known."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests._difference_plant import DifferencePlant
from tests.unit.cli.conftest import Trimtab
from tests.unit.cli.test_alone import REFUSED, goes_on
from trimtab import plants as trimtab_plants
from trimtab.identification.model_file import read_model
from trimtab.store import Store

PLANT = '''"""A plant whose delay ratio follows the paper's model."""
from tests._difference_plant import DifferencePlant
from trimtab.identification.model import PAPER
from trimtab.identification.signals import Kind

ADOPTED = []

def adopt(args, budgets, workers):
    ADOPTED.append((dict(budgets), workers))

def add_arguments(parser):
    parser.add_argument("--noise", type=float, default=0.1, help="noise")
    parser.add_argument("--absolute", action="store_true", help="absolute delay")

def from_arguments(args, clock):
    return DifferencePlant(PAPER[Kind.ABSOLUTE if args.absolute else Kind.RELATIVE], not args.absolute, args.noise)

PLANT = DifferencePlant
'''

SPEC = """
listen = [8080]
workers = 128
period = "2s"
guarantee = "absolute"
controller_timeout = "90s"
[[class]]
name = "premium"
match = [{ source = "127.0.1.0/24" }]
desired = "10s"
[[class]]
name = "basic"
desired = "30s"
"""


@pytest.fixture(autouse=True)
def difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One more plant, `difference`."""
    room = tmp_path / "more_plants"
    room.mkdir()
    (room / "difference.py").write_text(PLANT)
    monkeypatch.setattr(trimtab_plants, "__path__", [*trimtab_plants.__path__, str(room)])
    yield
    sys.modules.pop("trimtab.plants.difference", None)


def test_it_finds_the_order_and_says_how_to_go_on(trimtab: Trimtab, store: Path, tmp_path: Path) -> None:
    said = trimtab("identify", "--plant", "difference", "--model-file", tmp_path / "model.json")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == "exciting premium and basic twice, 1h in all; the budgets are put back at the end"
    (chosen,) = [line for line in lines if line.endswith("<- chosen")]
    assert chosen.startswith("order 2: ")
    assert any("trimtab design --model=" in line and "--period 30s" in line for line in lines)
    model = read_model(tmp_path / "model.json")
    assert (model.model.order, model.period_s, model.pair.upper, model.pair.lower) == (2, 30.0, "premium", "basic")
    assert model.facts["plant"] == "difference"
    kept = Store(store)
    assert [run.plan.command[0] for run in kept.runs()] == ["identify", "identify"]
    assert len(kept.windows(1)) == len(kept.windows(2)) == 60


def test_its_runs_replay(trimtab: Trimtab) -> None:
    trimtab("identify", "--plant", "difference", "--duration", "20m")
    for number in (1, 2):
        said = trimtab("runs", "replay", number)
        assert said.code == 0, said.err
        assert "moves were reproduced" in said.out


def test_json_ends_with_the_model(trimtab: Trimtab) -> None:
    lines = [json.loads(line) for line in trimtab("identify", "--plant", "difference", "--json").out.splitlines()]
    assert {line["type"] for line in lines[:-1]} <= {"window", "move", "note"}
    assert lines[-1]["type"] == "model"
    assert len(lines[-1]["a"]) == 2


def test_the_design_reads_its_model(trimtab: Trimtab, tmp_path: Path) -> None:
    trimtab("identify", "--plant", "difference", "--model-file", tmp_path / "model.json")
    said = trimtab("design", "--model-file", tmp_path / "model.json", "--json")
    assert json.loads(said.out)["meets"]


def test_a_spec_says_what_is_guaranteed_and_how_often_it_is_sampled(trimtab: Trimtab, tmp_path: Path) -> None:
    spec = tmp_path / "shop.toml"
    spec.write_text(SPEC)
    path = tmp_path / "model.json"
    said = trimtab(
        *("identify", spec, "--plant", "difference", "--absolute", "--noise", "0.01", "--duration", "2m"),
        *("--warm", "8s", "--model-file", path),
    )
    assert said.code == 0, said.err
    model = read_model(path)
    assert (model.pair.kind, model.period_s) == ("absolute", 2.0)
    taken = sys.modules["trimtab.plants.difference"].ADOPTED
    assert taken == [({"premium": 64, "basic": 64}, 128)], "a plant that is made for this run is made like the SPEC's"


@pytest.mark.parametrize(
    ("guarantee", "weights", "kind"),
    [("relative", ("1", "3"), "logarithmic"), ("absolute", ('"10s"', '"30s"'), "absolute")],
)
def test_a_spec_s_model_is_of_the_kind_that_its_guarantee_identifies(
    trimtab: Trimtab, tmp_path: Path, guarantee: str, weights: tuple[str, str], kind: str
) -> None:
    spec, path = tmp_path / "shop.toml", tmp_path / "model.json"
    first, second = weights
    text = SPEC.replace('"absolute"', f'"{guarantee}"')
    spec.write_text(
        text.replace('desired = "10s"', f"desired = {first}").replace('desired = "30s"', f"desired = {second}")
    )
    absolute = ("--absolute",) if kind == "absolute" else ()
    said = trimtab(
        *("identify", spec, "--plant", "difference", *absolute, "--noise", "0.01", "--duration", "2m"),
        *("--warm", "8s", "--model-file", path),
    )
    assert said.code == 0, said.err
    assert read_model(path).pair.kind == kind


def test_of_a_hybrid_spec_one_of_the_models_that_its_guarantee_takes_is_to_be_named(
    trimtab: Trimtab, tmp_path: Path
) -> None:
    spec = tmp_path / "shop.toml"
    spec.write_text(SPEC.replace('"absolute"', '"hybrid"'))
    said = trimtab("identify", spec, "--plant", "difference")
    assert said.code == 2
    assert "name one with --kind logarithmic or --kind absolute" in said.err


def test_the_report_is_one_file_and_says_what_was_simulated(trimtab: Trimtab, tmp_path: Path) -> None:
    trimtab("identify", "--plant", "difference", "--report", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert text.lstrip().lower().startswith("<!doctype html>")
    assert "Fig. 5(a) of lu2001" in text
    assert "Simulated." not in text


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--classes", "premium"), "needs two classes"),
        (("--classes", "premium,premium"), "needs two classes"),
        (("--classes", "premium,gold"), "unknown class 'gold'"),
        (("--orders", "1,x"), "--orders"),
        (("--orders", "0"), "orders are whole numbers from 1"),
        (("--seed", "3", "--validate-seed", "3"), "--validate-seed 3"),
        (("--seed", "-1"), "--seed -1 is not allowed: it must be 0 to 2^64 - 1"),
        (("--validate-seed", "-1"), "--validate-seed -1 is not allowed: it must be 0 to 2^64 - 1"),
        (("--duration", "1m"), "warm-up"),
        (("--duration", "5m"), "it takes 750 s or more"),
        (("--low", "90", "--high", "70"), "less than high"),
        (("--high", "4000"), "outside 1..128"),
        (("--high", "128"), "high is 128, and premium and basic have 128 processes together: 127 is the nearest"),
        (("--low", "96"), "low and high are both 96, so no model can be identified"),
        (("--kind", "both"), "invalid choice"),
        (("/no/such.toml",), "No such file"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(
    trimtab: Trimtab, store: Path, arguments: tuple[str, ...], why: str
) -> None:
    said = trimtab("identify", "--plant", "difference", *arguments)
    assert said.code == 2
    assert why in said.err
    assert said.err.count("\n") == 1
    assert Store(store, create=False).runs() == [], "something was run"


def test_a_plant_without_classes_is_refused(trimtab: Trimtab, store: Path) -> None:
    said = trimtab("identify", "--plant", "memory")
    assert said.code == 2
    assert "needs two classes, such as --classes A,B: memory has none" in said.err
    assert not store.exists()


def test_beside_another_run_on_its_server_nothing_is_excited(
    trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("identify", "--plant", "difference", "--duration", "20m")
    monkeypatch.setattr(DifferencePlant, "pid", 7)
    assert trimtab(*command).code == 0
    goes_on(store)
    said = trimtab(*command)
    assert (said.code, said.out, said.err) == (2, "", REFUSED)
    assert len(Store(store).runs()) == 2


def test_what_a_killed_run_left_is_undone_before_the_server_is_excited(
    trimtab: Trimtab, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("identify", "--plant", "difference", "--duration", "20m")
    assert trimtab(*command).code == 0
    tried = [window.configuration for window in Store(store).windows(2)]
    trial = next(one for one in tried if one["process_budget@premium"] != 64)
    Store(store).execute("UPDATE runs SET status = 'running', pid_started = 1 WHERE id = 2", ())
    undone = list[int]()

    def attached(plant: DifferencePlant, *arguments: object) -> None:
        begin(plant, *arguments)  # type: ignore[arg-type]
        if not undone:
            plant.values = dict(trial)

    def undo(plant: DifferencePlant) -> None:
        undone.append(1)
        plant.restore()

    begin = DifferencePlant.__init__
    monkeypatch.setattr(DifferencePlant, "__init__", attached)
    monkeypatch.setattr(DifferencePlant, "lasting", True)
    monkeypatch.setattr(DifferencePlant, "leftover", lambda plant: "" if undone else "the budgets were moved")
    monkeypatch.setattr(DifferencePlant, "undo_leftover", undo)
    said = trimtab(*command)
    assert said.code == 0 and "note: run 2 was killed before its end; what it left is undone" in said.err
    assert Store(store).run(3).plan.initial == {"process_budget@premium": 64, "process_budget@basic": 64}
    undone.clear()
    assert trimtab("runs", "undo", 4).out.startswith("run 4: undone; in force now: ")
