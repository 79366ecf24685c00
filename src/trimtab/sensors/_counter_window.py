"""Base of sensors whose readings are differences of cumulative counters: two states of them make a window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from trimtab.core.sensor import Clock, Sensor
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured

_FRESH_S = 0.01
"""A window that begins this soon after the last was read begins with that reading."""
State = TypeVar("State")


class CounterWindow(Sensor, ABC, Generic[State]):
    """Differences of cumulative counters.

    Args:
        clock: the loop's clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mark: tuple[float, State] | None = None
        self._last: tuple[float, State] | None = None

    @abstractmethod
    def state(self) -> State:
        """The counters as they are now.

        Raises:
            NotMeasured: they cannot be read.
        """

    @abstractmethod
    def differences(self, elapsed_s: float, first: State, last: State) -> Readings:
        """The readings between two states; a mean over nothing is absent.

        Args:
            elapsed_s: time between them, above 0.
            first: the state at the start.
            last: the state at the end.

        Raises:
            NotMeasured: they tell nothing.
        """

    def begin(self) -> None:
        """Marks the start of a window.

        Raises:
            NotMeasured: the counters cannot be read.
        """
        last, self._mark = self._last, None
        fresh = last is not None and self._clock.now_s() - last[0] < _FRESH_S
        self._mark = last if fresh else self._now()

    def read(self) -> Readings:
        """The readings since `begin`.

        Raises:
            NotMeasured: no time has passed, or the counters tell nothing.
        """
        if self._mark is None:
            raise NotMeasured("the window has not begun")
        (began_s, first), (now_s, last) = self._mark, self._now()
        self._last = now_s, last
        if now_s <= began_s:
            raise NotMeasured("no time has passed since the window began")
        return self.differences(now_s - began_s, first, last)

    def forget(self) -> None:
        """Forgets both states, as where their source is another from now on."""
        self._mark = self._last = None

    def _now(self) -> tuple[float, State]:
        state = self.state()
        return self._clock.now_s(), state
