"""The processes of a running Apache, read from /proc: the parent, its generations of children, its listeners.

Each generation of children has its own "pipe of death", which the parent opens anew at every start and reload
(`ap_mpm_pod_open` in server/mpm_unix.c). So a reload has taken place when the parent holds a pipe that it did not
hold before, and a child is of the present generation when it holds that pipe too. A worker process also holds the
parent's listening sockets; the helper process of mod_cgid does not.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from trimtab.errors import PlantGone, UsageError
from trimtab.trust import printable

NAMES = frozenset({"apache2", "httpd", "httpd.prefork", "httpd.worker", "httpd.event"})
_ONE_SHOT = frozenset({"-t", "-v", "-V", "-S", "-l", "-L", "-M", "-h"})
"""Options with which the program answers a question and ends."""

Listener = tuple[str, int]
"""Address and port of a listening TCP socket."""


@dataclass(frozen=True)
class Parent:
    """The parent process of a running Apache.

    Args:
        pid: its process id.
        started: its start time in clock ticks since boot, which tells it from a later process with the same id.
        exe: path of its program.
        argv: its command line; empty where somebody else runs it.
        user: who runs it; None where it has the rights of several users.
    """

    pid: int
    started: int
    exe: Path
    argv: tuple[str, ...]
    user: int | None

    def __str__(self) -> str:
        words = printable(" ".join(self.argv)) if self.argv else f"run by uid {self.user}"
        return f"pid {self.pid}: {words}"

    @property
    def own(self) -> bool:
        """Whether this user runs it."""
        return self.user == os.geteuid()

    def check(self) -> None:
        """Makes sure that it still runs.

        Raises:
            PlantGone: it has ended.
        """
        if start_of(self.pid) != self.started:
            raise PlantGone(f"Apache (pid {self.pid}) has ended")

    def environ(self) -> Mapping[str, str]:
        """The environment that it was started with.

        Raises:
            UsageError: not permitted.
            PlantGone: it has ended.
        """
        try:
            raw = Path(f"/proc/{self.pid}/environ").read_bytes()
        except PermissionError:
            raise not_permitted(self.pid) from None
        except OSError:
            raise PlantGone(f"Apache (pid {self.pid}) has ended") from None
        self.check()
        pairs = (item.decode(errors="surrogateescape").partition("=") for item in raw.split(b"\0") if b"=" in item)
        return {name: value for name, _, value in pairs}

    def signal(self, number: int) -> None:
        """Sends it a signal; 0 only asks whether that is permitted.

        Raises:
            UsageError: not permitted.
            PlantGone: it has ended.
        """
        try:
            # Opened before the look, so that it means what was looked at, whatever becomes of the id.
            process = os.pidfd_open(self.pid)
        except ProcessLookupError:
            raise PlantGone(f"Apache (pid {self.pid}) has ended") from None
        try:
            self.check()
            signal.pidfd_send_signal(process, number)
        except ProcessLookupError:
            raise PlantGone(f"Apache (pid {self.pid}) has ended") from None
        except PermissionError:
            raise not_permitted(self.pid) from None
        finally:
            os.close(process)

    def signal_child(self, pid: int, number: int) -> None:
        """Sends a signal to a process, if that is still its child."""
        with contextlib.suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            try:
                found = stat_of(pid)
                if found is not None and found[1] == self.pid:
                    signal.pidfd_send_signal(process, number)
            finally:
                os.close(process)


@dataclass(frozen=True)
class Generations:
    """The children of a parent.

    Args:
        workers: processes of the present generation that serve.
        old: processes of earlier generations, which finish what they have.
    """

    workers: tuple[int, ...]
    old: tuple[int, ...]


def not_permitted(pid: int) -> UsageError:
    """What to say when /proc does not let us look."""
    return UsageError(f"no permission to look into and signal Apache (pid {pid}): run as root or as its user")


def stat_of(pid: int) -> tuple[str, int, int] | None:
    """State letter, parent's id and start time in ticks of a process; None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])


def start_of(pid: int) -> int | None:
    """Start time in ticks of a process that has not ended; a zombie has."""
    found = stat_of(pid)
    return None if found is None or found[0] in "ZX" else found[2]


def user_of(pid: int) -> int | None:
    """The user with whose rights a process runs; None when it has ended, or real, effective and saved differ."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return None
    users = {user for line in text.splitlines() if line.startswith("Uid:") for user in line.split()[1:]}
    return int(users.pop()) if len(users) == 1 else None


def program_of(pid: int) -> Path | None:
    """The program of a process, by its executable or, where that may not be read, by its name."""
    try:
        return Path(os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)"))
    except PermissionError:
        try:
            return Path(Path(f"/proc/{pid}/comm").read_text().strip())
        except OSError:
            return None
    except OSError:
        return None


def parents() -> list[Parent]:
    """Every running Apache: processes of its program whose parent is not itself one."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            program = program_of(int(entry))
            if program is not None and program.name in NAMES:
                found[int(entry)] = program
    running = []
    for pid, program in sorted(found.items()):
        stat = stat_of(pid)
        if stat is None or stat[0] in "ZX" or stat[1] in found:
            continue
        user = user_of(pid)
        if user != os.geteuid():
            # Its command line is not read: whoever runs it can have that wait for ever (a FUSE file in its memory).
            running.append(Parent(pid, stat[2], program, (), user))
            continue
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        argv = tuple(part.decode(errors="surrogateescape") for part in raw.split(b"\0") if part)
        commands = [after for word, after in pairwise(argv) if word == "-k"]
        if _ONE_SHOT.isdisjoint(argv) and commands in ([], ["start"]):
            running.append(Parent(pid, stat[2], program, argv, user))
    return running


def find(pid: int | None) -> Parent:
    """The running Apache that is meant.

    Args:
        pid: the process id of its parent process; None when there is only one, or this user runs only one.

    Raises:
        UsageError: there is none, or there are several and none was named.
    """
    running = parents()
    listed = "; ".join(map(str, running))
    if pid is not None:
        for parent in running:
            if parent.pid == pid:
                return parent
        raise UsageError(
            f"pid {pid} is not the parent process of an Apache" + (f"; there is {listed}" if listed else "")
        )
    if not running:
        raise UsageError("no running Apache found (no process named apache2 or httpd)")
    choice = [parent for parent in running if parent.own] or running
    if len(choice) > 1:
        raise UsageError(f"several Apaches run, choose one with --pid: {'; '.join(map(str, choice))}")
    return choice[0]


def descriptors(pid: int, kind: str) -> frozenset[str]:
    """The pipes or sockets that a process holds, by their kernel names; empty when it has ended.

    Args:
        pid: the process.
        kind: "pipe" or "socket".

    Raises:
        UsageError: not permitted.
    """
    directory, found = f"/proc/{pid}/fd", set()
    try:
        entries = os.listdir(directory)
    except PermissionError:
        raise not_permitted(pid) from None
    except OSError:
        return frozenset()
    for entry in entries:
        try:
            target = os.readlink(f"{directory}/{entry}")
        except OSError:
            continue
        if target.startswith(f"{kind}:["):
            found.add(target)
    return frozenset(found)


def children(pid: int) -> list[int]:
    """The children of a process, with those that have ended and that it has not yet noticed."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def generations(parent: Parent, present: frozenset[str]) -> Generations:
    """The children of Apache, by generation.

    Args:
        parent: Apache's parent process.
        present: pipes that only the present generation holds.
    """
    sockets = descriptors(parent.pid, "socket")
    workers, old = [], []
    for child in children(parent.pid):
        if start_of(child) is None or program_of(child) != parent.exe:
            continue
        if not present <= descriptors(child, "pipe"):
            if start_of(child) is not None:
                old.append(child)
        elif not sockets.isdisjoint(descriptors(child, "socket")):
            workers.append(child)
    return Generations(tuple(workers), tuple(old))


def listeners(pid: int) -> tuple[Listener, ...]:
    """The TCP addresses on which a process listens, from its own sockets."""
    held = {name[len("socket:[") : -1] for name in descriptors(pid, "socket")}
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == "0A" and fields[9] in held:
                address, _, port = fields[1].partition(":")
                found.add((_address(address), int(port, 16)))
    return tuple(sorted(found))


def _address(text: str) -> str:
    """An address of /proc/net/tcp, which prints 32-bit words in the machine's byte order."""
    words = [int(text[i : i + 8], 16) for i in range(0, len(text), 8)]
    return str(ipaddress.ip_address(struct.pack(f"={len(words)}I", *words)))
