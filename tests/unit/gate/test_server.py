"""Processes are told by the environment that they were started with, the first before its children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trimtab.errors import UsageError
from trimtab.gate import place as places
from trimtab.gate.place import Place
from trimtab.gate.server import processes_of, server_of, shared_of, steerable, threads_of
from trimtab.gate.spawn import ended, spawn

TREE = """
import subprocess, sys, threading
child = "import sys, threading; threading.Thread(target=sys.stdin.read).start(); print(1, flush=True)"
below = subprocess.Popen([sys.executable, "-c", child], stdin=sys.stdin)
sys.stdin.read()
below.wait()
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place("web", tmp_path)


@pytest.fixture
def server(place: Place) -> Iterator[subprocess.Popen[bytes]]:
    """A process and its child, both with the environment, which end with their standard input."""
    environment = {**os.environ, "TRIMTAB_SHARED": str(place.shared)}
    command = [sys.executable, "-c", TREE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


def test_the_processes_of_a_run_are_found_and_no_others(place: Place, server: subprocess.Popen[bytes]) -> None:
    assert shared_of(server.pid) == place.shared
    assert shared_of(os.getpid()) is None
    found = [one.pid for one in processes_of(place)]
    assert len(found) == 2
    assert found[0] == server_of(place) == server.pid
    assert threads_of(place) == 2
    assert server_of(Place("api", place.directory / "api")) is None


def test_a_child_has_no_signal_blocked_and_its_end_is_a_code() -> None:
    shell = "/bin/sh"
    blocked = (
        "while read name mask; do [ $name = SigBlk: ] && exit $((0x$mask != 0)); done < /proc/self/status; exit 9"
    )
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        for script, code in (("exit 3", 3), ("kill -TERM $$", 143), (blocked, 0)):
            pid = spawn([shell, "-c", script], os.environ)
            assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT) is not None
            assert ended(pid) == code
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_run_that_was_killed_can_be_steered_while_its_server_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "base", lambda: tmp_path)
    left, dead = Place("web", tmp_path / "web"), Place("old", tmp_path / "old")
    for one in (left, dead):
        one.directory.mkdir()
        one.pid_file.write_text("1 1\n")
    environment = {**os.environ, "TRIMTAB_SHARED": str(left.shared)}
    with subprocess.Popen(["/bin/sh", "-c", "echo; read line"], stdin=-1, stdout=-1, env=environment) as server:
        assert server.stdout is not None
        server.stdout.readline()
        assert steerable(None) == steerable("web") == left
        with pytest.raises(UsageError, match="no run is named 'old'"):
            steerable("old")
        server.communicate()
    with pytest.raises(UsageError, match="no run is named 'web'"):
        steerable("web")
