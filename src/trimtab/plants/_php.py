"""What PHP keeps in the shared memory of the server that runs it, and loses in a reload of that.

FPM's master executes itself anew, and Apache's parent ends mod_php and begins it again as it reads its configuration:
both make that memory anew.
"""

from __future__ import annotations

from trimtab import processes


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
