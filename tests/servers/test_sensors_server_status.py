"""Apache's own figures, against requests whose number and service time the test knows."""

from __future__ import annotations

import os
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests._noise import noisy
from trimtab.clock import SystemClock
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured
from trimtab.sensors.server_status import ServerStatus, probe
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.testbed.apache_config import Mpm

pytestmark = [pytest.mark.server, pytest.mark.apache, noisy]

SERVICE_S = 0.05


def private(mpm: Mpm) -> ApacheTestbed:
    return ApacheTestbed(ApacheSpec(mpm, max_request_workers=4, server_limit=4, threads_per_child=4))


@pytest.fixture(scope="module", params=["prefork", "worker", "event"])
def apache(request: pytest.FixtureRequest) -> Iterator[ApacheTestbed]:
    with private(request.param) as testbed:
        yield testbed


@pytest.fixture
def status(apache: ApacheTestbed) -> Iterator[ServerStatus]:
    sensor = ServerStatus(apache.status_url.partition("?")[0], SystemClock())
    yield sensor
    sensor.close()


def get(apache: ApacheTestbed, count: int, path: str = "/cgi-bin/service.cgi?service_ms=50") -> float:
    """That many requests, three at a time; the mean time that the clients saw, in seconds."""

    def one(_: int) -> float:
        began_s = time.monotonic()
        urllib.request.urlopen(apache.url(path), timeout=10).read()
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


def test_the_service_time_is_that_of_the_page(apache: ApacheTestbed, status: ServerStatus) -> None:
    """There is a free worker for every client, so the clients see the service time and the connection's set-up.

    The upper bound leaves room for what a worker does between a client's last byte and the end of the request.
    """
    get(apache, 4)
    status.begin()
    client_s = get(apache, 24)
    service_s = status.read()["service_time_s"]
    assert service_s >= SERVICE_S
    assert 0.75 * client_s < service_s < 1.15 * client_s


def test_the_requests_are_counted_without_those_of_trimtab(apache: ApacheTestbed, status: ServerStatus) -> None:
    readings, elapsed_s = measured(status, apache, 24)
    assert readings["request_rate_hz"] * elapsed_s == pytest.approx(24, abs=0.7)


def test_bytes_are_those_of_the_replies(apache: ApacheTestbed, status: ServerStatus) -> None:
    status.begin()
    began_s = time.monotonic()
    get(apache, 4, "/cgi-bin/service.cgi?bytes=500000")
    elapsed_s = time.monotonic() - began_s
    assert status.read()["byte_rate_bytes_hz"] * elapsed_s == pytest.approx(2e6, rel=0.02)


def test_workers_that_serve_are_busy_and_the_rest_idle(apache: ApacheTestbed, status: ServerStatus) -> None:
    with ThreadPoolExecutor(2) as clients:
        url = apache.url("/cgi-bin/service.cgi?service_ms=600")
        done = [clients.submit(lambda: urllib.request.urlopen(url, timeout=10).read()) for _ in range(2)]
        time.sleep(0.2)
        status.begin()
        time.sleep(0.1)
        readings = status.read()
        for each in done:
            each.result()
    time.sleep(0.1)
    assert readings["busy_workers"] == 2


def test_a_saturated_server_never_makes_the_loop_wait(apache: ApacheTestbed, status: ServerStatus) -> None:
    """While all workers are held for 1.2 s the page says nothing; afterwards the counters are exact again."""
    status.begin()
    began_s = time.monotonic()
    url = apache.url("/cgi-bin/service.cgi?service_ms=1200")
    holders = [threading.Thread(target=lambda: urllib.request.urlopen(url, timeout=10).read()) for _ in range(4)]
    for holder in holders:
        holder.start()
    time.sleep(0.3)
    before_s = time.monotonic()
    with pytest.raises(NotMeasured, match=r"answered only once|did not answer"):
        status.read()
    status.begin()
    with pytest.raises(NotMeasured, match="waits in the accept queue"):
        status.read()
    assert time.monotonic() - before_s < 0.1
    for holder in holders:
        holder.join()
    time.sleep(0.1)
    status.sample()
    readings = status.read()
    elapsed_s = time.monotonic() - began_s
    assert readings["request_rate_hz"] * elapsed_s == pytest.approx(4, abs=0.7)


def test_a_page_that_is_off_says_how_to_turn_it_on(apache: ApacheTestbed) -> None:
    (found,) = probe(apache.url("/not-there"), SystemClock())
    assert not found.usable and "404" in found.detail and "a2enmod status" in found.enable
    (found,) = probe(apache.url("/cgi-bin/"), SystemClock())
    assert not found.usable and "403" in found.detail and "Require local" in found.enable
    (found,) = probe(apache.url("/cgi-bin/service.cgi"), SystemClock())
    assert not found.usable and "not the page of mod_status" in found.detail
    (found,) = probe(apache.status_url.partition("?")[0], SystemClock())
    assert found.usable


@pytest.mark.parametrize("mpm", ["prefork", "worker", "event"])
def test_a_graceful_restart_keeps_the_counters(mpm: Mpm) -> None:
    with private(mpm) as apache, closing(ServerStatus(apache.status_url.partition("?")[0], SystemClock())) as status:
        status.begin()
        began_s = time.monotonic()
        first_s = get(apache, 8)
        os.kill(apache.pid, signal.SIGUSR1)
        time.sleep(0.5)
        # These may wait: prefork starts its new children one by one.
        get(apache, 8)
        elapsed_s = time.monotonic() - began_s
        readings = status.read()
        # Apache may wake idle children with a request of its own, which it counts.
        assert 15.3 < readings["request_rate_hz"] * elapsed_s < 18.7
        assert 0.9 * SERVICE_S <= readings["service_time_s"] < 1.5 * first_s


def test_a_full_restart_is_not_taken_for_negative_work() -> None:
    with (
        private("prefork") as apache,
        closing(ServerStatus(apache.status_url.partition("?")[0], SystemClock())) as status,
    ):
        status.begin()
        get(apache, 4)
        time.sleep(1.0)  # The page tells restarts apart by the second.
        os.kill(apache.pid, signal.SIGHUP)
        time.sleep(1.2)
        with pytest.raises(NotMeasured, match="restarted"):
            status.read()
        readings, elapsed_s = measured(status, apache, 4)
        assert readings["request_rate_hz"] * elapsed_s == pytest.approx(4, abs=0.7)
