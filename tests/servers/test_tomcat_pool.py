"""A pool of JDBC connections that is told to be smaller while requests wait for its connections."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.servers._private_tomcat import NOWHERE, Asked, Bed, Held, private
from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.core import Applied
from trimtab.plants.tomcat.attached import ACTIVE, Attached
from trimtab.plants.tomcat.plant import Tomcat
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.sensors.held_back import HeldBack

pytestmark = pytest.mark.server
CLIENTS, TRIES = 16, 5


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with private() as bed:
        yield bed


@pytest.fixture(scope="module")
def dbcp() -> Iterator[Bed]:
    with private(jdbc=replace(NOWHERE, dbcp=True)) as bed:
        yield bed


class Clients:
    """Clients each of whom asks for one page after the other, which takes 300 ms with a connection of the pool."""

    def __init__(self, bed: Bed) -> None:
        self._bed, self._over = bed, threading.Event()
        self.said: list[int] = []
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(CLIENTS)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        while not self._over.is_set():
            self.said.append(self._bed.ask(300, "&db=1"))


def pool(tomcat: Attached, attribute: str) -> int:
    """What the pool says of itself."""
    spot = next(dial.bean for dial in tomcat.dials if dial.attribute == ACTIVE), attribute
    value = tomcat.values([spot])[spot]
    assert value is not None
    return value


def made_smaller(tomcat: Tomcat, looks: Attached) -> Applied:
    """A change to three connections for which requests had to be held back.

    On a busy machine the clients may be so slow that nobody waits just then, and three remain by themselves.
    """
    for _ in range(TRIES):
        until(lambda: pool(looks, "Size") >= CLIENTS - 2, "the pool did not grow")
        applied = tomcat.apply({"pool_min_idle": 0, "pool_max_active": 3})
        if any("held requests back for" in note for note in applied.notes):
            return applied
        tomcat.restore()
    raise AssertionError(f"in {TRIES} changes no request was held back")


@pytest.fixture
def both(bed: Bed) -> Iterator[tuple[Tomcat, Attached]]:
    """The plant, and somebody who looks on."""
    with contextlib.closing(bed.attach()) as tomcat:
        looks = Attached(TomcatProcess.find(bed.testbed.pid), SystemClock())
        with contextlib.closing(looks.jmx):
            yield tomcat, looks
        tomcat.restore()


def test_it_becomes_smaller_though_requests_wait_for_it_and_none_is_lost(
    bed: Bed, both: tuple[Tomcat, Attached]
) -> None:
    tomcat, looks = both
    with Clients(bed) as clients:
        (held,) = (one for one in tomcat.sensors() if isinstance(one, HeldBack))
        held.begin()
        assert held.read() == {"held_s": 0.0}
        applied = made_smaller(tomcat, looks)
        held.begin()
        told_s = held.read()["held_s"]
        assert 0 < told_s <= applied.took_s
        held.begin()
        assert held.read() == {"held_s": 0.0}
        assert not any("as they come back" in note for note in applied.notes)
        before = len(clients.said)
        until(lambda: pool(looks, "WaitCount") > 0 and len(clients.said) > before + CLIENTS, "nobody waits")
        assert pool(looks, "Size") <= 3
    assert set(clients.said) == {200}


def test_requests_are_not_held_back_until_one_that_takes_long_has_ended(
    bed: Bed, both: tuple[Tomcat, Attached]
) -> None:
    tomcat, looks = both
    long = Held(bed, 2, "&db=1")
    with Clients(bed) as clients:
        applied = made_smaller(tomcat, looks)
        (said,) = (note for note in applied.notes if "held requests back for" in note)
        assert "with 2 requests still in service" in said
        assert not long.said
    assert set(clients.said) == {200}
    assert long.wait() == [200, 200]
    assert pool(looks, "Size") <= 3


def test_a_pool_of_dbcp_makes_its_connections_anew_and_no_page_fails(dbcp: Bed) -> None:
    with contextlib.closing(dbcp.attach()) as tomcat:
        assert tomcat.pools == ("jdbc/shop",)
        pool, jmx = tomcat._tomcat.layout.pools[0].bean, tomcat._tomcat.jmx
        idle, settings = {pool: ("numIdle",)}, {pool: ("minEvictableIdleTimeMillis", "numTestsPerEvictionRun")}
        jmx.set(pool, "numTestsPerEvictionRun", 2)
        before, notes = jmx.read(settings), list[str]()
        for _ in range(3):
            asked = Asked(dbcp, 20, 50, "&db=1")
            tomcat.renew(notes)
            assert asked.wait() == [200] * 20
        assert dbcp.ask(1, "&db=1") == 200
        until(lambda: jmx.read(idle) != [{"numIdle": 0}], "no connection is idle")
        assert jmx.read(settings) == before
        tomcat.renew(notes)
        assert jmx.read(idle) == [{"numIdle": 0}], "some are from before"
        assert jmx.read(settings) == before
        assert len(notes) == 4 and all("Tomcat held requests back" in note for note in notes)
        assert dbcp.ask(1, "&db=1") == 200


def test_a_request_that_takes_long_holds_nobody_up_while_a_pool_of_dbcp_is_emptied(dbcp: Bed) -> None:
    with contextlib.closing(dbcp.attach()) as tomcat:
        long, notes = Held(dbcp, 1, "&db=1"), list[str]()
        pool = tomcat._tomcat.layout.pools[0].bean, "numActive"
        until(lambda: tomcat._tomcat.values([pool])[pool] == 1, "it is not under way")
        tomcat.renew(notes)
        assert not long.said
        assert dbcp.ask(1, "&db=1") == 200
        assert len(notes) == 1 and "with 1 requests still in service" in notes[0]
        assert long.wait() == [200]
