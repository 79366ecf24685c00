"""A run of the load generator ends well, early, or with what went wrong."""

from __future__ import annotations

import os
import resource
import signal
import time

import pytest

from tests._memory_plant import StillClock
from tests._noise import agree, noisy
from tests._scripted_server import ScriptedServer
from tests.servers._traffic import sessions, start
from trimtab.clock import SystemClock
from trimtab.errors import NativeError, NotMeasured, UsageError
from trimtab.load import LoadRun
from trimtab.sensors.load_generator import SENSOR
from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import Closed, Population, Url

pytestmark = pytest.mark.server

USERS = Population(class_name="all", arrivals=Closed(5), session_pages=Constant(1e9), pages=(Url("/ok?ms=20"),))


def test_a_run_that_is_stopped_still_gives_its_summary_as_often_as_asked() -> None:
    with ScriptedServer() as server, start(server.target, USERS, duration_s=60) as run:
        passed_s = 0.0
        for interval in run.follow():
            passed_s += interval.duration_s
            if interval.classes[0].requests > 0:
                break
        first = run.stop()
        assert first.stopped_early
        assert passed_s < first.duration_s < 60
        assert first.classes[0].requests > 0
        assert run.stop() == first


def test_a_run_that_has_come_to_its_end_was_not_stopped_early() -> None:
    with ScriptedServer() as server, start(server.target, USERS, duration_s=0.5) as run:
        result = run.wait()
        assert not result.stopped_early
        assert run.stop() == result


def test_leaving_the_run_ends_the_generator() -> None:
    with ScriptedServer() as server, start(server.target, USERS, duration_s=60) as run:
        pid = run.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_generator_that_dies_is_an_error_and_not_a_measurement() -> None:
    clock = SystemClock()
    with ScriptedServer() as server, LoadRun(server.target, [USERS], 60, clock) as run:
        sensor = SENSOR(run, clock)
        sensor.begin()
        os.kill(run.pid, signal.SIGKILL)
        with pytest.raises(NativeError, match="load ended with -9"):
            run.wait()
        with pytest.raises(NotMeasured, match="ended with -9"):
            sensor.read()


def test_an_order_that_the_generator_refuses_comes_back_in_its_own_words() -> None:
    order = start("192.0.2.1:1", sessions(1, "/"), duration_s=1)
    with order as run, pytest.raises(NativeError, match=r"target 192\.0\.2\.1:1 is outside this machine"):
        run.wait()


def test_a_limit_of_this_machine_that_was_met_is_said_and_counted_as_local() -> None:
    with ScriptedServer() as server:
        with start(server.target, sessions(100, "/hang", rate_hz=40), duration_s=60) as run:
            begun = 0
            for interval in run.follow():
                if begun == 0:
                    resource.prlimit(run.pid, resource.RLIMIT_NOFILE, (40, 40))
                begun += interval.classes[0].sessions
                if begun == 100:
                    break
            (one,) = run.stop().classes
        seen = server.seen()["requests"]["/hang"]
    assert one.errors == {"local": 100 - seen}
    assert seen < 40
    assert "limit of descriptors 40" in run.remarks


def test_a_generator_pinned_to_a_core_stays_there() -> None:
    core = min(os.sched_getaffinity(0))
    with ScriptedServer() as server, LoadRun(server.target, [USERS], 60, SystemClock(), cpu=core) as run:
        threads = [int(name) for name in os.listdir(f"/proc/{run.pid}/task")]
        assert [os.sched_getaffinity(thread) for thread in threads] == [{core}] * len(threads)


def test_an_interval_belongs_to_a_window_that_holds_its_later_half() -> None:
    with ScriptedServer() as server, LoadRun(server.target, [USERS], 1.0, StillClock(10.0), interval_s=0.2) as run:
        run.wait()
        intervals = list(run.follow())
        assert intervals
        for one in intervals:
            # It ended at 10.0 on this clock.
            assert one in run.intervals_since(10.0 - 0.6 * one.duration_s)
            assert one not in run.intervals_since(10.0 - 0.4 * one.duration_s)


def test_a_core_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="cpu 4095"):
        LoadRun("127.0.0.1:1", [USERS], 1, SystemClock(), cpu=4095)


@noisy("the sensor's window and the test's begin and end a moment apart")
def test_the_sensor_reads_what_the_server_did_in_the_window() -> None:
    clock = SystemClock()
    with ScriptedServer() as server, LoadRun(server.target, [USERS], 60, clock, interval_s=0.1) as run:
        sensor = SENSOR(run, clock)
        time.sleep(0.5)
        sensor.begin()
        with pytest.raises(NotMeasured):
            sensor.read()
        began = time.monotonic()
        time.sleep(1.5)
        readings = sensor.read()
        times = [at for at, _ in server.seen()["times"]]
        elapsed = time.monotonic() - began
    served_hz = len([at for at in times if at >= began]) / elapsed
    agree(readings["client_request_rate_hz"], served_hz, 0.1, "request rate")
    agree(readings["client_request_time_s"], 5 / served_hz, 0.1, "request time")
    assert readings["client_error_rate_hz"] == 0
