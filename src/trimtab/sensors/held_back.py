"""Sensor: for how long a server let no request begin for changes of ours, since the window before.

Windows begin after a change, so what it cost whoever came meanwhile is in none of them. It is counted where the
change is made: a reload of Apache or PHP-FPM, a pause or restart of a Tomcat's connector, a restart of MariaDB or of
Squid's worker.
"""

from __future__ import annotations

from typing import Protocol

from trimtab.core.metric import Metric
from trimtab.core.sensor import Precedence, Sensor
from trimtab.core.window import Readings


class Held(Protocol):
    """A server that counts it.

    Attributes:
        held_s: for how long it let no request begin for our changes so far.
    """

    held_s: float


class HeldBack(Sensor):
    """The time since the window before.

    Args:
        server: the running server.
    """

    name = "held-back"
    precedence = Precedence.COUNTED
    metrics = (Metric("held_s", "s", "time since the window before in which a change let no request begin"),)

    def __init__(self, server: Held) -> None:
        self._server = server
        self._before_s = self._told_s = server.held_s

    def begin(self) -> None:
        """Marks the start of a window."""
        self._before_s = self._told_s

    def read(self) -> Readings:
        """The time from the end of the window before to now."""
        self._told_s = self._server.held_s
        return {"held_s": self._told_s - self._before_s}


SENSOR = HeldBack
