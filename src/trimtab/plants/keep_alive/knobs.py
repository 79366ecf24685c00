"""The keep-alive time as a knob."""

from __future__ import annotations

from trimtab.core import How, Knob, Role
from trimtab.gate.keep_alive import DOMAIN

KEEP_ALIVE = "keep_alive_ms"
USUAL_MS = 15_000
"""Assumed for a server's own time where it was not seen, in ms: sugiki2005 starts from it."""
KNOB = Knob(
    KEEP_ALIVE,
    "KeepAliveTimeout",
    "ms",
    DOMAIN,
    USUAL_MS,
    How.LIVE,
    "nothing: only idle connections are ended, and only at their time",
    "After how long a connection that is idle between requests is ended.",
    Role.KEEP_ALIVE,
)
