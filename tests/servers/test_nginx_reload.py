"""No request may fail because of a reload: ten changes of nginx in mid-traffic, with kept connections."""

from __future__ import annotations

import time

import pytest

from tests.servers._private_nginx import private
from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.load_reports import Class
from trimtab.testbed.content import WEBSTONE
from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import Closed, Connection, ConstantRate, Population, Url

pytestmark = [pytest.mark.server]

ENDLESS = Constant(1e9)
PROCESSES = (3, 1, 4, 2, 5, 1, 2, 6, 3, 1)


def clients() -> tuple[Population, ...]:
    """Kept connections that are busy and that are mostly idle, one connection per request, and slow replies."""
    files = tuple(Url(file.path) for file in WEBSTONE if file.size_bytes < 1_000_000)
    slow = (Url("/wait"),)
    return (
        Population(
            class_name="busy", pages=files, arrivals=Closed(2), session_pages=ENDLESS, think_s=Constant(0.002)
        ),
        Population(class_name="idle", pages=files, arrivals=Closed(6), session_pages=ENDLESS, think_s=Constant(0.25)),
        Population(class_name="once", pages=files, arrivals=ConstantRate(40.0), connection=Connection.PER_REQUEST),
        Population(class_name="slow", pages=slow, arrivals=Closed(4), session_pages=ENDLESS, think_s=Constant(0.01)),
    )


def test_ten_reloads_in_mid_traffic_lose_no_request() -> None:
    clock = SystemClock()
    with private() as bed:
        nginx = bed.attach()
        with LoadRun(f"127.0.0.1:{bed.testbed.port}", clients(), 300.0, clock, seed=1) as run:
            clock.sleep(0.5)
            began_s = time.monotonic()
            for turn, processes in enumerate(PROCESSES):
                changes = {"worker_processes": processes, "keepalive_timeout_ms": 2000 + 20 * turn}
                applied = nginx.apply({**changes, "worker_connections": 400 + turn})
                assert applied.configuration == {**changes, "worker_connections": 400 + turn}
                clock.sleep(0.5)
            took_s = time.monotonic() - began_s
            summary = run.stop()
        nginx.restore()
        done = sum(c.requests for c in summary.classes)
        print(f"10 reloads in {took_s:.1f} s, {done} requests, {[shown(c) for c in summary.classes]}")
        assert all(c.requests > 10 for c in summary.classes), "there was traffic"
        assert {c.class_name: dict(c.errors) for c in summary.classes if c.errors} == {}


def shown(found: Class) -> str:
    """One class in words, for whoever reads the test's output."""
    return f"{found.class_name}: {found.requests} ok, {found.resent} resent, max {found.request_intended.max_s} s"
