"""Sensor: the connections that a server holds, and those with a request under way, asked of the kernel.

A status page is served by the workers that it reports on, so in an overload it waits behind the very queue that it
should report. The kernel answers at once: it lists the connections to a port, filtered there, and tells of each

- whether the server has accepted it: only then does an inode belong to it;
- whether a request is under way on it: there are bytes that the server has not read, or that are not sent yet, or
  data has come in since the server last sent any.

Averaged over time by the trapezoidal rule:

| symbol | here                | unit        | meaning                                                           |
|--------|---------------------|-------------|-------------------------------------------------------------------|
| N      | open_connections    | connections | accepted and not closed                                           |
| R      | requests_under_way  | requests    | those of N with a request under way                               |
| N - R  | idle_connections    | connections | the others: nothing was asked yet, or all is answered             |
| N      | busy_workers        | workers     | where a worker serves one connection to its end (prefork, worker) |
| N - R  | idle_held_workers   | workers     | likewise: these wait for an idle connection                       |
| R      | busy_workers        | workers     | where a worker serves one request (event)                         |
| W      | residence_s         | s           | N / accept_rate_hz, by Little's law (`_eq1`)                      |
| H      | handshake_s         | s           | mean of a round trip to each client, of two where its port is TLS |

H is what a client waits, with nothing of the server's in it, before a new connection carries its first request: the
least round trip that the kernel has seen on each connection (tcpi_min_rtt), for TCP's handshake, and once more for
that of TLS 1.3 or of a session that goes on. Behind a proxy it is the proxy's. Only where a reply has been received
does it count: a handshake takes longer while the server's own queue is full.

cut_rate_hz is how many connections a second a quarter of the keep-alive time T would end that now last longer. How
many idle connections are of an age, between it and it + d, is d times how many idle periods a second come to it. So
it is (those of T/4 to T/2, less those beyond 3T/4, whom T itself ends soon) / (T/4), which is rather too little: the
longer an idle period the rarer. Whose client would have closed it, and not asked again, is counted all the same.

Where a status page answers, its count of workers goes before these.

How far R can be trusted. Times are in ticks of the kernel (4 ms at 250 Hz). Where the last data came in and went out
in the same tick, an acknowledgement that came later, or is missing, tells that the reply was last. Where neither
does (the client is nearer than a tick), more data segments in than out mean a request: a client that asks again
within a tick of a reply of several segments counts as idle. A reply that pauses before its end counts as answered, a
TLS handshake as a request. N has none of these doubts. A gate holds connections to the same port, which are then not
the server's, so nothing is measured under one.

What it costs: the kernel walks its whole table of connections (1.6 ms for 262,144 slots, however few are used), once
for each address family in which the server listens. Samples, that at the end of a window with them, are as far apart
as keeps that below `_SHARE` of a core; a window has one at least.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from trimtab.core.sensor import Clock, Precedence, Sensor
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured
from trimtab.sensors import _inet_diag
from trimtab.sensors._edges import fresh_s
from trimtab.sensors._inet_diag import Address, InetDiag
from trimtab.sensors._metrics import (
    BUSY_WORKERS,
    CUT_RATE,
    HANDSHAKE,
    IDLE_CONNECTIONS,
    IDLE_HELD_WORKERS,
    OPEN_CONNECTIONS,
    REQUESTS_UNDER_WAY,
)
from trimtab.sensors._namespace import in_network_of
from trimtab.sensors._shared_file import SharedFile

_SHARE = 0.0025
"""Most CPU time, as a share of a core: a quarter of the most that all sensors may take together."""
_INFO = 2
"""INET_DIAG_INFO."""
_BYTECODE = 1
_JUMP, _LOCAL_ADDRESS = 1, 7
_ESTABLISHED, _CLOSE_WAIT = 1, 8
_STATES = sum(1 << state for state in (_ESTABLISHED, 4, 5, _CLOSE_WAIT, 9, 11))
"""ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING: the states in which a server holds a socket."""
_QUEUES = struct.Struct("=IIII")
_ATTRIBUTE = struct.Struct("=HH")
_AT_STATE, _AT_PORT, _AT_QUEUES, _AT_ATTRIBUTES = 17, 20, 72, 88
_PORT = struct.Struct("!H")
_TCP_INFO = struct.Struct("=24xI16xI4xII84xIIII")
"""tcp_info: unacked, last_data_sent, _recv, last_ack_recv, notsent_bytes, min_rtt, data_segs_in, data_segs_out."""
_NO_ROUND_TRIP = 0xFFFFFFFF
"""min_rtt where none was seen yet."""
_FARTHEST_US = 1_000_000
"""More is no distance (by satellite it is 0.6 s): such a client answers late, and may mean to."""


class Worker(Enum):
    """How long a worker of the server is bound."""

    CONNECTION = "a connection to its end"
    REQUEST = "one request"

    @staticmethod
    def of(mpm: str) -> Worker:
        """How long a worker of this MPM of Apache is bound; the event MPM needs none for an idle connection."""
        return Worker.REQUEST if mpm == "event" else Worker.CONNECTION


class Connection(NamedTuple):
    """A connection that the server has accepted and not closed, as the kernel sees it.

    Args:
        closing: whether the server has said that it sends no more, and only waits for the client's end.
        unread_bytes: received and not read by the server.
        unacked_segments: sent and not acknowledged.
        unsent_bytes: written by the server and not sent.
        sent_ms: how long ago data was last sent, in ms; since it began where none was.
        received_ms: how long ago data was last received, in ms.
        acknowledged_ms: how long ago a segment last acknowledged, in ms.
        segments_in: segments with data so far, from the client.
        segments_out: segments with data so far, from the server.
        round_trip_us: the least round trip to the client so far, in microseconds; None where none was seen.
        port: the server's port.
    """

    closing: bool
    unread_bytes: int
    unacked_segments: int
    unsent_bytes: int
    sent_ms: int
    received_ms: int
    acknowledged_ms: int
    segments_in: int
    segments_out: int
    round_trip_us: int | None = None
    port: int = 0

    @property
    def under_way(self) -> bool:
        """Whether a request has come, in part or whole, and its reply has not been sent."""
        if self.unsent_bytes or (self.unread_bytes and not self.closing):
            return True
        if self.segments_in == 0 or self.closing:
            return False
        if self.received_ms != self.sent_ms:
            return self.received_ms < self.sent_ms
        if self.unacked_segments or self.acknowledged_ms < self.received_ms:
            return False
        return self.segments_in > self.segments_out


def question(family: int, addresses: Iterable[Address]) -> bytearray:
    """A dump of the connections of one family whose local end is one of these addresses.

    The filter is the kernel's bytecode (inet_diag.h): of each operation the second number says how far to go on where
    it holds, the third where it does not; who ends just at the end is listed.
    """
    blocks = [
        struct.pack("=BBxxi", socket.AF_UNSPEC, 0, address.port)
        if address.wildcard()
        else struct.pack("=BBxxi", family, 8 * len(address.packed), address.port) + address.packed
        for address in addresses
    ]
    program = bytearray()
    left = sum(8 + len(block) for block in blocks)
    for block in blocks:
        size = 8 + len(block)
        left -= size
        # Where it fails the next address is tried; past the last one is past the end by 4: not listed.
        program += struct.pack("=BBH", _LOCAL_ADDRESS, size - 4, size + (0 if left else 4)) + block
        program += struct.pack("=BBH", _JUMP, 4, 4 + left)
    body = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _STATES) + bytes(36)
    body += struct.pack("=IQ", 0, _inet_diag.ANY_COOKIE) + _ATTRIBUTE.pack(4 + len(program), _BYTECODE) + program
    flags = _inet_diag.NLM_F_REQUEST | _inet_diag.NLM_F_DUMP
    return bytearray(struct.pack("=IHHII", 16 + len(body), _inet_diag.SOCK_DIAG_BY_FAMILY, flags, 0, 0) + body)


def connection(message: bytes | memoryview) -> Connection | None:
    """One connection from the message about it, header included; None where the server does not have it.

    Raises:
        NotMeasured: this kernel does not tell enough of it.
    """
    state = message[_AT_STATE]
    unread, _, _, inode = _QUEUES.unpack_from(message, _AT_QUEUES)
    if inode == 0:
        return None
    at = _AT_ATTRIBUTES
    while at + _ATTRIBUTE.size <= len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == _INFO and _ATTRIBUTE.size + _TCP_INFO.size <= size <= len(message) - at:
            unacked, sent, received, acked, unsent, trip_us, came, went = _TCP_INFO.unpack_from(
                message, at + _ATTRIBUTE.size
            )
            if state == _CLOSE_WAIT:
                unread = max(0, unread - 1)  # the client's FIN counts as a byte until the server has read the end
            closing = state not in (_ESTABLISHED, _CLOSE_WAIT)
            trip, (port,) = None if trip_us == _NO_ROUND_TRIP else trip_us, _PORT.unpack_from(message, _AT_PORT)
            return Connection(closing, unread, unacked, unsent, sent, received, acked, came, went, trip, port)
        at += max(_ATTRIBUTE.size, (size + 3) & ~3)
    raise NotMeasured("this kernel does not tell of the segments of a connection (tcp_info): Linux 4.6 does")


class Connections(Sensor):
    """The connections of one server.

    Args:
        listeners: address and port of each listening socket, as for the accept queue.
        clock: the loop's clock.
        pid: a process of the server, for its network namespace.
        worker: how long a worker is bound; None where there are none to count.
        shared: the mapped file of the shim, which tells whether a gate is in front; None without one.
        tls: the ports at which a client has to shake hands once more.
        kept_ms: the keep-alive time in force, in ms; 0 where that is not known.
    """

    name = "connections"
    metrics = (
        OPEN_CONNECTIONS,
        REQUESTS_UNDER_WAY,
        IDLE_CONNECTIONS,
        BUSY_WORKERS,
        IDLE_HELD_WORKERS,
        HANDSHAKE,
        CUT_RATE,
    )
    precedence = Precedence.INFERRED
    sampling_period_s = 0.25
    cheap = True

    def __init__(
        self,
        listeners: Sequence[tuple[str, int]],
        clock: Clock,
        pid: int,
        worker: Worker | None = None,
        shared: Path | None = None,
        tls: frozenset[int] = frozenset(),
        kept_ms: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._listeners = tuple(listeners)
        self._clock = clock
        self._pid = pid
        self._worker = worker
        self._shared = shared
        self._tls = tls
        self._kept_ms = kept_ms
        self._diag: InetDiag | None = None
        self._questions: list[bytearray] = []
        self._began_s = self._last_s = self._window_s = 0.0
        self._held = self._under_way = 0
        self._held_area = self._under_way_area = 0.0
        self._handshakes_s, self._seen = 0.0, 0
        self._quarter_ms, self._cut, self._samples = 0.0, 0, 0
        self._costs_s = (0.0, 0.0)

    def begin(self) -> None:
        """Marks the start of a window.

        Raises:
            NotMeasured: the kernel does not say, nothing listens there, or a gate is in front.
        """
        if self._diag is None:
            self._open()
            self._take()
        elif self._clock.now_s() - self._last_s > fresh_s(self._last_s - self._began_s):
            self._take()
        self._began_s = self._last_s
        self._held_area = self._under_way_area = 0.0
        self._handshakes_s, self._seen = 0.0, 0
        self._quarter_ms, self._cut, self._samples = self._kept_ms() / 4, 0, 0

    def sample(self) -> None:
        """Takes one sample, unless that would take more than its share of the CPU.

        Raises:
            NotMeasured: the kernel refuses to say.
        """
        # The smaller of two: a sample during which something else ran is no measure of its cost.
        now_s, apart_s = self._clock.now_s(), min(self._costs_s) / _SHARE
        # The reading at the window's end is a sample too; the window is likely to be as long as the last one.
        if now_s - self._last_s >= apart_s and not 0 < self._began_s + self._window_s - now_s < apart_s:
            self._take()

    def read(self) -> Readings:
        """The readings since `begin`.

        Raises:
            NotMeasured: no time has passed, or the kernel refuses to say.
        """
        self._take()
        elapsed_s = self._last_s - self._began_s
        if elapsed_s <= 0:
            raise NotMeasured("no time has passed since the window began")
        self._window_s = elapsed_s
        held, under_way = self._held_area / elapsed_s, self._under_way_area / elapsed_s
        readings = {"open_connections": held, "requests_under_way": under_way, "idle_connections": held - under_way}
        if self._worker is Worker.CONNECTION:
            readings |= {"busy_workers": held, "idle_held_workers": held - under_way}
        elif self._worker is Worker.REQUEST:
            readings["busy_workers"] = under_way
        if self._seen:
            readings["handshake_s"] = self._handshakes_s / self._seen
        if self._quarter_ms:
            readings["cut_rate_hz"] = max(0.0, 1e3 * self._cut / self._samples / self._quarter_ms)
        return readings

    def close(self) -> None:
        """Closes the netlink socket; may be called twice."""
        if self._diag is not None:
            self._diag.close()
            self._diag = None

    def _open(self) -> None:
        if not self._listeners:
            raise NotMeasured("it listens at no TCP port")
        if self._shared is not None:
            file = SharedFile(self._shared)
            gated = file.gated()
            file.close()
            if gated:
                raise NotMeasured("a gate holds connections of its own, which cannot be told from the server's")
        diag = in_network_of(self._pid, InetDiag)
        try:
            there = {address for host, port in self._listeners for address in diag.matching(host, port)}
        except NotMeasured:
            diag.close()
            raise
        families = sorted({address.family for address in there})
        self._questions = [question(f, sorted((a for a in there if a.family == f), key=str)) for f in families]
        self._diag = diag

    def _take(self) -> None:
        """One sample; adds the time since the last to the integrals."""
        assert self._diag is not None
        start_s = self._clock.now_s()
        held = under_way = 0
        try:
            for asked in self._questions:
                for one in map(connection, self._diag.ask(asked, "connections")):
                    if one is not None:
                        held += 1
                        under_way += one.under_way
                        self._met(one)
        except NotMeasured:
            self.close()
            raise
        self._samples += 1
        now_s = self._clock.now_s()
        self._costs_s = (self._costs_s[1], now_s - start_s)
        self._held_area += (self._held + held) / 2 * (now_s - self._last_s)
        self._under_way_area += (self._under_way + under_way) / 2 * (now_s - self._last_s)
        self._held, self._under_way, self._last_s = held, under_way, now_s

    def _met(self, one: Connection) -> None:
        """Adds what its client waits for a connection, where a round trip to it was seen, and how long it is idle."""
        if self._quarter_ms and not (one.under_way or one.closing):
            quarter = one.sent_ms // self._quarter_ms
            self._cut += (quarter == 1) - (quarter >= 3)
        answered = one.segments_out > 0 and not one.unacked_segments
        if answered and one.round_trip_us is not None:
            self._seen += 1
            self._handshakes_s += (2 if one.port in self._tls else 1) * min(one.round_trip_us, _FARTHEST_US) / 1e6


SENSOR = Connections
