"""Files as a server sees them, which may have mounts of its own, as a /tmp by systemd's PrivateTmp."""

from __future__ import annotations

import os
from pathlib import Path

_MOST_LINKS = 40
"""Most links that the kernel follows (path_resolution(7))."""


def seen(file: Path, view: Path) -> Path:
    """Where a server finds a file, also one that is not there: links are followed as it follows them.

    Args:
        file: an absolute path.
        view: its root directory, such as /proc/PID/root.
    """
    here, ahead, links = view, [*reversed(file.parts[1:])], 0
    while ahead:
        part = ahead.pop()
        at = here / part
        try:
            target = Path(os.readlink(at))
        except OSError:  # no link, or nothing is there
            here = at if part != ".." else here.parent if here != view else view
            continue
        links += 1
        if links > _MOST_LINKS:
            return at
        here = view if target.is_absolute() else here
        ahead += [one for one in reversed(target.parts) if one != "/"]
    return here


def gone(file: Path) -> bool:
    """Whether a file is surely not there."""
    try:
        file.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False
