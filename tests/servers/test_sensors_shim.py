"""The shim's exact terms of Eq. (1) against those of the untouched sensors, on one real Apache under load."""

from __future__ import annotations

from urllib.request import urlopen

import pytest

from tests._noise import agree, noisy
from tests.servers._under_gate import under_gate
from trimtab.clock import SystemClock
from trimtab.gate.server import processes_of
from trimtab.load import LoadRun
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.server_status import ServerStatus
from trimtab.sensors.shim import Shim
from trimtab.testbed.apache_config import Mpm
from trimtab.testbed.content import cgi_url
from trimtab.workloads._population import Connection, Url
from trimtab.workloads.closed_loop import ClosedLoop

pytestmark = [pytest.mark.server, pytest.mark.apache]

WORKERS = 4
SERVICE_MS = 120
SAMPLES = 100


@noisy("three sources with windows of their own, on a machine that others use")
@pytest.mark.parametrize("mpm", ["prefork", "worker"])
def test_both_see_the_same_delays_service_times_and_counts(mpm: Mpm) -> None:
    """Three times as many users as workers, so that two of three connections wait to be accepted."""
    clock = SystemClock()
    page = Url(cgi_url(SERVICE_MS))
    users = ClosedLoop(connections=3 * WORKERS, urls=(page,), connection=Connection.PER_PAGE).populations()
    with under_gate(mpm, workers=WORKERS, gate=False) as bed:
        status = ServerStatus(bed.status_url, clock)
        queue = AcceptQueue([("127.0.0.1", bed.port)], clock, processes_of(bed.run_dir)[0].pid, status)
        shim = Shim(bed.run_dir.shared, clock)
        with LoadRun(f"127.0.0.1:{bed.port}", users, 60, clock) as load:
            clock.sleep(1.5)
            for sensor in (queue, status, shim):
                sensor.begin()
            for _ in range(SAMPLES):
                clock.sleep(queue.sampling_period_s)
                queue.sample()
                status.sample()
            waits, pages, exact = queue.read(), status.read(), shim.read()
            load.stop()
        for sensor in (queue, status, shim):
            sensor.close()
    print(f"{mpm}: shim {dict(exact)}; accept queue {dict(waits)}; status page {dict(pages)}")
    agree(exact["burst_length"], 1, 0.05, "burst_length")
    assert exact["service_time_s"] >= SERVICE_MS / 1000
    agree(exact["accept_queue_delay_s"], waits["accept_queue_delay_s"], 0.2, "accept_queue_delay_s")
    agree(exact["connection_rate_hz"], waits["connection_rate_hz"], 0.1, "connection_rate_hz")
    agree(exact["service_time_s"], pages["service_time_s"], 0.2, "service_time_s")
    agree(exact["request_rate_hz"], pages["request_rate_hz"], 0.1, "request_rate_hz")


@pytest.mark.quiet  # a doctor that another test runs asks every Apache for its page three times
@pytest.mark.parametrize("ports", [False, True], ids=["all ports are watched", "that of the page is not"])
def test_our_own_questions_for_the_status_page_are_no_requests_of_users(ports: bool) -> None:
    clock = SystemClock()
    with under_gate("prefork", workers=WORKERS, gate=False, ports=ports) as bed:
        status = ServerStatus(bed.status_url, clock)
        shim = Shim(bed.run_dir.shared, clock, status)
        for turn in range(2):
            for sensor in (status, shim):
                sensor.begin()
            began_s = clock.now_s()
            for at in range(30):
                clock.sleep(0.1)
                status.sample()
                shim.sample()
                if turn and at % 10 == 0:
                    urlopen(f"http://127.0.0.1:{bed.port}{cgi_url(50)}", timeout=300).close()
            asked, took_s = status.connections, clock.now_s() - began_s
            readings = [dict(one.read()) for one in (status, shim)]
        for sensor in (status, shim):
            sensor.close()
    assert asked > 10
    for one in readings:
        assert took_s * one["request_rate_hz"] == pytest.approx(3, abs=1.2)
        assert one["service_time_s"] > 0.03
