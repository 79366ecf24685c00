"""FPM's status page and the queue against what is known: requests, the clients' own times, workers by the kernel."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests._noise import agree, noisy
from tests.servers._private_fpm import PATIENCE_S, Bed, private, until
from trimtab.core import Readings, Sensor
from trimtab.errors import NotMeasured
from trimtab.plants.php_fpm import fastcgi, process
from trimtab.plants.php_fpm.plant import PhpFpm
from trimtab.plants.php_fpm.status import PoolStatus, endpoint
from trimtab.processes import start_of
from trimtab.sensors.written import Written

pytestmark = pytest.mark.server
PAGE_MS = 60
ACCEPT = {"43", "288"}
"""accept and accept4 on x86-64, as /proc/PID/syscall shows them."""
SLEEP = {"35", "230"}
"""nanosleep and clock_nanosleep."""


@pytest.fixture(
    scope="module", params=[(False, False), (False, True), (True, False)], ids=["unix", "unix-apart", "tcp"]
)
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    tcp, apart = request.param
    with private(pm="static", max_children=4, tcp=tcp, status_apart=apart) as made:
        yield made


class Clients:
    """Clients in a closed loop without think time; they time their pages themselves."""

    def __init__(self, bed: Bed, number: int) -> None:
        self.took_s: list[tuple[float, float]] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(bed,)) for _ in range(number)]
        for thread in self._threads:
            thread.start()

    def _run(self, bed: Bed) -> None:
        while not self._stop.is_set():
            began_s = time.monotonic()
            assert bed.ask(PAGE_MS) == "done"
            ended_s = time.monotonic()
            self.took_s.append((ended_s, ended_s - began_s))

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def mean_s(self, since_s: float) -> float:
        times = [took_s for at_s, took_s in self.took_s if at_s > since_s]
        return sum(times) / len(times)


def window(fpm: PhpFpm, length_s: float, watch: list[int] | None = None) -> Readings:
    """One window, sampled as the loop does it."""
    sensors = [sensor for sensor in fpm.sensors() if sensor.name != "resources"]
    for sensor in sensors:
        sensor.begin()
    until_s = time.monotonic() + length_s
    while time.monotonic() < until_s:
        time.sleep(0.02)
        for sensor in sensors:
            sensor.sample()
        if watch is not None:
            watch.append(serving(fpm.pid))
    readings: dict[str, float] = {}
    for sensor in sensors:
        readings |= sensor.read()
    return {**readings, **fpm.derive(readings)}


def sampled(sensor: Sensor, length_s: float) -> None:
    """Lets time pass, with samples."""
    until_s = time.monotonic() + length_s
    while time.monotonic() < until_s:
        time.sleep(0.02)
        sensor.sample()


def serving(pid: int) -> int:
    """Workers of the pool that do not wait in accept, by the kernel."""
    return sum(call not in ACCEPT for call in calls(pid))


def asleep(pid: int) -> int:
    """Workers of the pool that have a page which sleeps, by the kernel."""
    return sum(call in SLEEP for call in calls(pid))


def calls(pid: int) -> list[str]:
    """What each worker of the pool is in, as /proc/PID/syscall says."""
    found = []
    for worker in process.FpmMaster.find(pid).workers("www"):
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{worker}/syscall").read_text().split()[0])
    return found


def patient(fpm: PhpFpm) -> PoolStatus:
    """Its sensor of the status page, which waits for the page at both ends of a window."""
    (status,) = (sensor for sensor in fpm.sensors() if isinstance(sensor, PoolStatus))
    status._patience_s = PATIENCE_S
    return status


def test_every_request_is_counted_and_none_of_ours(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    fpm = bed.attach()
    status = patient(fpm)
    status.begin()
    began = bed.says().numbers["accepted conn"]
    for _ in range(7):
        assert bed.ask(1) == "done"
        sampled(status, 0.12)
    first, last = ends = status._ends()
    monkeypatch.setattr(status, "_ends", lambda: ends)  # or it may ask once more
    readings = status.read()
    counted = readings["request_rate_hz"] * (last.at_s - first.at_s)
    # The page that this test has asked for itself, at a socket of the pool, counts as anybody's.
    # One request of ours may be between the counter and the reply at one end; the pages asked for are twice as many.
    assert 7 + 1 - 0.01 <= counted <= 7 + 2 + 0.01, began
    fpm.close()


@noisy("the clients and the pool share the processors with whatever else runs")
@pytest.mark.parametrize("clients", [2, 10])
def test_waits_and_times_are_those_that_the_clients_measure(bed: Bed, clients: int) -> None:
    fpm, load = bed.attach(), Clients(bed, clients)
    try:
        time.sleep(1.0)
        began_s, watched = time.monotonic(), list[int]()
        readings = window(fpm, 4.0, watched)
    finally:
        load.stop()
        fpm.close()
    measured_s = load.mean_s(began_s)
    print(f"{clients} clients: {readings['response_time_s']:.4f} s, the clients {measured_s:.4f} s; {dict(readings)}")
    agree(readings["response_time_s"], measured_s, 0.15, "response time by Little's law and by the clients")
    agree(readings["busy_workers"], sum(watched) / len(watched), 0.15, "busy workers by the page and by the kernel")
    agree(readings["busy_workers"], min(4, clients), 0.15, "busy workers and what was asked for")
    agree(1 + readings["accept_queue_length"], 1 + max(0, clients - 4), 0.15, "the queue and what was asked for")
    assert readings["busy_workers"] + readings["idle_workers"] == pytest.approx(4), "none is missing"


def test_a_reload_within_a_window_is_said_and_not_counted_through(bed: Bed) -> None:
    time.sleep(max(0.0, bed.says().started_s + 1.1 - time.time()))  # the status page tells the second, not more
    fpm = bed.attach()
    status = patient(fpm)
    status.begin()
    bed.restart_pool()
    with pytest.raises(NotMeasured, match="reloaded within the window"):
        status.read()
    fpm.close()


def test_a_pool_that_is_gone_is_not_measured_and_not_0() -> None:
    with private() as bed:
        fpm = bed.attach()
        os.kill(bed.testbed.pid, 15)
        until(lambda: start_of(bed.testbed.pid) is None, "it did not end")
        sensors = {one.name: one for one in fpm.sensors() if one.name not in ("resources", "held-back")}
        assert "fpm-status" in sensors
        for sensor in sensors.values():
            with pytest.raises(NotMeasured):
                sensor.begin()
                sensor.read()
        fpm.close()


def test_the_workers_of_an_ondemand_pool_end_while_it_is_looked_at() -> None:
    """Each question is answered by the worker that has waited longest; after ten seconds without any it ends."""
    with private(pm="ondemand", max_children=10) as bed:
        plant = bed.attach()
        sensors = [one for one in plant.sensors() if isinstance(one, PoolStatus)]
        clients = [threading.Thread(target=bed.ask, args=(8000,)) for _ in range(10)]
        for number, one in enumerate(clients, start=1):
            one.start()
            # FPM starts none while one that it has started has yet to take a connection.
            until(lambda number=number: asleep(plant.pid) == number, "no worker has taken it")  # type: ignore[misc]
        for one in clients:
            one.join()
        assert bed.workers() >= 8

        def ended() -> bool:
            for sensor in sensors:
                sensor.begin()
                for _ in range(100):
                    time.sleep(0.1)
                    sensor.sample()
                sensor.read()
            return bed.workers() <= 5

        until(ended, "its workers do not end")
        plant.close()


def large(bed: Bed) -> int:
    """A page of 100,000 bytes; how many there were with what leads and ends them."""
    page = bed.page.with_name("large.php")
    page.write_text("<?php echo str_repeat('x', 100000);")
    family, address = endpoint(bed.testbed.listen)
    asked = {"SCRIPT_FILENAME": os.fspath(page), "SCRIPT_NAME": "/large.php", "REQUEST_METHOD": "GET"}
    with socket.socket(family) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(address)
        connection.sendall(fastcgi.request(asked))
        return len(b"".join(iter(lambda: connection.recv(1 << 16), b"")))


def ended(pid: int) -> bool:
    """Whether a worker has ended."""
    return start_of(pid) is None


def test_the_bytes_of_its_replies_are_those_that_clients_get_also_of_workers_that_end(bed: Bed) -> None:
    with contextlib.closing(bed.attach()) as fpm:
        status = patient(fpm)
        (written,) = (sensor for sensor in fpm.sensors() if isinstance(sensor, Written))
        status.begin()
        first, got = written.state(), 0
        for number in range(20):
            got += large(bed)
            sampled(status, 0.05)
            if number % 5 == 4:
                until(lambda: not status.ours(), "the status page does not come")  # that worker may have it in hand
                leaving = process.FpmMaster.find(fpm.pid).workers("www")[0]
                os.kill(leaving, signal.SIGTERM)
                until(functools.partial(ended, leaving), "a worker does not end")
                until(lambda: len(process.FpmMaster.find(fpm.pid).workers("www")) == 4, "no other takes its place")
        status.read()
        found = written.differences(1.0, first, written.state())["byte_rate_bytes_hz"]
    assert got > 20 * 100_000
    assert found == pytest.approx(got, rel=0.02), "what it wrote to us would be more than that"


def test_of_several_pools_the_bytes_are_not_told_as_a_worker_may_call_itself_as_it_likes() -> None:
    with private(pools=("www", "other")) as bed, contextlib.closing(bed.attach()) as fpm:
        assert not [sensor for sensor in fpm.sensors() if isinstance(sensor, Written)]
