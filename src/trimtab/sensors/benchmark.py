"""Sensor: a benchmark program's score of a server, run once in each window.

The program is started with the window and runs about as long; its result is waited for when the window is read. It
stands at the clients' side, so it costs the server nothing but the requests that it is there to make.
"""

from __future__ import annotations

from collections.abc import Callable

from trimtab.core.metric import Metric
from trimtab.core.sensor import Precedence, Sensor
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured

Result = Callable[[], Readings]
"""Waits until a run has ended, and gives its readings; raises NotMeasured where it failed."""


class Benchmark(Sensor):
    """A benchmark program in each window.

    Args:
        start: starts one run, and gives what waits for its result.
    """

    name = "benchmark"
    precedence = Precedence.CLIENTS
    cheap = False
    metrics = (
        Metric("benchmark_score", "points", "score of a benchmark program, in its own unit; more is better"),
        Metric("benchmark_p99_s", "s", "99th percentile of the times that a benchmark program's requests took"),
        Metric("benchmark_errors", "requests", "requests of a benchmark program that failed"),
    )

    def __init__(self, start: Callable[[], Result]) -> None:
        self._start = start
        self._result: Result | None = None

    def begin(self) -> None:
        """Starts a run; the one before has been read, or is waited for."""
        if self._result is not None:
            self.read()
        self._result = self._start()

    def read(self) -> Readings:
        """The result of the run that began with the window.

        Raises:
            NotMeasured: it failed, or it has been read.
        """
        result, self._result = self._result, None
        if result is None:
            raise NotMeasured("benchmark: no run is under way")
        return result()

    def close(self) -> None:
        """Waits for a run that nobody has read."""
        try:
            self.read()
        except NotMeasured:
            return


SENSOR = Benchmark
