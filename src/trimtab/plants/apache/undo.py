"""The shell script that undoes what trimtab did to an Apache, for a user without trimtab."""

from __future__ import annotations

import shlex
from pathlib import Path

from trimtab.plants._own_file import put_back
from trimtab.plants.apache.process import Parent
from trimtab.plants.apache.program import Program


def script(parent: Parent, program: Program, path: Path, before: str | None) -> str:
    """A POSIX shell script: puts the file back, checks the configuration, reloads.

    Args:
        parent: the running Apache.
        program: its program, with what it was started with.
        path: our file.
        before: what was there before; None for nothing.
    """
    environ = [f"{name}={value}" for name, value in sorted(program.passed(frozenset()).items())]
    test = "cd / && " + shlex.join(["env", "-i", *environ, *program.argv, "-t"])
    return "\n".join(
        (
            "#!/bin/sh",
            f"# Undoes what trimtab did to Apache (pid {parent.pid}).",
            "set -e",
            put_back(path, before),
            test,
            "# Another program may have been given this process id since.",
            f'[ "$(readlink /proc/{parent.pid}/exe)" = {shlex.quote(str(parent.exe))} ]',
            f"kill -USR1 {parent.pid}",
            "",
        )
    )
