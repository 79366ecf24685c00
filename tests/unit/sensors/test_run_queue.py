"""The run queue of threads: known counts, threads that come and go, and what cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests._memory_plant import FakeClock

from trimtab.errors import NotMeasured, PlantGone
from trimtab.plants.linux.putback import Thread
from trimtab.sensors.run_queue import RunQueue, probe


class Threads:
    """Threads with the counts that a test gives them.

    Args:
        proc: where their files are written.
    """

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.there: dict[int, Thread] = {}
        self.asked = 0

    def __call__(self) -> Mapping[int, Thread]:
        self.asked += 1
        if not self.there:
            raise PlantGone("pid 7 has ended")
        return self.there

    def put(self, tid: int, ran_ms: int, waited_ms: int, slices: int, forced: int = 0, start: int = 1) -> None:
        directory = self.proc / f"7/task/{tid}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "schedstat").write_text(f"{ran_ms * 10**6} {waited_ms * 10**6} {slices}\n")
        (directory / "status").write_text(
            f"Name:\tx\nvoluntary_ctxt_switches:\t99\nnonvoluntary_ctxt_switches:\t{forced}\n"
        )
        self.there[tid] = Thread(7, tid, start, 1)

    def end(self, tid: int) -> None:
        del self.there[tid]
        for name in ("schedstat", "status"):
            (self.proc / f"7/task/{tid}/{name}").unlink()


@pytest.fixture
def threads(tmp_path: Path) -> Threads:
    return Threads(tmp_path)


@pytest.fixture
def sensor(threads: Threads, clock: FakeClock) -> RunQueue:
    return RunQueue(threads, clock, threads.proc)


def test_known_counts_come_out_as_rates_and_means(threads: Threads, clock: FakeClock, sensor: RunQueue) -> None:
    threads.put(7, ran_ms=1000, waited_ms=500, slices=100, forced=10)
    threads.put(8, ran_ms=0, waited_ms=0, slices=1)
    sensor.begin()
    threads.put(7, ran_ms=2000, waited_ms=900, slices=140, forced=16)
    threads.put(8, ran_ms=1000, waited_ms=200, slices=21, forced=4)
    clock.sleep(2.0)
    assert sensor.read() == pytest.approx(
        {
            "run_queue_delay_s": 0.600 / 60,
            "run_queue_wait_ratio": 600 / 2000,
            "waiting_threads": 0.600 / 2.0,
            "timeslice_rate_hz": 60 / 2.0,
            "involuntary_switch_rate_hz": 10 / 2.0,
        }
    )


def test_a_thread_counts_from_its_birth_and_to_the_last_sample_before_its_end(
    threads: Threads, clock: FakeClock, sensor: RunQueue
) -> None:
    threads.put(7, ran_ms=1000, waited_ms=500, slices=100)
    sensor.begin()
    threads.put(8, ran_ms=50, waited_ms=20, slices=2)
    clock.sleep(1.0)
    sensor.sample()
    threads.end(8)
    clock.sleep(1.0)
    assert sensor.read()["waiting_threads"] == pytest.approx(0.010)


def test_a_window_that_begins_just_after_the_last_begins_with_what_was_read_there(
    threads: Threads, clock: FakeClock, sensor: RunQueue
) -> None:
    threads.put(7, ran_ms=1000, waited_ms=500, slices=100, forced=10)
    sensor.begin()
    clock.sleep(1.0)
    sensor.read()
    looked = threads.asked
    threads.put(7, ran_ms=1010, waited_ms=520, slices=104, forced=12)
    clock.sleep(0.04)
    sensor.begin()
    sensor.sample()
    assert threads.asked == looked
    threads.put(7, ran_ms=1500, waited_ms=708, slices=152, forced=14)
    clock.sleep(1.0)
    found = sensor.read()
    assert found["waiting_threads"] == pytest.approx(0.208 / 1.04), "nothing between the two windows is lost"
    assert found["involuntary_switch_rate_hz"] == pytest.approx(4 / 1.04)
    clock.sleep(0.12)
    threads.put(7, ran_ms=2000, waited_ms=800, slices=160)
    sensor.begin()
    clock.sleep(1.0)
    assert sensor.read()["waiting_threads"] == 0.0


def test_an_id_that_was_given_to_a_new_thread_is_no_reason_for_less_than_nothing(
    threads: Threads, clock: FakeClock, sensor: RunQueue
) -> None:
    threads.put(8, ran_ms=1000, waited_ms=500, slices=100, forced=50, start=1)
    sensor.begin()
    threads.put(8, ran_ms=10, waited_ms=5, slices=1, forced=1, start=2)
    clock.sleep(1.0)
    found = sensor.read()
    assert (found["waiting_threads"], found["timeslice_rate_hz"]) == pytest.approx((0.005, 1.0))
    assert found["involuntary_switch_rate_hz"] == pytest.approx(1.0)


def test_means_of_nothing_are_absent_and_not_0(threads: Threads, clock: FakeClock, sensor: RunQueue) -> None:
    threads.put(7, ran_ms=1000, waited_ms=500, slices=100)
    sensor.begin()
    clock.sleep(1.0)
    assert {"run_queue_delay_s", "run_queue_wait_ratio"}.isdisjoint(sensor.read())


def test_a_server_that_is_gone_and_a_kernel_that_does_not_count_are_not_measured(
    threads: Threads, clock: FakeClock, sensor: RunQueue
) -> None:
    with pytest.raises(NotMeasured, match="pid 7 has ended"):
        sensor.begin()
    threads.there[7] = Thread(7, 7, 1, 1)
    with pytest.raises(NotMeasured, match="counts no waits"):
        sensor.begin()
    threads.put(7, 1, 1, 1)
    sensor.begin()
    with pytest.raises(NotMeasured, match="no time has passed"):
        sensor.read()


def test_the_doctor_is_told_whether_this_kernel_counts() -> None:
    (found,) = probe()
    assert found.usable
