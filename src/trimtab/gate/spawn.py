"""Children of `trimtab run`, which blocks the signals that it waits for; its children must not inherit that."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any


def spawn(argv: list[str], environment: Mapping[str, str], files: Sequence[tuple[Any, ...]] = ()) -> int:
    """Starts a program in a process group of its own, with no signal blocked or ignored, and gives its process id.

    Args:
        argv: absolute path of the program and its arguments.
        environment: its environment.
        files: file actions of os.posix_spawn.

    Raises:
        OSError: it cannot be started.
    """
    # Python ignores these two, and what is ignored stays so through exec.
    ignored = (signal.SIGPIPE, signal.SIGXFSZ)
    return os.posix_spawn(
        argv[0], argv, environment, file_actions=files, setpgroup=0, setsigmask=(), setsigdef=ignored
    )


def ended(pid: int) -> int | None:
    """The exit code of a child, 128 + n after signal n; None while it runs. To be asked until it gives one."""
    done, status = os.waitpid(pid, os.WNOHANG)
    if done == 0:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
