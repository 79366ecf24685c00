"""A control group that lets a server start few processes and threads more, as a container's limit of pids does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers._under_gate import until
from trimtab.processes import children
from trimtab.testbed.cgroup import ROOT


@dataclass(frozen=True)
class FewTasks:
    """Such a group.

    Args:
        group: its directory.
    """

    group: Path

    def take(self, pid: int, left: int) -> int:
        """Puts a server and its children there, with room for so many more.

        Returns:
            How many processes and threads there may be.
        """
        for one in (pid, *children(pid)):
            (self.group / "cgroup.procs").write_text(f"{one}\n", encoding="ascii")
        most = int((self.group / "pids.current").read_text(encoding="ascii")) + left
        (self.group / "pids.max").write_text(f"{most}\n", encoding="ascii")
        return most


@contextmanager
def few_tasks() -> Iterator[FewTasks]:
    """An empty group, which is removed at the end, once all in it has ended."""
    top = next(one for one in (ROOT / "pids", ROOT) if one.is_dir())
    group = top / f"trimtab-tasks-{os.getpid()}"
    group.mkdir()
    try:
        if not (group / "pids.max").exists():
            pytest.skip("no control group here limits processes (pids)")
        yield FewTasks(group)
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(encoding="ascii"), "processes are left in the group")
        group.rmdir()
