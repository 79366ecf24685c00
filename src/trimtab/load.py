"""A run of the load generator: started here, read by a thread, asked for the events since a moment."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from trimtab import codec
from trimtab.core.sensor import Clock
from trimtab.errors import NativeError, UsageError
from trimtab.load_reports import Interval, Summary
from trimtab.native import Native
from trimtab.workloads._population import LONGEST_S, SHORTEST_INTERVAL_S, Population, required

_KEPT_INTERVALS = 4096
_SOURCES = ip_network("127.0.0.0/8")
_PATIENCE_S = 10.0


class Received(NamedTuple):
    """An interval and when its report came, on the run's clock."""

    at_s: float
    interval: Interval


class LoadRun:
    """Traffic against one server, from now until it is stopped or its duration is over.

    Reports are read as they come, so neither side waits for the other; the last 4096 intervals are kept.

    Args:
        target: address and port of the server, such as "127.0.0.1:8080" or "[::1]:80"; not a host name.
        populations: the clients; those of one class name are reported as one.
        duration_s: length of the run, in seconds.
        clock: the clock on which intervals are dated.
        interval_s: distance of the interval reports, in seconds.
        seed: source of all randomness.
        host: value of the Host header; the target where it is not given.
        allow_remote: permit a target outside 127.0.0.0/8 and ::1.
        cpu: the core to which the generator is pinned; None leaves it free.
        measured: from when until when, in seconds since its start, the summary of a graph's pages speaks; None: all.

    Raises:
        UsageError: no populations, a time that is not positive or too long, a source from which the target cannot be
            reached, or no such core.
        NativeError: the generator did not start.
    """

    def __init__(
        self,
        target: str,
        populations: Sequence[Population],
        duration_s: float,
        clock: Clock,
        *,
        interval_s: float = 0.2,
        seed: int = 1,
        host: str | None = None,
        allow_remote: bool = False,
        cpu: int | None = None,
        measured: tuple[float, float] | None = None,
    ) -> None:
        required(bool(populations), "populations", "()", "at least one")
        for source in (one.source for one in populations if one.source):
            near = ip_address(target.rpartition(":")[0].strip("[]")) in _SOURCES
            required(near, "source", source, f"left out: from there no way leads to {target}")
        allowed = f"more than 0 and at most {LONGEST_S:g} s"
        required(0 < duration_s <= LONGEST_S, "duration", f"{duration_s:g} s", allowed)
        allowed = f"{SHORTEST_INTERVAL_S:g} to {LONGEST_S:g} s"
        required(SHORTEST_INTERVAL_S <= interval_s <= LONGEST_S, "interval", f"{interval_s:g} s", allowed)
        self._clock = clock
        self._changed = threading.Condition()
        self._intervals: deque[Received] = deque(maxlen=_KEPT_INTERVALS)
        self._count = 0
        self._waited_s = 0.0
        self._summary: Summary | None = None
        self._error: NativeError | None = None
        self._remarks = ""
        self._native = Native("load")
        try:
            if cpu is not None:
                _pin(self._native.pid, cpu)
            self._native.send(
                {
                    "target": target,
                    "host": host or target,
                    "populations": [population.to_wire() for population in populations],
                    "duration_s": duration_s,
                    "interval_s": interval_s,
                    "seed": seed,
                    "allow_remote": allow_remote,
                    "measured": measured and {"from_s": measured[0], "until_s": measured[1]},
                }
            )
        except BaseException:
            self._native.close()
            raise
        self._reader = threading.Thread(target=self._read, name="load-reports", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Process id of the generator."""
        return self._native.pid

    @property
    def remarks(self) -> str:
        """The generator's remarks on a run that has ended well, such as a limit of this machine that it met."""
        return self._remarks

    def intervals_since(self, at_s: float) -> list[Interval]:
        """The intervals of which at least the later half lies after a moment, oldest first.

        Args:
            at_s: the moment, on the clock of this run.

        Raises:
            NativeError: the generator has failed; the message carries its standard error.
        """
        with self._changed:
            self._check()
            return [one.interval for one in self._intervals if one.at_s - one.interval.duration_s / 2 >= at_s]

    @property
    def waited_s(self) -> float:
        """Seconds that all requests so far have waited for their replies, answered or not.

        One that failed earlier counts until its time-out: what turns clients away at once does not serve them.
        """
        return self._waited_s

    def follow(self) -> Iterator[Interval]:
        """The intervals as they come, from the first one kept, until the run has ended.

        Raises:
            NativeError: the generator has failed.
        """
        seen = 0
        while True:
            fresh, seen = self._after(seen)
            if not fresh:
                with self._changed:
                    self._check()
                return
            yield from fresh

    def wait(self) -> Summary:
        """The summary, when the run has come to its own end.

        Raises:
            NativeError: the generator has failed.
        """
        self._reader.join()
        return self._result()

    def stop(self) -> Summary:
        """Ends the run now and gives its summary; that of a run that has ended already is the same.

        Raises:
            NativeError: the generator has failed, or does not end.
        """
        self._ask_to_stop()
        self._reader.join(_PATIENCE_S)
        if self._reader.is_alive():
            raise NativeError(f"the load generator did not end within {_PATIENCE_S:g} s of being asked to")
        return self._result()

    def close(self) -> None:
        """Ends the generator, by force when it does not listen; may be called twice."""
        self._ask_to_stop()
        self._reader.join(_PATIENCE_S)
        if self._reader.is_alive():
            os.kill(self._native.pid, signal.SIGKILL)
            self._reader.join()
        self._native.close()

    def __enter__(self) -> LoadRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _over(self) -> bool:
        return self._summary is not None or self._error is not None

    def _after(self, seen: int) -> tuple[list[Interval], int]:
        """Waits for intervals after the first `seen`; none means that the run is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._count > seen or self._over)
            fresh = min(self._count - seen, len(self._intervals))
            return [one.interval for one in list(self._intervals)[len(self._intervals) - fresh :]], self._count

    def _read(self) -> None:
        """The reader thread: takes every report until the generator ends."""
        error: NativeError | None = None
        try:
            for line in self._native:
                self._take(codec.decode(line, Interval | Summary))  # type: ignore[arg-type]
            self._remarks = self._native.remarks()
        except NativeError as failure:
            error = failure
        except ValueError as failure:
            error = NativeError(f"the load generator sent what is not its protocol: {failure}")
        if error is None and self._summary is None:
            error = NativeError("the load generator ended without a summary")
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _take(self, report: Interval | Summary) -> None:
        with self._changed:
            if isinstance(report, Summary):
                self._summary = report
            else:
                self._intervals.append(Received(self._clock.now_s(), report))
                self._count += 1
                self._waited_s += report.waited_s + report.patience_left_s
            self._changed.notify_all()

    def _ask_to_stop(self) -> None:
        # A generator that has ended cannot be told; the reader has its messages, or will have.
        if self._reader.is_alive() and not self._over:
            with contextlib.suppress(NativeError):
                self._native.send({"type": "stop"})

    def _result(self) -> Summary:
        with self._changed:
            self._check()
            assert self._summary is not None
            return self._summary

    def _check(self) -> None:
        if self._error is not None:
            raise self._error


def _pin(pid: int, cpu: int) -> None:
    try:
        os.sched_setaffinity(pid, {cpu})
    except (OSError, ValueError, OverflowError):
        allowed = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        raise UsageError(f"cpu {cpu} is not a core that may be used here: there are {allowed}") from None
