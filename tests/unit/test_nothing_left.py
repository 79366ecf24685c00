"""That the tests' command fails where a process of its own outlives it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trimtab import processes

DETACHED = "setsid bash -c 'sleep 600; true' & echo $!"


def ran(command: str, grace_s: float) -> subprocess.CompletedProcess[str]:
    """The command of a shell, run so in a process of its own."""
    call = f"import sys; from tests.nothing_left import main; sys.exit(main(['bash', '-c', {command!r}], {grace_s}))"
    root = Path(__file__).parents[2]
    return subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=False, cwd=root)


def test_what_outlives_it_is_named_and_ended_with_its_children() -> None:
    done = ran(DETACHED, 0.0)
    pid = int(done.stdout)
    assert (done.returncode, done.stderr.split(maxsplit=3)[:3]) == (1, ["left", "running:", str(pid)])
    assert processes.start_of(pid) is None


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 3", 3), ("kill -9 $$", 137), ("true &", 0)])
def test_else_the_exit_code_is_the_commands(command: str, code: int) -> None:
    done = ran(command, 60.0)
    assert (done.returncode, done.stderr) == (code, "")


def test_a_commands_own_failure_is_kept_where_something_is_left_too() -> None:
    assert ran(f"{DETACHED}; exit 3", 0.0).returncode == 3
