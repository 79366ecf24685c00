"""Memory that one more worker process adds, and what one takes that has served.

Where the server has a control group to itself: (demand - shared memory - what its first process holds) / number of
worker processes. A worker shares the pages of the first process until it writes to them, so those are paid once; the
shared memory of an opcode cache or a scoreboard is paid once too. What is left, page tables and kernel stacks
included, grows with the number of workers. A short-lived child of a worker, such as a CGI program, or that by which
mpm-itk serves a connection as another user, is part of what that worker needs. A child of the first process that runs
another program, such as one that it writes its logs to, is no worker.

A pool that is started whole is small until requests come, and has to be planned for as it will be. So of the
processes' own pages, also those in swap (RssAnon + VmSwap), some are looked at each time, and remembered: those
beyond the middle between the smallest and the largest have served. The largest of all is left out where there are
more than a few, because one that leaks is none to plan for.

Elsewhere: the pages that only this worker has and its share of those in swap (Private_Clean + Private_Dirty + SwapPss
of smaps_rollup), with those of its children where the kernel lists them, as the mean over a few workers, because the
kernel walks all pages of a process for it. Page tables and kernel stacks (about 0.1 MiB) are missing there. Pss would
be wrong: it divides the first process's pages among all.

The second, and the first on a kernel that does not list a process's children, cost a read per process, so they are
taken every few seconds only. The first is otherwise taken in every window, because memory demand and what a worker
needs of it must be of one moment: while they grow, a line through two moments has a base of any size.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from trimtab.errors import NotMeasured
from trimtab.processes import PROC, children, parent_of
from trimtab.sensors._cgroup import Group
from trimtab.sensors._kernel_file import table
from trimtab.sensors._memory import GroupMemory, own_memory

_SAMPLED = 4
_PERIOD_S = 5.0
_LOOKED_AT = 64
"""Workers whose own pages are read at a time, some 30 us each."""
_FEW = 3


class WorkerMemory:
    """The memory of one worker process of a server.

    Args:
        pid: the server's first process, the parent of its workers.
        groups: its control groups by controller.
        root: where /proc is, "/" but in tests.
    """

    def __init__(self, pid: int, groups: Mapping[str, Group], root: Path) -> None:
        self._pid = pid
        self._proc = root / "proc"
        self._group: GroupMemory | None = None
        self._members = Path()
        self._turn = 0
        self._sizes: dict[int, int] = {}
        own = own_memory(groups)
        if own is not None:
            self._members = groups["memory"].path / "cgroup.procs"
            if self._alone():
                self._group = own
            else:
                own.close()

    @property
    def period_s(self) -> float:
        """How long a reading may stand: not at all where it takes two files, else a while."""
        quick = self._group is not None and self._lists_children()
        return 0.0 if quick else _PERIOD_S

    @property
    def source(self) -> str:
        """Source of the figure, in words."""
        return self._group.where if self._group is not None else "smaps_rollup of a few workers"

    def read_bytes(self) -> float | None:
        """Memory that one more worker process adds; None when there is no worker or it may not be read."""
        try:
            if self._group is None:
                return self._sampled(self._children())
            workers = sorted(set(self._children()).intersection(self._in_group()))
            if not workers:
                return None
            demand = self._group.demand()
            own, tables = self._held(self._pid)
            return max(0.0, float(demand.bytes - demand.shared_bytes - own - tables)) / len(workers)
        except (OSError, NotMeasured):
            return None

    def beyond_bytes(self) -> float:
        """How much more a worker takes that has served than the mean of all; 0 where that cannot be told."""
        try:
            workers = self._children()
        except OSError:
            return 0.0
        apart = max(1, len(workers) // _LOOKED_AT)
        self._turn += 1
        there = set(workers)
        self._sizes = {pid: size for pid, size in self._sizes.items() if pid in there}
        for pid in workers[self._turn % apart :: apart]:
            with contextlib.suppress(OSError):
                self._sizes[pid] = self._held(pid)[0]
        sizes = sorted(self._sizes.values())
        kept = sizes[:-1] if len(sizes) > _FEW else sizes
        grown = [size for size in kept if 2 * size >= kept[0] + kept[-1]]
        return fmean(grown) - fmean(kept) if kept else 0.0

    def close(self) -> None:
        """Closes its files; may be called twice."""
        if self._group is not None:
            self._group.close()

    def _lists_children(self) -> bool:
        """Whether the kernel lists a process's children; else all processes have to be looked at."""
        return (self._proc / f"{self._pid}/task/{self._pid}/children").exists()

    def _sampled(self, workers: list[int]) -> float | None:
        """The mean over a few of the workers, others each time."""
        sizes = []
        for _ in range(min(_SAMPLED, len(workers))):
            self._turn = (self._turn + max(1, len(workers) // _SAMPLED)) % len(workers)
            worker = workers[self._turn]
            with contextlib.suppress(OSError):
                sizes.append(private_bytes(worker, self._proc))
                for child in children(worker, self._proc) if self._lists_children() else ():
                    with contextlib.suppress(OSError):
                        sizes[-1] += private_bytes(child, self._proc)
        return sum(sizes) / len(sizes) if sizes else None

    def _held(self, pid: int) -> tuple[int, int]:
        """A process's own pages, also those in swap, and its page tables, in bytes."""
        status = table((self._proc / str(pid) / "status").read_bytes())
        return status.get(b"RssAnon", 0) + status.get(b"VmSwap", 0), status.get(b"VmPTE", 0)

    def _alone(self) -> bool:
        """Whether all processes of the group descend from the first."""
        try:
            return all(self._descends(pid) for pid in self._in_group())
        except OSError:
            return False

    def _descends(self, pid: int) -> bool:
        while pid > 1 and pid != self._pid:
            pid = parent_of(pid, self._proc)
        return pid == self._pid

    def _in_group(self) -> list[int]:
        return [int(word) for word in self._members.read_text(encoding="ascii").split()]

    def _children(self) -> list[int]:
        """The children that run the first process's own program, and those of which that cannot be told."""
        own = self._program(self._pid)
        there = children(self._pid, self._proc)
        return sorted(pid for pid in there if own is None or self._program(pid) in (own, None))

    def _program(self, pid: int) -> str | None:
        try:
            return os.readlink(self._proc / str(pid) / "exe")
        except OSError:
            return None


def private_bytes(pid: int, proc: Path = PROC) -> int:
    """Pages that only this process has, and its share of those in swap.

    Raises:
        OSError: it has ended, or may not be read.
    """
    pages = table((proc / str(pid) / "smaps_rollup").read_bytes())
    return sum(pages.get(name, 0) for name in (b"Private_Clean", b"Private_Dirty", b"SwapPss"))
