"""The shim counts every request: those that trimtab makes for the status page are no users'."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from tests._memory_plant import FakeClock

from trimtab.sensors import _shared_file
from trimtab.sensors._shared_file import Counters
from trimtab.sensors.pages import Pages
from trimtab.sensors.shim import Shim

OWN_S, REPLY_BYTES, EACH_NS = 0.002, 500, 30_000_000


class Us:
    """The status page is asked for, and answered at once."""

    port, own_s = 80, OWN_S

    def __init__(self) -> None:
        self.connections = self.received_bytes = 0

    def ours(self) -> int:
        return 0


class Server:
    """A server with the shim in it, whose users' requests take 30 ms each."""

    def __init__(self, path: Path, counts_ours: bool = True) -> None:
        self.path, self.counts_ours, self.us, self.clock = path / "shared", counts_ours, Us(), FakeClock()
        _shared_file.create(self.path)
        self.counters = Counters(0, 0, 0, 0, 0, 0)

    def serve(self, users: int, ours: int) -> None:
        counted, now = ours if self.counts_ours else 0, self.counters
        self.us.connections += ours
        self.us.received_bytes += REPLY_BYTES * ours
        self.counters = now = replace(
            now,
            connections=now.connections + users + counted,
            delay_ns=now.delay_ns + 4_000_000 * (users + counted),
            requests=now.requests + users + counted,
            service_ns=now.service_ns + EACH_NS * users + round(1e9 * OWN_S) * counted,
            sent_bytes=now.sent_bytes + 10_000 * users + REPLY_BYTES * counted,
        )
        values = (now.connections, now.delay_ns, now.requests, now.service_ns, now.sent_bytes, now.clipped)
        with self.path.open("r+b") as file:
            file.seek(192)
            file.write(struct.pack("<6Q", *values))

    def window(self, sensor: Shim | Pages, users: int, ours: int) -> dict[str, float]:
        """A window of ten seconds in which users and we ask in turn."""
        sensor.begin()
        for turn in range(10):
            self.serve(users // 10 + (turn < users % 10), ours // 10 + (turn < ours % 10))
            self.clock.sleep(1.0)
            sensor.sample()
        return dict(sensor.read())


def test_they_are_in_no_reading(tmp_path: Path) -> None:
    server = Server(tmp_path)
    shim = Shim(server.path, server.clock, server.us)
    for users in (20, 5, 0, 7):
        readings = server.window(shim, users, 29)
        assert readings["request_rate_hz"] == pytest.approx(users / 10)
        assert readings["connection_rate_hz"] == pytest.approx(users / 10)
        assert readings["byte_rate_bytes_hz"] == pytest.approx(1000.0 * users)
        if users:
            assert readings["service_time_s"] == pytest.approx(0.03)
            assert readings["burst_length"] == 1
            assert readings["accept_queue_delay_s"] == pytest.approx(0.004)
        else:
            assert readings.keys() == {"request_rate_hz", "connection_rate_hz", "byte_rate_bytes_hz"}


@pytest.mark.parametrize("users", [3, 30])
def test_where_the_port_of_the_page_is_not_watched_nothing_is_taken_away(tmp_path: Path, users: int) -> None:
    server = Server(tmp_path, counts_ours=False)
    shim = Shim(server.path, server.clock, server.us)
    server.window(shim, users, 100)
    assert server.window(shim, users, 100)["request_rate_hz"] == pytest.approx(users / 10)


def test_they_are_no_pages_of_users(tmp_path: Path) -> None:
    server = Server(tmp_path)
    with server.path.open("r+b") as file:  # pauses of 10 ms within pages, and of 10 s between them
        for at, many in ((184, 1000), (264, 500)):
            file.seek(20_480 + 8 * at)
            file.write(struct.pack("<Q", many))
    pages = Pages(server.path, server.clock, server.us)
    readings = server.window(pages, 20, 29)
    assert readings["page_rate_hz"] == pytest.approx(2.0)
    assert readings["page_time_s"] == pytest.approx(0.034)


def test_without_anybody_who_asks_all_is_as_it_was(tmp_path: Path) -> None:
    server = Server(tmp_path)
    shim = Shim(server.path, server.clock)
    assert shim.sampling_period_s == 0
    assert server.window(shim, 20, 30)["request_rate_hz"] == 5
