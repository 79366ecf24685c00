"""The connections that a server holds as the kernel tells them, against counts that the test itself has made."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import mean
from typing import Any

import pytest

from tests._noise import agree, noisy
from tests.servers._asking import page
from tests.servers._private_apache import MPMS, UNDER_WAY, Bed, private
from tests.servers._under_gate import PAGE, PATIENCE_S, under_gate
from tests.servers._under_gate import until as eventually
from trimtab.clock import SystemClock
from trimtab.core import Readings, Window
from trimtab.errors import NotMeasured
from trimtab.gate.server import processes_of
from trimtab.load import LoadRun
from trimtab.observer import Observer, Stop
from trimtab.plants.apache import Apache, tls
from trimtab.sensors.connections import Connections, Worker
from trimtab.sensors.shim import Shim
from trimtab.testbed.apache_config import Mpm
from trimtab.testbed.content import cgi_url
from trimtab.workloads._population import Connection, Url
from trimtab.workloads.closed_loop import ClosedLoop

pytestmark = [pytest.mark.server, pytest.mark.apache]

BOUND = {"busy_workers": 7.0, "idle_held_workers": 3.0}
"""What four requests and three idle connections come to where a worker serves one connection to its end."""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(stack: ExitStack, port: int, host: str = "127.0.0.1") -> socket.socket:
    return stack.enter_context(socket.create_connection((host, port), timeout=PATIENCE_S))


def now(sensor: Connections) -> Readings:
    time.sleep(0.02)  # or it begins with what the last window ended with
    sensor.begin()
    time.sleep(0.02)
    return sensor.read()


def until(sensor: Connections, **wanted: float) -> None:
    """Waits until the sensor reads this: nobody else tells when a server has got round to what it was sent."""
    deadline = time.monotonic() + PATIENCE_S
    while not wanted.items() <= (readings := now(sensor)).items():
        assert time.monotonic() < deadline, readings


@pytest.mark.parametrize(
    ("listens", "named", "via"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "*", "127.0.0.1"),
        ("::", "", "127.0.0.1"),
        ("::", "::", "::1"),
        ("::1", "::1", "::1"),
    ],
)
def test_connections_count_from_the_accept_to_the_close_and_requests_to_the_reply(
    stack: ExitStack, listens: str, named: str, via: str
) -> None:
    family = socket.AF_INET6 if ":" in listens else socket.AF_INET
    server = stack.enter_context(
        socket.create_server((listens, 0), family=family, backlog=64, dualstack_ipv6=listens == "::")
    )
    port = server.getsockname()[1]
    sensor = Connections([(named, port)], SystemClock(), os.getpid())
    stack.callback(sensor.close)
    clients = [connected(stack, port, via) for _ in range(37)]
    assert now(sensor)["open_connections"] == 0, "all wait to be accepted"
    held = [stack.enter_context(server.accept()[0]) for _ in range(29)]
    assert now(sensor) == {"open_connections": 29, "requests_under_way": 0, "idle_connections": 29}
    for client in clients[:11]:
        client.sendall(b"a request")
    assert now(sensor)["requests_under_way"] == 11, "not even read"
    for one in held[:11]:
        one.recv(100)
    assert now(sensor)["requests_under_way"] == 11, "read"
    for one in held[:4]:
        one.sendall(b"a reply")
    seen, expected = now(sensor), {"open_connections": 29, "requests_under_way": 7, "idle_connections": 22}
    assert seen == {**expected, "handshake_s": seen["handshake_s"]}, "replies tell how far away clients are"
    for one in held[:3]:
        one.close()
    clients[4].close()
    assert now(sensor)["open_connections"] == 26, "that a client has gone is not known before the server has closed"


def test_a_server_beside_it_on_another_address_does_not_count(stack: ExitStack) -> None:
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    port = server.getsockname()[1]
    other = stack.enter_context(socket.create_server(("127.0.0.2", port)))
    sensor = Connections([("127.0.0.1", port)], SystemClock(), os.getpid())
    stack.callback(sensor.close)
    connected(stack, port, "127.0.0.2")
    stack.enter_context(other.accept()[0])
    assert now(sensor)["open_connections"] == 0


def test_a_port_where_nobody_listens_is_not_measured(stack: ExitStack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(NotMeasured, match="nothing listens"):
        Connections([("", port)], SystemClock(), os.getpid()).begin()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces")
def test_a_server_in_another_network_namespace_is_seen_from_here(stack: ExitStack) -> None:
    program = """
import ctypes, fcntl, socket, struct
assert ctypes.CDLL(None, use_errno=True).unshare(0x40000000) == 0
with socket.socket() as up:
    fcntl.ioctl(up, 0x8914, struct.pack("16sH14x", b"lo", 0x41))
server = socket.create_server(("127.0.0.1", 8080), backlog=64)
clients = [socket.create_connection(("127.0.0.1", 8080)) for _ in range(9)]
held = [server.accept() for _ in range(6)]
print("ready", flush=True)
input()
"""
    with apart(program) as pid:
        sensor = Connections([("127.0.0.1", 8080)], SystemClock(), pid)
        stack.callback(sensor.close)
        assert now(sensor)["open_connections"] == 6


@contextlib.contextmanager
def apart(program: str) -> Iterator[int]:
    """A process with a network of its own, once it says that it is ready; its id."""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process.pid
    finally:
        process.communicate("\n", timeout=PATIENCE_S)


def tun() -> bool:
    """Whether this process may have a network device of its own."""
    with contextlib.suppress(OSError):
        os.close(os.open("/dev/net/tun", os.O_RDWR))
        return os.geteuid() == 0
    return False


@pytest.mark.root
@pytest.mark.skipif(not tun(), reason="needs root and a TUN device")
def test_how_far_away_clients_are_is_known_and_that_tls_takes_them_twice(stack: ExitStack) -> None:
    """A round trip takes as long as it has to and, on a machine that others use, longer: never less."""
    delay_s = 0.05
    program = f"""
import socket, time
from trimtab.testbed import far
far.enter({delay_s})
server = socket.create_server(("127.0.0.1", 8080), backlog=64)
clients = [socket.create_connection((far.SERVER, 8080), timeout=30) for _ in range(5)]
held = [server.accept()[0] for _ in clients]
for one, client in zip(held, clients):
    one.sendall(b"a reply")
    client.recv(7)
time.sleep({10 * delay_s})
print("ready", flush=True)
input()
"""
    with apart(program) as pid:
        found_s = []
        for tls in (frozenset[int](), frozenset({8080})):
            sensor = Connections([("127.0.0.1", 8080)], SystemClock(), pid, tls=tls)
            stack.callback(sensor.close)
            readings = now(sensor)
            assert readings["open_connections"] == 5
            found_s.append(readings["handshake_s"])
    print(f"a round trip of {2 * delay_s:g} s reads {found_s[0]:g} s")
    assert found_s[0] >= 2 * delay_s and found_s[1] == 2 * found_s[0]
    agree(found_s[0], 2 * delay_s, 0.5, "the round trip")


def test_it_is_what_the_kernel_tells_of_the_servers_own_socket(stack: ExitStack) -> None:
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    port = server.getsockname()[1]
    sensor = Connections([("127.0.0.1", port)], SystemClock(), os.getpid())
    stack.callback(sensor.close)
    connected(stack, port)
    held = stack.enter_context(server.accept()[0])
    assert "handshake_s" not in now(sensor), "nothing was sent yet"
    held.sendall(b"a reply")
    time.sleep(0.02)
    told_us = struct.unpack_from("=I", held.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), 148)[0]
    assert now(sensor)["handshake_s"] == told_us / 1e6


@pytest.mark.parametrize("mpm", MPMS)
def test_apaches_held_and_idle_connections_are_those_of_its_scoreboard(mpm: Mpm, stack: ExitStack) -> None:
    with private(mpm, keep_alive_timeout_ms=int(PATIENCE_S * 1000)) as bed:
        idle = [connected(stack, bed.testbed.port) for _ in range(3)]
        for client in idle:
            page(client, "/file5k.html")
        for _ in range(4):
            connected(stack, bed.testbed.port).sendall(UNDER_WAY)
        sensor = Connections([("", bed.testbed.port)], SystemClock(), bed.testbed.pid, Worker.of(mpm))
        stack.callback(sensor.close)
        until(sensor, open_connections=7.0, requests_under_way=4.0, idle_connections=3.0)
        plant, expected = bed.attach(), {"busy_workers": 4.0} if mpm == "event" else BOUND

        def agree() -> bool:
            """A worker that has just sent the page itself may still be on it at its next time."""
            seen = window(stack, plant, 0.5).readings
            return expected.items() <= seen.items() and expected.items() <= now(sensor).items()

        eventually(agree, "the scoreboard has others")


def test_apaches_own_time_and_its_ports_of_tls_are_told_to_the_sensor(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[frozenset[int], float]] = []

    class Told(Connections):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            told.append((self._tls, self._kept_ms()))

    monkeypatch.setattr("trimtab.plants.apache.plant.Connections", Told)
    monkeypatch.setattr(tls, "ports", lambda configuration, there: frozenset(there))
    with private("prefork", keep_alive_timeout_ms=int(PATIENCE_S * 1000)) as bed:
        page(connected(stack, bed.testbed.port), "/file5k.html")
        seen = window(stack, bed.attach(), 0.5).readings
        assert {"handshake_s", "cut_rate_hz"} <= seen.keys()
        assert all(bed.testbed.port in ports and kept_ms == PATIENCE_S * 1000 for ports, kept_ms in told) and told


def window(stack: ExitStack, plant: Apache, length_s: float = 1.0) -> Window:
    """A window as `observe` would see it."""
    for sensor in plant.sensors():
        stack.callback(sensor.close)
    found = Observer(plant, Stop(), seed=1).window(0, length_s, plant.configuration(), 0.0, lambda _: "")
    assert found is not None
    return found


def storm(stack: ExitStack, bed: Bed) -> None:
    """Sixty clients ask at once, and none is answered."""
    for _ in range(60):
        connected(stack, bed.testbed.port).sendall(UNDER_WAY)


def test_in_a_storm_workers_and_queue_are_known_although_the_status_page_waits_behind_it(stack: ExitStack) -> None:
    with private("prefork", max_request_workers=5, server_limit=5) as bed:
        plant = bed.attach()
        storm(stack, bed)
        sensor = Connections([("", bed.testbed.port)], SystemClock(), bed.testbed.pid)
        stack.callback(sensor.close)
        until(sensor, open_connections=5.0, requests_under_way=5.0)
        seen = window(stack, plant)
        assert any(problem.startswith("server-status") for problem in seen.problems)
        expected = {"busy_workers": 5.0, "requests_under_way": 5.0, "idle_held_workers": 0.0, "accept_rate_hz": 0.0}
        assert {name: seen.readings[name] for name in expected} == expected
        # At most eight of them are trimtab's own requests for the page.
        assert 55 <= seen.readings["accept_queue_length"] <= 63


def test_under_a_gate_it_says_that_it_cannot_tell(stack: ExitStack) -> None:
    with under_gate(workers=4) as bed:
        server = processes_of(bed.run_dir)[0].pid
        sensor = Connections([("", bed.port)], SystemClock(), server, Worker.CONNECTION, bed.run_dir.shared)
        stack.callback(sensor.close)
        with pytest.raises(NotMeasured, match="a gate holds connections of its own"):
            sensor.begin()


@noisy("two sources with windows of their own, on a machine that others use")
@pytest.mark.parametrize(
    ("mpm", "kept"), [("prefork", Connection.UNTIL_SERVER_CLOSES), ("worker", Connection.PER_PAGE)]
)
def test_requests_under_way_are_those_of_the_shims_exact_counts(mpm: Mpm, kept: Connection) -> None:
    """By Little's law the shim's counts give them: requests per second times the time of one."""
    clock = SystemClock()
    users = ClosedLoop(connections=4, think_s=0.1, urls=(Url(cgi_url(120)), Url(PAGE)), connection=kept)
    with under_gate(mpm, workers=8, gate=False) as bed:
        sensor = Connections([("", bed.port)], clock, processes_of(bed.run_dir)[0].pid, Worker.CONNECTION)
        shim = Shim(bed.run_dir.shared, clock)
        load = LoadRun(f"127.0.0.1:{bed.port}", users.populations(), 60, clock)
        with contextlib.closing(sensor), contextlib.closing(shim), load:
            clock.sleep(1.5)
            shim.begin()
            # In windows of its own, so that it samples more often than it would by itself.
            seen = [now(sensor)["requests_under_way"] for _ in range(80)]
            exact = shim.read()
            load.stop()
    expected = exact["request_rate_hz"] * exact["service_time_s"]
    print(f"{mpm}, {kept.value}: under way {mean(seen):.2f}, by the shim {expected:.2f}")
    agree(mean(seen), expected, 0.15, "requests under way")
