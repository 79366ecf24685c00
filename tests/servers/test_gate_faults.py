"""What may die or fall silent under load while an unmodified Apache behind the gate answers every request."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trimtab.clock import SystemClock
from trimtab.gate.link import Link

from ._asking import Asking, asking, pages
from ._under_gate import PAGE, PEEKING, UnderGate, gate_processes, under_gate, until

pytestmark = [pytest.mark.server, pytest.mark.apache]

SILENT = 10_000
DESCRIPTORS = 20_000


def test_a_worker_that_is_killed_gives_its_slot_back() -> None:
    with under_gate("prefork") as bed:
        users = Asking(pages(bed.port, PAGE), clients=4)
        with asking(users):
            until(lambda: users.answered > 50, "nothing is answered")
            for _ in range(4):
                os.kill(_workers(bed)[0], signal.SIGKILL)
                time.sleep(0.2)
            answered = users.answered
            until(lambda: users.answered > answered + 200, "nothing is answered any more")
        # Each kill ends the request that this worker had, as without a gate; more are not lost.
        assert sum(users.failed.values()) <= 4
        until(lambda: _in_service(bed) == 0, "a slot is held by nobody")


@pytest.mark.alone
def test_ten_thousand_connections_that_send_nothing_hold_up_nobody() -> None:
    with (
        under_gate("event", workers=16, spec=PEEKING) as bed,
        _descriptors(DESCRIPTORS),
        contextlib.ExitStack() as stack,
    ):
        for number in range(SILENT):
            source = (f"127.0.3.{1 + number % 200}", 0)
            silent = socket.create_connection(("127.0.0.1", bed.port), 30, source_address=source)
            stack.callback(silent.close)
            # One byte, so that no deferred accept keeps the connection in the kernel.
            silent.send(b"G")
        gate = gate_processes(bed)[1]
        until(lambda: _open(gate) >= SILENT, "the gate does not accept them all")
        memory = _memory_bytes(gate)
        users = Asking(pages(bed.port, PAGE), clients=8)
        with asking(users):
            until(lambda: bool(users.failed) or users.answered >= 200, "the others are not answered")
        assert not users.failed
        assert memory < 200e6 * SILENT / 100_000


def _in_service(bed: UnderGate) -> int:
    """Connections of all classes that workers have."""
    link = Link(bed.run_dir, SystemClock())
    with contextlib.closing(link):
        return sum(one.in_service for one in link.readings().classes)


def _workers(bed: UnderGate) -> list[int]:
    """Apache's children."""
    parent = int((bed.directory / "run" / "apache2.pid").read_text())
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def _open(pid: int) -> int:
    """How many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def _memory_bytes(pid: int) -> int:
    """What a process has in memory that no other program shares with it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return sum(1024 * int(found) for found in re.findall(r"Rss(?:Anon|Shmem):\s+(\d+)", status))


@contextlib.contextmanager
def _descriptors(number: int) -> Iterator[None]:
    """Lets this process have so many descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(number, before[0]), max(number, before[1])))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
