"""Cache of things that take long to make: made once, whole or not at all, by one process at a time.

An ordinary user has it in his state directory; root in /var/lib/trimtab, because servers that he starts run as users
who cannot reach his home.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from trimtab.locks import opened
from trimtab.store import default_path
from trimtab.testbed._private import usual_modes
from trimtab.trust import require_trusted


def default_directory() -> Path:
    """Directory of the cache unless a caller names another."""
    return Path("/var/lib/trimtab") if os.geteuid() == 0 else default_path().parent


@contextlib.contextmanager
def kept(directory: Path, name: str, version: str, make: Callable[[Path], None]) -> Iterator[Path]:
    """A directory that stays as it is while this lasts; other versions of the same name are removed.

    Args:
        directory: directory of the cache; made when it does not exist.
        name: name of the thing.
        version: which state of it.
        make: fills an empty directory.

    Raises:
        UsageError: others can change the directory.
    """
    with usual_modes():
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    require_trusted(directory)
    path = directory / f"{name}-{version}"
    with os.fdopen(opened(directory / f"{name}.lock"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with usual_modes():
                _make(path, name, make)
        yield path


def _make(path: Path, name: str, make: Callable[[Path], None]) -> None:
    """Makes it beside where it goes, with the lock held; half-made remains of a crash are removed."""
    for other in path.parent.glob(f"{name}-*"):
        shutil.rmtree(other)
    fresh = Path(tempfile.mkdtemp(prefix=f"{name}-half-", dir=path.parent))
    try:
        fresh.chmod(0o755)
        make(fresh)
        fresh.rename(path)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
