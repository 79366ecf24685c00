"""No request may fail because of a reload: ten in mid-traffic, behind nginx and Apache, by both kinds of socket."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from tests.servers._private_fpm import Bed, private
from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.testbed.content import dynamic_url
from trimtab.testbed.nginx import NginxSpec, NginxTestbed
from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import Closed, Connection, ConstantRate, Population, Url

pytestmark = [pytest.mark.server, pytest.mark.apache]

ENDLESS = Constant(1e9)
CHILDREN = (7, 4, 9, 5, 3, 8, 6, 10, 5, 4)


def clients() -> tuple[Population, ...]:
    """Kept connections, one connection per request, and pages of 50 ms of PHP."""
    short, slow = Url(dynamic_url(cpu_us=1000, memory_kb=100)), Url(dynamic_url(cpu_us=50_000, memory_kb=2000))
    return (
        Population(
            class_name="busy", pages=(short,), arrivals=Closed(2), session_pages=ENDLESS, think_s=Constant(0.01)
        ),
        Population(class_name="once", pages=(short,), arrivals=ConstantRate(15.0), connection=Connection.PER_REQUEST),
        Population(
            class_name="slow", pages=(slow,), arrivals=Closed(2), session_pages=ENDLESS, think_s=Constant(0.1)
        ),
    )


@contextlib.contextmanager
def nginx(bed: Bed) -> Iterator[int]:
    with NginxTestbed(NginxSpec(fastcgi=bed.testbed.nginx)) as front:
        yield front.port


@contextlib.contextmanager
def apache(bed: Bed) -> Iterator[int]:
    with ApacheTestbed(ApacheSpec("event", fastcgi=bed.testbed.apache)) as front:
        yield front.port


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
@pytest.mark.parametrize("front", [nginx, apache])
def test_ten_reloads_in_mid_traffic_lose_no_request(
    front: Callable[[Bed], contextlib.AbstractContextManager[int]], tcp: bool
) -> None:
    clock = SystemClock()
    with private(tcp=tcp) as bed, front(bed) as port:
        fpm = bed.attach()
        with LoadRun(f"127.0.0.1:{port}", clients(), 300.0, clock, seed=1) as run:
            clock.sleep(0.5)
            began_s = time.monotonic()
            for turn, children in enumerate(CHILDREN):
                changes = {"max_children": children, "pm": turn % 3}
                assert fpm.apply(changes).configuration.items() >= changes.items()
                clock.sleep(0.5)
            took_s = time.monotonic() - began_s
            summary = run.stop()
        fpm.restore()
        done = {c.class_name: c.requests for c in summary.classes}
        print(f"{front.__name__}: ten reloads in {took_s:.1f} s, {done}")
        assert all(number > 10 for number in done.values()), "there was traffic"
        assert {c.class_name: dict(c.errors) for c in summary.classes if c.errors} == {}
