"""What `trimtab design` says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests._stranger import STRANGER, needs_root
from tests.unit.cli.conftest import Trimtab
from trimtab.identification.model import Model
from trimtab.identification.model_file import ModelFile
from trimtab.identification.signals import Kind, Pair

RELATIVE, ABSOLUTE = "0.74,-0.37,0.95,-0.12", "-0.08,-0.2,-0.2,-0.05"


def test_poles_of_a_given_design_as_json(trimtab: Trimtab) -> None:
    said = trimtab("design", "poles", "--model", RELATIVE, "--gain", "0.3", "--zero", "0.05", "--json")
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    assert [pole[0] for pole in found["poles"]] == pytest.approx([0.70, 0.38, 0.38], abs=0.01)
    assert [pole[1] for pole in found["poles"]] == pytest.approx([0.0, 0.62, -0.62], abs=0.01)
    assert (found["stable"], found["settling_s"], found["meets"]) == (True, 270.0, True)


def test_a_model_and_a_gain_may_be_negative(trimtab: Trimtab) -> None:
    said = trimtab("design", "poles", "--model", ABSOLUTE, "--gain", "-4.6", "--zero", "0.3")
    assert said.code == 0
    assert "0.607, -0.304 ± 0.592i (stable)" in said.out
    assert "settles in 210 s" in said.out


def test_a_design_meets_what_was_asked_for(trimtab: Trimtab) -> None:
    said = trimtab("design", "--model", RELATIVE, "--settling", "10s", "--period", "1s", "--overshoot", "0", "--json")
    found = json.loads(said.out)
    assert found["meets"]
    assert found["settling_s"] <= 10.0
    assert found["overshoot_ratio"] <= 1e-9
    assert len(found["step_response"]) >= 20


def test_a_design_that_is_not_stable_is_judged_and_not_refused(trimtab: Trimtab) -> None:
    said = trimtab("design", "poles", "--model", RELATIVE, "--gain", "30", "--zero", "0.05")
    assert said.code == 0
    assert "not stable" in said.out
    assert "not met, the closed loop is not stable" in said.out


def test_a_zero_that_takes_the_integral_part_away_leaves_a_loop_that_is_not_stable(trimtab: Trimtab) -> None:
    model = "1.9,-0.9025,0.1,-0.1001"
    said = trimtab("design", "poles", "--model", model, "--gain", "1", "--zero", "1", "--json")
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out)["stable"] is False


def test_the_json_of_a_response_that_leaves_all_bounds_is_json(trimtab: Trimtab) -> None:
    said = trimtab("design", "poles", "--model", RELATIVE, "--gain", "1e30", "--zero", "0.1", "--json")
    found = json.loads(said.out, parse_constant=pytest.fail)
    assert (said.code, found["stable"], found["step_response"][-1]) == (0, False, None)


@pytest.mark.parametrize("gain", ["30", "1e30", "-1e30"])
def test_a_response_that_leaves_all_bounds_is_drawn_as_far_as_can_be_seen(
    trimtab: Trimtab, tmp_path: Path, gain: str
) -> None:
    plot = tmp_path / "plot.svg"
    said = trimtab("design", "poles", "--model", RELATIVE, f"--gain={gain}", "--zero", "0.05", "--plot", plot)
    assert (said.code, said.err) == (0, "")
    assert "not stable" in said.out and "<svg" in plot.read_text()


@pytest.mark.parametrize("name", ["plot.svg", "plot.html"])
def test_the_figures_are_one_file(trimtab: Trimtab, tmp_path: Path, name: str) -> None:
    said = trimtab("design", "--model", RELATIVE, "--plot", tmp_path / name)
    text = (tmp_path / name).read_text()
    assert said.out.splitlines()[-1] == f"figures: {tmp_path / name}"
    assert "Root locus" in text and "Predicted step response" in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_what_a_link_under_the_name_of_the_figures_points_to_is_not_overwritten(
    trimtab: Trimtab, tmp_path: Path
) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "plot.svg").symlink_to(tmp_path / "victim")
    said = trimtab("design", "--model", RELATIVE, "--plot", tmp_path / "plot.svg")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "is a link or a device: name a file" in said.err
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_model_file_brings_its_period(trimtab: Trimtab, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    ModelFile(Model((0.74, -0.37), (0.95, -0.12)), Pair(Kind.RELATIVE, "a", "b"), 2.0, {}).write(path)
    found = json.loads(trimtab("design", "--model-file", path, "--settling", "20s", "--json").out)
    assert (found["period_s"], found["settling_s"]) == (2.0, 20.0)
    (tmp_path / "link.json").symlink_to(path)
    assert trimtab("design", "--model-file", tmp_path / "link.json", "--settling", "20s").code == 0
    wrong = trimtab("design", "--model-file", path, "--period", "3s")
    assert wrong.code == 2
    assert "identify again with the other period" in wrong.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--model", "1.2,1"), "unstable"),
        (("--model", "0.5,0.1,1,-1"), "no lasting effect"),
        (("--model", "1,2,3"), "no model"),
        (("--model", RELATIVE, "--settling", "60s"), "the fastest takes"),
        (("--model", RELATIVE, "--settling", "1s"), "before the first sample"),
        (("--model", RELATIVE, "--settling", "5"), "not a duration"),
        (("--model", RELATIVE, "--settling", "100000h", "--period", "1ms"), "more than 10000 sampling periods"),
        (("--model", RELATIVE, "--overshoot", "-1"), "overshoot"),
        (("--model", RELATIVE, "--band", "0"), "band"),
        (("--model", RELATIVE, "--gain", "0.3"), "design poles"),
        (("poles", "--model", RELATIVE, "--gain", "0.3"), "needs --gain and --zero"),
        (("poles", "--model", RELATIVE, "--gain", "nan", "--zero", "0"), "gain nan, zero 0: both must be finite"),
        (("poles", "--model", RELATIVE, "--gain", "1", "--zero", "inf"), "gain 1, zero inf: both must be finite"),
        (("poles", "--model", RELATIVE, "--gain", "1e300", "--zero", "0", "--plot", "a.svg"), "too large to compute"),
        (("poles", "--model", RELATIVE, "--gain", "1", "--zero", "1e300", "--plot", "a.svg"), "too large to compute"),
        (("poles", "--model", "0.5,1e300", "--gain", "1", "--zero", "0", "--plot", "a.svg"), "too large to compute"),
        (("poles", "--model", RELATIVE, "--gain", "0", "--zero", "0"), "and the gain not 0"),
        (("poles", "--model", "1.2,1", "--gain", "0.3", "--zero", "0"), "unstable"),
        (("--model", RELATIVE, "--plot", "picture.png"), "ends in .svg or .html"),
        (("--model-file", "/no/such/file"), "No such file"),
        (("--model-file", "/dev/null"), "--model-file /dev/null is not a regular file"),
        ((), "required"),
        (("locus", "--model", RELATIVE), "invalid choice"),
        (("--model", RELATIVE, "--model-file", "x"), "not allowed with"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(trimtab: Trimtab, arguments: tuple[str, ...], why: str) -> None:
    said = trimtab("design", *arguments)
    assert said.code == 2
    assert why in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


@needs_root
def test_root_takes_no_model_that_somebody_else_could_change(trimtab: Trimtab, tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    pair = Pair(Kind.RELATIVE, "gold", "silver")
    ModelFile(Model((0.74, -0.37), (0.95, -0.12)), pair, 30.0, {}).write(model)
    assert trimtab("design", "--model-file", model).code == 0
    os.chown(model, STRANGER, STRANGER)
    said = trimtab("design", "--model-file", model)
    why = f"--model-file {model} is not read: {model} belongs to uid {STRANGER}: chown -h root {model}"
    assert (said.code, said.out, said.err) == (2, "", f"trimtab: {why}\n")
