"""The question for connections, the kernel's answer byte by byte, and what tells a request from an idle one."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests._memory_plant import FakeClock

from trimtab.errors import NotMeasured
from trimtab.sensors import connections
from trimtab.sensors._eq1 import eq1
from trimtab.sensors._inet_diag import Address
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.connections import Connection, Connections, Worker, connection, question

ESTABLISHED, FIN_WAIT2, CLOSE_WAIT = 1, 5, 8
PROGRAM_AT = 16 + 56 + 4
UNSEEN = 0xFFFFFFFF
IDLE = Connection(False, 0, 0, 0, sent_ms=100, received_ms=104, acknowledged_ms=60, segments_in=3, segments_out=9)


def listed(program: bytes, packed: bytes, port: int) -> bool:
    """What the kernel makes of a filter (inet_diag_bc_run): a socket is listed when it ends just at the end."""
    at = 0
    while at < len(program):
        code, yes, no = struct.unpack_from("=BBH", program, at)
        holds = code == 7
        if holds:
            _, bits, wanted = struct.unpack_from("=BBxxi", program, at + 4)
            there = program[at + 12 : at + 12 + bits // 8]
            holds = wanted in (-1, port) and packed[: bits // 8] == there
            at += yes if holds else no
        else:
            assert code == 1, "a jump"
            at += no
    return at == len(program)


ADDRESSES = st.builds(
    Address,
    st.just(socket.AF_INET),
    st.sampled_from([bytes(4), b"\x7f\0\0\1", b"\x0a\0\0\1"]),
    st.sampled_from([80, 443, 8080]),
)


@settings(deadline=None)
@given(st.lists(ADDRESSES, min_size=1, max_size=6, unique=True), ADDRESSES)
def test_the_kernel_lists_connections_to_these_addresses_and_no_others(there: list[Address], one: Address) -> None:
    program = bytes(question(socket.AF_INET, there)[PROGRAM_AT:])
    wanted = any(a.port == one.port and (a.wildcard() or a.packed == one.packed) for a in there)
    assert listed(program, one.packed, one.port) == wanted


def message(inode: int, state: int = ESTABLISHED, unread: int = 0, info: bytes = bytes(280), port: int = 80) -> bytes:
    body = struct.pack("=BBBB", socket.AF_INET, state, 0, 0) + struct.pack("!HH", port, 40001) + bytes(48)
    body += struct.pack("=IIII", unread, 0, 0, inode)
    body += struct.pack("=HHI", 5, 8, 0) + struct.pack("=HH", 4 + len(info), 2) + info
    return struct.pack("=IHHII", 16 + len(body), 20, 2, 1, 0) + body


def tcp_info(**fields: int) -> bytes:
    at = {
        "unacked": 24,
        "sent": 44,
        "received": 52,
        "acked": 56,
        "unsent": 144,
        "trip": 148,
        "came": 152,
        "went": 156,
    }
    raw = bytearray(280)
    for name, value in fields.items():
        struct.pack_into("=I", raw, at[name], value)
    return bytes(raw)


def test_every_field_is_read_from_where_the_kernel_writes_it() -> None:
    info = tcp_info(unacked=1, sent=2, received=3, acked=4, unsent=5, came=6, went=7, trip=9)
    assert connection(message(4711, unread=8, info=info, port=443)) == Connection(
        False, 8, 1, 5, 2, 3, 4, 6, 7, 9, 443
    )


def test_the_clients_end_is_no_byte_of_a_request() -> None:
    for unread, left in ((0, 0), (1, 0), (6, 5)):
        found = connection(message(4711, CLOSE_WAIT, unread))
        assert found is not None and found.unread_bytes == left


def test_a_connection_that_no_file_belongs_to_is_not_the_servers() -> None:
    assert connection(message(0)) is None
    assert connection(message(0, FIN_WAIT2, info=b"")) is None, "the remains of a closed one tell nothing else"


def test_a_kernel_that_tells_too_little_is_said() -> None:
    with pytest.raises(NotMeasured, match="Linux 4"):
        connection(message(4711, info=bytes(120)))


@pytest.mark.parametrize(
    ("why", "changed", "under_way"),
    [
        ("answered", {}, False),
        ("nothing was asked", {"segments_in": 0, "segments_out": 0, "sent_ms": 104}, False),
        ("data came after the last reply", {"received_ms": 96}, True),
        ("bytes that the server has not read", {"unread_bytes": 1}, True),
        ("a reply that is not all sent", {"unsent_bytes": 1}, True),
        ("same tick, reply not acknowledged", {"received_ms": 100, "unacked_segments": 1, "segments_in": 10}, False),
        ("same tick, reply acknowledged later", {"received_ms": 100, "segments_in": 10}, False),
        ("same tick, one more in than out", {"received_ms": 100, "acknowledged_ms": 100, "segments_in": 10}, True),
        ("same tick, as many in as out", {"received_ms": 100, "acknowledged_ms": 100, "segments_in": 9}, False),
        ("the server waits for the client's end", {"closing": True, "received_ms": 96, "unread_bytes": 1}, False),
        ("it does so while its reply is sent", {"closing": True, "unsent_bytes": 1}, True),
    ],
)
def test_a_request_is_told_from_an_idle_connection(why: str, changed: dict[str, int], under_way: bool) -> None:
    assert Connection(**(IDLE._asdict() | changed)).under_way == under_way, why


class Kernel:
    """Answers with some connections, and takes its time over it."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.held, self.under_way, self.asked, self.takes_s = clock, 0, 0, 0, 0.0
        self.trips: list[tuple[int, int]] = []
        self.infos: list[bytes] = []
        self.closing: list[bytes] = []

    def matching(self, host: str, port: int) -> list[Address]:
        return [Address(socket.AF_INET, bytes(4), port)]

    def ask(self, question: bytearray, about: str) -> Iterator[bytes]:
        self.asked += 1
        self.clock.now += self.takes_s
        for number in range(self.held):
            yield message(4711, unread=int(number < self.under_way), info=tcp_info(trip=UNSEEN))
        for state, infos in ((ESTABLISHED, self.infos), (FIN_WAIT2, self.closing)):
            yield from (message(4711, state, info=info) for info in infos)
        for trip_us, port in self.trips:
            yield message(4711, info=tcp_info(trip=trip_us, came=1, went=1), port=port)

    def close(self) -> None: ...


@pytest.fixture
def kernel(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel(clock)
    monkeypatch.setattr(connections, "in_network_of", lambda pid, make: made)
    return made


def sensor(clock: FakeClock, worker: Worker | None = None) -> Connections:
    return Connections([("", 80)], clock, 1, worker, tls=frozenset({443}))


def test_a_client_waits_for_a_round_trip_before_it_can_ask_and_with_tls_for_two(
    clock: FakeClock, kernel: Kernel
) -> None:
    one = sensor(clock)
    for trips, wanted_s in (
        ([(30_000, 80)], 0.03),
        ([(30_000, 443)], 0.06),
        ([(10_000, 80), (20_000, 80), (45_000, 443), (UNSEEN, 443)], 0.04),
        ([(500_000, 80), (60_000_000, 80)], 0.75),  # who answers after a minute counts as a second away
    ):
        kernel.trips = []
        one.begin()
        kernel.trips = trips
        # Of these the handshake alone was timed, which takes longer while the server's queue is full.
        kernel.infos = [tcp_info(trip=900_000, came=1), tcp_info(trip=900_000, came=1, went=1, unacked=1)]
        clock.sleep(1.0)
        assert one.read()["handshake_s"] == pytest.approx(wanted_s)


def test_how_many_connections_a_quarter_of_the_keep_alive_time_would_end_follows_from_their_ages(
    clock: FakeClock, kernel: Kernel
) -> None:
    """Of T = 4 s: what is idle for one to two seconds counts, what is for more than three does off it."""
    one = Connections([("", 80)], clock, 1, kept_ms=lambda: 4000.0)
    idle_s = [0.2, 0.9, 1.0, 1.5, 1.99, 2.0, 2.9, 3.5]
    one.begin()
    kernel.infos = [tcp_info(sent=round(1e3 * age_s), received=round(1e3 * age_s) + 4, came=1) for age_s in idle_s]
    kernel.infos.append(tcp_info(sent=1500, received=100, came=1))  # a request is under way on it
    kernel.closing = [tcp_info(sent=1500, received=1504, came=1)]  # the server has ended it already
    clock.sleep(1.0)
    assert one.read()["cut_rate_hz"] == (3 - 1) / 1.0
    one.begin()
    kernel.infos = [tcp_info(sent=3900, received=3904, came=1)] * 3
    clock.sleep(1.0)
    assert one.read()["cut_rate_hz"] == 0.0, "all of them end by the time in force"
    assert "cut_rate_hz" not in sensor_of_unknown_time(clock).read()


def sensor_of_unknown_time(clock: FakeClock) -> Connections:
    one = sensor(clock)
    one.begin()
    clock.sleep(1.0)
    return one


def test_where_no_round_trip_was_seen_nothing_is_said(clock: FakeClock, kernel: Kernel) -> None:
    one, kernel.held = sensor(clock), 3
    one.begin()
    clock.sleep(1.0)
    assert "handshake_s" not in one.read()


def test_counts_are_averaged_over_time(clock: FakeClock, kernel: Kernel) -> None:
    one = sensor(clock, Worker.CONNECTION)
    one.begin()
    kernel.held, kernel.under_way = 8, 4
    clock.sleep(1.0)
    one.sample()
    clock.sleep(3.0)
    # Half of the way for one second, then all of it for three.
    expected = {"open_connections": 7.0, "requests_under_way": 3.5, "idle_connections": 3.5}
    assert one.read() == expected | {"busy_workers": 7.0, "idle_held_workers": 3.5}
    one.begin()
    clock.sleep(1.0)
    assert one.read()["open_connections"] == 8.0, "what was before the window is not in it"


def test_what_a_worker_is_bound_to_decides_how_many_are_busy(clock: FakeClock, kernel: Kernel) -> None:
    kernel.held, kernel.under_way = 8, 3
    found = {}
    for worker in (None, *Worker):
        one = sensor(clock, worker)
        one.begin()
        clock.sleep(1.0)
        found[worker] = (one.read().get("busy_workers"), one.read().get("idle_held_workers"))
        one.close()
    assert found == {None: (None, None), Worker.CONNECTION: (8.0, 5.0), Worker.REQUEST: (3.0, None)}


def test_samples_that_cost_much_are_rare(clock: FakeClock, kernel: Kernel) -> None:
    kernel.takes_s = 0.01
    one = sensor(clock)
    one.begin()
    for _ in range(400):
        clock.sleep(0.25)
        one.sample()
    spent_s = kernel.asked * kernel.takes_s
    assert 0.002 * 100 <= spent_s <= 0.003 * 100


def test_where_a_sample_costs_much_a_short_window_has_only_that_at_its_end(clock: FakeClock, kernel: Kernel) -> None:
    kernel.takes_s = 0.0035
    one = sensor(clock)
    taken = []
    for _ in range(10):
        before = kernel.asked
        one.begin()
        for _ in range(3):
            clock.sleep(0.25)
            one.sample()
        clock.sleep(0.25)
        one.read()
        clock.sleep(0.02)
        taken.append(kernel.asked - before)
    assert taken == [3] + 9 * [1], "the first has one at its beginning too, and does not know how long it will be"


def test_the_time_that_a_connection_is_held_follows_from_littles_law() -> None:
    assert eq1({"open_connections": 12.0, "accept_rate_hz": 4.0})["residence_s"] == 3.0
    assert "residence_s" not in eq1({"open_connections": 12.0, "accept_rate_hz": 0.0})


@pytest.mark.parametrize("sensor", [Connections, AcceptQueue])
def test_of_a_server_at_unix_sockets_alone_nothing_is_said_in_place_of_0(
    sensor: type[Connections] | type[AcceptQueue],
) -> None:
    with pytest.raises(NotMeasured, match="it listens at no TCP port"):
        sensor((), FakeClock(), os.getpid()).begin()
