"""trimtab lab: what it lists and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Trimtab
from trimtab.lab.liu2003 import PARTS

BAD = [
    (["run", "nosuch"], "unknown lab 'nosuch'; choose from: battery, chung2004, contest, demo, harm, lamp2016"),
    (["run", "liu2003", "--part", "nosuch"], "unknown part 'nosuch'; choose from: sweep-dynamic, "),
    (["run", "demo", "--part", "switch"], "unknown part 'switch'; choose from: demo"),
    (["run", "liu2003", "--seeds", "x"], "--seeds 'x': write whole numbers and ranges with commas"),
    (["run", "liu2003", "--seeds", ""], "--seeds '': write whole numbers and ranges with commas"),
    (["run", "liu2003", "--seeds", "1,,2"], "--seeds '1,,2': write whole numbers and ranges with commas"),
    (["run", "demo", "--report", "/nowhere/at/all.html"], "the report /nowhere/at/all.html cannot be written"),
    (["run", "liu2003", "--seeds", "1-999999999"], "a range of more than 100000 is not allowed"),
    (["run", "liu2003", "--seeds", "3-1"], "--seeds '3-1': the range 3-1 runs backwards, write 1-3"),
    (["write", "liu2003", "--runs", "5-1", "--results", "/nowhere/x"], "the range 5-1 runs backwards, write 1-5"),
    (["write", "liu2003", "--runs", "9" * 20, "--results", "/nowhere/x"], "write whole numbers and ranges"),
    (
        ["write", "liu2003", "--runs", "1", "--results", "/nowhere/x", "--store", "/nowhere/at/all.db"],
        "--store /nowhere/at/all.db: there is no such file",
    ),
    (["write", "liu2003", "--runs", "1"], "nothing to write: name '--results FOLDER' or '--report FILE'"),
    (
        ["write", "demo", "--runs", "1", "--report", "/nowhere/at/all.html"],
        "the report /nowhere/at/all.html cannot be written",
    ),
    (["write", "liu2003", "--from", "/nowhere.xz", "--results", "/nowhere/x"], "/nowhere.xz is no compressed store"),
    (["write", "liu2003"], "one of the arguments --runs --from is required"),
    (["run"], "the following arguments are required: NAME"),
    ([], "the following arguments are required: ACTION"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(case[0]) for case in BAD])
def test_bad_input_is_one_line_and_exit_code_2(
    trimtab: Trimtab, store: Path, arguments: list[str], message: str
) -> None:
    said = trimtab("lab", *arguments)
    assert said.code == 2
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    assert message in said.err
    assert not store.exists()


def test_what_an_experiment_does_not_write_is_refused(trimtab: Trimtab, tmp_path: Path) -> None:
    for arguments in (["demo", "--results", tmp_path / "out"], ["liu2003", "--report", tmp_path / "x.html"]):
        said = trimtab("lab", "run", *arguments)
        assert said.code == 2
        assert "writes no" in said.err and said.err.count("\n") == 1
        assert not (tmp_path / "out").exists()


def test_the_list_has_every_experiment_and_part(trimtab: Trimtab) -> None:
    said = trimtab("lab", "list")
    assert said.code == 0
    for name in ("demo: ", "liu2003: ", *PARTS):
        assert name in said.out


@pytest.mark.parametrize("name", ["sugiki2005", "lamp2016", "contest", "liu2003"])
def test_results_of_one_experiment_are_not_made_from_runs_of_another(
    trimtab: Trimtab, store: Path, tmp_path: Path, name: str
) -> None:
    assert trimtab("tune", "simulated", "--duration", "20s", "--store", store).code == 0
    said = trimtab("lab", "write", name, "--runs", "1", "--store", store, "--results", tmp_path / "out")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"trimtab: run 1 is of no experiment, and not of a part of {name}: ")
    assert not (tmp_path / "out").exists()
