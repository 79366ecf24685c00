"""Marks of servers that have not loaded yet what was put back in their files.

Of a server that is steered by files and reloads, a kill between the two leaves no sign: its files say what was there
before, and what it runs with most servers do not say. So a mark is made before a file is put back or taken away, and
goes with the reload to that; where that fails, it stays. It stands where the locks of runs are, which a reboot
empties, and is of one process: what another was started with it has read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from trimtab import own
from trimtab.errors import UsageError
from trimtab.plants import _journal
from trimtab.plants._master import Master
from trimtab.processes import start_of


def mark(master: Master, in_force: Mapping[str, int]) -> None:
    """Marks a server; where no mark can be made, what is put back is put back all the same.

    Args:
        master: its first process.
        in_force: knob to value that it runs with.
    """
    if start_of(master.pid) == master.started:
        with contextlib.suppress(UsageError):
            _journal.write(_path(master), dict(in_force))
            _journal.tidy(_path(master).parent)


def unmark(master: Master) -> None:
    """Takes a server's mark away: it has loaded its files."""
    with contextlib.suppress(UsageError):
        _journal.write(_path(master), None)


def marked(master: Master) -> Mapping[str, int] | None:
    """What a server ran with when it was marked; None where it is not."""
    try:
        return _journal.read(_path(master), dict[str, int])
    except UsageError:
        return None


def _path(master: Master) -> Path:
    return own.transient("runs") / f"{master.pid}-{master.started}.json"
