"""The shell script that undoes what trimtab did to a pool, for a user without trimtab."""

from __future__ import annotations

import shlex
from pathlib import Path

from trimtab.plants._own_file import put_back
from trimtab.plants.php_fpm.process import FpmMaster
from trimtab.plants.php_fpm.program import Program


def script(master: FpmMaster, program: Program, path: Path, before: str | None) -> str:
    """A POSIX shell script: puts the file back, checks the configuration, reloads.

    Args:
        master: FPM's master.
        program: its program.
        path: our file.
        before: what was there before; None for nothing.
    """
    return "\n".join(
        (
            "#!/bin/sh",
            f"# Undoes what trimtab did to PHP-FPM (pid {master.pid}).",
            "set -e",
            put_back(path, before),
            "cd / && " + shlex.join(program.argv),
            "# Another program may have been given this process id since.",
            f'[ "$(readlink /proc/{master.pid}/exe)" = {shlex.quote(str(master.exe))} ]',
            f"kill -USR2 {master.pid}",
            "",
        )
    )
