"""The launcher: what it executes, and when it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from trimtab import launcher


def run(owner_pid: int, groups: list[str], code: str) -> subprocess.CompletedProcess[str]:
    command = launcher.argv(owner_pid, groups, [sys.executable, "-c", code])
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_it_writes_its_own_id_to_each_group_and_becomes_the_command(tmp_path: Path) -> None:
    groups = [os.fspath(tmp_path / name) for name in ("a", "b")]
    done = run(os.getpid(), groups, "import os; print(os.getpid())")
    assert done.returncode == 0
    assert [Path(g).read_text() for g in groups] == [done.stdout.strip()] * 2


def test_it_does_not_start_a_server_whose_owner_has_ended() -> None:
    done = run(os.getppid(), [], "print('started')")
    assert done.returncode != 0
    assert "started" not in done.stdout
    assert "the owner ended" in done.stderr


def test_a_group_that_cannot_be_joined_starts_nothing(tmp_path: Path) -> None:
    group = os.fspath(tmp_path / "none" / "cgroup.procs")
    done = run(os.getpid(), [group], "print('started')")
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr == f"the control group of {group} cannot be joined: No such file or directory\n"
