"""Runs the tests' command, and fails where one of its processes outlives it, however far it had detached itself.

    python tests/nothing_left.py COMMAND [ARGUMENT...]

Orphans become children of this process, not of init (`PR_SET_CHILD_SUBREAPER` of prctl(2)), so that none is lost,
and each that ends is waited for, as init would. Its exit code is the command's, or 1 where that is 0 and something
was left.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from trimtab import processes

_PR_SET_CHILD_SUBREAPER = 36


def main(command: list[str], grace_s: float = 60.0) -> int:
    """Runs the command, and ends what is left of it.

    Args:
        command: the program and its arguments.
        grace_s: how long what was told to end may take.

    Returns:
        The exit code.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "orphans would be lost")
    started = subprocess.Popen(command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the command too, and it is waited for
    code, left = _ended(started.pid), _left(grace_s)
    for pid in left:
        said = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        print(f"left running: {pid} {said}", file=sys.stderr)
    while pids := processes.children(os.getpid()):  # of one that is ended the children come to this process
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return code or bool(left)


def _ended(pid: int) -> int:
    """The command's exit code, once it has ended; orphans that end before it are waited for."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _left(grace_s: float) -> list[int]:
    """Orphans of the command that are still there after a while."""
    until_s = time.monotonic() + grace_s
    while time.monotonic() < until_s:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return []
        time.sleep(0.1)
    return processes.children(os.getpid())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
