"""Sensor: how long the threads of a server wait for a CPU, and how often they are made to give it up.

| reading                      | from                                                                            |
|------------------------------|---------------------------------------------------------------------------------|
| run_queue_delay_s            | waited / times that a thread was put on a CPU                                   |
| run_queue_wait_ratio         | waited / time on a CPU                                                          |
| waiting_threads              | waited / length of the window: by Little's law the mean number that wait        |
| timeslice_rate_hz            | times that a thread was put on a CPU / length of the window                      |
| involuntary_switch_rate_hz   | nonvoluntary_ctxt_switches of /proc/PID/task/TID/status                         |

The first three numbers are those of /proc/PID/task/TID/schedstat: time on a CPU and time waiting for one, in
nanoseconds, and the count of times put on one. A thread that was born in the window counts from its birth. One that
ends counts as far as the last sample saw it, so what it did in its last sampling period is missing. Context switches
are read at the ends of the window alone, so of a thread that ends in it they are missing. A window that begins just
after the last one begins with what was read at that one's end (`_edges`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from trimtab.core.finding import Finding
from trimtab.core.metric import Metric
from trimtab.core.sensor import Clock, Precedence, Sensor
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured, TrimtabError
from trimtab.processes import contents
from trimtab.sensors._edges import fresh_s

_ROOT = Path("/proc")
_SWITCHES = b"nonvoluntary_ctxt_switches:"
Counts = tuple[int, int, int]
"""Time on a CPU and time waiting, in nanoseconds, and times put on a CPU."""
Key = tuple[int, int]


class Thread(Protocol):
    """A thread, by process, id and start time."""

    @property
    def pid(self) -> int:
        """Its process."""
        ...

    @property
    def tid(self) -> int:
        """Its id."""
        ...

    @property
    def start(self) -> int:
        """Its start time."""
        ...


class RunQueue(Sensor):
    """The run queue as the threads of one or more servers see it.

    Args:
        threads: gives the threads that there are now, by id.
        clock: the loop's clock.
        proc: where /proc is.
    """

    name = "run-queue"
    precedence = Precedence.COUNTED
    sampling_period_s = 2.0
    metrics = (
        Metric("run_queue_delay_s", "s", "mean time that a thread which can run waits for a CPU, each time"),
        Metric("run_queue_wait_ratio", "ratio", "time that threads wait for a CPU, of the time they are on one"),
        Metric("waiting_threads", "threads", "time average of threads that can run and wait for a CPU"),
        Metric("timeslice_rate_hz", "Hz", "times per second that a thread is put on a CPU"),
        Metric("involuntary_switch_rate_hz", "Hz", "times per second that a thread has to give up its CPU"),
    )

    def __init__(self, threads: Callable[[], Mapping[int, Thread]], clock: Clock, proc: Path = _ROOT) -> None:
        self._threads = threads
        self._clock = clock
        self._proc = proc
        self._began_s = self._looked_s = 0.0
        self._first: dict[Key, Counts] = {}
        self._latest: dict[Key, Counts] = {}
        self._switches: dict[Key, int] = {}
        self._end: tuple[float, float, dict[Key, Counts], dict[Key, int]] | None = None

    def begin(self) -> None:
        """Marks the start of a window.

        Raises:
            NotMeasured: the servers are gone, or the kernel does not count.
        """
        now_s, end, self._latest, self._end = self._clock.now_s(), self._end, {}, None
        if end is not None and now_s - end[0] <= fresh_s(end[1]):
            self._began_s, _, self._first, self._switches = end
        else:
            there = self._alive()
            self._began_s = self._clock.now_s()
            self._first = self._counts(there)
            if not self._first:
                raise NotMeasured("this kernel counts no waits of threads (schedstat)")
            self._switches = self._involuntary(there)
        self._looked_s = self._began_s

    def sample(self) -> None:
        """Reads every thread that there is, so that little is lost of those that end; not just after it was done.

        Raises:
            NotMeasured: the servers are gone.
        """
        now_s = self._clock.now_s()
        if now_s - self._looked_s >= self.sampling_period_s / 2:
            self._looked_s = now_s
            self._latest |= self._counts(self._alive())

    def read(self) -> Readings:
        """The readings since `begin`.

        Raises:
            NotMeasured: the servers are gone, or no time has passed.
        """
        there = self._alive()
        now_s = self._clock.now_s()
        elapsed_s = now_s - self._began_s
        if elapsed_s <= 0:
            raise NotMeasured("no time has passed since the window began")
        counts = self._counts(there)
        self._latest |= counts
        ran_ns = waited_ns = slices = 0
        for key, (ran, waited, count) in self._latest.items():
            before = self._first.get(key, (0, 0, 0))
            ran_ns, waited_ns, slices = (
                ran_ns + ran - before[0],
                waited_ns + waited - before[1],
                slices + count - before[2],
            )
        switches = self._involuntary(there)
        self._end = now_s, elapsed_s, counts, switches
        forced = sum(count - self._switches.get(key, 0) for key, count in switches.items())
        readings = {
            "waiting_threads": waited_ns / 1e9 / elapsed_s,
            "timeslice_rate_hz": slices / elapsed_s,
            "involuntary_switch_rate_hz": forced / elapsed_s,
        }
        if slices > 0:
            readings["run_queue_delay_s"] = waited_ns / 1e9 / slices
        if ran_ns > 0:
            readings["run_queue_wait_ratio"] = waited_ns / ran_ns
        return readings

    def _alive(self) -> Iterable[Thread]:
        try:
            return self._threads().values()
        except (TrimtabError, OSError) as error:
            raise NotMeasured(str(error)) from None

    def _counts(self, threads: Iterable[Thread]) -> dict[Key, Counts]:
        """The counts of threads that have not ended meanwhile."""
        found = {}
        for one in threads:
            words = self._file(one, "schedstat").split()
            if len(words) == 3:
                found[one.tid, one.start] = (int(words[0]), int(words[1]), int(words[2]))
        return found

    def _involuntary(self, threads: Iterable[Thread]) -> dict[Key, int]:
        """How often each thread had to give up its CPU so far."""
        found = {}
        for one in threads:
            _, name, rest = self._file(one, "status").rpartition(_SWITCHES)
            if name:
                found[one.tid, one.start] = int(rest.split()[0])
        return found

    def _file(self, one: Thread, name: str) -> bytes:
        """A file of a thread; empty when it has ended."""
        try:
            return contents(f"{self._proc}/{one.pid}/task/{one.tid}/{name}")
        except OSError:
            return b""


def probe() -> tuple[Finding, ...]:
    """Whether this kernel counts how long threads wait for a CPU."""
    try:
        words = (_ROOT / "self" / "schedstat").read_bytes().split()
    except OSError:
        words = []
    if len(words) == 3 and int(words[0]) > 0:
        return (Finding("run queue of a server's threads", True, "from /proc/PID/task/TID/schedstat"),)
    why = "this kernel does not count the waits of threads"
    return (Finding("run queue of a server's threads", False, why, "boot a kernel with CONFIG_SCHED_INFO"),)


SENSOR = RunQueue
