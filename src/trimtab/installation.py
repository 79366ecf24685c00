"""Whether others could change what runs when this user starts trimtab."""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from trimtab import native
from trimtab.core.finding import Finding
from trimtab.errors import NativeError, UsageError
from trimtab.trust import untrusted, untrusted_in

_PACKAGE = Path(__file__).parent


def require_trusted_as_root(path: Path, what: str) -> Path:
    """A file that is about to be run, or loaded into a server; as root once it is known that only root can change it.

    Args:
        path: the file.
        what: its name, such as "the shim".

    Raises:
        UsageError: this is root, and somebody else can change it; the message says how that is mended.
    """
    if os.geteuid() == 0 and (reason := untrusted(path)):
        raise UsageError(f"root does not run {what} {path}, because others can change it: {reason}")
    return path


def probe() -> tuple[Finding, ...]:
    """Whether interpreter, packages, native program and shim are this user's and root's alone."""
    reasons = list(dict.fromkeys(_reasons()))
    if not reasons:
        who = "root" if os.geteuid() == 0 else "root and this user"
        return (Finding("installation", True, f"only {who} can change what runs from {_PACKAGE}"),)
    more = f", and {len(reasons) - 1} more" if reasons[1:] else ""
    detail = f"others can change what runs as this user: {reasons[0]}{more}"
    return (Finding("installation", False, detail, "mend it so, or install trimtab where nobody else can write"),)


def _reasons() -> Iterator[str]:
    """Why others could change what is run or loaded: single files, and of the libraries every directory."""
    for path in _files():
        if reason := untrusted(path):
            yield reason
    yield from untrusted_in(_PACKAGE, files=True)
    for library in sorted({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}):
        yield from untrusted_in(library, files=False)


def _files() -> Iterator[Path]:
    """Paths of what is run or loaded by itself, and of where modules are looked for."""
    yield Path(sys.executable)
    yield from (Path(entry) for entry in sys.path)
    for find in (native.program, native.shim_path):
        with contextlib.suppress(NativeError):
            yield find()
