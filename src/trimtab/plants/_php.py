"""What PHP begins anew in a reload of the server that runs it: its shared memory, and its own settings.

FPM's master executes itself anew, and Apache's parent ends mod_php and begins it again as it reads its configuration:
both make that memory anew, and read php.ini and what is beside it.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path

from trimtab import processes
from trimtab.files import Stamp, stamp


def forgotten(pid: int) -> tuple[str, ...]:
    """Notes for the user before anything is changed; none where the server's maps may not be read.

    Args:
        pid: the server's first process.
    """
    files = {line.removesuffix(b" (deleted)").rpartition(b"/")[2] for line in processes.maps(pid)}
    if b"apcu.so" not in files:
        return ()
    return (
        "APCu is loaded: every change, trials and an undo too, loses what is kept in it, such as counters, locks and "
        "sessions",
    )


def php_ini(named: Path) -> Path:
    """The php.ini that is meant where a file or its directory is named."""
    return named / "php.ini" if named.is_dir() else named


def ini_stamps(patterns: Iterable[Path]) -> dict[Path, Stamp]:
    """Stamps of PHP's own files, also of those that may come, and of the directories in which others may.

    The directory of one that is named is none of these: Red Hat's php.ini is in /etc.

    Args:
        patterns: absolute paths, perhaps with wildcards in the last part.
    """
    found = dict[Path, Stamp]()
    for one in patterns:
        if glob.has_magic(one.name):
            found[one.parent] = stamp(one.parent)  # before it is looked into
            found |= {path: stamp(path) for path in one.parent.glob(one.name)}
        else:
            found[one] = stamp(one)
    return dict(sorted(found.items()))
