"""Apache's own figures, against requests whose number and service time the test knows."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress

import pytest

from tests._noise import Noise, agree, noisy
from tests.servers._private_apache import UNDER_WAY, children, reload
from tests.servers._under_gate import PATIENCE_S, until
from trimtab.clock import SystemClock
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured
from trimtab.sensors.server_status import ServerStatus, probe
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.testbed.apache_config import Mpm

pytestmark = [pytest.mark.server, pytest.mark.apache]

SERVICE_S = 0.05
USUAL_S = 0.02
"""How long the sensor waits for the page in a run."""
WINDOWS = "the sensor's window and the test's begin and end a moment apart"


def private(mpm: Mpm) -> ApacheTestbed:
    return ApacheTestbed(ApacheSpec(mpm, max_request_workers=4, server_limit=4, threads_per_child=4))


@pytest.fixture(scope="module", params=["prefork", "worker", "event"])
def apache(request: pytest.FixtureRequest) -> Iterator[ApacheTestbed]:
    with private(request.param) as testbed:
        yield testbed


@pytest.fixture
def status(apache: ApacheTestbed) -> Iterator[ServerStatus]:
    sensor = patient(apache)
    yield sensor
    sensor.close()


def patient(apache: ApacheTestbed) -> ServerStatus:
    """A sensor that waits for the page at both ends of a window."""
    return ServerStatus(apache.status_url.partition("?")[0], SystemClock(), PATIENCE_S)


def get(apache: ApacheTestbed, count: int, path: str = "/cgi-bin/service.cgi?service_ms=50") -> float:
    """That many requests, three at a time; the mean time that the clients saw, in seconds."""

    def one(_: int) -> float:
        began_s = time.monotonic()
        urllib.request.urlopen(apache.url(path), timeout=PATIENCE_S).read()
        return time.monotonic() - began_s

    with ThreadPoolExecutor(3) as clients:
        times = list(clients.map(one, range(count)))
    # A client has its reply a little before the worker has logged the request.
    time.sleep(0.1)
    return sum(times) / count


def measured(status: ServerStatus, apache: ApacheTestbed, count: int) -> tuple[Readings, float]:
    """The readings of a window with that many requests, and its length in seconds."""
    status.begin()
    began_s = time.monotonic()
    get(apache, count)
    elapsed_s = time.monotonic() - began_s
    return status.read(), elapsed_s


@noisy("the clients' times hold what the machine does beside")
def test_the_service_time_is_that_of_the_page(apache: ApacheTestbed, status: ServerStatus) -> None:
    """There is a free worker for every client, so the clients see the service time and the connection's set-up.

    The upper bound leaves room for what a worker does between a client's last byte and the end of the request.
    """
    get(apache, 4)
    status.begin()
    client_s = get(apache, 24)
    service_s = status.read()["service_time_s"]
    assert service_s >= SERVICE_S
    if not 0.75 * client_s < service_s < 1.15 * client_s:
        raise Noise(f"service time {service_s} s, {client_s} s for the clients")


@noisy(WINDOWS)
def test_the_requests_are_counted_without_those_of_trimtab(apache: ApacheTestbed, status: ServerStatus) -> None:
    readings, elapsed_s = measured(status, apache, 24)
    agree(readings["request_rate_hz"] * elapsed_s, 24, 0.03, "requests")


@noisy(WINDOWS)
def test_bytes_are_those_of_the_replies(apache: ApacheTestbed, status: ServerStatus) -> None:
    status.begin()
    began_s = time.monotonic()
    get(apache, 4, "/cgi-bin/service.cgi?bytes=500000")
    elapsed_s = time.monotonic() - began_s
    agree(status.read()["byte_rate_bytes_hz"] * elapsed_s, 2e6, 0.02, "bytes")


def test_workers_that_serve_are_busy_and_the_rest_idle(apache: ApacheTestbed, status: ServerStatus) -> None:
    def busy() -> float | None:
        status.begin()
        time.sleep(0.05)
        with suppress(NotMeasured):  # the page has not answered twice yet
            return status.read()["busy_workers"]
        return None

    with ExitStack() as clients:
        for _ in range(2):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", apache.port)))
            client.sendall(UNDER_WAY)
        until(lambda: busy() == 2, "they are not busy")
    until(lambda: busy() == 0, "they are not idle")


@noisy(WINDOWS)
def test_a_saturated_server_never_makes_the_loop_wait(apache: ApacheTestbed, status: ServerStatus) -> None:
    """While all workers are held for 2.5 s the page says nothing; afterwards the counters are exact again."""
    status.begin()
    status._patience_s = USUAL_S
    began_s = time.monotonic()
    url = apache.url("/cgi-bin/service.cgi?service_ms=2500")
    holders = [
        threading.Thread(target=lambda: urllib.request.urlopen(url, timeout=PATIENCE_S).read()) for _ in range(4)
    ]
    for holder in holders:
        holder.start()
    time.sleep(0.3)
    with pytest.raises(NotMeasured, match=r"answered only once|did not answer"):
        status.read()
    status.begin()
    with pytest.raises(NotMeasured, match="waits in the accept queue"):
        status.read()
    assert all(holder.is_alive() for holder in holders), "nothing of this waited for a worker"
    for holder in holders:
        holder.join()
    time.sleep(0.1)
    status._patience_s = PATIENCE_S
    status.sample()
    readings = status.read()
    elapsed_s = time.monotonic() - began_s
    agree(readings["request_rate_hz"] * elapsed_s, 4, 0.17, "requests")


def test_a_page_that_is_off_says_how_to_turn_it_on(apache: ApacheTestbed) -> None:
    (found,) = probe(apache.url("/not-there"), SystemClock())
    assert not found.usable and "404" in found.detail and "a2enmod status" in found.enable
    (found,) = probe(apache.url("/cgi-bin/"), SystemClock())
    assert not found.usable and "403" in found.detail and "Require local" in found.enable
    (found,) = probe(apache.url("/cgi-bin/service.cgi"), SystemClock())
    assert not found.usable and "not the page of mod_status" in found.detail
    (found,) = probe(apache.status_url.partition("?")[0], SystemClock())
    assert found.usable


@noisy(WINDOWS)
@pytest.mark.parametrize("mpm", ["prefork", "worker", "event"])
def test_a_graceful_restart_keeps_the_counters(mpm: Mpm) -> None:
    with private(mpm) as apache, closing(patient(apache)) as status:
        status.begin()
        began_s = time.monotonic()
        get(apache, 8)
        reload(apache.pid)
        # These may wait: prefork starts its new children one by one.
        get(apache, 8)
        elapsed_s = time.monotonic() - began_s
        readings = status.read()
        requests = readings["request_rate_hz"] * elapsed_s
        # Apache may wake idle children with a request of its own, which it counts.
        if not 15.3 < requests < 18.7:
            raise Noise(f"{requests} requests")
        assert readings["service_time_s"] >= 0.9 * SERVICE_S


@noisy(WINDOWS)
def test_a_full_restart_is_not_taken_for_negative_work() -> None:
    with private("prefork") as apache, closing(patient(apache)) as status:
        status.begin()
        get(apache, 4)
        before = children(apache.pid)
        time.sleep(1.0)  # The page tells restarts apart by the second.
        os.kill(apache.pid, signal.SIGHUP)
        until(lambda: bool(now := children(apache.pid)) and not now & before, "the server did not restart")
        with pytest.raises(NotMeasured, match="restarted"):
            status.read()
        readings, elapsed_s = measured(status, apache, 4)
        agree(readings["request_rate_hz"] * elapsed_s, 4, 0.17, "requests")
