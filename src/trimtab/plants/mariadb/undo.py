"""The shell script that undoes trimtab's settings of a MariaDB, for a user without trimtab."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping

from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.journal import Entry
from trimtab.plants.mariadb.process import MariadbServer

_SCRIPT = """#!/bin/sh
# Undoes what trimtab set in MariaDB (pid {pid}); what somebody else has set since is left alone.
set -e
# A MariaDB that was started anew has forgotten what was set.
set -- $(LC_ALL=C sed -n '$s/.*) //p' /proc/{pid}/stat 2>/dev/null)
if [ "$1" = Z ] || [ "${{20}}" != {started} ]; then
    echo "MariaDB (pid {pid}) has ended, and what was set live with it"
else
    undo() {{
        {command} <<'END'
SET SESSION max_statement_time = 0;
{statements}
END
    }}
    said=$(undo 2>&1) && code=0 || code=$?
    # The server's own words stand in it.
    [ -z "$said" ] || printf '%s\\n' "$said" | LC_ALL=C tr -cd '\\n\\40-\\176' >&2
    [ $code = 0 ] || exit $code
fi
{after}"""


def script(
    server: MariadbServer,
    credentials: Credentials,
    entries: Mapping[str, Entry],
    literal: Callable[[str, int], str],
    files: Iterable[str] = (),
) -> str:
    """A POSIX shell script that puts back values that are still as trimtab set them.

    Args:
        server: the running MariaDB.
        credentials: our account; a password stays in the file that it was read from.
        entries: what was set live, by knob.
        literal: a knob's value as a statement has it.
        files: lines that put our file back and restart, where there is one.
    """
    after = "".join(f"{line}\n" for line in files)
    if not entries:
        return f"#!/bin/sh\n# Undoes what trimtab did to MariaDB.\nset -e\n{after}" if after else _nothing(server)
    who = f"--defaults-file={credentials.file}" if credentials.file else "--no-defaults"
    # Older clients send a server whatever file it asks for.
    command = ["mariadb", who, "--local-infile=0", f"--socket={server.listen()}", f"--user={credentials.user}"]
    return _SCRIPT.format(
        pid=server.pid,
        started=server.started,
        command=shlex.join(map(os.fspath, command)),
        after=after,
        statements="\n".join(statement(name, entry, literal) for name, entry in sorted(entries.items())),
    )


def _nothing(server: MariadbServer) -> str:
    return f"#!/bin/sh\n# trimtab has set nothing in MariaDB (pid {server.pid}).\nexit 0\n"


def statement(name: str, entry: Entry, literal: Callable[[str, int], str]) -> str:
    """The statement that puts a knob back where it still has a value of ours.

    Args:
        name: the knob.
        entry: what was set.
        literal: a knob's value as a statement has it.
    """
    now = f"@@GLOBAL.{name}"
    ours = ", ".join(literal(name, value) for value in entry.ours)
    return f"SET GLOBAL {name} = IF({now} IN ({ours}), {literal(name, entry.before)}, {now});"
