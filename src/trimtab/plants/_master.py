"""The first process of a running server, read from /proc: found, signalled; its children and sockets.

What somebody else runs is found too, so that it can be said; before anything of it is run or signalled, `_vetted`
looks at it.
"""

from __future__ import annotations

import ipaddress
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from trimtab.errors import PlantGone, UsageError
from trimtab.processes import Process
from trimtab.trust import printable

Listener = tuple[str, int]
"""Address and port of a listening TCP socket."""


@dataclass(frozen=True)
class Master:
    """The first process of a running server, which starts its workers.

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
    title: ClassVar[str] = "the server"
    """What it is called in messages."""

    def __str__(self) -> str:
        return f"{self.title} (pid {self.pid})"

    @property
    def line(self) -> str:
        """It in a list of several."""
        words = printable(" ".join(self.argv)) if self.argv else f"run by uid {self.user}"
        return f"pid {self.pid}: {words}"

    @property
    def own(self) -> bool:
        """Whether this user runs it."""
        return self.user == os.geteuid()

    def not_permitted(self) -> UsageError:
        """What to say when /proc does not let us look."""
        return UsageError(f"no permission to look into and signal {self}: run as root or as its user")

    def check(self) -> None:
        """Makes sure that it still runs.

        Raises:
            PlantGone: it has ended.
        """
        if start_of(self.pid) != self.started:
            raise PlantGone(f"{self} has ended")

    def environ(self) -> Mapping[str, str]:
        """The environment that it was started with.

        Raises:
            UsageError: not permitted.
            PlantGone: it has ended.
        """
        try:
            raw = Path(f"/proc/{self.pid}/environ").read_bytes()
        except PermissionError:
            raise self.not_permitted() from None
        except OSError:
            raise PlantGone(f"{self} has ended") from None
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
            sent = Process(self.pid, self.started).send(number)
        except PermissionError:
            raise self.not_permitted() from None
        if not sent:
            raise PlantGone(f"{self} has ended")

    def signal_child(self, pid: int, number: int) -> None:
        """Sends a signal to a process, if that is still its child."""
        found = stat_of(pid)
        if found is not None and found[1] == self.pid:
            Process(pid, found[2]).send(number)


Kind = TypeVar("Kind", bound=Master)


def masters(kind: type[Kind], named: Callable[[str], bool], serves: Callable[[tuple[str, ...]], bool]) -> list[Kind]:
    """Every running server of a kind: processes of its program whose parent is not itself one.

    Args:
        kind: what is made of each.
        named: whether a program of this file name is its program.
        serves: whether a command line is a server's, not a question's that ends with its answer.
    """
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            program = program_of(int(entry))
            if program is not None and named(program.name):
                found[int(entry)] = program
    running = []
    for pid, program in sorted(found.items()):
        stat = stat_of(pid)
        if stat is None or stat[0] in "ZX" or stat[1] in found:
            continue
        user = user_of(pid)
        if user != os.geteuid():
            # Its command line is not read: whoever runs it can have that wait for ever (a FUSE file in its memory).
            running.append(kind(pid, stat[2], program, (), user))
            continue
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        argv = tuple(part.decode(errors="surrogateescape") for part in raw.split(b"\0") if part)
        if serves(argv):
            running.append(kind(pid, stat[2], program, argv, user))
    return running


def chosen(pid: int | None, running: Sequence[Kind], what: str, named: str) -> Kind:
    """The running server that is meant.

    Args:
        pid: the process id of its first process; None when there is only one, or this user runs only one.
        running: those there are.
        what: what one is called, such as "Apache".
        named: how its program is named, such as "apache2 or httpd".

    Raises:
        UsageError: there is none, or there are several and none was named.
    """
    listed = "; ".join(one.line for one in running)
    if pid is not None:
        for one in running:
            if one.pid == pid:
                return one
        raise UsageError(f"pid {pid} is not the first process of {what}" + (f"; there is {listed}" if listed else ""))
    if not running:
        raise UsageError(f"no running {what} found (no process named {named})")
    choice = [one for one in running if one.own] or list(running)
    if len(choice) > 1:
        raise UsageError(f"{what} runs several times, choose one with --pid: {'; '.join(o.line for o in choice)}")
    return choice[0]


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
        raise UsageError(f"no permission to look into pid {pid}: run as root or as its user") from None
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


def listeners(pid: int) -> tuple[Listener, ...]:
    """The TCP addresses on which a process listens, from its own sockets.

    Raises:
        UsageError: not permitted.
    """
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
