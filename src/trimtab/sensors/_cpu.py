"""CPU time that a server has used, and how much it may use.

The limit that binds is the least of the CPU quotas from the server's group upward, the CPUs of its cpuset, those that
its first process is bound to (systemd's CPUAffinity, taskset), and the CPUs of the machine. Use of a quota is that of
its group; use of CPUs is that of all who run on them, such as the web server in front of PHP-FPM: so 1 means that
nothing is left. In a container of LXC /proc/stat may have the container's CPUs alone, numbered anew (lxcfs with
--enable-cfs, and older ones).

Of it the time in user mode is told apart: that is work for requests, while making room in memory is the kernel's. The
user time of processes that were made nice takes nothing from others, and is left out where CPUs are counted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import NotMeasured
from trimtab.sensors._arrivals import cpus
from trimtab.sensors._cgroup import Group
from trimtab.sensors._kernel_file import KernelFile
from trimtab.trust import printable

_USER_FIELD = 0
_IDLE_FIELDS = (3, 4)
_GUEST_FIELDS = 8
_BOUND = b"Cpus_allowed_list:"


@dataclass(frozen=True)
class Used:
    """CPU time used so far.

    Args:
        all_s: all of it, in core seconds.
        user_s: that in user mode.
    """

    all_s: float
    user_s: float


class Cpu:
    """CPU time of a server.

    Args:
        groups: its control groups by controller.
        bound: the CPUs that its first process is bound to; empty where that is not known.
        root: where /proc is, "/" but in tests.

    Attributes:
        cores: how many cores it may use.
        where: whose CPU time is counted, in words.

    Raises:
        NotMeasured: the group with the limit does not count CPU time, or /proc/stat cannot be read.
    """

    def __init__(self, groups: Mapping[str, Group], bound: frozenset[int], root: Path) -> None:
        self._usage: KernelFile | None = None
        self._user: KernelFile | None = None
        self._stat: KernelFile | None = KernelFile(root / "proc" / "stat")
        self._lines = [b"cpu"]
        firsts = [line.partition(b" ")[0] for line in self._stat.read().splitlines()]
        online = frozenset(int(name[3:]) for name in firsts if name[:3] == b"cpu" and name != b"cpu")
        self.cores, self.where = float(len(online)), "the machine"
        allowed, own = online, _set(groups.get("cpuset"))
        # Where its cpuset has others than /proc/stat, that has those of the cpuset alone, under other numbers.
        for some in (own, bound) if own <= online else ():  # which may name CPUs that there could be
            allowed = allowed & some or allowed
        if len(allowed) < len(online):
            self.cores, self._lines = float(len(allowed)), [b"cpu%d" % cpu for cpu in allowed]
            self.where = f"all who run on CPU {' and '.join(map(str, sorted(allowed)))}"
        limiting = None
        for group, cores in _quotas(groups.get("cpu")):
            if cores < self.cores:
                self.cores, limiting = cores, group
        if limiting is None:
            return
        self._stat.close()
        self._stat = None
        counting = _counting(limiting, groups)
        self._usage = KernelFile(counting / ("cpu.stat" if limiting.version == 2 else "cpuacct.usage"))
        if limiting.version == 1:
            self._user = KernelFile(counting / "cpuacct.stat")
        self.where = f"control group {printable(os.fspath(counting))}"

    def used(self) -> Used:
        """CPU time used so far.

        Raises:
            NotMeasured: the group is gone.
        """
        if self._stat is not None:
            lines = (line.split() for line in self._stat.read().splitlines())
            ticks = [[int(one) for one in fields[:_GUEST_FIELDS]] for name, *fields in lines if name in self._lines]
            # Guest time is in user time already; waiting for a disk is idle.
            busy = sum(one for fields in ticks for i, one in enumerate(fields) if i not in _IDLE_FIELDS)
            ticks_hz = os.sysconf("SC_CLK_TCK")
            return Used(busy / ticks_hz, sum(fields[_USER_FIELD] for fields in ticks) / ticks_hz)
        assert self._usage is not None
        if self._usage.path.name == "cpu.stat":
            table = self._usage.table()
            return Used(table[b"usage_usec"] / 1e6, table[b"user_usec"] / 1e6)
        assert self._user is not None
        return Used(self._usage.number() / 1e9, self._user.table()[b"user"] / os.sysconf("SC_CLK_TCK"))

    def close(self) -> None:
        """Closes its files; may be called twice."""
        for file in (self._stat, self._usage, self._user):
            if file is not None:
                file.close()


def bound_to(pid: int, root: Path) -> frozenset[int]:
    """The CPUs on which a process may run, also some that there could be; empty where that is not known.

    Args:
        pid: the process.
        root: where /proc is, "/" but in tests.
    """
    try:
        lines = (root / "proc" / str(pid) / "status").read_bytes().split(b"\n")
    except OSError:
        return frozenset()
    found = (line.partition(b":")[2].decode("ascii") for line in lines if line.startswith(_BOUND))
    return frozenset(cpus(next(found, "")))


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


def _set(own: Group | None) -> frozenset[int]:
    """The CPUs of the nearest cpuset that has any; those above it are never fewer."""
    for group in own.upward() if own else []:
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus"):
            if words := _words(group.path / name):
                return frozenset(cpus(words[0]))
    return frozenset()


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
    why = f"CPU is limited by {limiting.path}, and no cpuacct group /{name} counts what it uses"
    raise NotMeasured(printable(why))


def _words(path: Path) -> list[str]:
    """The words of a small file; none when there is no such file."""
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []
