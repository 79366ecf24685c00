"""Becomes the server: joins the cgroups, asks to end with its owner, then executes the server's program.

Run as a script, so that limits hold from the server's first instruction and no code runs between fork and exec in a
process with threads. The kernel sends the signal when the *thread* that started the server ends, so that thread lives
as long as the server.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def argv(owner_pid: int, cgroup_procs: list[str], command: list[str]) -> list[str]:
    """The command line that runs `command` confined.

    Args:
        owner_pid: process whose end ends the server too.
        cgroup_procs: the `cgroup.procs` files to join.
        command: absolute path of the program and its arguments.
    """
    groups = [part for path in cgroup_procs for part in ("--cgroup", path)]
    return [sys.executable, "-I", "-S", __file__, str(owner_pid), *groups, "--", *command]


def main(arguments: list[str]) -> None:
    """Joins, then executes; does not return."""
    split = arguments.index("--")
    owner_pid, groups, command = int(arguments[0]), arguments[1:split], arguments[split + 1 :]
    for path in groups[1::2]:
        try:
            with open(path, "w", encoding="ascii") as procs:
                procs.write(str(os.getpid()))
        except OSError as error:
            sys.exit(f"the control group of {path} cannot be joined: {error.strerror}")
    os.chdir("/")  # nothing is read from trimtab's own working directory
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != owner_pid:
        sys.exit("the owner ended before the server was started")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
