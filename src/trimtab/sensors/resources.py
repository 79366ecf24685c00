"""Sensor: CPU and memory that a server uses, as shares of its limits, and the pressure on both.

A limit of its own comes from control groups, version 1 or 2, whichever holds the server; where there is none, the
machine is the limit. CPU (`_cpu`) and memory (`_memory`) are judged apart, since version 1 has a hierarchy for each.

| reading               | from                                                                        |
|-----------------------|-----------------------------------------------------------------------------|
| cpu_ratio             | CPU time used in the window / (its length x cores allowed)                  |
| cpu_user_ratio        | that in user mode: not nice of CPUs, all of a group                         |
| memory_bytes          | demand at the end of the window: not file pages; swap included              |
| memory_ratio          | demand / limit                                                              |
| swap_in_rate_hz       | pgmajfault; a file page that was dropped and is read again counts too       |
| *_pressure_ratio      | PSI "some": of the server's group under version 2, else of the machine      |
| *worker_memory_bytes  | `_worker_memory`, per worker thread where there are any                     |

A reading whose source this kernel does not have is absent; `probe` says which and why. Files stay open and are read
again from their start. A window goes by the limits at its start: where they, or the server's groups or CPUs, are
others than at the start of the one before, all is opened anew and counted from there. The time of a CPU that goes off
in mid-window goes with it: what it makes go back is not measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from trimtab.core.finding import Finding
from trimtab.core.metric import Metric
from trimtab.core.sensor import Clock, Precedence, Sensor
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured
from trimtab.sensors._cgroup import Group, groups
from trimtab.sensors._cpu import Cpu, bound_to
from trimtab.sensors._edges import fresh_s
from trimtab.sensors._kernel_file import KernelFile
from trimtab.sensors._memory import LIMITS, Demand, GroupMemory, MachineMemory, limited, swap_free_bytes
from trimtab.sensors._worker_memory import WorkerMemory

_ROOT = Path("/")
_LIMITS = {
    ("cpu", 1): ("cpu.cfs_quota_us", "cpu.cfs_period_us"),
    ("cpu", 2): ("cpu.max",),
    ("cpuset", 1): ("cpuset.cpus.effective", "cpuset.effective_cpus"),
    ("cpuset", 2): ("cpuset.cpus.effective",),
    **{("memory", version): names for version, names in LIMITS.items()},
}
"""The files of a group that limit it, by controller and version."""
_PRESSURES = {"cpu_pressure_ratio": "cpu", "memory_pressure_ratio": "memory"}


class Resources(Sensor):
    """CPU and memory of one server.

    Args:
        pid: its first process, the parent of its workers.
        clock: the loop's clock.
        threads_per_process: workers in a worker process, 1 for prefork.
        root: where /proc is, "/" but in tests.
    """

    name = "resources"
    precedence = Precedence.SAMPLED
    metrics = (
        Metric("cpu_ratio", "ratio", "CPU time used, of what the server may use"),
        Metric("cpu_user_ratio", "ratio", "the part of it in user mode: work for requests, not the kernel's"),
        Metric("cpu_cores", "cores", "CPUs' worth of time that the server may use"),
        Metric("memory_ratio", "ratio", "memory demand (resident and swapped), of the limit; above 1 it swaps"),
        Metric("memory_bytes", "bytes", "memory demand: resident without reclaimable file pages, plus swapped"),
        Metric("memory_limit_bytes", "bytes", "memory the server may use"),
        Metric("swap_bytes", "bytes", "swapped-out part of the memory demand"),
        Metric("swap_free_bytes", "bytes", "swap that the server may still fill"),
        Metric("swap_in_rate_hz", "Hz", "major page faults per second"),
        Metric("cpu_pressure_ratio", "ratio", "share of time in which some task waited for CPU"),
        Metric("memory_pressure_ratio", "ratio", "share of time in which some task waited for memory"),
        Metric("worker_memory_bytes", "bytes", "memory demand that one more worker adds, as those there are"),
        Metric("served_worker_memory_bytes", "bytes", "memory demand of a worker that has served"),
    )

    def __init__(self, pid: int, clock: Clock, threads_per_process: int = 1, root: Path = _ROOT) -> None:
        self._pid = pid
        self._clock = clock
        self._threads = threads_per_process
        self._root = root
        self._sources: _Sources | None = None
        self._began_s = 0.0
        self._marks: dict[str, float] = {}
        self._last: tuple[float, float, dict[str, float]] | None = None
        self._worker: tuple[float, float | None, float] | None = None

    def begin(self) -> None:
        """Marks the start of a window.

        Raises:
            NotMeasured: the server is gone, or neither CPU nor memory can be read.
        """
        if self._sources is not None and self._sources.outdated():
            self.follow(self._pid)
        if self._sources is None:
            self._sources = _Sources(self._pid, self._root)
        self._began_s, last = self._clock.now_s(), self._last
        if last is not None and self._began_s - last[0] < fresh_s(last[1]):
            self._began_s, _, self._marks = last
        else:
            self._marks, _ = self._totals(self._sources)

    def read(self) -> Readings:
        """The readings since `begin`.

        Raises:
            NotMeasured: the server is gone, or no time has passed.
        """
        sources = self._sources
        if sources is None:
            raise NotMeasured("the window has not begun")
        totals, demand = self._totals(sources)
        now_s = self._clock.now_s()
        elapsed_s = now_s - self._began_s
        self._last = now_s, elapsed_s, totals
        if elapsed_s <= 0:
            raise NotMeasured("no time has passed since the window began")
        grown = {name: total - self._marks[name] for name, total in totals.items() if name in self._marks}
        readings = {name: more / elapsed_s for name, more in grown.items() if more >= 0}
        if sources.cpu is not None:
            readings["cpu_cores"] = sources.cpu.cores
        if demand is not None:
            readings["memory_bytes"] = float(demand.bytes)
            readings["memory_limit_bytes"] = float(sources.limit_bytes)
            readings["memory_ratio"] = demand.bytes / sources.limit_bytes
            readings["swap_bytes"] = float(demand.swap_bytes)
            free = swap_free_bytes(sources.group, self._root)
            if free is not None:
                readings["swap_free_bytes"] = float(free)
        if self._worker is None or now_s - self._worker[0] >= sources.worker_period_s:
            self._worker = now_s, sources.worker.read_bytes(), sources.worker.beyond_bytes()
        _, each_bytes, beyond_bytes = self._worker
        if each_bytes is not None:
            readings["worker_memory_bytes"] = each_bytes / self._threads
            readings["served_worker_memory_bytes"] = (each_bytes + beyond_bytes) / self._threads
        return readings

    def close(self) -> None:
        """Closes descriptors; may be called twice."""
        if self._sources is not None:
            self._sources.close()
            self._sources = self._last = None

    def follow(self, pid: int) -> None:
        """Looks at another process from the next window on: the one that a restart has put in the server's place."""
        self.close()
        self._pid, self._worker = pid, None

    def _totals(self, sources: _Sources) -> tuple[dict[str, float], Demand | None]:
        """The kernel's totals by the reading that is their rate, and the memory demanded now.

        Raises:
            NotMeasured: the server is gone.
        """
        totals = {name: _stalled_s(file) for name, file in sources.pressures.items()}
        if sources.cpu is not None:
            used = sources.cpu.used()
            totals["cpu_ratio"] = used.all_s / sources.cpu.cores
            totals["cpu_user_ratio"] = used.user_s / sources.cpu.cores
        demand = sources.memory.demand() if sources.memory is not None else None
        if demand is not None:
            totals["swap_in_rate_hz"] = float(demand.major_faults)
        return totals, demand


class _Sources:
    """The files that the readings of one server are from.

    Args:
        pid: its first process.
        root: where /proc is.

    Attributes:
        missing: what cannot be read, and why, by what it is.

    Raises:
        NotMeasured: there is no such process, or neither CPU nor memory can be read.
    """

    def __init__(self, pid: int, root: Path) -> None:
        # Before anything is read by them: what changes meanwhile is noticed at the next look.
        membership = root / "proc" / str(pid) / "cgroup"
        was = _content(membership)
        self._pid, self._root, self._bound = pid, root, bound_to(pid, root)
        found = groups(pid, root)
        online = root / "sys" / "devices" / "system" / "cpu" / "online"
        self._limits = {membership: was} | {path: _content(path) for path in (online, *_limit_files(found))}
        self.missing: dict[str, str] = {}
        self.cpu: Cpu | None = None
        self.memory: GroupMemory | MachineMemory | None = None
        self.limit_bytes = 0
        self.group = found.get("memory")
        try:
            self.cpu = Cpu(found, self._bound, root)
        except NotMeasured as error:
            self.missing["CPU"] = str(error)
        try:
            self.memory, self.limit_bytes = limited(found, root)
        except NotMeasured as error:
            self.missing["memory"] = str(error)
        if self.cpu is None and self.memory is None:
            raise NotMeasured("; ".join(self.missing.values()))
        self.pressures = self._open_pressures(found, root)
        self.worker = WorkerMemory(pid, found, root)
        self.worker_period_s = self.worker.period_s

    def outdated(self) -> bool:
        """Whether the server has other groups, CPUs or limits by now, or other CPUs are on.

        A controller without a file has none.
        """
        others = any(_content(path) != was for path, was in self._limits.items())
        return others or bound_to(self._pid, self._root) != self._bound

    def close(self) -> None:
        """Closes all files; may be called twice."""
        for part in (self.cpu, self.memory, self.worker, *self.pressures.values()):
            if part is not None:
                part.close()

    def _open_pressures(self, found: Mapping[str, Group], root: Path) -> dict[str, KernelFile]:
        """The files of PSI, by the reading that comes from each."""
        own, opened = found.get(""), {}
        for name, resource in _PRESSURES.items():
            path = root / "proc" / "pressure" / resource
            # At the top that is the machine's too, but in a container, whose own group it is.
            if own is not None and (own.path / f"{resource}.pressure").exists():
                path = own.path / f"{resource}.pressure"
            try:
                file = KernelFile(path)
                _stalled_s(file)
                opened[name] = file
            except NotMeasured as error:
                self.missing[f"{resource} pressure"] = str(error)
        return opened


def _limit_files(found: Mapping[str, Group]) -> Iterable[Path]:
    """The files in which limits of a server stand, or would, from its groups upward."""
    for controller, own in found.items():
        for name in _LIMITS.get((controller, own.version), ()):
            yield from (group.path / name for group in own.upward())


def _content(path: Path) -> bytes | None:
    """Content of a small file; None when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def _stalled_s(file: KernelFile) -> float:
    """Total time in which some task was stalled, from a file of PSI."""
    some, _, total = file.read().split(b"\n", 1)[0].rpartition(b" total=")
    if not some.startswith(b"some") or not total.isdigit():
        raise NotMeasured(f"{file.path} is not in the format of PSI")
    return int(total) / 1e6


def probe(pid: int, root: Path = _ROOT, workers: bool = True) -> tuple[Finding, ...]:
    """Findings on the CPU and memory of a server.

    Args:
        pid: its first process.
        root: where /proc is, "/" but in tests.
        workers: False for a server that is one process: then nothing is said of a worker's memory.
    """
    try:
        sources = _Sources(pid, root)
    except NotMeasured as error:
        return (Finding(f"CPU and memory of pid {pid}", False, str(error), "name a running server"),)
    findings = []
    if sources.cpu is not None:
        findings.append(Finding("CPU", True, f"of {sources.cpu.where}, {sources.cpu.cores:g} cores allowed"))
    if sources.memory is not None:
        detail = f"of {sources.memory.where}, limit {sources.limit_bytes / 2**20:.0f} MiB"
        findings.append(Finding("memory", True, detail))
    if workers and sources.worker.read_bytes() is None:
        why = "no worker process that this user may look into"
        findings.append(Finding("memory of a worker", False, why, "run trimtab as root or as the server's user"))
    elif workers:
        findings.append(Finding("memory of a worker", True, f"from {sources.worker.source}"))
    findings += [Finding(w, False, why, _ENABLE.get(w, _PSI)) for w, why in sources.missing.items()]
    sources.close()
    return tuple(findings)


_ENABLE = {
    "CPU": "put the server in a cpuacct group of the same name as its cpu group",
    "memory": "mount the memory controller",
}
_PSI = "boot with psi=1 on a kernel with CONFIG_PSI"
SENSOR = Resources
