"""CPU and memory of a control group, against processes that use a known amount of both."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests._noise import agree, noisy
from trimtab.clock import SystemClock
from trimtab.errors import NotMeasured
from trimtab.sensors.resources import Resources, probe
from trimtab.testbed.cgroup import Confinement, Limits

pytestmark = [
    pytest.mark.server,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: control groups"),
]

MIB = 1 << 20
LIMIT_BYTES = 256 * MIB
CORES = 0.5

PROGRAM = """
import os, sys, time
for file in sys.argv[1].split(","):
    if file:
        open(file, "w").write(str(os.getpid()))
held, children = [], []
def touch(size):
    held.append(bytearray(os.urandom(4096) * (size // 4096)))
print("ready", flush=True)
for line in sys.stdin:
    verb, _, value = line.strip().partition(" ")
    if verb == "burn":
        while time.process_time() < float(value):
            pass
    elif verb == "count":
        for _ in range(int(value)):
            pass
    elif verb == "touch":
        touch(int(value))
    elif verb == "read":
        with open(value, "rb") as file:
            while file.read(1 << 20):
                pass
    elif verb == "fork":
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            touch(int(value))
            os.write(write, b"x")
            time.sleep(60)
        os.read(read, 1)
        children.append(pid)
    print(time.process_time(), flush=True)
for pid in children:
    os.kill(pid, 9)
"""


class Victim:
    """A process that uses what it is told to."""

    def __init__(self, script: Path, groups: list[str]) -> None:
        script.write_text(PROGRAM, encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, os.fspath(script), ",".join(groups)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self._answer()

    def tell(self, order: str) -> float:
        """Its CPU time after it has done as told."""
        assert self._process.stdin is not None
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        return float(self._answer())

    def end(self) -> None:
        self._process.communicate(timeout=300)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def victim(stack: ExitStack, tmp_path: Path) -> Victim:
    confinement = Confinement(Limits(memory_limit_bytes=LIMIT_BYTES, swap=True, cores=CORES))
    stack.callback(confinement.remove)
    assert not confinement.missing
    made = Victim(tmp_path / "victim.py", confinement.procs_files())
    stack.callback(made.end)
    return made


@pytest.fixture
def sensor(stack: ExitStack, victim: Victim) -> Resources:
    made = Resources(victim.pid, SystemClock())
    stack.callback(made.close)
    return made


@noisy("the window ends a moment before the test looks at the clock")
def test_cpu_time_is_what_the_process_has_used(victim: Victim, sensor: Resources) -> None:
    before_s = victim.tell("nothing")
    sensor.begin()
    began_s = time.monotonic()
    used_s = victim.tell(f"burn {before_s + 0.3}") - before_s
    ratio = sensor.read()["cpu_ratio"]
    elapsed_s = time.monotonic() - began_s
    agree(ratio * elapsed_s * CORES, used_s, 0.05, "CPU time")


def test_time_in_user_mode_is_told_from_the_kernels(victim: Victim, sensor: Resources, tmp_path: Path) -> None:
    def user_share(order: str) -> float:
        sensor.begin()
        victim.tell(order)
        readings = sensor.read()
        return readings["cpu_user_ratio"] / readings["cpu_ratio"]

    holes = tmp_path / "holes"
    with holes.open("wb") as file:
        file.truncate(512 * MIB)
    assert user_share("count 10000000") > 0.7
    assert user_share(f"read {holes}") < 0.4


def test_memory_is_what_the_process_has_touched(victim: Victim, sensor: Resources) -> None:
    sensor.begin()
    before = sensor.read()
    victim.tell(f"touch {64 * MIB}")
    after = sensor.read()
    assert after["memory_bytes"] - before["memory_bytes"] == pytest.approx(64 * MIB, rel=0.03)
    assert after["memory_limit_bytes"] == LIMIT_BYTES
    assert after["memory_ratio"] == after["memory_bytes"] / LIMIT_BYTES


def test_a_file_that_was_read_is_no_demand(victim: Victim, sensor: Resources, tmp_path: Path) -> None:
    file = tmp_path / "content"
    file.write_bytes(os.urandom(64 * MIB))
    with file.open("rb") as written:
        os.fsync(written.fileno())
        # Out of the cache, so that reading it charges the pages to the group.
        os.posix_fadvise(written.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    sensor.begin()
    before = sensor.read()["memory_bytes"]
    victim.tell(f"read {file}")
    assert sensor.read()["memory_bytes"] - before < 4 * MIB


def test_a_worker_adds_what_it_touches_itself(victim: Victim, stack: ExitStack) -> None:
    """What the parent holds is shared with all children and paid once."""
    victim.tell(f"touch {32 * MIB}")
    for _ in range(3):
        victim.tell(f"fork {16 * MIB}")
    sensor = Resources(victim.pid, SystemClock())
    stack.callback(sensor.close)
    sensor.begin()
    assert sensor.read()["worker_memory_bytes"] == pytest.approx(17 * MIB, rel=0.1)


def test_a_worker_of_a_server_without_a_group_adds_as_much(stack: ExitStack, tmp_path: Path) -> None:
    victim = Victim(tmp_path / "victim.py", [])
    stack.callback(victim.end)
    victim.tell(f"touch {32 * MIB}")
    for _ in range(3):
        victim.tell(f"fork {16 * MIB}")
    sensor = Resources(victim.pid, SystemClock(), threads_per_process=4)
    stack.callback(sensor.close)
    sensor.begin()
    assert sensor.read()["worker_memory_bytes"] * 4 == pytest.approx(17 * MIB, rel=0.1)


def test_the_probe_names_the_group_and_its_limits(victim: Victim) -> None:
    found = {finding.subject: finding for finding in probe(victim.pid)}
    assert "0.5 cores" in found["CPU"].detail and "control group" in found["CPU"].detail
    assert "256 MiB" in found["memory"].detail and "control group" in found["memory"].detail


def test_a_server_that_is_gone_is_not_measured(stack: ExitStack, tmp_path: Path) -> None:
    victim = Victim(tmp_path / "victim.py", [])
    victim.end()
    with pytest.raises(NotMeasured, match=f"pid {victim.pid}"):
        Resources(victim.pid, SystemClock()).begin()
