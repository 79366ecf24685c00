"""Base of the sensors that read the shim's mapped file: two states of its counters make a window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Generic, TypeVar

from trimtab.core.plant import Clock, Precedence, Sensor
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured
from trimtab.sensors._shared_file import SharedFile

_FRESH_S = 0.01
"""A window that begins this soon after the last was read begins with that reading."""
State = TypeVar("State")


class MappedWindow(Sensor, ABC, Generic[State]):
    """Differences of cumulative counters in one server's mapped file.

    Args:
        path: the mapped file.
        clock: the loop's clock.
    """

    precedence = Precedence.COUNTED

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._file: SharedFile | None = None
        self._mark: tuple[float, State] | None = None
        self._last: tuple[float, State] | None = None

    @abstractmethod
    def state(self, file: SharedFile) -> State:
        """The counters as they are now."""

    @abstractmethod
    def differences(self, elapsed_s: float, first: State, last: State) -> Readings:
        """The readings between two states.

        Raises:
            NotMeasured: no time is between them, or they tell nothing.
        """

    def begin(self) -> None:
        """Marks the start of a window.

        Raises:
            NotMeasured: the mapped file cannot be read.
        """
        if self._file is None:
            self._file = SharedFile(self._path)
        if self._last is not None and self._clock.now_s() - self._last[0] < _FRESH_S:
            self._mark = self._last
        else:
            self._mark = self._clock.now_s(), self.state(self._file)

    def read(self) -> Readings:
        """The readings since `begin`; a mean over nothing is absent.

        Raises:
            NotMeasured: no time has passed, or the counters tell nothing.
        """
        if self._file is None or self._mark is None:
            raise NotMeasured("the window has not begun")
        self._last = self._clock.now_s(), self.state(self._file)
        return self.differences(self._last[0] - self._mark[0], self._mark[1], self._last[1])

    def close(self) -> None:
        """Unmaps the file; may be called twice."""
        if self._file is not None:
            self._file.close()
            self._file = self._mark = self._last = None
