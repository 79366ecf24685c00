"""Faults under an unmodified Apache with the shim in it: what a bare server would have answered is answered."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers._asking import Asking, asking, page, pages
from tests.servers._under_gate import PAGE, UnderGate, gate_processes, kill_together, under_gate, until
from trimtab.gate.server import processes_of
from trimtab.sensors._shared_file import HEADER_BYTES, SLOT_BYTES, Counters, SharedFile
from trimtab.testbed.apache_config import Mpm

pytestmark = [pytest.mark.server, pytest.mark.apache]
ALL = pytest.mark.parametrize("mpm", ["prefork", "worker", "event"])
HELD, IDLE = 2, 3


def dispatched(bed: UnderGate) -> Callable[[], int]:
    """How many connections the gate has given to workers so far."""

    def read() -> int:
        with contextlib.closing(bed.plant()) as plant:
            return sum(one.dispatched for one in plant.link.readings().classes)

    return read


def in_service(bed: UnderGate) -> int:
    """How many connections workers hold, as the gate sees it."""
    with contextlib.closing(bed.plant()) as plant:
        return sum(one.in_service for one in plant.link.readings().classes)


def goes_on(count: Callable[[], int], more: int) -> None:
    """Waits until a count has grown by so many."""
    before = count()
    until(lambda: count() >= before + more, "the server did not go on")


def slots(bed: UnderGate, *states: int) -> list[int]:
    """The processes that hold slots in one of these states."""
    raw = Path(bed.run_dir.shared).read_bytes()[HEADER_BYTES:]
    words = [memoryview(raw[at : at + 16]).cast("I") for at in range(0, len(raw), SLOT_BYTES)]
    return [slot[2] for slot in words if slot[0] in states]


@ALL
def test_a_graceful_restart_under_load_loses_no_request(mpm: Mpm) -> None:
    with under_gate(mpm) as bed:
        clients = [Asking(pages(bed.port, PAGE, n), 4) for n in (1, 5)]
        with asking(*clients):
            for _ in range(2):
                old = {one.pid for one in processes_of(bed.run_dir)[1:]}
                bed.process.send_signal(signal.SIGUSR1)
                until(lambda: not old & {one.pid for one in processes_of(bed.run_dir)}, "old workers stay")  # noqa: B023
                goes_on(dispatched(bed), 100)
        assert [client.failed for client in clients] == [{}, {}]


@ALL
def test_a_gate_that_dies_alone_is_replaced_without_a_lost_request(mpm: Mpm) -> None:
    with under_gate(mpm) as bed:
        clients = [Asking(pages(bed.port, PAGE, n), 6) for n in (1, 5)]
        with asking(*clients):
            for _ in range(3):
                gate = gate_processes(bed)[1]
                os.kill(gate, signal.SIGKILL)
                until(lambda: len(set(gate_processes(bed)) - {gate}) == 2, "no new gate")  # noqa: B023
                goes_on(dispatched(bed), 100)
        assert [client.failed for client in clients] == [{}, {}]


@ALL
def test_without_any_gate_the_workers_accept_and_return_to_the_next_one(mpm: Mpm) -> None:
    with under_gate(mpm) as bed, contextlib.ExitStack() as stack:
        kept = stack.enter_context(contextlib.closing(bed.client("127.0.0.1")))
        kept.connect()
        page(kept.sock, PAGE)
        first = gate_processes(bed)
        kill_together(first)
        page(kept.sock, PAGE)
        # What the gate held died with it; from here on every request must be answered.
        clients = Asking(pages(bed.port, PAGE, 2), 4)
        with asking(clients):
            until(lambda: len(set(gate_processes(bed)) - set(first)) == 2, "no new gate")
            goes_on(dispatched(bed), 100)
        assert clients.failed == {} and clients.answered > 0


@ALL
def test_a_kept_connection_is_idle_between_its_requests_and_held_during_one(mpm: Mpm) -> None:
    with under_gate(mpm, workers=4) as bed, contextlib.closing(bed.client("127.0.0.1")) as client:
        client.connect()
        for _ in range(2):
            page(client.sock, PAGE)
            until(lambda: len(slots(bed, IDLE)) == 1, "the connection is not idle")
            client.sock.sendall(b"GET ")
            until(lambda: len(slots(bed, HELD)) == 1, "the connection is not held")
            assert page(client.sock, PAGE, begun="GET ")


def test_without_a_gate_the_delay_in_the_accept_queue_is_measured() -> None:
    with under_gate("prefork", workers=1, gate=False) as bed, contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.closing(bed.client("127.0.0.1")))
        first.connect()
        page(first.sock, PAGE)
        before = _counters(bed)
        second = stack.enter_context(contextlib.closing(bed.client("127.0.0.1")))
        second.connect()
        start = time.monotonic()
        # Apache sets TCP_DEFER_ACCEPT: a connection enters the queue with its first bytes.
        second.sock.sendall(b"GET ")
        until(lambda: waiting(bed.port) == 1, "it is not in the queue")
        queued = time.monotonic()
        time.sleep(0.3)
        least = time.monotonic() - queued
        first.close()
        page(second.sock, PAGE, begun="GET ")
        waited = time.monotonic() - start
        after = _counters(bed)
        assert after.connections == before.connections + 1
        # The kernel's clock ticks 100 to 1000 times a second.
        assert least - 0.02 <= (after.delay_ns - before.delay_ns) / 1e9 <= waited + 0.02


def waiting(port: int) -> int:
    """How many connections wait to be accepted at a port."""
    rows = (row.split() for row in Path("/proc/self/net/tcp").read_text().splitlines()[1:])
    return sum(int(row[4].partition(":")[2], 16) for row in rows if row[1:4:2] == [f"0100007F:{port:04X}", "0A"])


def _counters(bed: UnderGate) -> Counters:
    shared = SharedFile(bed.run_dir.shared)
    try:
        return shared.counters()
    finally:
        shared.close()
