"""Reads and sets how threads are scheduled, and puts a journal's values back; a program by itself.

It imports nothing of trimtab: the undo script is this file, so that a user without trimtab runs the same code, and
the watchdog is small. `putback.py undo JOURNAL...` puts back; `putback.py watch JOURNAL LEASE_S` does so when whoever
writes to its standard input ends, or is silent for that long.

A journal is one object of JSON, written before what it tells of is changed:

| key     | what                                                                                              |
|---------|---------------------------------------------------------------------------------------------------|
| owner   | process id and start time of the trimtab that wrote it                                            |
| kept    | whether that trimtab has ended in order and left in force what is in force                        |
| roots   | process ids and start times of the servers' first processes                                       |
| groups  | directories of control groups whose processes belong to the servers                               |
| threads | process, thread, its start time, and its policy, nice, slice (ns, 0 the machine's), priority, flags |
| ours    | for policy, nice and slice the values that we have set or were about to                           |
| files   | path, what it held, and what we have written there or were about to                               |

What somebody else has set since is none of ours and stays. A thread that was born in the meantime has inherited our
values: it gets those of its process, or of the nearest ancestor that is in the journal.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import platform
import select
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

OTHER, FIFO, RR, BATCH = 0, 1, 2, 3
FAIR = (OTHER, BATCH)
_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275)}
"""Numbers of sched_setattr and sched_getattr."""
_ATTR = struct.Struct("=IIQiIQQQ")
"""struct sched_attr, first version: size, policy, flags, nice, priority, runtime, deadline, period."""
RESET_ON_FORK = 1
_PASSES = 20
_LIBC = ctypes.CDLL(None, use_errno=True)


class Scheduling(NamedTuple):
    """How a thread is scheduled.

    Args:
        policy: one of OTHER, BATCH, RR and the others that Linux has.
        nice: its nice level.
        slice_ns: its own slice; 0 stands for the machine's, and where it cannot be read.
        priority: its real-time priority; 0 where it has none.
        flags: flags that are kept, of which there is one (reset on fork).
    """

    policy: int
    nice: int
    slice_ns: int
    priority: int = 0
    flags: int = 0


class Thread(NamedTuple):
    """One thread of this boot.

    Args:
        pid: its process.
        tid: its id.
        start: its start time in clock ticks since boot, which tells it from a later thread of the same id.
        parent: the parent of its process.
    """

    pid: int
    tid: int
    start: int
    parent: int


def read(tid: int) -> Scheduling | None:
    """How a thread is scheduled, its slice as it is in force; None when it has ended.

    Raises:
        OSError: the kernel does not say.
    """
    buffer = ctypes.create_string_buffer(_ATTR.size)
    if not _call(1, tid, buffer, _ATTR.size, 0):
        return None
    _, policy, flags, nice, priority, runtime, _, _ = _ATTR.unpack(buffer.raw)
    if policy not in FAIR:
        runtime = 0
        try:
            nice = os.getpriority(os.PRIO_PROCESS, tid)
        except ProcessLookupError:
            return None
    return Scheduling(policy, nice, runtime, priority, flags & RESET_ON_FORK)


def write(tid: int, wanted: Scheduling) -> bool:
    """Sets how a thread is scheduled; False when it has ended.

    Raises:
        OSError: the kernel refuses.
    """
    slice_ns = wanted.slice_ns if wanted.policy in FAIR else 0
    nice = wanted.nice if wanted.policy in FAIR else 0
    raw = _ATTR.pack(_ATTR.size, wanted.policy, wanted.flags, nice, wanted.priority, slice_ns, 0, 0)
    return _call(0, tid, raw, 0)


def stat(pid: int, tid: int | None = None) -> tuple[int, int, int] | None:
    """The parent, the start time and the number of threads of a process, or a thread's; None when it has ended."""
    path = f"/proc/{pid}/stat" if tid is None else f"/proc/{pid}/task/{tid}/stat"
    try:
        # By system calls: a file object costs several times what the kernel does, and this is done for every process.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # The name, in parentheses, may hold spaces and parentheses.
            fields = os.read(fd, 4096).rpartition(b")")[2].split(None, 20)
        finally:
            os.close(fd)
    except OSError:
        return None
    return None if not fields or fields[0] in b"ZX" else (int(fields[1]), int(fields[19]), int(fields[17]))


def threads(roots: Iterable[Sequence[int]], groups: Iterable[str] = ()) -> dict[int, Thread]:
    """The threads of processes and of all their descendants, but for those of this process, by thread id.

    Args:
        roots: process ids with their start times.
        groups: control groups, whose processes and those of the groups below them count too.
    """
    seen = {int(name): one for name in os.listdir("/proc") if name.isdigit() and (one := stat(int(name)))}
    wanted = {pid for pid, start in roots if pid in seen and seen[pid][1] == start} | members(groups)
    below: dict[int, list[int]] = {}
    for pid, (parent, _, _) in seen.items():
        below.setdefault(parent, []).append(pid)
    found, ahead = {os.getpid()}, sorted(wanted & seen.keys())
    processes = []
    while ahead:
        pid = ahead.pop()
        if pid not in found:
            found.add(pid)
            processes.append(pid)
            ahead += below.get(pid, ())
    return {
        tid: Thread(pid, tid, born[1], seen[pid][0])
        for pid in processes
        for tid in (_tasks(pid) if seen[pid][2] > 1 else (pid,))
        if (born := seen[pid] if tid == pid else stat(pid, tid)) is not None
    }


def members(groups: Iterable[str]) -> set[int]:
    """The processes in control groups and in those below them."""
    found: set[int] = set()
    for group in groups:
        for directory, _, _ in os.walk(group):
            with contextlib.suppress(OSError), open(os.path.join(directory, "cgroup.procs"), "rb") as file:
                found.update(map(int, file.read().split()))
    return found


def original(thread: Thread, there: Mapping[int, Thread], journal: Mapping[str, Any]) -> Scheduling:
    """How a thread was scheduled, or would be had we never come.

    Args:
        thread: the thread.
        there: the threads of the servers now, by id.
        journal: the journal.
    """
    known = {(tid, start): Scheduling(*rest) for _, tid, start, *rest in journal["threads"]}
    found = inherited(thread, there, known)
    return found or next(iter(known.values()), Scheduling(OTHER, 0, 0))


def inherited(
    thread: Thread, there: Mapping[int, Thread], known: Mapping[tuple[int, int], Scheduling]
) -> Scheduling | None:
    """Known scheduling of a thread, else of the nearest of its process and its ancestors; None for none."""
    if (own := known.get((thread.tid, thread.start))) is not None:
        return own
    first = there.get(thread.pid)
    for _ in range(len(there)):
        if first is None or (found := known.get((first.tid, first.start))) is not None:
            return None if first is None else found
        first = there.get(first.parent)
    return None


def undo(journal: Mapping[str, Any]) -> list[str]:
    """Puts a journal's values back, as far as nobody else has changed them since.

    Args:
        journal: the journal.

    Returns:
        What could not be put back, one line each.
    """
    failed = []
    for path, before, ours in journal["files"]:
        try:
            if read_file(path) in ours:
                write_file(path, before)
        except OSError as error:
            failed.append(f"{path}: {error.strerror}")
    done: set[tuple[int, int]] = set()
    # A thread that is born while we go round inherits from one that was not put back yet: until none is left.
    for _ in range(_PASSES):
        count = len(done)
        if left := _undo_threads(journal, done):
            return [*failed, *left]
        if len(done) == count:
            return failed
    return [*failed, "new threads are born faster than they can be put back"]


def _undo_threads(journal: Mapping[str, Any], done: set[tuple[int, int]]) -> list[str]:
    """Goes round all threads once.

    Args:
        journal: the journal.
        done: ids and start times of the threads that were put back; more come to it.

    Returns:
        What could not be put back, one line each.
    """
    failed = []
    there = threads(journal["roots"], journal["groups"])
    for pid, tid, start, *_ in journal["threads"]:  # those that have left the tree since
        if tid not in there and (one := stat(pid, tid)) is not None and one[1] == start:
            there[tid] = Thread(pid, tid, start, one[0])
    for thread in there.values():
        if (thread.tid, thread.start) in done:
            continue
        try:
            now = read(thread.tid)
            if now is None or (wanted := _before(now, original(thread, there, journal), journal["ours"])) == now:
                continue
            # Looked at again, because another thread may have been given the id by now.
            if (one := stat(thread.pid, thread.tid)) is not None and one[1] == thread.start:
                write(thread.tid, wanted)
                done.add((thread.tid, thread.start))
        except OSError as error:
            failed.append(f"thread {thread.tid} of pid {thread.pid}: {error.strerror}")
    return failed


def _before(now: Scheduling, before: Scheduling, ours: Mapping[str, Sequence[int]]) -> Scheduling:
    """The present scheduling, with what we set in it put back."""
    wanted = now
    if now.policy in ours["policy"]:
        flags = before.flags if now.policy == RR else now.flags
        wanted = wanted._replace(policy=before.policy, priority=before.priority, flags=flags)
    if now.nice in ours["nice"]:
        wanted = wanted._replace(nice=before.nice)
    if now.slice_ns in ours["slice"] or (now.policy == RR and wanted.policy != RR):
        wanted = wanted._replace(slice_ns=before.slice_ns)
    return wanted


def read_file(path: str) -> str:
    """Reads a file of the kernel."""
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def write_file(path: str, text: str) -> None:
    """Writes a file of the kernel."""
    fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(text)


def _tasks(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def _call(which: int, *arguments: object) -> bool:
    """One of the two system calls; False when there is no such thread."""
    numbers = _CALLS.get(platform.machine())
    if numbers is None:
        raise OSError(errno.ENOSYS, f"sched_setattr is not known on {platform.machine()}")
    if _LIBC.syscall(numbers[which], *arguments) == 0:
        return True
    if (code := ctypes.get_errno()) == errno.ESRCH:
        return False
    raise OSError(code, os.strerror(code))


def watch(path: str, lease_s: float) -> None:
    """Puts a journal back when standard input is silent for that long, or its writer has ended.

    It goes before every thread of a server, which has a lower real-time priority. The word `end` ends it.
    """
    write(0, Scheduling(FIFO, 0, 0, 2, RESET_ON_FORK))
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([0], [], [], lease_s)
        word = os.read(0, 4096) if ready else b""
        if word.endswith(b"end"):
            return
        if not word:
            with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
                undo(json.load(file))
        if not word and ready:
            return


def main(words: Sequence[str]) -> int:
    """Runs as a program; 0 when everything was put back."""
    if words[0] == "watch":
        watch(words[1], float(words[2]))
        return 0
    left = []
    for path in words[1:]:
        with open(path, encoding="utf-8") as file:
            left += undo(json.load(file))
        if not left:
            os.unlink(path)
    print("\n".join(left) or "undone")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
