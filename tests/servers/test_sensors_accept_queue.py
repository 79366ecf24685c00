"""The accept queue as the kernel tells it, against connections that the test itself counts and times."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests._memory_plant import StillClock
from tests._noise import agree, noisy
from trimtab.clock import SystemClock
from trimtab.errors import NotMeasured
from trimtab.sensors import _arrivals
from trimtab.sensors._arrivals import Namespace, Ports
from trimtab.sensors.accept_queue import AcceptQueue, probe
from trimtab.sensors.server_status import ServerStatus

pytestmark = pytest.mark.server
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: perf counters, namespaces")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def listening(
    stack: ExitStack, host: str = "127.0.0.1", port: int = 0, backlog: int = 512, group: bool = False
) -> int:
    """A socket that listens and that nobody accepts from; its port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = stack.enter_context(socket.socket(family))
    if group:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind((host, port))
    server.listen(backlog)
    return int(server.getsockname()[1])


def connected(stack: ExitStack, port: int, count: int, host: str = "127.0.0.1") -> None:
    for _ in range(count):
        stack.enter_context(socket.create_connection((host, port)))


def sensor(stack: ExitStack, *listeners: tuple[str, int]) -> AcceptQueue:
    made = AcceptQueue(listeners, SystemClock(), os.getpid())
    stack.callback(made.close)
    return made


def length_now(queue: AcceptQueue) -> float:
    queue.begin()
    time.sleep(0.01)
    return queue.read()["accept_queue_length"]


@pytest.mark.parametrize(
    ("listens", "named", "via"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "*", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1", "127.0.0.1"),
        ("::", "", "127.0.0.1"),
        ("::", "::", "::1"),
        ("::1", "::1", "::1"),
    ],
)
def test_as_many_wait_as_have_connected_and_were_not_accepted(
    stack: ExitStack, listens: str, named: str, via: str
) -> None:
    port = listening(stack, listens)
    queue = sensor(stack, (named, port))
    assert length_now(queue) == 0
    connected(stack, port, 37, via)
    assert length_now(queue) == 37


def test_the_queues_of_all_listeners_add_up(stack: ExitStack) -> None:
    ports = [listening(stack) for _ in range(3)]
    for count, port in enumerate(ports, start=1):
        connected(stack, port, count)
    assert length_now(sensor(stack, *(("127.0.0.1", port) for port in ports))) == 6


def test_at_one_port_a_server_for_ipv6_and_another_for_ipv4_have_queues_of_their_own(stack: ExitStack) -> None:
    """nginx listens at "[::]:80" for IPv6 alone, and something else may have 0.0.0.0:80."""
    port = listening(stack, "0.0.0.0")
    ipv6 = stack.enter_context(socket.socket(socket.AF_INET6))
    ipv6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    ipv6.bind(("::", port))
    ipv6.listen()
    connected(stack, port, 5)
    connected(stack, port, 2, "::1")
    assert length_now(sensor(stack, ("::", port))) == 2
    assert length_now(sensor(stack, ("0.0.0.0", port))) == 5
    assert length_now(sensor(stack, ("*", port))) == 7
    ipv4_alone = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    (there,) = ipv4_alone.getsockname()[1:]
    connected(stack, there, 1)
    assert length_now(sensor(stack, ("0.0.0.0", there))) == 1


def test_sockets_that_share_a_port_are_one_queue(stack: ExitStack) -> None:
    port = listening(stack, group=True)
    for _ in range(3):
        listening(stack, port=port, group=True)
    connected(stack, port, 41)
    assert length_now(sensor(stack, ("127.0.0.1", port))) == 41


@noisy("a pause between a change and the look at the clock beside it")
def test_the_mean_length_weighs_each_length_with_its_time(stack: ExitStack) -> None:
    port = listening(stack)
    queue = sensor(stack, ("127.0.0.1", port))
    queue.begin()
    began_s = time.monotonic()
    time.sleep(0.2)
    queue.sample()
    connected(stack, port, 10)
    queue.sample()
    changed_s = time.monotonic()
    time.sleep(0.1)
    mean = queue.read()["accept_queue_length"]
    ended_s = time.monotonic()
    agree(mean, 10 * (ended_s - changed_s) / (ended_s - began_s), 0.1, "mean length")


@noisy("the loop that makes, accepts and samples has to come round every few milliseconds")
def test_a_known_wait_comes_out_of_littles_law(stack: ExitStack) -> None:
    """One connection every 8 ms, each accepted 60 ms after it was made; the true waits are those the test saw."""
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
    port = server.getsockname()[1]
    queue = sensor(stack, ("127.0.0.1", port))
    queue.begin()
    made: list[float] = []
    waits: list[float] = []
    start_s = next_sample_s = time.monotonic()
    while len(waits) < 100:
        now_s = time.monotonic()
        if len(made) < 100 and now_s >= start_s + 0.008 * len(made):
            connected(stack, port, 1)
            made.append(now_s)
        if len(waits) < len(made) and now_s >= made[len(waits)] + 0.06:
            server.accept()[0].close()
            waits.append(time.monotonic() - made[len(waits)])
        if now_s >= next_sample_s:
            queue.sample()
            next_sample_s += queue.sampling_period_s
        time.sleep(0.0005)
    readings = queue.read()
    agree(readings["accept_queue_delay_s"], sum(waits) / len(waits), 0.1, "delay")


def test_nothing_that_came_leaves_the_delay_unmeasured(stack: ExitStack) -> None:
    queue = sensor(stack, ("127.0.0.1", listening(stack)))
    queue.begin()
    time.sleep(0.01)
    readings = queue.read()
    if readings["connection_rate_hz"] == 0:  # Without root, others' connections count too.
        assert "accept_queue_delay_s" not in readings
    assert readings["accept_queue_length"] == 0


@needs_root
@pytest.mark.root
def test_every_connection_to_the_port_is_counted_once_and_no_other(stack: ExitStack) -> None:
    port, other = listening(stack), listening(stack)
    counter = Ports([port])
    stack.callback(counter.close)
    connected(stack, port, 137)
    connected(stack, other, 11)
    assert counter.count() == 137


@needs_root
@pytest.mark.root
def test_connections_at_cpus_that_a_container_is_not_told_of_are_counted(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container of LXC is told that its own CPUs alone are on (lxcfs); clients come to all."""
    allowed = os.sched_getaffinity(0)
    stack.callback(os.sched_setaffinity, 0, allowed)
    monkeypatch.setattr(_arrivals, "_online", lambda: {max(allowed)})
    port = listening(stack)
    counter = Ports([port])
    stack.callback(counter.close)
    for cpu in allowed:
        os.sched_setaffinity(0, {cpu})
        connected(stack, port, 5)
    assert counter.count() == 5 * len(allowed)


def test_the_namespace_counts_at_least_the_connections_to_the_port(stack: ExitStack) -> None:
    port = listening(stack)
    counter = Namespace(os.getpid())
    stack.callback(counter.close)
    before = counter.count()
    connected(stack, port, 137)
    assert counter.count() - before >= 137


@needs_root
@pytest.mark.root
def test_connections_of_trimtab_itself_do_not_count(stack: ExitStack) -> None:
    class Us:
        port = 0
        connections = received_bytes = 0
        own_s = 0.0

        def ours(self) -> int:
            return 3

    us, clock = Us(), StillClock()
    us.port = port = listening(stack)
    queue = AcceptQueue([("127.0.0.1", port)], clock, os.getpid(), us)
    stack.callback(queue.close)
    queue.begin()
    connected(stack, port, 10)
    us.connections += 3
    clock.seconds = 2.0
    readings = queue.read()
    assert readings["connection_rate_hz"] == 7 / 2
    assert readings["accept_queue_length"] == 7 / 2, "it grew evenly from 0"
    assert readings["accept_queue_delay_s"] == 1.0
    assert readings["accept_rate_hz"] == 0


def test_our_own_questions_that_wait_with_nobody_else_are_no_queue(stack: ExitStack) -> None:
    """All workers of a server are busy for minutes, as with downloads, and nobody else comes."""
    port = listening(stack)
    page = ServerStatus(f"http://127.0.0.1:{port}/server-status", SystemClock())
    queue = AcceptQueue([("127.0.0.1", port)], SystemClock(), os.getpid(), page)
    for one in (page, queue):
        stack.callback(one.close)
        one.begin()
    until_s = time.monotonic() + 60
    while page.ours() < 3 and time.monotonic() < until_s:
        time.sleep(page.sampling_period_s)
        page.sample()
        queue.sample()
    assert queue.length() >= 3, "they do wait there"
    readings = queue.read()
    assert (readings["accept_queue_length"], readings["accept_rate_hz"]) == (0, 0)
    connected(stack, port, 5)
    queue.begin()
    time.sleep(0.01)
    assert queue.read()["accept_queue_length"] == 5


def test_attempts_that_find_a_full_queue_are_refused(stack: ExitStack) -> None:
    port = listening(stack, backlog=4)
    queue = sensor(stack, ("127.0.0.1", port))
    connected(stack, port, 5)
    queue.begin()
    time.sleep(0.01)
    assert queue.read()["listen_overflow_rate_hz"] == 0
    for _ in range(8):
        client = stack.enter_context(socket.socket())
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", port))
    assert queue.read()["listen_overflow_rate_hz"] > 0


def test_a_listener_that_closes_is_not_measured_until_it_is_back(stack: ExitStack) -> None:
    with ExitStack() as first:
        port = listening(first)
        queue = sensor(stack, ("127.0.0.1", port))
        queue.begin()
    with pytest.raises(NotMeasured, match=f"nothing listens on 127.0.0.1:{port}"):
        queue.sample()
    with pytest.raises(NotMeasured, match="nothing listens"):
        queue.begin()
    listening(stack, port=port, group=True)
    assert length_now(queue) == 0


def test_the_probe_says_what_does_not_listen(stack: ExitStack) -> None:
    port = listening(stack)
    assert all(finding.usable for finding in probe([("127.0.0.1", port)], os.getpid(), SystemClock()))
    stack.close()
    (finding,) = probe([("127.0.0.1", port)], os.getpid(), SystemClock())
    assert not finding.usable and "nothing listens" in finding.detail


@needs_root
@pytest.mark.root
def test_a_server_in_another_network_namespace_is_seen_from_here(stack: ExitStack, tmp_path: Path) -> None:
    program = """
import ctypes, fcntl, socket, struct
assert ctypes.CDLL(None, use_errno=True).unshare(0x40000000) == 0
with socket.socket() as up:
    fcntl.ioctl(up, 0x8914, struct.pack("16sH14x", b"lo", 0x41))
server = socket.create_server(("127.0.0.1", 8080), backlog=64)
clients = [socket.create_connection(("127.0.0.1", 8080)) for _ in range(9)]
print("ready", flush=True)
input()
"""
    script = tmp_path / "server.py"
    script.write_text(program, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, os.fspath(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        queue = AcceptQueue([("127.0.0.1", 8080)], SystemClock(), process.pid)
        stack.callback(queue.close)
        assert length_now(queue) == 9
    finally:
        process.communicate("\n", timeout=300)
