"""The processes of a running Squid: its master, which starts and watches, and the one worker that serves.

A master that root started has root's rights, but keeps as its *real* user the one that its worker drops to; so
whoever is that user may send it signals, and no more. Only a program without a set-user-id bit, which root started,
gets there.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.plants._master import Master
from trimtab.processes import PROC, children, descriptors, program_of, sockets
from trimtab.sensors._tcp_listeners import Listener, listening
from trimtab.trust import printable

_ESTABLISHED = "01"
_QUESTIONS = ("-k", "-z", "-v", "-h")
_ALONE = "N"
_WITH_VALUE = frozenset("adfklnu")
"""Options with an argument, from `shortOpStr` in src/main.cc; -m may have one, and only beside it."""


class SquidMaster(Master):
    """The master process of a running Squid."""

    title = "Squid"
    called = "squid"
    program = re.compile("squid")

    @staticmethod
    def serves(argv: tuple[str, ...]) -> bool:
        """Whether a command line is a master's: not a worker's, and not a question's."""
        return bool(argv) and not argv[0].startswith("(") and not any(word in _QUESTIONS for word in argv[1:])

    @staticmethod
    def user_of(pid: int) -> int | None:
        """The user whose rights the master has: effective, saved and those for files must agree.

        None where they differ, where the program could have got them by a set-user-id bit, or when it has ended.
        """
        try:
            text = (PROC / str(pid) / "status").read_bytes()
            mode = os.stat(PROC / str(pid) / "exe").st_mode if os.geteuid() == 0 else 0
        except OSError:
            return None
        # A stranger chose the name in it, of which the kernel escapes the end of a line alone.
        words = next((line.split()[1:] for line in text.split(b"\n") if line.startswith(b"Uid:")), [])
        if len(words) != 4 or len(set(words[1:])) != 1 or mode & (stat.S_ISUID | stat.S_ISGID):
            return None
        return int(words[1])

    @property
    def config_file(self) -> Path | None:
        """Its configuration by its command line; None where that names none, and its build's own is meant.

        Raises:
            UsageError: it is the output of a command.
        """
        if not (text := option(self.argv, "f")):
            return None
        if text.startswith(("!", "|")):
            raise UsageError(f"{self} takes its configuration from a command ({printable(text)}), not from a file")
        path = Path(text)
        return path if path.is_absolute() else self.cwd() / path

    @property
    def service(self) -> str:
        """Its service's name."""
        return option(self.argv, "n") or "squid"

    def worker(self) -> int:
        """The process that serves.

        Raises:
            UsageError: there is none, or there are several.
        """
        found = [pid for pid in children(self.pid) if program_of(pid) == self.exe]
        if not found and any(letter == _ALONE for letter, _ in _given(self.argv)):
            raise UsageError(
                f"{self} serves in its first process (-N), of which trimtab knows no reload: start it with "
                "'--foreground' in place of -N"
            )
        if len(found) != 1:
            raise UsageError(
                f"{self} has {len(found)} processes below it: trimtab tunes a Squid with one, which serves ('workers "
                "1' and no 'cache_dir rock')"
            )
        return found[0]

    def ports(self) -> dict[str, Listener]:
        """The sockets at which its worker listens: kernel name to address and port; none in the moment of a reload.

        Raises:
            UsageError: not permitted, or there is no worker.
        """
        worker = self.worker()
        held = descriptors(worker, "socket")
        return {name: address for name, address in listening(worker).items() if name in held}

    def open_connections(self) -> int:
        """Connections of clients that its worker has open.

        Raises:
            UsageError: not permitted, or there is no worker.
        """
        worker, ports = self.worker(), {port for _, port in self.ports().values()}
        held = descriptors(worker, "socket")
        rows = sockets(worker, "tcp", "tcp6")
        mine = (row for row in rows if row[3] == _ESTABLISHED and f"socket:[{row[9]}]" in held)
        return sum(int(row[1].rpartition(":")[2], 16) in ports for row in mine)


def option(argv: tuple[str, ...], letter: str) -> str:
    """The value of an option with one letter on a command line, the last one; empty where it is not given."""
    return next((value for one, value in reversed([*_given(argv)]) if one == letter), "")


def _given(argv: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each option with one letter on a command line, and its value; empty where it has none."""
    words = iter(argv[1:])
    for word in words:
        if not word.startswith("-") or word.startswith("--"):
            continue
        for place, one in enumerate(word[1:], 2):
            yield one, (word[place:] or next(words, "")) if one in _WITH_VALUE else ""
            if one in _WITH_VALUE or one == "m":
                break
