"""What a Tomcat counts where threads are virtual, applications come and go, and a counter is full."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from tests._jvm import CONNECTOR, ENDPOINT, HEAP, POOL, Bench, bench
from tests._memory_plant import FakeClock
from trimtab.core import Readings
from trimtab.errors import ApplyFailed, NotMeasured
from trimtab.plants.tomcat.layout import Connector, Executor, Layout, Pool
from trimtab.plants.tomcat.response import derived
from trimtab.plants.tomcat.status import TomcatStatus

__all__ = ["bench"]
PAGE, OLD = 'Catalina:j2eeType=Servlet,name="page"', 'Catalina:j2eeType=Servlet,name="old"'
SHARED = "Catalina:type=Executor,name=pool"
VIRTUAL = {"currentThreadsBusy": -1, "currentThreadCount": -1}
"""What an endpoint says of threads that have no limit (AbstractEndpoint.getCurrentThreadsBusy)."""


def connector(executor: str = "", virtual: bool = False) -> Connector:
    return Connector(CONNECTOR, ENDPOINT, 8080, False, executor, virtual, False)


REQUESTS = connector().requests


class Books:
    """The conversation with a server that answers at once.

    Args:
        layout: its parts.
    """

    def __init__(self, layout: Layout) -> None:
        self.clock = FakeClock()
        counts = {"requestCount": 100, "processingTime": 500, "errorCount": 0, "bytesSent": 0}
        self.beans: dict[str, dict[str, int]] = {one.requests: dict(counts) for one in layout.connectors}
        self.beans |= {HEAP: {"HeapMemoryUsage.used": 1 << 20}}
        self.beans |= {one: {"requestCount": 50, "processingTime": 100} for one in layout.servlets}
        self.beans |= {one.bean: {"NumActive": 3, "NumIdle": 1, "WaitCount": 0} for one in layout.pools}
        self.beans |= {one.endpoint: {"currentThreadsBusy": 4, "currentThreadCount": 10} for one in layout.connectors}
        self.sensor = TomcatStatus(self, layout, self.clock)  # type: ignore[arg-type]

    def ask_for(self, beans: Mapping[str, Iterable[str]]) -> Any:
        return [
            [self.beans[bean].get(name) for name in names] if bean in self.beans else None
            for bean, names in beans.items()
        ]

    def wait(self, number: Any, patience_s: float = 0.0) -> Any:
        return number

    def window(self) -> Readings:
        """The readings of a window of ten seconds in which ten requests end."""
        self.sensor.begin()
        self.clock.sleep(10.0)
        for bean, said in self.beans.items():
            if "GlobalRequestProcessor" in bean and "requestCount" in said:
                said["requestCount"] += 10
        return self.sensor.read()


@pytest.mark.parametrize("before", [100, 2**31 - 5, -(2**31), -1_000_000_000, -5])
def test_a_server_of_more_requests_than_a_java_int_holds_is_measured(before: int) -> None:
    """Some hundred requests a second are 2,147,483,648 after weeks, which Tomcat counts on from below 0."""
    books = Books(Layout((connector(),), (), (), (PAGE,), ()))
    books.beans[REQUESTS]["requestCount"] = before
    books.sensor.begin()
    books.clock.sleep(10.0)
    books.beans[REQUESTS] |= {
        "requestCount": (before + 10 + 2**31) % 2**32 - 2**31,
        "processingTime": 700,
    }
    readings = books.sensor.read()
    assert readings["request_rate_hz"] == pytest.approx(1.0)
    assert readings["service_time_s"] == pytest.approx(0.02)


def test_counters_that_were_reset_are_not_measured() -> None:
    books = Books(Layout((connector(),), (), (), (PAGE,), ()))
    books.sensor.begin()
    books.clock.sleep(10.0)
    books.beans[REQUESTS]["requestCount"] = 3
    with pytest.raises(NotMeasured, match="reset"):
        books.sensor.read()


def test_the_sensor_measures_where_connectors_share_an_executor_of_virtual_threads(bench: Bench) -> None:
    bench.jvm.beans[CONNECTOR]["executorName"] = "pool"
    bench.jvm.beans[SHARED] = {"name": "pool"}
    layout = bench.attach()._tomcat.layout
    assert layout.executors == ()
    readings = Books(layout).window()
    assert readings["request_rate_hz"] == pytest.approx(1.0)
    assert "busy_workers" not in readings


def test_a_wait_for_a_thread_is_not_made_up_where_threads_are_virtual() -> None:
    layout = Layout((connector(virtual=True),), (), (), (), ())
    readings = Books(layout).window()
    assert not {"busy_workers", "idle_workers"} & readings.keys()
    of_kernel = {"requests_under_way": 2.0, "accept_queue_length": 0.0}
    assert derived({**readings, **of_kernel}) == {"response_time_s": pytest.approx(2.0)}


def test_an_executor_with_a_limit_has_its_knobs_as_before(bench: Bench) -> None:
    bench.jvm.beans[CONNECTOR]["executorName"] = "pool"
    bench.jvm.beans[SHARED] = {"maxThreads": 150, "minSpareThreads": 25}
    plant = bench.attach()
    assert plant._tomcat.layout.executors == (Executor(SHARED, "pool"),)
    assert plant.configuration()["max_threads"] == 150


def test_a_connector_of_virtual_threads_is_not_paused_since_nothing_says_what_that_would_cut(bench: Bench) -> None:
    """Tomcat 11.0.5 does not say that they are (useVirtualThreads): max_threads was a knob that does nothing."""
    bench.jvm.beans[ENDPOINT] |= VIRTUAL
    plant = bench.attach(restart=True)
    assert not {"accept_count", "max_threads", "min_spare_threads"} & plant.configuration().keys()
    assert any(note.startswith("accept_count is 100; no restart, as Tomcat does not say") for note in plant.notes)
    with pytest.raises(ApplyFailed, match="not paused: it has virtual threads"), plant.held([]):
        raise AssertionError("it was paused")
    assert bench.jvm.serves() and plant.leftover() == ""


def test_nobody_waits_for_requests_of_a_connector_that_serves_nothing(bench: Bench) -> None:
    plant = bench.attach()
    bench.jvm.beans[ENDPOINT]["currentThreadsBusy"] = -2
    began_s, notes = bench.clock.now_s(), list[str]()
    with plant.held(notes):
        pass
    assert bench.clock.now_s() - began_s < 1.0
    assert not any("in service" in note for note in notes)


def test_an_application_that_is_taken_away_leaves_all_but_its_own_readings() -> None:
    books = Books(Layout((connector(),), (), (Pool(POOL, "jdbc/shop", False),), (PAGE, OLD), ()))
    before = books.window()
    assert {"servlet_rate_hz", "pool_busy_connections", "busy_workers"} <= before.keys()
    del books.beans[OLD], books.beans[POOL]
    books.clock.sleep(1.0)
    after = books.window()
    assert after["request_rate_hz"] == pytest.approx(1.0)
    assert after["busy_workers"] == 4
    assert not {"servlet_rate_hz", "servlet_time_s", "pool_busy_connections"} & after.keys()


def test_requests_over_http_2_count_and_no_response_time_is_made_up_of_their_connections(bench: Bench) -> None:
    over = f"{REQUESTS},Upgrade=h2"
    bench.jvm.beans |= {over: {}, REQUESTS: {}, f"{REQUESTS},Upgrade=websocket": {}}
    layout = bench.attach()._tomcat.layout
    assert layout.multiplexed == (over,)
    books = Books(layout)
    books.beans[over] = dict(books.beans[REQUESTS])
    readings = books.window()
    assert readings["request_rate_hz"] == pytest.approx(2.0)
    assert readings["http2_request_rate_hz"] == pytest.approx(1.0)
    of_kernel = {"requests_under_way": 2.0, "accept_queue_length": 0.0}
    assert derived({**readings, **of_kernel}) == {}
    assert "response_time_s" in derived({**readings, **of_kernel, "http2_request_rate_hz": 0.0})
    del books.beans[over]["requestCount"]  # a client has come by an upgrade (h2c)
    readings = books.window()
    assert not {"request_rate_hz", "service_time_s", "http2_request_rate_hz"} & readings.keys()
    assert readings["busy_workers"] == 4
