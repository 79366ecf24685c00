"""The shell script that undoes what trimtab did to an Apache, for a user without trimtab."""

from __future__ import annotations

import shlex
from pathlib import Path

from trimtab.plants._apache_process import Parent
from trimtab.plants._apache_program import Program


def script(parent: Parent, program: Program, path: Path, before: str | None) -> str:
    """A POSIX shell script: puts the file back, checks the configuration, reloads.

    Args:
        parent: the running Apache.
        program: its program, with what it was started with.
        path: our file.
        before: what was there before; None for nothing.
    """
    file, temporary = shlex.quote(str(path)), shlex.quote(str(path.with_name(f".{path.name}.undo")))
    if before is None:
        back = f"rm -f {file}"
    else:
        back = f"printf '%s' {shlex.quote(before)} > {temporary}\nmv {temporary} {file}"
    environ = [f"{name}={value}" for name, value in sorted(program.environ.items()) if name.startswith("APACHE_")]
    test = shlex.join(["env", *environ, *program.argv, "-t"])
    return "\n".join(
        (
            "#!/bin/sh",
            f"# Undoes what trimtab did to Apache (pid {parent.pid}).",
            "set -e",
            back,
            test,
            "# Another program may have been given this process id since.",
            f'[ "$(readlink /proc/{parent.pid}/exe)" = {shlex.quote(str(parent.exe))} ]',
            f"kill -USR1 {parent.pid}",
            "",
        )
    )
