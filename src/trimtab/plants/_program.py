"""A server's own program, asked whether a configuration is valid; the caller has vetted both (`_vetted`)."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.own import SYSTEM_PATH
from trimtab.trust import printable

_PATIENCE_S = 60.0


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
        UsageError: it cannot be run.
    """
    try:
        return subprocess.run(
            argv,
            env={**environ, "PATH": SYSTEM_PATH},
            cwd="/",
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"cannot run {printable(argv[0])}: {error}") from None
