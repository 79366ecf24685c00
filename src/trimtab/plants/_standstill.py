"""How long a reload lets no new request begin, and how long connections wait longer for it.

    waited = integral of max(0, q(t) - q(0)) dt

with q(t) the length of the accept queue, by the trapezoidal rule, from the start of the standstill until the reload
is done: so it counts what waits on after the standstill too, and not what waited before. Where the queue was full,
more came than it shows, and it is not known.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from trimtab.core import Clock
from trimtab.errors import NotMeasured
from trimtab.sensors.held_back import Held

Seen = TypeVar("Seen")


class Queue(Protocol):
    """An accept queue."""

    def waiting(self) -> tuple[int, int]:
        """Connections that wait now, and how many may.

        Raises:
            NotMeasured: nothing listens there any more.
        """
        ...

    def close(self) -> None:
        """Closes descriptors; may be called twice."""
        ...


class Standstill:
    """One of them.

    Args:
        clock: the loop's clock.
        queue: opens the server's accept queue; raises NotMeasured where it cannot be seen.

    Attributes:
        duration_s: how long it lasted; 0 before it has ended.
        waited_s: for how long connections waited in sum, in seconds; None where that is not known.
    """

    def __init__(self, clock: Clock, queue: Callable[[], Queue]) -> None:
        self.duration_s = 0.0
        self.waited_s: float | None = 0.0
        self._clock = clock
        self._began_s: float | None = None
        self._over = False
        self._last_s = 0.0
        self._before = self._more = 0
        self._queue: Queue | None = None
        try:
            self._queue = queue()
        except NotMeasured:
            self.waited_s = None

    def begin(self) -> None:
        """From now on nothing begins, if it has not begun before."""
        if self._began_s is None:
            self._began_s = self._last_s = self._clock.now_s()
            self._before = self._length()

    def end(self) -> None:
        """The first request can begin."""
        assert self._began_s is not None
        self.look()
        self.duration_s, self._over = self._clock.now_s() - self._began_s, True

    def look(self) -> None:
        """Counts what waits."""
        if self._began_s is None or self.waited_s is None:
            return
        more = max(0, self._length() - self._before)
        now_s = self._clock.now_s()
        if self.waited_s is not None:
            self.waited_s += (self._more + more) / 2 * (now_s - self._last_s)
        self._more, self._last_s = more, now_s

    def during(self, seen: Seen) -> Seen:
        """What was seen of something else, with a look at the queue."""
        self.look()
        return seen

    def close(self) -> None:
        """Closes the queue; in a reload that has failed it ends here as far as is known."""
        if self._began_s is not None and not self._over:
            self.end()
        if self._queue is not None:
            self._queue.close()

    @contextlib.contextmanager
    def counted(self, server: Held) -> Iterator[None]:
        """Closes it in the end, and counts it for a server, also where the reload fails."""
        try:
            yield
        finally:
            self.close()
            server.held_s += self.duration_s

    def _length(self) -> int:
        """Connections that wait now; what cannot be known is not known from then on."""
        if self._queue is not None:
            with contextlib.suppress(NotMeasured):
                length, most = self._queue.waiting()
                if length < most:
                    return length
        self.waited_s = None
        return 0
