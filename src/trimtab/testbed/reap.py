"""Removes testbeds' processes, groups and files: of one when it stops, and of those whose owners have died."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from trimtab import processes
from trimtab.errors import TrimtabError
from trimtab.testbed import cgroup, swap
from trimtab.testbed.registry import Record, Registry

_PATIENCE_S = 20.0
"""How long a process that swaps may take to end."""
_FPM_WORKER = "php-fpm: pool "
"""PHP-FPM's workers outlive a master that is killed, and their command line has no path."""


def orphans(records: list[Record], boot: str) -> list[Record]:
    """The records whose owners have ended.

    Args:
        records: all records.
        boot: identity of the present boot.
    """
    return [r for r in records if r.boot_id != boot or not r.owner.alive()]


def reap(registry: Registry) -> list[str]:
    """Removes the remains of dead owners; called with the registry's lock held.

    Returns:
        What was removed, one line each.

    Raises:
        TrimtabError: something could not be removed; its record is kept, and all else is removed.
    """
    removed, failed = [], []
    for record in orphans(registry.records(), processes.boot_id()):
        try:
            clear(registry, record)
        except TrimtabError as error:
            failed.append(str(error))
            continue
        removed.append(f"testbed of process {record.owner.pid} in {record.directory}")
    swap.release(registry)
    if failed:
        raise TrimtabError("; ".join(failed))
    return removed


def clear(registry: Registry, record: Record) -> None:
    """Ends a testbed's processes, removes its groups and directory, and forgets it.

    Args:
        registry: where it is recorded; its lock is held.
        record: the testbed.

    Raises:
        TrimtabError: a process or group would not go; the record is kept.
    """
    groups = {Path(g) for g in record.cgroups}
    server = record.server
    if record.boot_id == processes.boot_id():
        if server is not None:
            users, mentioning = {os.geteuid(), *record.users}, (record.directory, _FPM_WORKER)
            if not processes.end(lambda: processes.session_members(server, users, *mentioning), _PATIENCE_S):
                raise TrimtabError(f"processes of {record.directory} do not end")
        if not cgroup.remove(groups, _PATIENCE_S):
            raise TrimtabError(f"control groups of {record.directory} are still in use")
    for segment in Path("/dev/shm").glob(f"{record.shared_memory}-*"):
        segment.unlink(missing_ok=True)
    shutil.rmtree(record.directory, ignore_errors=True)
    registry.remove(record)


def clean() -> list[str]:
    """Removes everything that dead testbeds of this user have left.

    Returns:
        What was removed, one line each.

    Raises:
        TrimtabError: something could not be removed.
    """
    registry = Registry()
    with registry.locked():
        return reap(registry)
