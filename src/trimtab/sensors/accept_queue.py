"""Sensor: how long connections wait in the accept queue of a listening socket, and how many come.

The server is not touched. The queue's length is asked of the kernel (`_inet_diag`) at every sample and averaged over
time; the mean delay follows from Little's law, which holds for any arrival and service process:

    W = L / lambda = (integral of q(t) dt over the window) / (connections that entered in the window)

| symbol | here                 | unit        | meaning                                           |
|--------|----------------------|-------------|---------------------------------------------------|
| q(t)   | length               | connections | waiting at time t                                 |
| L      | accept_queue_length  | connections | time average of q, by the trapezoidal rule        |
| lambda | connection_rate_hz   | Hz          | connections that entered the queue (`_arrivals`)  |
| W, AQT | accept_queue_delay_s | s           | mean time from entering the queue to being accepted |
| A      | accept_rate_hz       | Hz          | accepted: those that entered, less what q grew by |

How often to sample: a sample is as likely to see the queue long as the queue is long, however far apart samples
are, so a longer period makes the mean noisier and never wrong on average. Measured over windows of 1 s
(benchmarks/sensors): thinning samples of 1.4 ms to 40 ms adds an error of 0.05 connections where the mean is 0.8 and
differs by 1.0 from window to window; so 40 ms, or 25 samples in a second.

What the figures leave out. A connection that waits across an edge of the window counts with the part that lies within
it: W is that of the window's own connections when the queue is as long at its end as at its start, or changed
little against the number that came. An attempt that found the queue full is not in W but in
`listen_overflow_rate_hz`; its client tries again after 1 s, and so may count more than once. The connections that
trimtab makes to read the status page are subtracted, from those that come and from those that wait: where all workers
are busy for long, up to eight of ours may be the only ones that wait. When connections wait and none comes, W is not
known and absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from trimtab.core.finding import Finding
from trimtab.core.metric import Metric
from trimtab.core.sensor import Clock, Precedence, Sensor
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured
from trimtab.sensors._arrivals import Arrivals, Visitor
from trimtab.sensors._inet_diag import Address, InetDiag, Listening, request
from trimtab.sensors._kernel_file import KernelFile, counter
from trimtab.sensors._metrics import ACCEPT_QUEUE_DELAY, ACCEPT_QUEUE_LENGTH, CONNECTION_RATE
from trimtab.sensors._namespace import in_network_of


class AcceptQueue(Sensor):
    """The accept queues of one server, taken together.

    Args:
        listeners: address and port of each listening socket; "" and "*" stand for every address.
        clock: the loop's clock.
        pid: a process of the server, for its network namespace.
        visitor: whose connections are ours and do not count; None when there is none.
    """

    name = "accept-queue"
    metrics = (
        ACCEPT_QUEUE_DELAY,
        ACCEPT_QUEUE_LENGTH,
        CONNECTION_RATE,
        Metric("accept_rate_hz", "Hz", "connections that the server accepted, per second"),
        Metric(
            "listen_overflow_rate_hz",
            "Hz",
            "connections refused per second because the accept queue was full",
            failed=True,
        ),
    )
    precedence = Precedence.SAMPLED
    sampling_period_s = 0.04

    def __init__(
        self,
        listeners: Sequence[tuple[str, int]],
        clock: Clock,
        pid: int,
        visitor: Visitor | None = None,
    ) -> None:
        self._listeners = tuple(listeners)
        self._clock = clock
        self._pid = pid
        self._visitor = visitor
        self._guest = visitor if visitor is not None and visitor.port in {port for _, port in listeners} else None
        self._queues: Queues | None = None
        self._arrivals: Arrivals | None = None
        self._netstat: KernelFile | None = None
        self._began_s = self._last_s = 0.0
        self._length = self._peak = self._before = 0
        self._area = 0.0
        self._overflows = 0
        self._drops: dict[int, int] = {}

    def begin(self) -> None:
        """Marks the start of a window.

        Raises:
            NotMeasured: the kernel does not say, or nothing listens there.
        """
        queues, arrivals, netstat = self._opened()
        arrivals.mark()
        self._overflows = _overflows(netstat)
        sockets = self._ask(queues)
        self._drops = {s.cookie: s.drops for s in sockets if s.drops is not None}
        self._peak = sum(s.length for s in sockets)
        self._length = self._before = self._without_ours(self._peak)
        self._began_s = self._last_s = self._clock.now_s()
        self._area = 0.0

    def sample(self) -> None:
        """Takes one sample of the length.

        Raises:
            NotMeasured: the listening socket is gone.
        """
        queues = self._opened()[0]
        try:
            self._add(queues.length())
        except NotMeasured:
            self.close()
            raise

    def read(self) -> Readings:
        """The readings since `begin`; the delay is absent when no connection came.

        Raises:
            NotMeasured: the listening socket is gone, or no time has passed.
        """
        sockets = self._take()
        _, arrivals, netstat = self._opened()
        elapsed_s = self._last_s - self._began_s
        if elapsed_s <= 0:
            raise NotMeasured("no time has passed since the window began")
        came = arrivals.since_mark()
        readings = {
            "accept_queue_length": self._area / elapsed_s,
            "connection_rate_hz": came / elapsed_s,
            "accept_rate_hz": max(0, came - (self._length - self._before)) / elapsed_s,
            "listen_overflow_rate_hz": self._refused(sockets, netstat, came) / elapsed_s,
        }
        if came > 0:
            readings["accept_queue_delay_s"] = self._area / came  # Little's law: L / lambda
        return readings

    def length(self) -> int:
        """Connections that wait now.

        Raises:
            NotMeasured: the listening socket is gone.
        """
        return self._opened()[0].length()

    def close(self) -> None:
        """Closes descriptors; may be called twice."""
        for part in (self._queues, self._arrivals, self._netstat):
            if part is not None:
                part.close()
        self._queues = self._arrivals = self._netstat = None

    def arrival_source(self) -> str:
        """Source of the number of connections, in words.

        Raises:
            NotMeasured: as `begin`.
        """
        return self._opened()[1].source

    def _opened(self) -> tuple[Queues, Arrivals, KernelFile]:
        """Sources of the readings, opened where they are not."""
        if self._queues is None or self._arrivals is None or self._netstat is None:
            self.close()
            try:
                self._queues = Queues(self._listeners, self._pid)
                self._arrivals = Arrivals(self._queues.ports, self._pid, self._visitor)
                self._netstat = KernelFile(Path(f"/proc/{self._pid}/net/netstat"))
            except NotMeasured:
                self.close()
                raise
        return self._queues, self._arrivals, self._netstat

    def _ask(self, queues: Queues) -> list[Listening]:
        """The sockets as they are now; when one is gone, the next `begin` looks for them again."""
        try:
            return queues.now()
        except NotMeasured:
            self.close()
            raise

    def _take(self) -> list[Listening]:
        """Takes one sample; returns the sockets."""
        sockets = self._ask(self._opened()[0])
        self._add(sum(s.length for s in sockets))
        return sockets

    def _add(self, length: int) -> None:
        """Adds the time since the last sample to the integral, by the trapezoidal rule."""
        self._peak = max(self._peak, length)
        length = self._without_ours(length)
        now_s = self._clock.now_s()
        self._area += (self._length + length) / 2 * (now_s - self._last_s)
        self._length, self._last_s = length, now_s

    def _without_ours(self, length: int) -> int:
        """Those of the connections that wait which are not ours."""
        return length if self._guest is None else max(0, length - self._guest.ours())

    def _refused(self, sockets: list[Listening], netstat: KernelFile, came: int) -> int:
        """Attempts that found a full queue since `begin`: the least number that the kernel's counters allow.

        It counts overflows for the whole network namespace, and for each socket all drops, whatever the reason (with
        TCP_DEFER_ACCEPT the bare third packet of every handshake is one). And no queue can have been full that
        was not with all that came added to the most that a sample saw.
        """
        if self._peak + came < min(s.limit for s in sockets):
            return 0
        overflows = _overflows(netstat) - self._overflows
        if any(s.drops is None for s in sockets):
            return overflows
        return min(overflows, sum((s.drops or 0) - self._drops.get(s.cookie, 0) for s in sockets))


class Queues:
    """The listening sockets of a server, found once and then asked as cheaply as the kernel allows.

    Args:
        listeners: address and port of each.
        pid: a process of the server, for its network namespace.

    Raises:
        NotMeasured: the kernel does not say, or nothing listens there.
    """

    def __init__(self, listeners: Sequence[tuple[str, int]], pid: int) -> None:
        if not listeners:
            raise NotMeasured("it listens at no TCP port")
        self.ports = sorted({port for _, port in listeners})
        self._diag = in_network_of(pid, InetDiag)
        try:
            found: Counter[Address] = Counter()
            for host, port in listeners:
                found |= self._diag.matching(host, port)
        except NotMeasured:
            self._diag.close()
            raise
        self._alone = [address for address, sockets in found.items() if sockets == 1]
        self._questions = [(address, bytearray(request(address, 0, dump=False))) for address in self._alone]
        self._groups = {address for address, sockets in found.items() if sockets > 1}

    def length(self) -> int:
        """Connections that wait at all of them.

        Raises:
            NotMeasured: one is gone.
        """
        if self._groups:
            return sum(s.length for s in self.now())
        return sum(self._diag.length(address, question) for address, question in self._questions)

    def waiting(self) -> tuple[int, int]:
        """Connections that wait at all of them, and how many may where the fewest may.

        Raises:
            NotMeasured: one is gone.
        """
        sockets = self.now()
        return sum(s.length for s in sockets), min(s.limit for s in sockets)

    def now(self) -> list[Listening]:
        """The sockets as they are now.

        Raises:
            NotMeasured: one is gone.
        """
        sockets = [self._diag.find(address) for address in self._alone]
        for asked in {(a.family, a.port): a for a in self._groups}.values():
            sockets += [s for s in self._diag.on_port(asked) if s.address in self._groups]
        if not sockets:
            raise NotMeasured(f"nothing listens on port {self.ports[0]} any more")
        return sockets

    def close(self) -> None:
        """Closes the netlink socket; may be called twice."""
        self._diag.close()


def _overflows(netstat: KernelFile) -> int:
    return counter(netstat.read(), b"TcpExt", b"ListenOverflows")


def probe(listeners: Sequence[tuple[str, int]], pid: int, clock: Clock) -> tuple[Finding, ...]:
    """Findings on this sensor for a server.

    Args:
        listeners: address and port of each listening socket.
        pid: a process of the server.
        clock: the loop's clock.
    """
    where = ", ".join(f"{host or '*'}:{port}" for host, port in listeners)
    sensor = AcceptQueue(listeners, clock, pid)
    try:
        sensor.begin()
        source = sensor.arrival_source()
    except NotMeasured as error:
        enable = "run trimtab as root" if "namespace" in str(error) else "modprobe inet_diag tcp_diag"
        return (Finding(f"accept queue of {where}", False, str(error), enable),)
    finally:
        sensor.close()
    exact = not source.startswith("PassiveOpens")
    return (
        Finding(f"accept queue of {where}", True, "length by netlink inet_diag"),
        Finding(
            f"connections to {where}",
            True,
            f"counted by {source}",
            "" if exact else "run as root (or with CAP_PERFMON and a readable tracefs) to count these ports alone",
        ),
    )


SENSOR = AcceptQueue
