"""Base of the sensors that read the shim's mapped file."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from trimtab.core.sensor import Clock, Precedence
from trimtab.core.window import Readings
from trimtab.sensors._arrivals import Visitor
from trimtab.sensors._counter_window import CounterWindow, State
from trimtab.sensors._own_requests import Own, OwnRequests
from trimtab.sensors._shared_file import SharedFile

_LOOK_S = 0.35


class MappedWindow(CounterWindow[tuple[State, Own]]):
    """Differences of cumulative counters in one server's mapped file.

    Args:
        path: the mapped file.
        clock: the loop's clock.
        visitor: whose requests are ours and do not count; None when there is none.
    """

    precedence = Precedence.COUNTED

    def __init__(self, path: Path, clock: Clock, visitor: Visitor | None = None) -> None:
        super().__init__(clock)
        self._path = path
        self._file: SharedFile | None = None
        self._own = OwnRequests(visitor)
        self.sampling_period_s = 0.0 if visitor is None else _LOOK_S

    @abstractmethod
    def counters(self, file: SharedFile) -> State:
        """The counters in the file as they are now."""

    @abstractmethod
    def readings(self, elapsed_s: float, first: State, last: State) -> Readings:
        """The readings between two states, as `differences`."""

    def without(self, first: State, last: State, began: Own, ended: Own) -> State:
        """A state at the end of a window less what our own requests have added to it; as it is where nobody asks."""
        return last

    def state(self) -> tuple[State, Own]:
        """The counters as they are now, and our own requests.

        Raises:
            NotMeasured: the mapped file cannot be read.
        """
        file = self._opened()
        own = self._own.look(file.counters().requests)
        return self.counters(file), own

    def sample(self) -> None:
        """Looks whether our own requests are counted.

        Raises:
            NotMeasured: the mapped file cannot be read.
        """
        self._own.look(self._opened().counters().requests)

    def differences(self, elapsed_s: float, first: tuple[State, Own], last: tuple[State, Own]) -> Readings:
        """The readings between two states, without our own requests."""
        return self.readings(elapsed_s, first[0], self.without(first[0], last[0], first[1], last[1]))

    def _opened(self) -> SharedFile:
        if self._file is None:
            self._file = SharedFile(self._path)
        return self._file

    def close(self) -> None:
        """Unmaps the file; may be called twice."""
        self.forget()
        if self._file is not None:
            self._file.close()
            self._file = None
