"""What a reload costs: no request fails in ten changes in mid-traffic, and a pool stays as large as it is."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from tests.servers._private_apache import MPMS, UNDER_WAY, children, private
from tests.servers._traffic import changed_in_mid_traffic, errors, once, users
from tests.servers._under_gate import PATIENCE_S, until
from trimtab.plants.apache import status
from trimtab.testbed.apache_config import Mpm
from trimtab.testbed.content import WEBSTONE, cgi_url
from trimtab.workloads._population import Population, Url

pytestmark = [pytest.mark.server, pytest.mark.apache]

PROCESSES = (12, 6, 16, 9, 5, 14, 8, 16, 10, 7)


def clients(mpm: Mpm) -> tuple[Population, ...]:
    """Kept connections that are busy and that are mostly idle, one connection per request, and slow replies."""
    files = [Url(file.path) for file in WEBSTONE if file.size_bytes < 1_000_000]
    # With threads the slow page would go through mod_cgid, which loses requests in a reload: see the plant's notes.
    slow = Url(cgi_url(100)) if mpm == "prefork" else Url(max(WEBSTONE, key=lambda file: file.size_bytes).path)
    kept = users("busy", files, 2, 0.002), users("idle", files, 6, 0.25), users("slow", [slow], 1, 0.1)
    return *kept, once(files, 40.0)


@pytest.mark.alone  # beside other servers' tests a reload of the worker MPM once had no new worker for 20 s
@pytest.mark.parametrize("mpm", MPMS)
def test_ten_reloads_in_mid_traffic_lose_no_request(mpm: Mpm) -> None:
    with private(mpm) as bed:
        changes = (
            {"max_request_workers": processes * bed.threads, "keep_alive_timeout_ms": 200 + 20 * turn}
            for turn, processes in enumerate(PROCESSES)
        )
        assert errors(changed_in_mid_traffic(bed.attach(), bed.testbed.port, clients(mpm), changes)) == {}


def test_the_way_back_to_what_was_there_first_leaves_a_pool_as_large_as_it_is() -> None:
    """trimtab's file went away with it, and its StartServers: a busy pool began anew with the operator's one."""
    # With room for both: what Apache cannot start within a second of a reload it forgets.
    with private("prefork", start_servers=1, max_request_workers=32, server_limit=32) as bed:
        pid = bed.testbed.pid
        apache = bed.attach()
        with ExitStack() as clients:
            for _ in range(8):
                client = clients.enter_context(socket.create_connection(("127.0.0.1", bed.testbed.port)))
                client.sendall(UNDER_WAY)
            until(lambda: len(children(pid)) >= 8, "the pool does not grow")
        until(lambda: status.busy(status.scoreboard(bed.testbed.status_url, PATIENCE_S) or "W" * 8) < 2, "it is busy")
        before = set[int]()
        for timeout_ms in (900, 300):
            before.update(children(pid))
            apache.apply({"keep_alive_timeout_ms": timeout_ms})
            until(lambda: len({*children(pid)} - before) >= 8, "the pool is smaller than it was")
        apache.close()
        assert not bed.snippet.exists(), "later reloads are the operator's"
