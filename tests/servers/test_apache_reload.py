"""What a reload costs: no request fails in ten changes in mid-traffic, and a pool stays as large as it is."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

import pytest

from tests.servers._private_apache import MPMS, UNDER_WAY, children, private
from tests.servers._under_gate import PATIENCE_S, until
from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.load_reports import Class
from trimtab.plants.apache import status
from trimtab.testbed.apache_config import Mpm
from trimtab.testbed.content import WEBSTONE, cgi_url
from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import Closed, Connection, ConstantRate, Population, Url

pytestmark = [pytest.mark.server, pytest.mark.apache]

ENDLESS = Constant(1e9)
PROCESSES = (12, 6, 16, 9, 5, 14, 8, 16, 10, 7)


def clients(mpm: Mpm) -> tuple[Population, ...]:
    """Kept connections that are busy and that are mostly idle, one connection per request, and slow replies."""
    files = tuple(Url(file.path) for file in WEBSTONE if file.size_bytes < 1_000_000)
    # With threads the slow page would go through mod_cgid, which loses requests in a reload: see the plant's notes.
    slow = Url(cgi_url(100)) if mpm == "prefork" else Url(max(WEBSTONE, key=lambda file: file.size_bytes).path)
    return (
        Population(
            class_name="busy", pages=files, arrivals=Closed(2), session_pages=ENDLESS, think_s=Constant(0.002)
        ),
        Population(class_name="idle", pages=files, arrivals=Closed(6), session_pages=ENDLESS, think_s=Constant(0.25)),
        Population(class_name="once", pages=files, arrivals=ConstantRate(40.0), connection=Connection.PER_REQUEST),
        Population(
            class_name="slow", pages=(slow,), arrivals=Closed(1), session_pages=ENDLESS, think_s=Constant(0.1)
        ),
    )


@pytest.mark.alone  # beside other servers' tests a reload of the worker MPM once had no new worker for 20 s
@pytest.mark.parametrize("mpm", MPMS)
def test_ten_reloads_in_mid_traffic_lose_no_request(mpm: Mpm) -> None:
    clock = SystemClock()
    with private(mpm) as bed:
        apache = bed.attach()
        with LoadRun(f"127.0.0.1:{bed.testbed.port}", clients(mpm), 300.0, clock, seed=1) as run:
            clock.sleep(0.5)
            began_s, reloads = time.monotonic(), 0
            for turn, processes in enumerate(PROCESSES):
                changes = {"max_request_workers": processes * bed.threads, "keep_alive_timeout_ms": 200 + 20 * turn}
                applied = apache.apply(changes)
                assert applied.configuration == changes
                reloads += 1
                clock.sleep(0.5)
            took_s = time.monotonic() - began_s
            summary = run.stop()
        apache.restore()
        done = sum(c.requests for c in summary.classes)
        print(f"{mpm}: {reloads} reloads in {took_s:.1f} s, {done} requests, {[shown(c) for c in summary.classes]}")
        assert all(c.requests > 10 for c in summary.classes), "there was traffic"
        assert {c.class_name: dict(c.errors) for c in summary.classes if c.errors} == {}


def shown(found: Class) -> str:
    """One class in words, for whoever reads the test's output."""
    return f"{found.class_name}: {found.requests} ok, {found.resent} resent, max {found.request_intended.max_s} s"


def test_the_way_back_to_what_was_there_first_leaves_a_pool_as_large_as_it_is() -> None:
    """trimtab's file went away with it, and its StartServers: a busy pool began anew with the operator's one."""
    with private("prefork", start_servers=1) as bed:
        pid = bed.testbed.pid
        apache = bed.attach()
        with ExitStack() as clients:
            for _ in range(8):
                client = clients.enter_context(socket.create_connection(("127.0.0.1", bed.testbed.port)))
                client.sendall(UNDER_WAY)
            until(lambda: len(children(pid)) == 8, "the pool does not grow")
        until(lambda: status.busy(status.scoreboard(bed.testbed.status_url, PATIENCE_S) or "W" * 8) < 2, "it is busy")
        for timeout_ms in (900, 300):
            apache.apply({"keep_alive_timeout_ms": timeout_ms})
            until(lambda: len(children(pid)) == 8, "the pool is smaller than it was")
        apache.close()
        assert not bed.snippet.exists(), "later reloads are the operator's"
