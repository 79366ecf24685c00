"""Sensor: for how long a Tomcat's requests were held back for changes since the window before."""

from __future__ import annotations

from trimtab.core import Metric, Precedence, Readings, Sensor
from trimtab.plants.tomcat.attached import Attached


class HeldBack(Sensor):
    """What changes of ours cost whoever was waiting then; windows begin after a change, so it is of none of them.

    Args:
        tomcat: the running Tomcat.
    """

    name = "tomcat-held"
    precedence = Precedence.COUNTED
    metrics = (Metric("held_s", "s", "time since the window before in which requests were held back for a change"),)

    def __init__(self, tomcat: Attached) -> None:
        self._tomcat = tomcat
        self._before_s = self._told_s = tomcat.held_s

    def begin(self) -> None:
        """Marks the start of a window."""
        self._before_s = self._told_s

    def read(self) -> Readings:
        """The time from the end of the window before to now."""
        self._told_s = self._tomcat.held_s
        return {"held_s": self._told_s - self._before_s}
