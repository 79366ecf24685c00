"""A family of processes whose threads the tests of the kernel plant move."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from trimtab.clock import SystemClock
from trimtab.plants.linux import knobs, putback, target
from trimtab.plants.linux.plant import Allowed, Linux
from trimtab.plants.linux.putback import Scheduling

FAMILY = """
import subprocess, sys, threading, time
def busy():
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    return subprocess.Popen(["/bin/sleep", "3600"])
children = [busy()]
print("ready", flush=True)
for line in sys.stdin:
    children.append(busy())
    print("born", flush=True)
for child in children:
    child.kill()
for child in children:
    child.wait()
"""
"""A parent with a thread and a child; each line has it start one more of both."""
CHANGE = {knobs.SLICE: 10_000, knobs.POLICY: 1}
Family = subprocess.Popen[str]


@contextlib.contextmanager
def started() -> Iterator[Family]:
    """A family, until its end."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        with contextlib.suppress(BrokenPipeError):
            process.communicate("", timeout=300)


@contextlib.contextmanager
def attached(family: Family, **allowed: bool) -> Iterator[Linux]:
    plant = Linux(SystemClock(), target.find((), (family.pid,), ()), Allowed(sensors=False, **allowed))
    try:
        yield plant
    finally:
        plant.close()


def seen(family: Family) -> dict[int, Scheduling]:
    """How each thread of a family is scheduled."""
    start = putback.stat(family.pid)
    assert start is not None
    there = putback.threads([(family.pid, start[1])])
    return {tid: now for tid in there if (now := putback.read(tid)) is not None}


def more(family: Family) -> None:
    """Has it start one more child and one more thread."""
    assert family.stdin is not None and family.stdout is not None
    family.stdin.write("\n")
    family.stdin.flush()
    assert family.stdout.readline() == "born\n"


def undone(family: Family) -> None:
    """What the next trimtab does with what a dead one has left."""
    with attached(family, machine_wide=True) as plant:
        assert plant.leftover()
        plant.undo_leftover()
        assert plant.leftover() == ""


@contextlib.contextmanager
def asleep() -> Iterator[int]:
    """A process that sleeps."""
    with subprocess.Popen(["/bin/sleep", "3600"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def named(**words: object) -> argparse.Namespace:
    """The servers as the command line names them."""
    usual = {"server": [], "pid": [], "cgroup": [], "allow_machine_wide": False, "allow_real_time": False}
    return argparse.Namespace(**{**usual, **words})


def slice_of(tid: int) -> int:
    now = putback.read(tid)
    assert now is not None
    return now.slice_ns


def refuse(monkeypatch: pytest.MonkeyPatch, tid: int) -> None:
    """Has the kernel refuse to set a thread."""
    write = putback.write

    def refusing(which: int, wanted: Scheduling) -> bool:
        if which == tid:
            raise PermissionError(1, "Operation not permitted")
        return write(which, wanted)

    monkeypatch.setattr(putback, "write", refusing)


def in_a_child(family: Family, end: Callable[[Linux], None]) -> None:
    """Applies a change in a process that ends as it is told to."""
    child = os.fork()
    if child == 0:
        with attached(family, machine_wide=True) as plant:
            plant.apply(CHANGE)
            end(plant)
            os._exit(0)
    os.waitpid(child, 0)


def until(held: Callable[[], bool], patience_s: float = 60.0) -> None:
    clock = SystemClock()
    deadline_s = clock.now_s() + patience_s
    while not held():
        assert clock.now_s() < deadline_s
        clock.sleep(0.05)
