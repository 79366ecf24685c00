"""Bad input gets one plain line and exit code 2, and changes nothing."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Trimtab

BAD = [
    (["tune"], "no plant: name one of "),
    (["tune", "apachee"], "unknown plant 'apachee'; choose from: "),
    (["tune", "memory", "--controller", "trym"], "unknown controller 'trym'; choose from: "),
    (
        ["tune", "memory", "--minimize", "response_time"],
        "unknown metric 'response_time'; did you mean",
    ),
    (["tune", "memory", "--minimize", "foo"], "unknown metric 'foo'; there are aborted_rate_hz, "),
    (["tune", "memory", "--minimize", "cpu_ratio", "--maximize", "cpu_ratio"], "not allowed with"),
    (["tune", "memory", "--knob", "worker"], "unknown knob 'worker': memory has workers, timeout"),
    (
        ["tune", "memory", "--window", "2m", "--duration", "1m"],
        "(120 s) is longer than the duration (60 s)",
    ),
    (["tune", "memory", "--window", "0s"], "a window of 0 s is too short"),
    (
        ["tune", "memory", "--window", "0.001ms", "--duration", "0.01ms"],
        "a window of 1e-06 s is too short: it must be 0.001 s or more",
    ),
    (
        ["observe", "memory", "--window", "0.9ms", "--duration", "9ms"],
        "a window of 0.0009 s is too short: it must be 0.001 s or more",
    ),
    (["tune", "memory", "--window", "10"], "--window: '10' is not a duration"),
    (["tune", "memory", "--window", "10s", "--duration", "1"], "--duration: '1' is not a duration"),
    (["tune", "memory", "--duration", "9" * 30 + "h"], "is too long a duration: it must be 100 years or less"),
    (
        ["tune", "memory", "--window", "1s", "--duration", "10s", "--settle", "10s"],
        "the wait after a change (10 s) must be shorter than the duration (10 s)",
    ),
    (["tune", "memory", "--settle", "nan"], "--settle: 'nan' is not a duration"),
    (["tune", "memory", "--trials", "5", "--trial-length", "10"], "--window: '10' is not a duration"),
    (["observe", "memory", "--duration", "1"], "--duration: '1' is not a duration"),
    (["design", "--model", "0.5,1", "--settling", "1"], "--settling: '1' is not a duration"),
    (["design", "--model", "0.5,1", "--period", "1"], "--period: '1' is not a duration"),
    (["tune", "memory", "--keep-windows", "0"], "--keep-windows 0 is too few: it must be at least 1"),
    (["tune", "memory", "--mode", "wild"], "invalid choice: 'wild'"),
    (["tune", "memory", "--mode", "approve"], "standard input is not a terminal"),
    (
        ["tune", "memory", "--mode", "advise", "--controller", "nelder_mead", "--duration", "20s"],
        "--mode advise: a search by trials has to make its changes; use autonomous or approve",
    ),
    (["tune", "memory", "--option", "speed=1"], "--option 'speed=1': write NAME=VALUE; trim has "),
    (["tune", "memory", "--option", "margin"], "--option 'margin': write NAME=VALUE; trim has "),
    (["tune", "memory", "--option", "margin=lots"], "'lots' is not a number"),
    (["tune", "memory", "--option", "ratio=0"], "option ratio is 0, allowed is more than 1"),
    (["tune", "memory", "--option", "margin=85"], "option margin is 85, allowed is a share above 0, to 1"),
    (["tune", "memory", "--option", "margin=nan"], "'nan' is not a number"),
    (["tune", "memory", "--option", "objective=x"], "--option 'objective=x': write NAME=VALUE"),
    (["tune", "memory", "--seed", "x"], "invalid int value: 'x'"),
    (["tune", "memory", "--seed", "-1"], "--seed -1 is not allowed: it must be 0 to 2^64 - 1"),
    (["tune", "memory", "--seed", str(2**64)], f"--seed {2**64} is not allowed: it must be 0 to 2^64 - 1"),
    (
        ["observe", "memory", "--seed", "-1", "--duration", "10s"],
        "--seed -1 is not allowed: it must be 0 to 2^64 - 1",
    ),
    (["tune", "memory", "--store", "/"], "argument --store: '/' is a directory: name a file"),
    (["tune", "memory", "--store", ""], "argument --store: '' is empty: name a file"),
    (["tune", "memory", "--colour"], "unrecognized arguments: --colour"),
    (["tune", "memory", "--report", "/nowhere/at/all.html"], "the report /nowhere/at/all.html cannot be written"),
    (["tune", "memory", "--report", "/"], "the report / is a directory"),
    (
        ["tune", "memory", "--report", "x" * 240],
        f"the report {'x' * 40}... has too long a name: at most 200 bytes",
    ),
    (
        ["tune", "memory", "--report", f"/{'x' * 300}/all.html"],
        f"the report /{'x' * 300}/all.html cannot be written: no such directory, or no permission",
    ),
    (["tune", "memory", "--forbid"], "no permission to reload pid 7: run as root"),
    (["tune", "simulated", "--server", "coars=2"], "--server 'coars=2': write NAME=VALUE; there are "),
    (["tune", "simulated", "--server", "cores=two"], "'two' is not a number"),
    (["tune", "simulated", "--workload", "waggon"], "unknown workload 'waggon'"),
    (
        ["observe", "simulated", "--server", "cores=-1", "--duration", "5s"],
        "cores -1 is not allowed: it must be more than 0",
    ),
    (
        ["observe", "simulated", "--server", "cores=inf", "--duration", "5s"],
        "cores inf is not allowed: it must be finite",
    ),
    (["observe"], "no plant: name one of "),
    (["observe", "memory", "--window", "2m", "--duration", "1m"], "the window (120 s) is longer than the duration"),
    (["runs"], "the following arguments are required: ACTION"),
    (["runs", "show", "7"], "no run 7 in the store "),
    (["runs", "undo", "7"], "no run 7 in the store "),
    (["runs", "replay", "7"], "no run 7 in the store "),
    (["runs", "resume", "7"], "no run 7 in the store "),
    (["runs", "show", "seven"], "'seven' is not the number of a run: see 'trimtab runs list'"),
    (["runs", "show", "9" * 20], f"'{'9' * 20}' is not the number of a run"),
    (["runs", "report", "1", "9" * 20, "--out", "x.html"], f"'{'9' * 20}' is not the number of a run"),
    (["runs", "list", "--store", "/nowhere/at/all.db"], "--store /nowhere/at/all.db: there is no such file"),
    (["runs", "undo", "1", "--store", "/nowhere/at/all.db"], "--store /nowhere/at/all.db: there is no such file"),
    (["runs", "report", "7", "--out", "x.html"], "no run 7 in the store "),
    (["doctor", "--fix"], "unrecognized arguments: --fix"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(case[0]) for case in BAD])
def test_one_line_exit_code_2_and_nothing_changed(
    trimtab: Trimtab, store: Path, arguments: list[str], message: str
) -> None:
    said = trimtab(*arguments)
    assert said.code == 2
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("trimtab: ")
    assert message in said.err
    assert not store.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("tune", "memory"),
        ("observe", "memory"),
        ("runs", "list"),
        ("runs", "show", 1),
        ("runs", "report", 1, "--out", "x.html"),
        ("lab", "write", "liu2003", "--runs", 1, "--results", "/nowhere/x"),
    ],
    ids=lambda arguments: " ".join(map(str, arguments[:2])),
)
def test_a_file_that_is_no_store_is_one_line_and_exit_code_2(
    trimtab: Trimtab, tmp_path: Path, arguments: tuple[object, ...]
) -> None:
    file = tmp_path / "letter"
    file.write_text("not a database\n" * 100)
    said = trimtab(*arguments, "--store", file)
    assert (said.code, said.out) == (2, "")
    assert said.err == f"trimtab: {file} is no run store: name another file by --store\n"


def test_a_store_that_cannot_be_opened_is_one_line_and_exit_code_1(trimtab: Trimtab, store: Path) -> None:
    assert trimtab("tune", "memory", "--duration", "20s").code == 0
    with contextlib.closing(sqlite3.connect(store)) as database:
        database.execute("PRAGMA user_version = 99")
    said = trimtab("runs", "list")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert "it was written by a newer trimtab (schema 99, here 3)" in said.err


def test_permission_to_reload_is_not_needed_to_observe_or_advise(trimtab: Trimtab) -> None:
    assert trimtab("observe", "memory", "--forbid", "--duration", "10s").code == 0
    assert trimtab("tune", "memory", "--forbid", "--mode", "advise", "--duration", "20s").code == 0


@pytest.mark.parametrize(
    ("verb", "says"),
    [
        ("observe", "keep the windows in this run store (default: they are not kept)"),
        ("tune", "or its first; of a stack what its file says, else all)"),
    ],
)
def test_help_says_what_is_done_where_nothing_is_said(trimtab: Trimtab, verb: str, says: str) -> None:
    assert says in " ".join(trimtab(verb, "--help").out.split())
