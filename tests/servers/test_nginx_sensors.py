"""nginx's own figures, against requests whose number and time the test knows, and against nginx's log."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests._memory_plant import StillClock
from tests._noise import agree, noisy
from tests.servers._private_nginx import Bed, private, renewed
from tests.servers._under_gate import PATIENCE_S, until
from trimtab.clock import SystemClock
from trimtab.errors import ApplyRefused, NotMeasured
from trimtab.plants.nginx.stub_status import StubStatus, probe
from trimtab.sensors.accept_queue import AcceptQueue

pytestmark = [pytest.mark.server]

TIMES = "log_format times '$request_uri $request_time'; access_log logs/times.log times;"


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    """One that logs how long each request took."""
    with private() as bed:
        bed.replace("access_log [^;]*;", TIMES)
        with renewed(bed):
            os.kill(bed.pid, signal.SIGHUP)
        yield bed


@pytest.fixture
def status(bed: Bed) -> Iterator[StubStatus]:
    sensor = StubStatus(bed.testbed.url("/nginx_status"), SystemClock(), patience_s=PATIENCE_S)
    yield sensor
    sensor.close()


def get(bed: Bed, count: int, clients: int = 4, path: str = "/wait") -> None:
    """That many requests, each on a connection of its own."""

    def one(_: int) -> None:
        urllib.request.urlopen(bed.testbed.url(path), timeout=PATIENCE_S).read()

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(one, range(count)))


def logged(bed: Bed, path: str) -> list[float]:
    """The times that nginx logged for a path, in seconds."""
    rows = (line.split() for line in (bed.testbed.directory / "logs" / "times.log").read_text().splitlines())
    return [float(time_s) for uri, time_s in rows if uri == path]


def test_every_request_and_connection_is_counted_once_and_each_of_ours_too(bed: Bed, status: StubStatus) -> None:
    status.begin()
    first = status.latest()
    get(bed, 25)
    time.sleep(0.05)  # or the page that it has begun with is new enough for its end
    status.read()
    last, asked = status.latest(), status.connections
    assert first is not None and last is not None
    assert last.requests - first.requests == 25 + asked - 1
    assert last.accepts - first.accepts == 25 + asked - 1


@noisy("the page is asked for later than it should be where clients and nginx leave no CPU")
def test_the_time_of_a_request_agrees_with_nginxs_own_log(bed: Bed, status: StubStatus) -> None:
    before = len(logged(bed, "/wait"))
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(get, bed, 240, 8)
        # The window is one in which all clients come, without the first requests and the last.
        until(lambda: len(logged(bed, "/wait")) >= before + 40, "no requests")
        status.begin()
        while len(logged(bed, "/wait")) < before + 200:
            assert not load.done()
            status.sample()
            time.sleep(status.sampling_period_s)
        found = status.read()
        load.result()
    until(lambda: len(logged(bed, "/wait")) == before + 240, "requests are not in the log")
    log = logged(bed, "/wait")[before:]
    mean_s = sum(log) / len(log)
    print(f"Little's law over the log's mean: {found['service_time_s'] / mean_s:.3f}")
    # Ten samples or more of a mean of 8: an error of 11 % where requests come independently, which they do not.
    agree(found["service_time_s"], mean_s, 0.25, "time of a request by Little's law and by the log")


def test_connections_agree_with_the_kernels_count(bed: Bed, status: StubStatus) -> None:
    clock = StillClock()
    queue = AcceptQueue((("127.0.0.1", bed.testbed.port),), clock, bed.pid, status)
    queue.begin()
    status.begin()
    first, asked = status.latest(), status.connections
    get(bed, 30)
    status.read()
    clock.seconds = 2.0
    came = queue.read()["connection_rate_hz"] * clock.seconds
    last = status.latest()
    assert first is not None and last is not None
    ours = status.connections - asked
    assert round(came) == pytest.approx(last.accepts - first.accepts - ours, abs=1)
    queue.close()


def test_kept_connections_are_idle_and_not_under_way(bed: Bed, status: StubStatus) -> None:
    clients = [http.client.HTTPConnection("127.0.0.1", bed.testbed.port, timeout=PATIENCE_S) for _ in range(5)]
    for client in clients:
        client.request("GET", "/wait")
        client.getresponse().read()

    def seen() -> tuple[float, ...]:
        status.begin()
        time.sleep(0.05)
        found = status.read()
        return found["open_connections"], found["idle_connections"], found["requests_under_way"]

    # nginx may not yet have got round to those that it has served and those that have gone.
    until(lambda: seen() == (5, 5, 0), "not all are idle")
    for client in clients:
        client.close()


def test_a_limit_that_leaves_no_room_for_the_connections_there_are_is_refused(bed: Bed) -> None:
    nginx = bed.attach()
    fewest = nginx.knobs()[1].domain.minimum
    clients = [socket.create_connection(("127.0.0.1", bed.testbed.port)) for _ in range(fewest)]
    for sensor in nginx.sensors():
        sensor.begin()
    (status,) = (sensor for sensor in nginx.sensors() if isinstance(sensor, StubStatus))

    def seen() -> bool:
        status.sample()
        return status.most_open > fewest

    until(seen, "they are not on the page")
    with pytest.raises(ApplyRefused, match=rf"worker_connections {fewest} is less than twice the"):
        nginx.apply({"worker_connections": fewest})
    for client in clients:
        client.close()
    nginx.close()


def test_a_reload_keeps_the_counters(bed: Bed, status: StubStatus) -> None:
    status.begin()
    get(bed, 5)
    with renewed(bed):
        os.kill(bed.pid, signal.SIGHUP)
    get(bed, 5)
    time.sleep(0.05)
    assert status.read()["request_rate_hz"] > 0


def test_a_page_that_is_not_there_is_said(bed: Bed) -> None:
    found = probe(bed.testbed.url("/nothing"), SystemClock())
    assert not found[0].usable
    assert "stub_status" in found[0].enable
    assert probe(bed.testbed.url("/nginx_status"), SystemClock())[0].usable
    with pytest.raises(NotMeasured):
        StubStatus(bed.testbed.url("/nothing"), SystemClock(), patience_s=1.0).begin()
