"""A server's own program, asked whether a configuration is valid; the caller has vetted both (`_vetted`)."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.own import SYSTEM_PATH
from trimtab.trust import printable

_PATIENCE_S = 60.0
_MOST_BYTES = 64 << 20
"""nginx answers with all of its configuration, a script of opcache.preload that PHP-FPM runs with what it likes."""
_PART_BYTES = 1 << 16


@dataclass(frozen=True)
class Verdict:
    """Result of the configuration test.

    Args:
        valid: whether the server would start with this configuration.
        message: its message, in one line.
        files: the files that it read, by its own account; None where it does not say.
    """

    valid: bool
    message: str
    files: frozenset[Path] | None = None


def ask(argv: Sequence[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Has the program answer a question.

    Args:
        argv: its path, its options and the question.
        environ: its environment, but for PATH, which is ours.

    Raises:
        UsageError: it cannot be run, or its answer has no end.
    """
    until_s = time.monotonic() + _PATIENCE_S
    try:
        with subprocess.Popen(
            argv,
            env={**environ, "PATH": SYSTEM_PATH},
            cwd="/",
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as asked:
            try:
                out, err = _heard(asked, until_s)
                code = asked.wait(max(0.0, until_s - time.monotonic()))
            except BaseException:
                with contextlib.suppress(OSError):
                    os.killpg(asked.pid, signal.SIGKILL)  # it is not reaped yet, so that the group is its own
                raise
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"cannot run {printable(argv[0])}: {error}") from None
    return subprocess.CompletedProcess(argv, code, out, err)


def _heard(asked: subprocess.Popen[bytes], until_s: float) -> list[str]:
    """What a program says at its two outputs, once it has closed both.

    Args:
        asked: the program.
        until_s: when to hear no more, on the machine's monotonic clock.

    Raises:
        TimeoutExpired: it goes on.
        OSError: it says more than `_MOST_BYTES`.
    """
    heard = [bytearray(), bytearray()]
    with selectors.DefaultSelector() as ready:
        for pipe, into in zip((asked.stdout, asked.stderr), heard, strict=True):
            assert pipe is not None
            ready.register(pipe, selectors.EVENT_READ, into)
        while ready.get_map():
            left_s = until_s - time.monotonic()
            there = ready.select(left_s) if left_s > 0 else []  # one that says a word at a time is always ready
            if not there:
                raise subprocess.TimeoutExpired(asked.args, _PATIENCE_S)
            for key, _ in there:
                part = os.read(key.fd, _PART_BYTES)
                key.data.extend(part)
                if not part:
                    ready.unregister(key.fileobj)
            if sum(map(len, heard)) > _MOST_BYTES:
                raise OSError(errno.EFBIG, f"it says more than {_MOST_BYTES >> 20} MiB")
    return [said.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n") for said in heard]
