"""What a Tomcat says of itself, against counts that are known and against what clients and the kernel saw."""

from __future__ import annotations

import contextlib
import http.client
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from tests._noise import agree, noisy
from tests.servers._private_tomcat import Bed, Held, private
from tests.servers._under_gate import until
from trimtab.observer import Observer, Stop
from trimtab.plants.tomcat.plant import Tomcat
from trimtab.plants.tomcat.status import TomcatStatus
from trimtab.sensors.connections import Connections

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with private() as bed:
        yield bed


@pytest.fixture(scope="module")
def tomcat(bed: Bed) -> Iterator[Tomcat]:
    with contextlib.closing(bed.attach()) as tomcat:
        yield tomcat


@pytest.fixture
def sensor(tomcat: Tomcat) -> TomcatStatus:
    (found,) = [one for one in tomcat.sensors() if isinstance(one, TomcatStatus)]
    return found


def get(bed: Bed, path: str) -> int:
    """One page without a thread of its own; the length of its body."""
    connection = http.client.HTTPConnection("127.0.0.1", bed.testbed.port, timeout=30)
    connection.request("GET", path)
    length = len(connection.getresponse().read())
    connection.close()
    return length


def test_requests_pages_errors_and_bytes_are_those_that_were_asked_for(bed: Bed, sensor: TomcatStatus) -> None:
    before = requests(sensor)
    get(bed, "/shop/page.txt")
    # A request is in the books when its thread has done with it.
    until(lambda: requests(sensor) == before + 1, "it is not in the books")
    sensor.begin()
    sent = sum(get(bed, "/shop/page.txt") for _ in range(7))
    sent += sum(get(bed, "/shop/work?ms=20") for _ in range(5))
    errors = sum(get(bed, "/shop/work?ms=1&fail=1") > 0 for _ in range(3))
    until(lambda: requests(sensor) == before + 16, "they are not in the books")
    readings = sensor.read()
    assert sensor._mark is not None and sensor._last is not None
    elapsed_s = sensor._last[0] - sensor._mark[0]
    rates = ("request_rate_hz", "servlet_rate_hz", "error_rate_hz")
    assert [readings[name] * elapsed_s for name in rates] == pytest.approx([15, 8, errors])
    assert readings["byte_rate_bytes_hz"] * elapsed_s >= sent
    assert readings["servlet_time_s"] >= 5 * 0.02 / 8 * 0.9


def test_threads_and_connections_of_the_pool_are_those_that_are_held(bed: Bed, sensor: TomcatStatus) -> None:
    asked = Held(bed, 4, "&db=1")
    try:
        until(lambda: busy(sensor) == (4, 4), "they were not taken")
        sensor.begin()

        def sampled() -> bool:
            sensor.sample()
            return len(sensor._levels) >= 3

        until(sampled, "it does not answer")
        readings = sensor.read()
    finally:
        assert asked.wait() == [200] * 4
    assert readings["busy_workers"] == 4
    assert readings["pool_busy_connections"] == 4
    assert readings["pool_waiting_requests"] == 0
    assert readings["idle_workers"] >= 0
    assert readings["heap_bytes"] > 1 << 20


def test_requests_over_http_2_are_in_the_books_for_as_long_as_tomcat_counts_them() -> None:
    with private(None, http2=True) as bed, contextlib.closing(bed.attach()) as tomcat:
        (sensor,) = [one for one in tomcat.sensors() if isinstance(one, TomcatStatus)]
        before = requests(sensor)
        sensor.begin()
        assert get(bed, "/shop/page.txt") == 7
        head = b"\x82\x86\x01\x09localhost\x04\x0e/shop/page.txt"  # RFC 7541: GET, http, authority and path
        assert b"a page" in over_http2(bed, b"", frame(1, 5, 1, head))
        until(lambda: requests(sensor) == before + 2, "they are not in the books")
        readings = sensor.read()
        assert readings["request_rate_hz"] == pytest.approx(2 * readings["http2_request_rate_hz"])
        upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \r\n\r\n"
        assert b"a page" in over_http2(bed, b"GET /shop/page.txt HTTP/1.1\r\nHost: localhost\r\n" + upgrade)
        readings = sensor.read()
    assert not {"request_rate_hz", "error_rate_hz", "service_time_s"} & readings.keys()
    assert {"servlet_rate_hz", "busy_workers", "heap_bytes"} <= readings.keys()


def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    """A frame of HTTP/2 (RFC 9113, 4.1)."""
    return struct.pack("!HBBBI", 0, len(content), kind, flags, stream) + content


def over_http2(bed: Bed, upgrade: bytes, asked: bytes = b"") -> bytes:
    """What comes over HTTP/2, until a page is there.

    Args:
        bed: the server.
        upgrade: a request by which it changes to HTTP/2 (RFC 7540, 3.2); none where it is known that it speaks it.
        asked: frames that ask for the page.
    """
    with socket.create_connection(("127.0.0.1", bed.testbed.port), timeout=30) as client:
        client.sendall(upgrade)
        came = b""
        while upgrade and b"\r\n\r\n" not in came:
            came += client.recv(4096)
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + asked)
        while b"a page" not in came and (more := client.recv(4096)):
            came += more
        return came


def test_a_request_over_ajp_is_under_way_until_its_reply_and_then_in_the_books() -> None:
    """So it is behind an Apache: its requests were in the rate, and not among those under way."""
    with private(None, ajp=True) as bed, contextlib.closing(bed.attach()) as tomcat:
        (ajp,) = (port for _, port in tomcat.listeners if port != bed.testbed.port)
        (sensor,) = [one for one in tomcat.sensors() if isinstance(one, TomcatStatus)]
        (connections,) = [one for one in tomcat.sensors() if isinstance(one, Connections)]
        before, end = requests(sensor), bed.testbed.directory / "end"
        with socket.create_connection(("127.0.0.1", ajp), timeout=30) as apache:
            connections.begin()
            apache.sendall(forwarded("/shop/work", f"ms=30000&until={end}"))
            until(lambda: under_way(connections) == 1, "it is not under way")
            end.touch()
            assert apache.recv(4096).startswith(b"AB")
            until(lambda: requests(sensor) == before + 1, "it is not in the books")
            until(lambda: under_way(connections) == 0, "it is still under way")


def under_way(connections: Connections) -> float:
    connections._take()
    return connections._under_way


def forwarded(path: str, query: str) -> bytes:
    """A GET as an Apache forwards it (AJP 1.3): method, protocol, path, addresses, no header, the query."""

    def text(words: str) -> bytes:
        return struct.pack("!H", len(words)) + words.encode() + b"\0"

    who = text("127.0.0.1") + text("localhost") + text("localhost") + struct.pack("!HBH", 80, 0, 0)
    body = b"\2\2" + text("HTTP/1.1") + text(path) + who + b"\5" + text(query) + b"\xff"
    return b"\x12\x34" + struct.pack("!H", len(body)) + body


def requests(sensor: TomcatStatus) -> float:
    """How many are in the books."""
    return sensor.state().totals["requestCount"]


def busy(sensor: TomcatStatus) -> tuple[float, float]:
    """Threads, and connections of the pool."""
    sensor.begin()
    time.sleep(0.02)
    readings = sensor.read()
    return readings["busy_workers"], readings["pool_busy_connections"]


@noisy("twelve clients share the cores with the threads that they time, and with whatever else runs")
def test_response_time_is_what_clients_wait_where_requests_wait_for_a_thread(bed: Bed, tomcat: Tomcat) -> None:
    """Twelve clients, five threads of 100 ms: 240 ms, of which Tomcat's own time has 100."""
    tomcat.apply({"min_spare_threads": 0, "max_threads": 5})
    ends = threading.Event()
    times: list[float] = []

    def client() -> None:
        while not ends.is_set():
            began_s = time.monotonic()
            assert bed.ask(100) == 200
            times.append(time.monotonic() - began_s)

    clients = [threading.Thread(target=client) for _ in range(12)]
    try:
        for one in clients:
            one.start()
        time.sleep(1.0)
        times.clear()
        window = Observer(tomcat, Stop(), seed=0).window(0, 3.0, {}, 0.0, lambda partial: "")
        seen_s = sum(times) / len(times)
    finally:
        ends.set()
        for one in clients:
            one.join(30)
        tomcat.restore()
    assert window is not None
    readings = window.readings
    agree(readings["busy_workers"], 5, 0.2, "busy workers and the threads that there are")
    agree(readings["response_time_s"], seen_s, 0.2, "response time of the sensors and of the clients")
    assert readings["service_time_s"] < 0.7 * readings["response_time_s"]
    assert readings["thread_wait_s"] > 0.3 * readings["response_time_s"]
