"""The process of a running MariaDB, and the Unix socket on which it listens.

Debian's runs as the user `mysql`. Root talks to it all the same: nothing of it is run, no file of it is read, and
what it says is taken for numbers. What is asked for is that its program is the system's, that it is in no container,
and that the socket's other end is this very process (SO_PEERCRED), so that a stranger who calls his program so, or
puts a socket where MariaDB's was, gets no word and no password.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import socket
import struct
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.plants._master import Master
from trimtab.processes import descriptors
from trimtab.sensors._unix_diag import unix_sockets
from trimtab.trust import printable

_ACCOUNT = "mysql"
_MYSQLX = "mysqlx.sock"
"""The socket of MySQL's X plugin, which speaks another protocol."""
_ENDS = ("--help", "--version", "--bootstrap", "-V", "-?")


class MariadbServer(Master):
    """The process of a running MariaDB."""

    title = "MariaDB"
    called = "mariadbd or mysqld"
    program = re.compile("mariadbd|mysqld")

    @staticmethod
    def serves(argv: tuple[str, ...]) -> bool:
        """Whether a command line is a server's, and not a question's or that of an installation."""
        return not set(argv) & set(_ENDS)

    def accounts(self) -> frozenset[int]:
        """The account that packages of MariaDB make for it."""
        with contextlib.suppress(KeyError):
            return frozenset({pwd.getpwnam(_ACCOUNT).pw_uid})
        return frozenset()

    def listen(self) -> Path:
        """The Unix socket on which it listens.

        Raises:
            UsageError: there is none, or this user may not look.
            PlantGone: it has ended.
        """
        held = descriptors(self.pid, "socket")
        self.check()
        named = [one.name for one in unix_sockets(self.pid) if one.listens and one.target in held]
        # It may stand in a script, and on a terminal.
        paths = [Path(name) for name in named if name.startswith("/") and name.isprintable()]
        paths.sort(key=lambda path: path.name == _MYSQLX)  # a MySQL is to be known as one by its greeting
        if not paths:
            raise UsageError(
                f"{self} listens on no Unix socket: it is still starting, or has none; for that, set "
                "'socket = /run/mysqld/mysqld.sock' and restart MariaDB"
            )
        return paths[0]

    def connect(self, patience_s: float) -> socket.socket:
        """A connection to this very process.

        Args:
            patience_s: how long it may take, in seconds.

        Raises:
            UsageError: somebody else listens where it should, or it may not be reached.
            OSError: it does not answer.
            PlantGone: it has ended.
        """
        path = self.listen()
        link = socket.socket(socket.AF_UNIX)
        try:
            link.settimeout(patience_s)
            link.connect(str(path))
            raw = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            peer, _, _ = struct.unpack("3i", raw)
            self.check()
            if peer != self.pid:
                raise UsageError(f"at {printable(str(path))} listens pid {peer}, not {self}: trimtab leaves it alone")
        except BaseException:
            link.close()
            raise
        return link


def data_of(pid: int) -> str:
    """Which data directory is a MariaDB's, in which it works and so does one that is started in its place.

    Args:
        pid: its process.

    Returns:
        Its device and inode; empty where this user may not look.
    """
    try:
        found = os.stat(f"/proc/{pid}/cwd")
    except OSError:
        return ""
    return f"{found.st_dev:x}-{found.st_ino:x}"
