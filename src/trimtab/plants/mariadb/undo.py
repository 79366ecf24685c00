"""The shell script that undoes what trimtab set in a MariaDB, for a user without trimtab."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.journal import Entry
from trimtab.plants.mariadb.process import MariadbServer

_NOTHING = """#!/bin/sh
# trimtab has set nothing in MariaDB (pid {pid}).
exit 0
"""
_SCRIPT = """#!/bin/sh
# Undoes what trimtab set in MariaDB (pid {pid}); what somebody else has set since is left alone.
set -e
# A MariaDB that was started anew has forgotten what was set.
set -- $(sed 's/.*) //' /proc/{pid}/stat 2>/dev/null)
if [ "$1" = Z ] || [ "${{20}}" != {started} ]; then
    echo "MariaDB (pid {pid}) has ended, and what was set with it: there is nothing to undo"
    exit 0
fi
{command} <<'END'
{statements}
END
"""


def script(server: MariadbServer, credentials: Credentials, entries: Mapping[str, Entry]) -> str:
    """A POSIX shell script that puts back what is still as trimtab set it.

    Args:
        server: the running MariaDB.
        credentials: who we are to it; a password stays in the file that it was read from.
        entries: what was set, by knob.
    """
    if not entries:
        return _NOTHING.format(pid=server.pid)
    who = f"--defaults-file={credentials.file}" if credentials.file else "--no-defaults"
    command = ["mariadb", who, f"--socket={server.listen()}", f"--user={credentials.user}"]
    return _SCRIPT.format(
        pid=server.pid,
        started=server.started,
        command=shlex.join(map(os.fspath, command)),
        statements="\n".join(_statement(name, entry) for name, entry in sorted(entries.items())),
    )


def _statement(name: str, entry: Entry) -> str:
    now = f"@@GLOBAL.{name}"
    ours = ", ".join(str(value) for value in entry.ours)
    return f"SET GLOBAL {name} = IF({now} IN ({ours}), {entry.before}, {now});"
