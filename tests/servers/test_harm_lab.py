"""The battery's beds on real servers: small, but whole, from a drawn scenario to the stored windows."""

from __future__ import annotations

import os
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.lab import Context
from trimtab.lab._applications import SHIPPED, check
from trimtab.lab._drawn import Drawn, _Apache, front, hurried
from trimtab.lab._engine import Made, run_arm
from trimtab.lab._scenario import MIB, Scenario, draw
from trimtab.lab.harm import ALONE, PART, arms
from trimtab.store import Store
from trimtab.testbed.content import dynamic_url

pytestmark = [pytest.mark.server, pytest.mark.apache]

BEFORE = ("module", "apache", "nginx")


def scenario(application: str, before: str) -> Scenario:
    """A draw for development with this application and this in front of PHP."""
    drawn = (draw(seed) for seed in range(1, 100))
    found = (one for one in drawn if before == ("module" if one.php == "module" else front(one)))
    return next(hurried(one.seed) for one in found if one.application == application)


@pytest.mark.parametrize("before", BEFORE)
def test_a_drawn_page_is_served_to_its_clients_and_what_they_waited_is_stored(before: str) -> None:
    """Few users, and patient ones, whatever the machine can do."""
    few = replace(scenario("page", before), load_ratio=0.3, clients="closed", shape="steady", think_s=0.2)
    one = replace(few, patience_s=60.0)
    alone = next(arm for arm in arms(PART, one.seed) if arm.label == ALONE)
    bed = Drawn(one, request_s=max(0.05, one.cpu_s))
    store = Store(None)
    run_id = run_arm(replace(alone, bed=bed, duration_s=8.0, resolved=None), Context(store), Made(store))
    windows = store.windows(run_id)
    assert store.run(run_id).plan.plant == ("apache" if before == "module" else "php-fpm")
    assert all("client_outstanding_requests" in w.readings for w in windows)
    assert sum(w.readings["client_request_rate_hz"] for w in windows) > 0
    assert sum(w.readings["client_error_rate_hz"] for w in windows) == 0


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("application", sorted(SHIPPED))
def test_an_application_gives_its_pages_and_not_one_that_says_what_is_wrong(application: str, before: str) -> None:
    if not SHIPPED[application].is_dir():
        pytest.skip(f"{application} is not installed (packages.txt, bench)")
    bed = Drawn(scenario(application, before))
    with bed._in_apache() if before == "module" else bed._in_fpm() as (_, port, _):
        check(bed.scenario, port)


def test_a_worker_takes_its_cold_memory_once_and_keeps_it() -> None:
    spec = replace(Drawn(scenario("page", "module"), workers=1).spec(), start_servers=1, memory_limit_bytes=None)
    with _Apache(replace(spec, swap=False), "page") as bed:

        def held_bytes(path: str) -> int:
            with urllib.request.urlopen(bed.url(path), timeout=300) as reply:
                assert b" pieces</p>" in reply.read()
            children = Path(f"/proc/{bed.pid}/task/{bed.pid}/children").read_text().split()
            pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in children]
            return max(pages) * os.sysconf("SC_PAGE_SIZE")

        without = held_bytes(dynamic_url(100, 64))
        cold = held_bytes(dynamic_url(100, 64, cold_kb=20 * 1024))
        assert cold - without >= 18 * MIB
        assert held_bytes(dynamic_url(100, 64, cold_kb=20 * 1024)) - cold < 2 * MIB
