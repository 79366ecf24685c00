"""No request may fail because of a reload: ten changes of nginx in mid-traffic, with kept connections."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.servers._private_nginx import CPUS, MORE, private
from tests.servers._traffic import changed_in_mid_traffic, errors, once, users
from trimtab.plants.nginx import knobs
from trimtab.testbed.content import WEBSTONE
from trimtab.workloads._population import Url

pytestmark = [pytest.mark.server]

PROCESSES = (3, 1, 4, 2, 5, 1, 2, 6, 3, 1)


def test_ten_reloads_in_mid_traffic_lose_no_request() -> None:
    """With kept connections that are busy and that are mostly idle, one connection per request, and slow replies."""
    files = [Url(file.path) for file in WEBSTONE if file.size_bytes < 1_000_000]
    kept = users("busy", files, 2, 0.002), users("idle", files, 6, 0.25), users("slow", [Url("/wait")], 4, 0.01)
    changes = (
        {"worker_processes": number, "keepalive_timeout_ms": 2000 + 20 * turn, "worker_connections": 400 + turn}
        for turn, number in enumerate(PROCESSES)
    )
    with private() as bed:
        clients = (*kept, once(files, 40.0))
        assert errors(changed_in_mid_traffic(bed.attach(), bed.testbed.port, clients, changes)) == {}


def test_one_that_has_counted_other_cpus_at_its_start_is_changed_and_put_back_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a virtual machine that has got some since: each change failed after twenty seconds, and its way back."""
    monkeypatch.setattr(knobs, "os", SimpleNamespace(sysconf=lambda name: CPUS + 2))
    with private() as bed:
        nginx = bed.attach()
        assert nginx.configuration()["worker_processes"] == CPUS
        nginx.apply({"keepalive_timeout_ms": 500})
        nginx.apply({"worker_processes": MORE})
        assert bed.processes() == MORE
        nginx.restore()
        assert bed.processes() == CPUS
