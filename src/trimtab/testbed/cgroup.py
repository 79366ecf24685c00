"""Confinement of a server by control groups, version 1 (one hierarchy per controller) or 2 (unified)."""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from pathlib import Path

from trimtab import processes
from trimtab.core.finding import Finding

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
_numbers = itertools.count()


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a server's resources.

    Args:
        memory_limit_bytes: resident memory and page cache; None for no limit.
        swap: whether memory beyond the limit may be swapped; without it the kernel kills.
        cores: CPU time per second of wall time, such as 0.5; None for no limit.
        cpus: the CPUs it may run on; None for all.
        cpu_weight: its claim on a CPU that others want too, where one ordinary process has 1; up to 100.
    """

    memory_limit_bytes: int | None = None
    swap: bool = False
    cores: float | None = None
    cpus: tuple[int, ...] | None = None
    cpu_weight: int = 1

    def controllers(self) -> tuple[str, ...]:
        """The controllers that these limits need."""
        needed = {
            "memory": self.memory_limit_bytes is not None,
            "cpu": self.cores is not None or self.cpu_weight != 1,
            "cpuset": self.cpus is not None,
        }
        return tuple(name for name, asked in needed.items() if asked)


class Confinement:
    """The control groups of one server.

    Args:
        limits: the limits.
        root: where control groups are mounted.

    Attributes:
        directories: the groups that were made, by controller; under version 2 all controllers share one.
        applied: the limits in force, in words.
        missing: the limits that could not be set and why, in words.
    """

    def __init__(self, limits: Limits, root: Path = ROOT) -> None:
        self.directories: dict[str, Path] = {}
        self.applied: list[str] = []
        self.missing: list[str] = []
        self._limits = limits
        self._root = root
        if limits.controllers():
            name = f"trimtab-{os.getpid()}-{next(_numbers)}"
            if (root / "cgroup.controllers").exists():
                self._create_unified(name)
            else:
                self._create_by_controller(name)

    def procs_files(self) -> list[str]:
        """The files that a process writes its id to, to be confined."""
        return sorted({os.fspath(d / "cgroup.procs") for d in self.directories.values()})

    def __str__(self) -> str:
        parts = [*self.applied, *(f"not {m}" for m in self.missing)]
        return "; ".join(parts) or "none: no limit was asked for"

    def remove(self, patience_s: float = 10.0) -> bool:
        """Ends the processes still inside and removes the groups; may be called twice.

        Returns:
            Whether all are gone.
        """
        return remove(set(self.directories.values()), patience_s)

    def _create_by_controller(self, name: str) -> None:
        limits = self._limits
        made = {c for c in limits.controllers() if self._make(c, name)}
        if limits.memory_limit_bytes is not None and "memory" in made:
            self._limit_memory("memory.limit_in_bytes", str(limits.memory_limit_bytes))
            if not limits.swap:
                self._write("memory", "memory.memsw.limit_in_bytes", str(limits.memory_limit_bytes), "")
        if limits.cpu_weight != 1 and "cpu" in made:
            self._write("cpu", "cpu.shares", str(1024 * limits.cpu_weight), f"CPU weight {limits.cpu_weight}")
        if limits.cores is not None and "cpu" in made:
            self._write("cpu", "cpu.cfs_period_us", str(PERIOD_US), "")
            quota = str(round(limits.cores * PERIOD_US))
            self._write("cpu", "cpu.cfs_quota_us", quota, f"{limits.cores:g} cores")
        if limits.cpus is not None and "cpuset" in made:
            # A v1 cpuset takes no process before its memory nodes are named.
            mems = (self._root / "cpuset" / "cpuset.mems").read_text(encoding="ascii").strip()
            self._write("cpuset", "cpuset.mems", mems, "")
            self._write("cpuset", "cpuset.cpus", _cpu_list(limits.cpus), f"CPUs {_cpu_list(limits.cpus)}")
        if self.directories:
            # Not a limit: it lets a sensor read the CPU time of exactly this server.
            with contextlib.suppress(OSError):
                group = self._root / "cpuacct" / name
                group.mkdir()
                self.directories["cpuacct"] = group

    def _create_unified(self, name: str) -> None:
        limits = self._limits
        controllers = list(limits.controllers())
        parent, why = _unified_parent(self._root, controllers)
        if parent is None:
            self.missing.append(f"confined: {why}")
            return
        group = parent / name
        group.mkdir()
        self.directories = dict.fromkeys(controllers, group)
        if limits.memory_limit_bytes is not None:
            self._limit_memory("memory.max", str(limits.memory_limit_bytes))
            self._write("memory", "memory.swap.max", "max" if limits.swap else "0", "")
        if limits.cpu_weight != 1:
            weight = str(min(10_000, 100 * limits.cpu_weight))
            self._write("cpu", "cpu.weight", weight, f"CPU weight {limits.cpu_weight}")
        if limits.cores is not None:
            value = f"{round(limits.cores * PERIOD_US)} {PERIOD_US}"
            self._write("cpu", "cpu.max", value, f"{limits.cores:g} cores")
        if limits.cpus is not None:
            self._write("cpuset", "cpuset.cpus", _cpu_list(limits.cpus), f"CPUs {_cpu_list(limits.cpus)}")

    def _limit_memory(self, file: str, value: str) -> None:
        self._write("memory", file, value, f"memory {int(value) / 2**20:.0f} MiB")

    def _make(self, controller: str, name: str) -> bool:
        group = self._root / controller / name
        try:
            group.mkdir()
        except OSError as error:
            self.missing.append(f"limited in {controller}: {_reason(error)}")
            return False
        self.directories[controller] = group
        return True

    def _write(self, controller: str, file: str, value: str, what: str) -> None:
        try:
            (self.directories[controller] / file).write_text(value, encoding="ascii")
        except OSError as error:
            self.missing.append(f"{what or file}: {_reason(error)}")
        else:
            self.applied += [what] if what else []


def probe() -> tuple[Finding, ...]:
    """Whether a testbed's memory and CPU can be limited here; looks and changes nothing."""
    subject = "limits for testbeds (control groups)"
    unified = (ROOT / "cgroup.controllers").exists()
    where = ROOT if unified else ROOT / "memory"
    if os.geteuid() == 0 and os.access(where, os.W_OK):
        return (Finding(subject, True, f"version {2 if unified else 1} in {where}"),)
    if os.geteuid() != 0:
        return (Finding(subject, False, f"{where} is not this user's", "run as root"),)
    why = "is not there" if not where.exists() else "cannot be written"
    return (Finding(subject, False, f"{where} {why}", "mount the memory controller"),)


def pids(directories: set[Path]) -> list[int]:
    """The processes in some groups; a group that is gone has none."""
    found: set[int] = set()
    for directory in directories:
        with contextlib.suppress(OSError):
            found.update(int(p) for p in (directory / "cgroup.procs").read_text(encoding="ascii").split())
    return sorted(found)


def remove(directories: set[Path], patience_s: float) -> bool:
    """Ends the processes inside some groups and removes them.

    Returns:
        Whether all are gone.
    """
    processes.end(lambda: [one for pid in pids(directories) if (one := processes.identify(pid))], patience_s)
    for directory in directories:
        with contextlib.suppress(OSError):
            directory.rmdir()
    return not any(d.exists() for d in directories)


def _unified_parent(root: Path, controllers: list[str]) -> tuple[Path | None, str]:
    """Directory for a version 2 group with these controllers, or the reason why there is none."""
    if os.geteuid() == 0:
        candidates = [root]
    else:
        own = next((x for x in Path("/proc/self/cgroup").read_text("ascii").splitlines() if x.startswith("0::")), "")
        here = root / own.removeprefix("0::").lstrip("/")
        candidates = [p for p in (here, *here.parents) if p.is_relative_to(root)]
    why = "no group of this user is delegated (systemd-run --user --scope -p Delegate=yes gives one)"
    for candidate in candidates:
        if not os.access(candidate / "cgroup.procs", os.W_OK):
            continue
        try:
            enabled = (candidate / "cgroup.subtree_control").read_text(encoding="ascii").split()
            if absent := [c for c in controllers if c not in enabled]:
                switch = " ".join(f"+{c}" for c in absent)
                (candidate / "cgroup.subtree_control").write_text(switch, encoding="ascii")
        except OSError as error:
            why = f"{candidate} does not hand on {', '.join(controllers)}: {_reason(error)}"
            continue
        return candidate, ""
    return None, why


def _cpu_list(cpus: tuple[int, ...]) -> str:
    return ",".join(str(c) for c in cpus)


def _reason(error: OSError) -> str:
    hint = " (needs root)" if os.geteuid() != 0 else ""
    return f"{error.strerror}{hint}"
