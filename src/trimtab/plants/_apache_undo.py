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
    file, fresh = shlex.quote(str(path)), shlex.quote(f"{path.parent}/.{path.name}.XXXXXXXXXX")
    if before is None:
        back = f"rm -f {file}"
    else:
        # mktemp makes a file that was not there, whatever name somebody has put a link under.
        back = f'fresh=$(mktemp {fresh})\nprintf \'%s\' {shlex.quote(before)} > "$fresh"\nchmod 644 "$fresh"\n'
        back += f'mv -f "$fresh" {file}'
    environ = [f"{name}={value}" for name, value in sorted(program.passed(frozenset()).items())]
    test = "cd / && " + shlex.join(["env", "-i", *environ, *program.argv, "-t"])
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
