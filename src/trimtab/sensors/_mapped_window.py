"""Base of the sensors that read the shim's mapped file."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from trimtab.core.plant import Clock, Precedence
from trimtab.sensors._counter_window import CounterWindow, State
from trimtab.sensors._shared_file import SharedFile


class MappedWindow(CounterWindow[State]):
    """Differences of cumulative counters in one server's mapped file.

    Args:
        path: the mapped file.
        clock: the loop's clock.
    """

    precedence = Precedence.COUNTED

    def __init__(self, path: Path, clock: Clock) -> None:
        super().__init__(clock)
        self._path = path
        self._file: SharedFile | None = None

    @abstractmethod
    def counters(self, file: SharedFile) -> State:
        """The counters in the file as they are now."""

    def state(self) -> State:
        """The counters as they are now.

        Raises:
            NotMeasured: the mapped file cannot be read.
        """
        if self._file is None:
            self._file = SharedFile(self._path)
        return self.counters(self._file)

    def close(self) -> None:
        """Unmaps the file; may be called twice."""
        self.forget()
        if self._file is not None:
            self._file.close()
            self._file = None
