"""The first process of a running server: how it is found, read and signalled.

What somebody else runs is found too, so that it can be said; before anything of it is run or signalled, `_vetted`
looks at it.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from trimtab.core import Clock
from trimtab.errors import PlantGone, UsageError
from trimtab.processes import (
    HIDDEN,
    SHOW,
    Process,
    descriptors,
    hidden,
    identify,
    not_permitted,
    parent_of,
    pids,
    program_of,
    sockets,
    start_of,
    user_of,
)
from trimtab.sensors._unix_diag import unix_sockets
from trimtab.trust import printable

_POLL_S = 0.02
Seen = TypeVar("Seen")


@dataclass(frozen=True)
class Master:
    """The first process of a running server, which starts its workers.

    Args:
        pid: its process id.
        started: its start time in clock ticks since boot, which tells it from a later process with the same id.
        exe: path of its program.
        argv: its command line; empty where somebody else runs it.
        user: the user that runs it; None where it has the rights of several.
    """

    pid: int
    started: int
    exe: Path
    argv: tuple[str, ...]
    user: int | None
    title: ClassVar[str] = "the server"
    """Its name in messages."""
    called: ClassVar[str] = ""
    """What a process of it is called in messages, such as "apache2 or httpd"."""
    program: ClassVar[re.Pattern[str]] = re.compile("")
    """File names of its program."""
    on_unix_sockets: ClassVar[bool] = True
    """Whether clients may come to it at Unix sockets; else those at which it listens are a module's own."""

    def __str__(self) -> str:
        return f"{self.title} (pid {self.pid})"

    @property
    def line(self) -> str:
        """Its line in a list of several."""
        words = printable(" ".join(self.argv)) if self.argv else f"run by uid {self.user}"
        return f"pid {self.pid}: {words}"

    @property
    def own(self) -> bool:
        """Whether this user runs it."""
        return self.user == os.geteuid()

    @classmethod
    def running(cls) -> list[Self]:
        """Every running server of this kind."""
        return cls.named(cls.program)

    @classmethod
    def named(cls, names: re.Pattern[str]) -> list[Self]:
        """Every running server whose program has such a file name: processes whose parent is not itself one."""
        there = ((pid, program_of(pid)) for pid in pids())
        found = {pid: exe for pid, exe in there if exe is not None and names.fullmatch(exe.name)}
        running = []
        for pid, exe in sorted(found.items()):
            started = start_of(pid)
            if started is None or parent_of(pid) in found:
                continue
            user = cls.user_of(pid)
            if user != os.geteuid():
                # Its command line is not read: its user can make that wait for ever (a FUSE file in its memory).
                running.append(cls(pid, started, exe, (), user))
                continue
            try:
                raw = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            argv = tuple(part.decode(errors="surrogateescape") for part in raw.split(b"\0") if part)
            if cls.serves(argv):
                running.append(cls(pid, started, exe, argv, user))
        return running

    @classmethod
    def find(cls, pid: int | None) -> Self:
        """The running server that is meant.

        Args:
            pid: the process id of its first process; None when there is only one, or this user runs only one.

        Raises:
            UsageError: there is none, or there are several and none was named.
        """
        running = cls.running()
        listed = "; ".join(one.line for one in running)
        if pid is not None:
            for one in running:
                if one.pid == pid:
                    return one
            there = f"; there is {listed}" if listed else ""
            raise UsageError(f"pid {pid} is not the first process of {cls.title}{there}")
        if not running:
            unseen = f"; {HIDDEN}: {SHOW}" if hidden() else ""
            raise UsageError(f"no running {cls.title} found (no process named {cls.called}){unseen}")
        choice = [one for one in running if one.own] or running
        if len(choice) > 1:
            several = "; ".join(one.line for one in choice)
            raise UsageError(f"{cls.title} runs several times, choose one with --pid: {several}")
        return choice[0]

    def successors(self) -> list[Self]:
        """Servers started after it, with the same program and, as far as both can be read, the same command line."""
        later = [one for one in self.running() if one.started > self.started and one.exe == self.exe]
        return [one for one in later if one.argv == self.argv or not (one.argv and self.argv)]

    @staticmethod
    def serves(argv: tuple[str, ...]) -> bool:
        """Whether a command line is a server's, not a question's that ends with its answer."""
        return True

    @staticmethod
    def user_of(pid: int) -> int | None:
        """The user whose rights such a process has; None when it has ended, or has those of several users."""
        return user_of(pid)

    def not_permitted(self) -> UsageError:
        """Error for a process that /proc does not let us look into."""
        return not_permitted(self.pid, f"look into and signal {self}")

    def check(self) -> None:
        """Makes sure that it still runs.

        Raises:
            PlantGone: it has ended.
        """
        if start_of(self.pid) != self.started:
            raise PlantGone(f"{self} has ended")

    def accounts(self) -> frozenset[int]:
        """Users whose servers root steers beside its own, because nothing of theirs is run or read as a file."""
        return frozenset()

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

    def cwd(self) -> Path:
        """Its working directory, where a relative path on its command line begins.

        Raises:
            UsageError: not permitted.
            PlantGone: it has ended.
        """
        try:
            return Path(os.readlink(f"/proc/{self.pid}/cwd"))
        except OSError:
            self.check()
            raise self.not_permitted() from None

    def accepting(self) -> frozenset[str]:
        """The sockets that it holds at which clients may come, by their kernel names.

        The others are found instead: channels to its children and sockets of logs, which children share too. They
        stand in short tables, as that of TCP does not. What stands in a listener's place under a gate
        (SOCK_SEQPACKET) is not among them.

        Raises:
            UsageError: not permitted.
        """
        held = descriptors(self.pid, "socket")
        there = (one for one in unix_sockets(self.pid) if one.kind != socket.SOCK_SEQPACKET)
        unix = (one.target for one in there if not (one.listens and self.on_unix_sockets))
        return held - {*unix, *(f"socket:[{row[9]}]" for row in sockets(self.pid, "udp", "udp6"))}

    def awaited(self, clock: Clock, patience_s: float, look: Callable[[], Seen]) -> Seen:
        """Calls `look` until its result is true or the patience ends, and returns that result.

        Args:
            clock: for the wait.
            patience_s: how long to wait, in seconds.
            look: called again and again.

        Raises:
            PlantGone: it has ended.
        """
        deadline_s = clock.now_s() + patience_s
        while not (seen := look()):
            self.check()
            if clock.now_s() > deadline_s:
                break
            clock.sleep(_POLL_S)
        return seen

    def undo_script(self, put_back: Iterable[str], test: Sequence[str], signal: str) -> str:
        """A POSIX shell script: puts files back, checks the configuration, reloads.

        Args:
            put_back: the lines that put the files back.
            test: the command that checks the configuration.
            signal: the signal that makes it reload, such as "USR1".
        """
        lines = (
            "#!/bin/sh",
            f"# Undoes what trimtab did to {self.title} (pid {self.pid}).",
            "set -e",
            *put_back,
            f"cd / && {shlex.join(test)}",
            "# Another program may have been given this process id since.",
            f'[ "$(readlink /proc/{self.pid}/exe)" = {shlex.quote(str(self.exe))} ]',
            f"kill -{signal} {self.pid}",
        )
        return "".join(f"{line}\n" for line in lines)

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
        found = identify(pid)
        if found is not None and parent_of(pid) == self.pid:
            found.send(number)
