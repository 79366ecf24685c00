"""What comes of a terminal: Ctrl-Z, SIGHUP after nohup, and that it goes away."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trimtab.cli._stop import terminal_approval
from trimtab.core import Domain, How, Knob, Move
from trimtab.events import Status
from trimtab.observer import Stop
from trimtab.store import Store

PATIENCE_S = 120.0
A_SMALL_PIPE_BYTES = 4096
MORE_THAN_A_PIPE_HOLDS = 700
"""Lines, of about 150 bytes each."""


def suspended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has been suspended by a signal, once it is or has said something."""
    assert process.stderr is not None
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        stat = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii")
        if stat.rpartition(")")[2].split()[0] == "T":
            return True
        if select.select([process.stderr], [], [], 0.05)[0]:
            return False
    raise AssertionError("it was not suspended and said nothing")


@pytest.mark.parametrize(("verb", "suspends"), [("tune", False), ("observe", True)])
def test_ctrl_z_suspends_only_what_changes_nothing(verb: str, suspends: bool, tmp_path: Path) -> None:
    arguments = [verb, "simulated", "--duration", "1000h", "--store", os.fspath(tmp_path / "runs.sqlite")]
    process = subprocess.Popen(
        [sys.executable, "-m", "trimtab", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,  # ours is in the same session, so this one is no orphan, in which nothing is suspended
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        process.stdout.readline()
        process.send_signal(signal.SIGTSTP)
        assert suspended(process) == suspends
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        said = process.communicate(timeout=PATIENCE_S)[1]
        assert process.returncode == 128 + signal.SIGINT
        assert (b"trimtab: it goes on" in said) != suspends
    finally:
        process.kill()
        process.communicate()


def test_what_was_started_with_nohup_goes_on_when_the_terminal_hangs_up(tmp_path: Path) -> None:
    arguments = ["tune", "simulated", "--duration", "1000h", "--store", os.fspath(tmp_path / "runs.sqlite")]
    process = subprocess.Popen(
        ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, "-m", "trimtab", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pipesize=A_SMALL_PIPE_BYTES,
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        said = 0
        while said < 8 * A_SMALL_PIPE_BYTES:  # more than was said before
            line = process.stdout.readline()
            assert line, "it has ended"
            said += len(line)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_a_terminal_that_goes_away_is_no_failure_which_would_take_back_what_was_kept(
    term: str, tmp_path: Path
) -> None:
    path = tmp_path / "runs.sqlite"
    ours, its = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "trimtab", "tune", "simulated", "--duration", "1000h", "--store", os.fspath(path)],
        stdin=its,
        stdout=its,
        stderr=its,
        env={**os.environ, "TERM": term},
    )
    os.close(its)
    try:
        read = 0
        while read < 4000:
            read += len(os.read(ours, 4096))
        os.close(ours)
        process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    run = Store(path).run(1)
    assert (run.status, run.detail) == (Status.STOPPED, "output that cannot be written (Input/output error)")


@pytest.mark.parametrize("shown", ["a table", "lines", "JSON"])
def test_a_run_does_not_wait_for_a_terminal_that_takes_nothing(shown: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    arguments = ["tune", "simulated", "--duration", "1000h", "--store", os.fspath(path)]
    ours, its = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "trimtab", *arguments, *(["--json"] if shown == "JSON" else [])],
        stdin=its,
        stdout=its,
        stderr=its,
        env={**os.environ, "TERM": "xterm" if shown == "a table" else "dumb"},
    )
    os.close(its)
    try:
        seen, deadline_s = -1, 0.0
        while (now := _windows(path)) < MORE_THAN_A_PIPE_HOLDS:
            if now > seen:
                seen, deadline_s = now, time.monotonic() + PATIENCE_S
            assert time.monotonic() < deadline_s, f"it stands still after {now} windows"
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _windows(path: Path) -> int:
    """How many windows a store has; 0 before there is one."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
            return int(store.execute("SELECT COUNT(*) FROM windows").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


class Patient(Stop):
    """A request to stop that comes once it was looked at so often."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._looks = looks

    def __bool__(self) -> bool:
        self._looks -= 1
        return self._looks < 0


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """What is written there was typed at the terminal that is standard input."""
    ours, its = os.openpty()
    with os.fdopen(its, "r", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        yield ours
    os.close(ours)


MOVE = Move({"pool": 1}, "it is full\x1b[2J")
POOL = Knob("pool", "pm", "", Domain.choice("static", "dynamic"), 0, How.LIVE, "nothing", "How the pool grows.")


def test_what_was_typed_before_a_question_is_no_answer_to_it(keyboard: int) -> None:
    os.write(keyboard, b"y\ny\n")
    assert terminal_approval(Patient(2))(MOVE) is False


def test_an_answer_that_comes_while_a_window_is_measured_counts_when_the_same_is_asked_again(
    keyboard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    approve = terminal_approval(Patient(20), patience_s=0.0)
    assert approve(MOVE) is None, "it does not wait for ever where something may be on trial"
    os.write(keyboard, b"y\n")
    capsys.readouterr()
    assert approve(MOVE) is True
    assert capsys.readouterr().err.endswith("[y/N] y\n"), "the terminal has shown it above the question"
    os.write(keyboard, b"y\n")
    assert approve(MOVE) is None, "it has been answered, and this is another one"


def test_a_question_names_a_choice_and_does_not_steer_the_terminal(
    keyboard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert terminal_approval(Patient(1), (POOL,))(MOVE) is False
    assert capsys.readouterr().err == r"set pool dynamic? it is full\x1b[2J [y/N] "
