"""Processes, from /proc: by id and start time, so that a reused id is never mistaken for the process that was meant.

Not through psutil: its children are found by reading every process's stat (we look every 2 ms in a reload), its
`name` reads the command line of strangers, who can have that wait for ever, its start times are rounded seconds since
1970, and its sockets are those of our own network namespace. Nothing here tells what a process is by its name alone.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import UsageError

PROC = Path("/proc")
TICKS_HZ = os.sysconf("SC_CLK_TCK")
"""Unit of start times."""
HIDDEN = "other users' processes are hidden here (hidepid)"
SHOW = "run as root or as the server's user"
"""What is said where they are (`hidden`, hidepid in proc(5)), and what shows a server's all the same."""
_SMALL_BYTES = 1 << 15
_MOST_MAPS_BYTES = 4 << 20
_FORKED = 0x40
"""PF_FORKNOEXEC in a process's flags."""
_UNLIMITED = 1 << 24 | 1 << 21
"""CAP_SYS_RESOURCE and CAP_SYS_ADMIN, with which one may start any number of threads."""


@dataclass(frozen=True)
class Process:
    """One process of this boot.

    Args:
        pid: its id.
        start_ticks: clock ticks from boot to its start, field 22 of /proc/PID/stat.
    """

    pid: int
    start_ticks: int

    def alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        return start_of(self.pid) == self.start_ticks

    def send(self, number: int) -> bool:
        """Sends this very process a signal; False when it has ended, also when its id has a new owner."""
        try:
            fd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.alive():  # asked with the descriptor open, which stays with the present owner of the id
                return False
            signal.pidfd_send_signal(fd, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(fd)
        return True


def contents(path: str) -> bytes:
    """Content of a small file of /proc, in one read; a file object would cost several times as much.

    Raises:
        OSError: there is none, or its process has ended.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _SMALL_BYTES)
    finally:
        os.close(fd)


def capable(capability: int, proc: Path = PROC) -> bool:
    """Whether this process has a capability in force, by its number in linux/capability.h."""
    lines = (proc / "self/status").read_bytes().split(b"\n")
    effective = next((line.split()[1] for line in lines if line.startswith(b"CapEff:")), b"0")
    return bool(int(effective, 16) >> capability & 1)


def last_born() -> int:
    """The id that the kernel gave last to a new process or thread; while it is the same none was born."""
    return int(contents(f"{PROC}/loadavg").split()[4])


def identify(pid: int) -> Process | None:
    """The process that has this id now, or None."""
    fields = _stat(pid)
    return None if fields is None else Process(pid, int(fields[19]))


def start_of(pid: int, proc: Path = PROC) -> int | None:
    """Start time in clock ticks since boot of a process that has not ended; a zombie has.

    Args:
        pid: the process.
        proc: where /proc is.
    """
    fields = _stat(pid, proc)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def read_bytes(pid: int) -> int | None:
    """Bytes that a process's first thread has read from files and pipes so far; None where that cannot be told.

    What it, or a child that it has reaped, received at sockets is not among them (fs/proc/base.c, do_io_accounting).
    """
    try:
        return int(contents(f"{PROC}/{pid}/task/{pid}/io").split(None, 2)[1])
    except (OSError, IndexError, ValueError):
        return None


def executed(pid: int) -> bool:
    """Whether a process has executed a program itself; one that was only forked, as a daemon mostly is, has not.

    Source: the flags, the ninth field of /proc/PID/stat (include/linux/sched.h).
    """
    fields = _stat(pid)
    return fields is None or not int(fields[6]) & _FORKED


def parent_of(pid: int, proc: Path = PROC) -> int:
    """The parent of a process; 0 when it is gone.

    Args:
        pid: the process.
        proc: where /proc is.
    """
    fields = _stat(pid, proc)
    return 0 if fields is None else int(fields[1])


def pids(proc: Path = PROC) -> list[int]:
    """The ids of all processes.

    Args:
        proc: where /proc is.
    """
    return [int(entry) for entry in os.listdir(proc) if entry.isdigit()]


def hidden(proc: Path = PROC) -> bool:
    """Whether other users' processes cannot be seen: then the first one, which is always there, is hidden too.

    Args:
        proc: where /proc is.
    """
    return _stat(1, proc) is None


def children(pid: int, proc: Path = PROC) -> list[int]:
    """The children of a process, with those that have ended and that it has not yet noticed.

    Args:
        pid: the process.
        proc: where /proc is.
    """
    try:
        # One file in place of one for every process; only some kernels have it (CONFIG_PROC_CHILDREN).
        return [int(child) for child in (proc / f"{pid}/task/{pid}/children").read_bytes().split()]
    except FileNotFoundError:
        return [child for child in pids(proc) if parent_of(child, proc) == pid]
    except OSError:
        return []


def family(pid: int) -> Iterator[int]:
    """A process and all that it has started, as far as they still belong to it."""
    yield pid
    for child in children(pid):
        yield from family(child)


def threads_of(pid: int) -> int:
    """Threads of a process; 1 when it is gone."""
    try:
        return len(os.listdir(PROC / str(pid) / "task"))
    except OSError:
        return 1


def maps(pid: int) -> list[bytes]:
    """The lines of a process's maps; none when they may not be read, or are more than any server's.

    The kernel escapes the end of a line in a file's name, and nothing else that Python may take for one.
    """
    try:
        with open(PROC / str(pid) / "maps", "rb") as file:
            text = file.read(_MOST_MAPS_BYTES + 1)
    except OSError:
        return []
    return text.split(b"\n") if len(text) <= _MOST_MAPS_BYTES else []


def user_of(pid: int) -> int | None:
    """The user with whose rights a process runs; None when it has ended, or real, effective and saved differ."""
    users = users_of(pid)
    return users.pop() if len(users) == 1 else None


def users_of(pid: int) -> set[int]:
    """The users with whose rights a process runs; none when it has ended."""
    try:
        return users_in((PROC / str(pid) / "status").read_bytes())
    except OSError:
        return set()


def users_in(status: bytes) -> set[int]:
    """The users with whose rights a process runs.

    Args:
        status: its /proc/PID/status; of what a stranger chose in it, its name, the kernel escapes the end of a line
            alone.
    """
    return {int(user) for line in status.split(b"\n") if line.startswith(b"Uid:") for user in line.split()[1:]}


def program_of(pid: int) -> Path | None:
    """The program of a process, by its executable or, where that may not be read, by its name."""
    try:
        return Path(os.readlink(PROC / str(pid) / "exe").removesuffix(" (deleted)"))
    except PermissionError:
        try:
            return Path(os.fsdecode((PROC / str(pid) / "comm").read_bytes().strip()))
        except OSError:
            return None
    except OSError:
        return None


def descriptors(pid: int, kind: str) -> frozenset[str]:
    """The pipes or sockets that a process holds, by their kernel names; empty when it has ended.

    Args:
        pid: the process.
        kind: "pipe" or "socket".

    Raises:
        UsageError: not permitted.
    """
    return frozenset(ends(pid, kind))


def ends(pid: int, kind: str) -> list[str]:
    """The same, with a pipe as often as the process holds an end of it.

    Raises:
        UsageError: not permitted.
    """
    try:
        return [target for _, target in opened(pid) if target.startswith(f"{kind}:[")]
    except PermissionError:
        raise not_permitted(pid, f"look into pid {pid}") from None
    except OSError:
        return []


def holds(pid: int, sockets: frozenset[str]) -> bool:
    """Whether a process holds one of some sockets, such as one at which it listens.

    That has a low number, and the connections of a busy server, of which there may be many thousands, higher ones.

    Args:
        pid: the process.
        sockets: their kernel names.

    Raises:
        UsageError: not permitted.
    """
    try:
        return not sockets.isdisjoint(target for _, target in opened(pid))
    except PermissionError:
        raise not_permitted(pid, f"look into pid {pid}") from None
    except OSError:
        return False


def not_permitted(pid: int, what: str) -> UsageError:
    """Error for a process that /proc does not let us look into.

    Args:
        pid: the process.
        what: what was to be done with it.
    """
    if os.geteuid() == 0:
        mend = (
            "root lacks capabilities here: CAP_SYS_PTRACE to look, CAP_KILL to signal, which a container gets by "
            "--cap-add, and a command in it by docker exec --privileged"
        )
    elif user_of(pid) == os.geteuid():
        mend = "it has capabilities that trimtab lacks: start trimtab with them too, as by setpriv --ambient-caps"
    else:
        mend = "run as root or as its user"
    return UsageError(f"no permission to {what}: {mend}")


def opened(pid: int) -> Iterator[tuple[int, str]]:
    """The descriptors of a process, each with what it leads to.

    Raises:
        OSError: it has ended, or they may not be looked at.
    """
    directory = f"{PROC}/{pid}/fd"
    for entry in os.listdir(directory):
        try:
            target = os.readlink(f"{directory}/{entry}")
        except OSError:
            continue
        yield int(entry), target


def open_files(pid: int) -> int | None:
    """The most files that a process may have open (the soft limit); None when it has ended or has no limit."""
    return _limit(pid, "Max open files", PROC)


def threads_left(pid: int, proc: Path = PROC) -> int | None:
    """How many more threads a process may start by its user's limit (`ulimit -u`); None where nothing limits it.

    The kernel counts the threads of all processes of its real user, and asks neither root nor who has one of two
    capabilities (`copy_process` in kernel/fork.c).

    Args:
        pid: the process.
        proc: where /proc is.
    """
    most, own = _limit(pid, "Max processes", proc), _status(pid, proc)
    if most is None or not own:
        return None
    user = own[b"Uid"].split()[0]
    if user == b"0" or int(own[b"CapEff"], 16) & _UNLIMITED:
        return None
    theirs = (found for one in pids(proc) if (found := _status(one, proc)) and found[b"Uid"].split()[0] == user)
    return max(0, most - sum(int(one[b"Threads"]) for one in theirs))


def _limit(pid: int, name: str, proc: Path) -> int | None:
    """A soft limit of a process, by its name in /proc/PID/limits; None when it has ended or has none."""
    try:
        lines = (proc / str(pid) / "limits").read_text().splitlines()
    except OSError:
        return None
    found = next((line.removeprefix(name).split()[0] for line in lines if line.startswith(name)), "unlimited")
    return int(found) if found.isdigit() else None


def _status(pid: int, proc: Path) -> dict[bytes, bytes]:
    """The fields of /proc/PID/status; none when it has ended.

    Of what a stranger chose in it, its name, the kernel escapes the end of a line alone.
    """
    try:
        lines = (proc / str(pid) / "status").read_bytes().split(b"\n")
    except OSError:
        return {}
    return {name: value.strip() for name, colon, value in (line.partition(b":") for line in lines) if colon}


def sockets(pid: int, *tables: str) -> list[list[str]]:
    """The rows of tables of sockets in the network namespace of a process.

    Args:
        pid: the process.
        tables: their names under /proc/PID/net, such as "tcp6"; not "unix", in which strangers' words stand.
    """
    rows = []
    for table in tables:
        try:
            rows += (PROC / str(pid) / "net" / table).read_bytes().decode("ascii", "replace").split("\n")[1:-1]
        except OSError:
            continue
    return [row.split() for row in rows]


def uptime_s() -> float:
    """Seconds since boot, on the clock that start times are of.

    Not by /proc/uptime, which in a container of LXC (lxcfs) counts from the container's start.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def session(leader: Process) -> list[Process]:
    """The processes of a session.

    Args:
        leader: its leader, which may have ended; then the id, and the session's with it, may be somebody else's.
    """
    found = []
    for pid in pids():
        fields = _stat(pid)
        if fields is not None and int(fields[3]) == leader.pid and int(fields[19]) >= leader.start_ticks:
            found.append(Process(pid, int(fields[19])))
    return found


def session_members(leader: Process, users: Collection[int], *mentioning: str) -> list[Process]:
    """The processes of a session whose command line contains one of some texts.

    Args:
        leader: as for `session`.
        users: those who run them; the command line of another can be waited for without end, so it is not read.
        mentioning: texts that of all sessions only this one's processes have in their command lines.
    """
    found = []
    for one in session(leader):
        its = users_of(one.pid)
        if not its or not its <= set(users):
            continue
        try:
            line = (PROC / str(one.pid) / "cmdline").read_bytes()
        except OSError:
            continue
        if any(text.encode() in line for text in mentioning):
            found.append(one)
    return found


def end(members: Callable[[], Iterable[Process]], patience_s: float) -> bool:
    """Kills processes until none is left.

    Args:
        members: gives those that still run.
        patience_s: how long to go on.

    Returns:
        Whether none is left.
    """
    deadline = time.monotonic() + patience_s
    while True:
        left = list(members())
        if not left:
            return True
        if time.monotonic() > deadline:
            return False
        for one in left:
            one.send(signal.SIGKILL)
        time.sleep(0.02)


def _stat(pid: int, proc: Path = PROC) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (the state) on; None when there is no such process.

    Raises:
        OSError: this process has no descriptor or memory left to look: no sign that the other has ended.
    """
    try:
        text = contents(f"{proc}/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name, in parentheses, may hold spaces and parentheses.
    return text.rpartition(b")")[2].decode("ascii", "replace").split()


def boot_id() -> str:
    """Identity of this boot of the machine, outside of which process ids mean nothing."""
    return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
