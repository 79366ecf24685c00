"""CPU time that a server has used, and how much it may use.

The limit that binds is the least of the CPU quotas from the server's group upward, the CPUs of its cpuset, and the
CPUs of the machine. Use is that of the group in which the limit is, so that 1 always means that nothing is left; when
there is no limit short of the machine, use is that of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from trimtab.errors import NotMeasured
from trimtab.sensors._arrivals import cpus
from trimtab.sensors._cgroup import Group
from trimtab.sensors._kernel_file import KernelFile

_IDLE_FIELDS = (3, 4)
_GUEST_FIELDS = 8


class Cpu:
    """CPU time of a server.

    Args:
        groups: its control groups by controller.
        root: where /proc is, "/" but in tests.

    Attributes:
        cores: how many cores it may use.
        where: whose CPU time is counted, in words.

    Raises:
        NotMeasured: the group with the limit does not count CPU time, or /proc/stat cannot be read.
    """

    def __init__(self, groups: Mapping[str, Group], root: Path) -> None:
        self._stat: KernelFile | None = None
        self._usage: KernelFile | None = None
        machine = KernelFile(root / "proc" / "stat")
        self.cores = float(sum(line[:4] != b"cpu " and line[:3] == b"cpu" for line in machine.read().splitlines()))
        limiting = None
        for group, cores in [*_quotas(groups.get("cpu")), *_sets(groups.get("cpuset"))]:
            if cores < self.cores:
                self.cores, limiting = cores, group
        if limiting is None:
            self._stat, self.where = machine, "the machine"
            return
        machine.close()
        counting = _counting(limiting, groups)
        self._usage = KernelFile(counting / ("cpu.stat" if limiting.version == 2 else "cpuacct.usage"))
        self.where = f"control group {counting}"

    def used_s(self) -> float:
        """CPU time used so far, in core seconds.

        Raises:
            NotMeasured: the group is gone.
        """
        if self._stat is not None:
            fields = [int(word) for word in self._stat.read().split(b"\n", 1)[0].split()[1:]]
            # Guest time is in user time already; waiting for a disk is idle.
            busy = sum(t for i, t in enumerate(fields[:_GUEST_FIELDS]) if i not in _IDLE_FIELDS)
            return busy / os.sysconf("SC_CLK_TCK")
        assert self._usage is not None
        if self._usage.path.name == "cpu.stat":
            return self._usage.table()[b"usage_usec"] / 1e6
        return self._usage.number() / 1e9

    def close(self) -> None:
        """Closes its files; may be called twice."""
        for file in (self._stat, self._usage):
            if file is not None:
                file.close()


def _quotas(own: Group | None) -> list[tuple[Group, float]]:
    """The quotas in cores from a group upward."""
    found = []
    for group in own.upward() if own else []:
        if group.version == 2:
            words = _words(group.path / "cpu.max")
        else:
            words = _words(group.path / "cpu.cfs_quota_us") + _words(group.path / "cpu.cfs_period_us")
        if len(words) == 2 and words[0] not in ("max", "-1"):
            found.append((group, int(words[0]) / int(words[1])))
    return found


def _sets(own: Group | None) -> list[tuple[Group, float]]:
    """The number of CPUs in the nearest cpuset that has any; those above it are never smaller."""
    for group in own.upward() if own else []:
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus"):
            if words := _words(group.path / name):
                return [(group, float(len(cpus(words[0]))))]
    return []


def _counting(limiting: Group, groups: Mapping[str, Group]) -> Path:
    """The group that counts the CPU time of exactly the processes that a limit is for.

    Raises:
        NotMeasured: there is none, which version 1 allows.
    """
    if limiting.version == 2:
        return limiting.path
    name = limiting.path.relative_to(limiting.top)
    accounting = groups.get("cpuacct")
    if accounting is not None and (accounting.top / name) in [g.path for g in accounting.upward()]:
        return accounting.top / name
    raise NotMeasured(f"CPU is limited by {limiting.path}, and no cpuacct group /{name} counts what it uses")


def _words(path: Path) -> list[str]:
    """The words of a small file; none when there is no such file."""
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []
