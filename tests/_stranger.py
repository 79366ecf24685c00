"""Another local user, with a directory and processes of his own, who may try what he can against root."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

STRANGER = 65534
AS_STRANGER = ("setpriv", "--reuid", str(STRANGER), "--regid", str(STRANGER), "--clear-groups", "--")
PYTHON = "/usr/bin/python3"
"""One that he may run too: that of the tests may be in root's home."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")


@contextlib.contextmanager
def his_directory() -> Iterator[Path]:
    """A directory that belongs to him, where everybody can look."""
    directory = Path(tempfile.mkdtemp(prefix="trimtab-stranger-"))
    try:
        directory.chmod(0o755)
        os.chown(directory, STRANGER, STRANGER)
        yield directory
    finally:
        shutil.rmtree(directory)


def let_in(directory: Path) -> None:
    """Lets everybody into a directory of pytest's, whose first one it closes to others when a session begins."""
    for above in (directory, *directory.parents[: -len(Path(tempfile.gettempdir()).resolve().parts)]):
        above.chmod(0o755)


def plant_modules(directory: Path) -> Path:
    """Puts modules there that root might load by mistake, and gives the file that they make when he does."""
    marker = directory / "loaded"
    for name in ("trimtab/__init__", "trimtab/__main__", "json", "sitecustomize", "evil"):
        path = directory / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"open({os.fspath(marker)!r}, 'a').write(__name__)\n")
    for path in (directory, *directory.rglob("*")):
        os.chown(path, STRANGER, STRANGER)
    return marker
