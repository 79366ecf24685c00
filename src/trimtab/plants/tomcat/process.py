"""The processes of running Tomcats: Java, or jsvc, that has Tomcat's own library open.

Nothing of a process of another user is read that he could have wait for ever: the names of its open files come from
the kernel, its command line from its own memory. What a process is by these names is not believed either: nothing of
it is run with our rights, and all that is asked of it is asked with the rights that it has itself (`jmx`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Self

from trimtab.errors import UsageError
from trimtab.plants._master import Master
from trimtab.processes import maps, not_permitted, opened, pids, program_of, start_of, user_of

_LIBRARY = re.compile(r"/(tomcat\d*-)?catalina(-[\d.]+)?\.jar( \(deleted\))?")
_PROGRAMS = ("java", "jsvc")
"""Java's own, and commons-daemon's, which has a JVM in its child."""
_OPENJ9 = b"libj9vm"
_SIGQUIT = 1 << (3 - 1)


class TomcatProcess(Master):
    """A running Tomcat."""

    title = "Tomcat"
    called = f"java or jsvc that has Tomcat's catalina.jar open{'' if os.geteuid() == 0 else ', that this user runs'}"

    @classmethod
    def running(cls) -> list[Self]:
        """Every running Tomcat that this user may look into."""
        there = ((pid, program_of(pid), start_of(pid)) for pid in sorted(pids()))
        return [
            cls(pid, started, program, (), user_of(pid))
            for pid, program, started in there
            if program is not None and program.name in _PROGRAMS and started is not None and _holds_library(pid)
        ]

    @classmethod
    def find(cls, pid: int | None) -> Self:
        """The running Tomcat that is meant.

        Args:
            pid: its process id; None when there is only one, or this user runs only one.

        Raises:
            UsageError: there is none, or there are several and none was named, or it may not be looked into.
        """
        if pid is not None and os.geteuid() not in (0, user_of(pid)) and start_of(pid) is not None:
            raise not_permitted(pid, f"look into pid {pid}")
        return super().find(pid)

    def attachable(self) -> None:
        """Makes sure that it has a JVM that answers the signal with which the attach API begins.

        Whether its JVM was told not to, the Java program looks (`Jmx.java`): a command line may have its reader wait.

        Raises:
            UsageError: the signal would end it, or have it write a dump.
            PlantGone: it has ended.
        """
        caught = int(self.status("SigCgt"), 16)
        self.check()
        if not caught & _SIGQUIT:
            raise UsageError(
                f"{self} does not catch SIGQUIT, which is how one attaches, so that would end it: "
                "start Java without -Xrs"
            )
        if any(line.rpartition(b"/")[2].startswith(_OPENJ9) for line in maps(self.pid)):
            raise UsageError(
                f"{self} runs on OpenJ9, which answers the signal by which one attaches with a dump: "
                "run it on a HotSpot JVM, such as OpenJDK"
            )

    def shares(self, kind: str) -> bool:
        """Whether it is in our namespace of a kind, such as "mnt".

        Raises:
            UsageError: that may not be asked.
            PlantGone: it has ended.
        """
        try:
            return os.readlink(f"/proc/{self.pid}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}")
        except OSError:
            self.check()
            raise self.not_permitted() from None

    def status(self, field: str) -> str:
        """A field of its status in /proc.

        Raises:
            PlantGone: it has ended.
        """
        try:
            text = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        except OSError:
            text = ""
        self.check()
        # A stranger chose the name in it, of which the kernel escapes the end of a line alone.
        return next((line.partition(":")[2].strip() for line in text.split("\n") if line.startswith(f"{field}:")), "")


def _holds_library(pid: int) -> bool:
    try:
        return any(_LIBRARY.fullmatch(target[target.rfind("/") :]) for _, target in opened(pid))
    except OSError:
        return False
