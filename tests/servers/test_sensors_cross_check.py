"""Eq. (1) from three sensors against the page time that the clients see, on one real Apache under load."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests._noise import agree, noisy
from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.sensors._eq1 import eq1
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.load_generator import LoadGenerator
from trimtab.sensors.server_status import ServerStatus
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.testbed.apache_config import Mpm
from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import Closed, Connection, Population, Url

pytestmark = [pytest.mark.server, pytest.mark.apache]

WORKERS = 8
PAGES = 80
LONGEST_S = 20.0


@pytest.fixture(scope="module", params=["prefork", "worker", "event"])
def apache(request: pytest.FixtureRequest) -> Iterator[ApacheTestbed]:
    mpm: Mpm = request.param
    with ApacheTestbed(ApacheSpec(mpm, max_request_workers=WORKERS, server_limit=8, threads_per_child=8)) as testbed:
        yield testbed


def pages(run: LoadRun, since_s: float) -> int:
    return sum(interval.classes[0].pages for interval in run.intervals_since(since_s))


@noisy("clients and sensors share the cores with whatever else runs")
@pytest.mark.parametrize(
    ("apache", "burst"), [("prefork", 1), ("worker", 1), ("worker", 4), ("event", 1)], indirect=["apache"]
)
def test_the_response_time_of_the_sensors_is_that_of_the_clients(apache: ApacheTestbed, burst: int) -> None:
    """Twice as many users as workers, so that half of the time of a page of one request is the wait to be accepted.

    The clients' page time holds what the sensors cannot see: making the connection and, on machines with few
    cores, the wait of the clients themselves for a CPU.
    """
    users = Population(
        class_name="all",
        arrivals=Closed(2 * WORKERS),
        session_pages=Constant(1e9),
        burst_requests=Constant(burst),
        objects=(Url("/cgi-bin/service.cgi?service_ms=120"),),
        pages=(Url("/cgi-bin/service.cgi?service_ms=120"),),
        connection=Connection.PER_PAGE,
    )
    clock = SystemClock()
    status = ServerStatus(apache.status_url.partition("?")[0], clock)
    queue = AcceptQueue([("127.0.0.1", apache.port)], clock, apache.pid, status)
    try:
        with LoadRun(f"127.0.0.1:{apache.port}", [users], 60, clock, interval_s=0.1) as run:
            clock.sleep(1.5)
            sensors = (queue, status, LoadGenerator(run, clock))
            began_s = clock.now_s()
            for sensor in sensors:
                sensor.begin()
            while pages(run, began_s) < PAGES and clock.now_s() < began_s + LONGEST_S:
                for _ in range(25):
                    clock.sleep(queue.sampling_period_s)
                    queue.sample()
                    status.sample()
            readings = {name: value for sensor in sensors for name, value in sensor.read().items()}
            seen = [interval.classes[0] for interval in run.intervals_since(began_s)]
            run.stop()
    finally:
        queue.close()
        status.close()
    readings |= eq1(readings)
    # The event MPM ends kept connections when all workers are busy, so a page may need several.
    connections_per_page = sum(c.connections for c in seen) / sum(c.pages for c in seen)
    client_s = readings["client_page_time_s"] / connections_per_page
    ratio = readings["response_time_s"] / client_s
    requests = readings["request_rate_hz"] / readings["client_request_rate_hz"]
    print(
        f"{apache.spec.mpm}, burst {burst}: RT {readings['response_time_s']:.4f} s of the sensors, "
        f"{client_s:.4f} s of the clients, ratio {ratio:.3f}; requests {requests:.3f}; "
        f"BL {readings['burst_length']:.2f}, "
        f"AQT {readings['accept_queue_delay_s']:.4f} s, ST {readings['service_time_s']:.4f} s"
    )
    agree(readings["burst_length"], burst / connections_per_page, 0.15, "burst length")
    agree(requests, 1, 0.1, "requests of the sensors to those of the clients")
    agree(ratio, 1, 0.15, "response time of the sensors to that of the clients")
