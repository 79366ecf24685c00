"""What a local user without rights can do to the gate of root's server: nothing that others notice."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import os
import pwd
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from trimtab.clock import SystemClock
from trimtab.gate.link import Link
from trimtab.testbed._private import worker_user

from . import _stranger
from ._under_gate import UnderGate, fetched, gate_processes, under_gate, until

pytestmark = [
    pytest.mark.server,
    pytest.mark.apache,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to attack its gate as somebody else"),
]

STRANGER = 65_531
"""A user id that nobody has."""


@pytest.fixture(scope="module")
def bed() -> Iterator[UnderGate]:
    with under_gate() as running:
        yield running


def test_a_local_user_finds_no_way_to_the_hand_off_socket(bed: UnderGate) -> None:
    with stranger(bed) as reached:
        link = Link(bed.run_dir, SystemClock(), patience_s=_stranger.HOLD_S / 2)
        with contextlib.closing(link):
            link.apply({})
        assert reached == []


def test_gate_and_guardian_have_a_user_of_their_own_and_no_rights(bed: UnderGate) -> None:
    both, workers = gate_processes(bed), worker_user()
    assert len(both) == 2 and workers is not None
    for pid in both:
        of = status(pid)
        uids, gids = set(of["Uid"]), set(of["Gid"])
        assert len(uids) == len(gids) == 1
        assert not uids & {"0", str(pwd.getpwnam("nobody").pw_uid), str(pwd.getpwnam(workers[0]).pw_uid)}
        assert of["Groups"] == []
        assert {int(of[name][0], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
        assert (of["NoNewPrivs"], of["Seccomp"]) == (["1"], ["2"])


def test_a_gate_that_has_stopped_is_replaced_and_requests_go_on(bed: UnderGate) -> None:
    stopped = gate_processes(bed)[1]
    os.kill(stopped, signal.SIGSTOP)
    try:
        until(lambda: stopped not in gate_processes(bed), "the gate is not replaced")
        bed.pages("127.0.0.1", number=3)
        assert stopped not in gate_processes(bed)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stopped, signal.SIGCONT)


def test_nobody_is_served_outside_the_budgets_from_the_address_that_wakes_workers(bed: UnderGate) -> None:
    _, _, wake_source, _ = struct.unpack_from("<4I", bed.run_dir.shared.read_bytes(), 40)
    client = bed.client(str(ipaddress.ip_address(wake_source)))
    with contextlib.closing(client), pytest.raises((http.client.HTTPException, OSError)):
        fetched(client)


def test_what_a_worker_writes_over_the_mapped_file_does_not_stop_the_gate_for_the_others(bed: UnderGate) -> None:
    """A circle of released slots, and slots in no state there is, as a worker that was broken into can store."""
    slots, slot, state_at, next_at, head_at = 32_768, 64, 0, 48, 64
    with bed.run_dir.shared.open("r+b", buffering=0) as shared:
        for turn in range(100):
            for index in range(8):
                os.pwrite(shared.fileno(), struct.pack("<I", (index + 1) % 8 + 1), slots + slot * index + next_at)
                if turn % 10 == 0:
                    os.pwrite(shared.fileno(), struct.pack("<I", 77), slots + slot * (1000 + index) + state_at)
            os.pwrite(shared.fileno(), struct.pack("<Q", 1), head_at)
            bed.pages(("127.0.1.1", "127.0.0.1")[turn % 2])
    link = Link(bed.run_dir, SystemClock())
    with contextlib.closing(link):
        assert link.apply({}).configuration, "the gate takes no orders any more"


def status(pid: int) -> dict[str, list[str]]:
    """What /proc says of a process, word by word."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return {name: words.split() for name, _, words in (line.partition(":") for line in lines)}


@contextlib.contextmanager
def stranger(bed: UnderGate) -> Iterator[list[str]]:
    """Somebody without rights who tries to freeze the gate of a server; what he has reached."""
    source = Path(_stranger.__file__).read_text(encoding="utf-8")
    attack = subprocess.Popen(
        ["/usr/bin/python3", "-I", "-c", source, str(bed.run_dir.directory)],
        stdout=subprocess.PIPE,
        text=True,
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
        cwd="/",
    )
    assert attack.stdout is not None
    with attack.stdout:
        try:
            yield json.loads(attack.stdout.readline())
        finally:
            attack.kill()
            attack.wait()
