"""Memory that a server demands, and how much it may use.

Demand is what cannot be had back without swapping: all that is charged to the group (anonymous and shared pages, page
tables, stacks, buffers of sockets) less the file pages on the LRU lists and the reclaimable slab, plus what is
swapped out. File pages are left out whether active or not, since they are dropped when memory is short: the
content that a static site has cached must not read as a demand of its workers. The price is that the few MiB of
program text that really are needed are left out too. A page that is in memory and in swap at once (swapcached) counts
once.

As with CPU, the limit is the least from the server's group upward, and demand is that of the group in which it is;
without a limit, of the machine. Version 2 has two: beyond memory.max the kernel ends processes, beyond memory.high
(systemd's MemoryHigh) it takes their memory away and slows them down, so that nothing is gained there either.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab.core.memory import Room
from trimtab.errors import NotMeasured
from trimtab.sensors._cgroup import Group, groups
from trimtab.sensors._kernel_file import KernelFile
from trimtab.trust import printable

LIMITS = {1: ("memory.limit_in_bytes",), 2: ("memory.max", "memory.high")}
"""The files in which a group's limits stand, by version."""
_NO_LIMIT = 1 << 62
"""Version 1 writes the largest number of whole pages there is for "no limit"."""


@dataclass(frozen=True)
class Demand:
    """Memory at one moment.

    Args:
        bytes: demand, swapped part included.
        swap_bytes: the part that is swapped out.
        shared_bytes: the part that is shared memory, such as an opcode cache, and resident.
        major_faults: page faults so far that had to read from swap or a file.
    """

    bytes: int
    swap_bytes: int
    shared_bytes: int
    major_faults: int


class GroupMemory:
    """The memory of a control group and those below it.

    Args:
        group: the group.

    Raises:
        NotMeasured: it has no files of the memory controller.
    """

    def __init__(self, group: Group) -> None:
        self.where = f"control group {printable(os.fspath(group.path))}"
        unified = group.version == 2
        self._prefix = b"" if unified else b"total_"
        self._files: list[KernelFile] = []
        self._usage = self._open(group.path / ("memory.current" if unified else "memory.usage_in_bytes"))
        self._stat = self._open(group.path / "memory.stat")
        self._swap = None
        if unified and (group.path / "memory.swap.current").exists():
            self._swap = self._open(group.path / "memory.swap.current")

    def demand(self) -> Demand:
        """Memory that the group demands now.

        Raises:
            NotMeasured: the group is gone.
        """
        usage, stat = self._usage.number(), self._stat.table()

        def field(name: bytes) -> int:
            return stat.get(self._prefix + name, 0)

        swap = self._swap.number() if self._swap is not None else field(b"swap")
        swap = max(0, swap - field(b"swapcached"))
        file_pages = field(b"active_file") + field(b"inactive_file") + field(b"slab_reclaimable")
        return Demand(max(0, usage - file_pages) + swap, swap, field(b"shmem"), field(b"pgmajfault"))

    def close(self) -> None:
        """Closes its files; may be called twice."""
        for file in self._files:
            file.close()

    def _open(self, path: Path) -> KernelFile:
        file = KernelFile(path)
        self._files.append(file)
        return file


class MachineMemory:
    """The memory of the whole machine.

    Args:
        root: where /proc is, "/" but in tests.

    Raises:
        NotMeasured: /proc cannot be read.
    """

    where = "the machine"

    def __init__(self, root: Path) -> None:
        self._meminfo = KernelFile(root / "proc" / "meminfo")
        self._vmstat = KernelFile(root / "proc" / "vmstat")

    def total_bytes(self) -> int:
        """Memory of the machine."""
        return self._meminfo.table()[b"MemTotal"]

    def demand(self) -> Demand:
        """Memory that all processes of the machine demand now."""
        info = self._meminfo.table()
        file_pages = info[b"Active(file)"] + info[b"Inactive(file)"] + info.get(b"SReclaimable", 0)
        swap = max(0, info[b"SwapTotal"] - info[b"SwapFree"] - info.get(b"SwapCached", 0))
        resident = max(0, info[b"MemTotal"] - info[b"MemFree"] - file_pages)
        return Demand(resident + swap, swap, info.get(b"Shmem", 0), self._vmstat.table()[b"pgmajfault"])

    def close(self) -> None:
        """Closes its files; may be called twice."""
        self._meminfo.close()
        self._vmstat.close()


def limited(found: Mapping[str, Group], root: Path) -> tuple[GroupMemory | MachineMemory, int]:
    """The memory in which the limit that binds a server is, and that limit in bytes.

    Args:
        found: the server's control groups by controller.
        root: where /proc is, "/" but in tests.

    Raises:
        NotMeasured: /proc or the group cannot be read.
    """
    machine = MachineMemory(root)
    total = machine.total_bytes()
    limit, limiting = min(_limits(found, total), key=lambda one: one[0], default=(total, None))
    if limiting is None:
        return machine, limit
    machine.close()
    return GroupMemory(limiting), limit


def rooms(pid: int, root: Path = Path("/")) -> tuple[Room, ...]:
    """The limits that bind a process and what is there now, those of its control groups first, the machine last.

    All of them: a group that is let have 6 GiB has less on a machine where others hold what is left of it.

    Args:
        pid: the process that holds the server's memory.
        root: where /proc is, "/" but in tests.

    Raises:
        NotMeasured: there is no such process, or /proc or a group cannot be read.
    """
    machine = MachineMemory(root)
    total = machine.total_bytes()
    there: list[tuple[GroupMemory | MachineMemory, int]] = []
    there += [(GroupMemory(group), limit) for limit, group in _limits(groups(pid, root), total)]
    there.append((machine, total))
    status = KernelFile(root / "proc" / str(pid) / "status").table()
    held = status.get(b"RssAnon", 0) + status.get(b"VmSwap", 0)
    return tuple(Room(one.where, limit, one.demand().bytes, held) for one, limit in there)


def _limits(found: Mapping[str, Group], total_bytes: int) -> list[tuple[int, Group]]:
    """The limits of a server's control groups that are less than the machine's memory, nearest first."""
    own = found.get("memory")
    least = ((_least(group), group) for group in (own.upward() if own else ()))
    return [(limit, group) for limit, group in least if limit is not None and limit < total_bytes]


def _least(group: Group) -> int | None:
    """The least limit of a group; None where it has none: 0 is set for a moment, to have all memory taken away."""
    texts = list[str]()
    for name in LIMITS[group.version]:
        with contextlib.suppress(OSError):
            texts.append((group.path / name).read_text(encoding="ascii").strip())
    return min((int(text) for text in texts if text not in ("max", "0")), default=None)


def swap_free_bytes(group: Group | None, root: Path) -> int | None:
    """Swap that a server may still fill once its memory is full: the least that machine and groups have left.

    Args:
        group: its memory group; None where it has none.
        root: where /proc is, "/" but in tests.

    Returns:
        None when the machine does not say.
    """
    try:
        left = int(KernelFile(root / "proc" / "meminfo").table()[b"SwapFree"])
    except (NotMeasured, KeyError):
        return None
    for one in group.upward() if group else []:
        try:
            most, used = _swap_of_2(one) if one.version == 2 else _swap_of_1(one)
        except OSError:
            continue
        if most is not None:
            left = min(left, max(0, most - used))
    return left


def _swap_of_2(group: Group) -> tuple[int | None, int]:
    """Most swap of a group, in bytes, None for no limit, and what it has there.

    Raises:
        OSError: it does not count swap.
    """
    most, used = ((group.path / f"memory.swap.{name}").read_text(encoding="ascii") for name in ("max", "current"))
    return None if most.strip() == "max" else int(most), int(used)


def _swap_of_1(group: Group) -> tuple[int | None, int]:
    """The same of version 1, whose limit and use of swap are of memory and swap together."""
    names = ("memsw.limit", "limit", "memsw.usage", "usage")
    both, memory, used, resident = (
        int((group.path / f"memory.{name}_in_bytes").read_text(encoding="ascii")) for name in names
    )
    return None if both >= _NO_LIMIT else both - memory, used - resident


def own_memory(groups: Mapping[str, Group]) -> GroupMemory | None:
    """The memory of the server's own group; None when it is in none but the top."""
    group = groups.get("memory")
    if group is None or group.is_top():
        return None
    try:
        return GroupMemory(group)
    except NotMeasured:
        return None
