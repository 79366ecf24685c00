"""Places of ServerLimit that a reload of an Apache with threads leaves for new processes.

A process with threads stays after a reload for as long as one of its requests takes, accepts nothing, and keeps its
place of ServerLimit: there may be none for a new one (AH03490 in its log, "scoreboard is full").
"""

from __future__ import annotations

import sys

from trimtab.plants.apache import status
from trimtab.plants.apache.attached import Attached

_LONG_S = 5.0
"""What is under way for longer may be a stream or a WebSocket: nobody knows when it ends."""


def lacking(apache: Attached, limit: int, enough: int = sys.maxsize) -> str:
    """Why a reload would leave too few places for new processes; empty where it leaves enough, or for prefork.

    Args:
        apache: the server.
        limit: MaxRequestWorkers after the reload.
        enough: how many new processes are enough, where that is fewer than serve now.
    """
    if apache.limits.mpm == "prefork":
        return ""
    seen, places = apache.generations(), apache.limits.server_limit
    needed = min(limit // apache.limits.threads_per_child, len(seen.workers), enough)
    if places - len(seen.old) - len(seen.workers) >= needed:
        return ""
    serving = status.serving_s(apache.status_url)  # daemons of a module, such as mod_wsgi's, have no place there
    stay = [pid for pid, since_s in serving.items() if pid in seen.old or since_s > _LONG_S]
    if places - len(stay) >= needed:
        return ""
    many = f"{len(stay)} process{'' if len(stay) == 1 else 'es'}"
    few = "too few" if places > len(stay) else "none"
    return (
        f"{many} with long requests would keep places after a reload, and ServerLimit {places} leaves {few} for new "
        "ones: not reloaded"
    )
