"""The gate's processes: started, started anew a bounded number of times, ended; with a program of the tests' own."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests._fake_gate import SPEC
from trimtab.clock import SystemClock
from trimtab.errors import TrimtabError
from trimtab.gate.pair import MOST_RESTARTS, Pair
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.spec import parse

PROGRAM = """#!{python} -IS
import json, os, socket, sys
start = json.loads(sys.stdin.readline())
directory = start["directory"]
if os.path.exists(directory + "/broken"):
    sys.exit("the metrics port is taken")
open(directory + "/gate-pid", "w").write(str(os.getpid()))
listening = socket.socket(socket.AF_UNIX)
path = directory + "/control.sock"
if os.path.exists(path):
    os.unlink(path)
listening.bind(path + ".new")
listening.listen()
os.rename(path + ".new", path)
while True:
    talk = listening.accept()[0]
    for line in talk.makefile():
        order = json.loads(line)
        answer = dict(type="done", configuration={{}}, mode="budgets", generation=1)
        talk.sendall(json.dumps(answer).encode() + b"\\n")
        if order["type"] == "stop":
            if os.path.exists(directory + "/words"):
                sys.stderr.write(open(directory + "/words").read())
            sys.stderr.write("as you wish\\n")
            sys.exit(0)
"""


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunDirectory]:
    program = tmp_path / "program"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("TRIMTAB_NATIVE", str(program))
    yield RunDirectory("web", tmp_path)


def pair(run_dir: RunDirectory, said: list[str]) -> Pair:
    return Pair(run_dir, parse(SPEC).start(run_dir.directory), SystemClock(), said.append)


def pid(run_dir: RunDirectory) -> int:
    return int((run_dir.directory / "gate-pid").read_text())


def kill(run_dir: RunDirectory) -> None:
    """Kills the gate and returns when it has ended."""
    os.kill(pid(run_dir), signal.SIGKILL)
    os.waitid(os.P_PID, pid(run_dir), os.WEXITED | os.WNOWAIT)


def test_it_answers_once_it_is_made_and_ends_when_asked(run_dir: RunDirectory) -> None:
    said: list[str] = []
    gate = pair(run_dir, said)
    assert run_dir.gated()
    assert os.getpgid(pid(run_dir)) == pid(run_dir), "signals of the terminal would reach it"
    gate.watch()
    gate.stop()
    gate.stop()
    assert not run_dir.gated()
    assert said == ["as you wish"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid(run_dir), 0)


def test_one_that_cannot_start_is_an_error_with_what_it_said(run_dir: RunDirectory) -> None:
    (run_dir.directory / "broken").touch()
    said: list[str] = []
    with pytest.raises(TrimtabError, match=r"^the gate ended with 1: the metrics port is taken$"):
        pair(run_dir, said)
    assert said == [], "it is said once, by the error"


def test_one_that_dies_is_started_anew_until_it_has_died_too_often(run_dir: RunDirectory) -> None:
    said: list[str] = []
    gate = pair(run_dir, said)
    for _ in range(MOST_RESTARTS):
        before = pid(run_dir)
        kill(run_dir)
        gate.watch()
        assert pid(run_dir) != before and run_dir.gated()
    assert said == MOST_RESTARTS * ["the gate has ended; starting it anew"]
    kill(run_dir)
    gate.watch()
    gate.watch()
    assert said[MOST_RESTARTS:] == [
        f"the gate has ended {MOST_RESTARTS + 1} times in 60 s; the server goes on without it"
    ]
    gate.stop()


def test_one_that_cannot_be_started_anew_leaves_the_server_alone(run_dir: RunDirectory) -> None:
    said: list[str] = []
    gate = pair(run_dir, said)
    (run_dir.directory / "broken").touch()
    kill(run_dir)
    gate.watch()
    assert said[1] == "the gate ended with 1: the metrics port is taken; the server goes on without it"
    gate.stop()


def test_a_machine_without_room_for_a_process_leaves_the_server_alone(
    run_dir: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*arguments: object) -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    said: list[str] = []
    gate = pair(run_dir, said)
    kill(run_dir)
    monkeypatch.setattr("trimtab.gate.pair.spawn", no_room)
    before = len(os.listdir("/proc/self/fd"))
    gate.watch()
    assert said[1] == ("the gate cannot be started: Resource temporarily unavailable; the server goes on without it")
    assert len(os.listdir("/proc/self/fd")) <= before
    gate.watch()
    gate.stop()
    assert len(said) == 2


def test_what_it_says_comes_in_lines_that_end_and_steer_no_terminal(run_dir: RunDirectory) -> None:
    (run_dir.directory / "words").write_text(10_000 * "a" + "\nred \x1b[31m\n\tb\n")
    said: list[str] = []
    pair(run_dir, said).stop()
    assert [len(line) for line in said[:3]] == [4096, 4096, 10_000 - 2 * 4096]
    assert said[3:] == [r"red \x1b[31m", "b", "as you wish"]
