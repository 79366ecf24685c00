"""The pages of Squid's manager against what is known: requests, hits and bytes that were sent, the clients' times."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests._noise import agree, noisy
from tests.servers._private_squid import Bed, private
from tests.servers._under_gate import PATIENCE_S, until
from trimtab.clock import SystemClock
from trimtab.core import Readings, Sensor
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants.squid import manager, process
from trimtab.plants.squid.manager import CacheMemory, Counters, ManagerPage, ServiceTimes, Times, times
from trimtab.plants.squid.plant import Squid
from trimtab.processes import TICKS_HZ
from trimtab.sensors._polled_page import ask

pytestmark = pytest.mark.server
KB = 1 << 10


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with private() as made:
        yield made


def page(bed: Bed, kind: type[ManagerPage[Any]]) -> Any:
    """What a page says now."""
    url = f"http://127.0.0.1:{bed.testbed.port}{manager.MENU}"
    found = ask(kind(url, SystemClock(), patience_s=PATIENCE_S))
    assert found is not None
    return found


def patient(squid: Squid) -> tuple[Sensor, ...]:
    """Its sensors, of which those of pages wait for them at both ends of a window."""
    for sensor in squid.sensors():
        if isinstance(sensor, ManagerPage):
            sensor._patience_s = PATIENCE_S
    return squid.sensors()


def window(squid: Squid, requests: list[str], bed: Bed) -> tuple[Readings, list[float]]:
    """A window in which these pages are asked for, and how long the client waited for each, in seconds."""
    sensors, took_s = [sensor for sensor in patient(squid) if sensor.name != "resources"], []
    for sensor in sensors:
        sensor.begin()
    for path in requests:
        began_s = time.monotonic()
        bed.get(path)
        took_s.append(time.monotonic() - began_s)
        for sensor in sensors:
            sensor.sample()
    time.sleep(0.1)
    readings: dict[str, float] = {}
    for sensor in sensors:
        readings |= sensor.read()
    return {**readings, **squid.derive(readings)}, took_s


def test_requests_and_hits_are_those_that_were_sent(bed: Bed) -> None:
    for i in range(40):
        bed.get(f"/100/known{i}")
    before = page(bed, ServiceTimes)
    for i in range(40):
        bed.get(f"/100/known{i}")
    for i in range(10):
        bed.get(f"/100/new{i}")
    after = page(bed, ServiceTimes)
    assert isinstance(before, Times) and isinstance(after, Times)
    counted = times(before, Times(after.bins, 1), 1.0)  # the first of the two pages is in the second
    assert counted["request_rate_hz"] == 50
    assert counted["hit_ratio"] == 40 / 50


def test_requests_and_bytes_are_those_that_squid_writes_into_its_log(bed: Bed) -> None:
    log = bed.testbed.directory / "squid" / "access.log"
    before = page(bed, Counters)
    for path in (*[f"/{50 * KB}/bytes"] * 4, f"/{100 * KB}/others"):
        bed.get(path)
    after = page(bed, Counters)

    def rows() -> list[list[str]]:
        """None before Squid's log program has made the file."""
        lines = log.read_text().splitlines() if log.exists() else []
        return [line.split() for line in lines if "/bytes " in line or "/others " in line]

    until(lambda: len(rows()) == 5, "they are not in the log")
    logged = {hit: sum(int(r[4]) for r in rows() if hit in r[3]) for hit in ("HIT", "MISS")}
    assert isinstance(before, dict) and isinstance(after, dict)
    grown = {name: KB * (after[name] - before[name]) for name in ("kbytes_out", "hit_kbytes_out", "errors")}
    assert grown["hit_kbytes_out"] == pytest.approx(logged["HIT"], abs=2 * KB)
    # The first of the two pages is in it too.
    assert grown["kbytes_out"] == pytest.approx(sum(logged.values()), abs=4 * KB)
    assert grown["errors"] == 0


def test_what_is_put_into_memory_is_in_the_reading(bed: Bed) -> None:
    squid = bed.attach()
    before, _ = window(squid, [], bed)
    after, _ = window(squid, [f"/{200 * KB}/memory{i}" for i in range(10)], bed)
    assert after["cache_bytes"] - before["cache_bytes"] == pytest.approx(2000 * KB, rel=0.1)
    squid.close()


@noisy("means of the few requests of a bin")
def test_times_are_between_those_of_the_pages_and_those_that_the_clients_measured(bed: Bed) -> None:
    squid, pages_s = bed.attach(), [0.06] * 12 + [0.2] * 3
    readings, took_s = window(squid, [f"/slow/{time_s * 1000:.0f}" for time_s in pages_s], bed)
    # A client that is not run in time measures more than Squid; Squid's own bins are a tenth wide.
    assert 0.85 * sum(pages_s) / 15 <= readings["service_time_s"] <= 1.15 * sum(took_s) / 15
    assert 0.85 * pages_s[-1] <= readings["service_time_p95_s"] <= 1.15 * max(took_s)
    agree(readings["miss_time_s"], readings["service_time_s"], 0.1, "miss_time_s")
    assert readings["hit_ratio"] == 0
    assert readings["request_time_s"] >= readings["service_time_s"]
    squid.close()


def test_bytes_of_hits_are_those_that_were_sent_and_ours_are_left_out(bed: Bed) -> None:
    squid = bed.attach()
    bed.get(f"/{50 * KB}/ratio")
    readings, _ = window(squid, [*[f"/{50 * KB}/ratio"] * 3, f"/{50 * KB}/{os.urandom(4).hex()}"], bed)
    assert readings["byte_hit_ratio"] == pytest.approx(0.75, abs=0.03)
    squid.close()


def test_the_time_of_the_thread_is_what_the_kernel_says_of_it(bed: Bed) -> None:
    def used_s() -> float:
        fields = Path(f"/proc/{bed.worker()}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_HZ

    before, used = page(bed, Counters), used_s()
    for i in range(300):
        bed.get(f"/1000/cpu{i}")
    grown = page(bed, Counters)["cpu_s"] - before["cpu_s"]
    assert grown == pytest.approx(used_s() - used, abs=3 / TICKS_HZ) and grown > 0


def test_an_idle_one_has_a_rate_of_nothing_and_no_times(bed: Bed) -> None:
    squid = bed.attach()
    for sensor in patient(squid):
        sensor.begin()
    time.sleep(0.3)
    readings = {name: value for s in squid.sensors() if s.name == "squid-times" for name, value in s.read().items()}
    assert readings["request_rate_hz"] < 10, "its own pages are not counted"
    squid.close()


def test_a_worker_that_was_replaced_is_said_and_not_a_negative_rate() -> None:
    with private() as bed:
        for i in range(30):
            bed.get(f"/100/page{i}")
        squid, worker = bed.attach(), bed.worker()
        (sensor,) = (s for s in patient(squid) if s.name == "squid-times")
        sensor.begin()
        os.kill(worker, signal.SIGSEGV)

        def back() -> bool:
            master = process.SquidMaster.find(squid.pid)
            try:
                return master.worker() != worker and bool(master.ports())
            except UsageError:
                return False

        until(back, "it is not back")
        with pytest.raises(NotMeasured, match=r"restarted|status page"):
            sensor.read()
            sensor.read()
        squid.close()


def test_the_page_that_kills_squid_is_never_asked_for() -> None:
    asked = {sensor.page for sensor in manager.SENSORS if issubclass(sensor, ManagerPage)}
    assert asked == {"histograms", "counters", "info"}


def test_a_port_that_is_not_on_the_loopback_is_passed_over(bed: Bed) -> None:
    listeners = (("192.0.2.1", 80), ("127.0.0.1", bed.testbed.port))
    url, _ = manager.find(listeners, SystemClock())
    assert url == f"http://127.0.0.1:{bed.testbed.port}{manager.MENU}"
    with pytest.raises(UsageError, match="outside this machine"):
        manager.find(listeners[:1], SystemClock())


def test_memory_that_agrees_with_one_limit_disagrees_with_another(bed: Bed) -> None:
    squid = bed.attach()
    for i in range(10):
        bed.get(f"/{200 * KB}/agree{i}")
    squid.apply({"cache_mem": 16})
    found = page(bed, CacheMemory)
    assert isinstance(found, manager.Memory)
    assert found.agrees(16 << 20) and not found.agrees(17 << 20) and not found.agrees(15 << 20)
    squid.restore()
    squid.close()
