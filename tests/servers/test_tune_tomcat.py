"""`trimtab tune tomcat` and `runs undo` as a user types them, on a private Tomcat under load."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.servers._private_tomcat import SHIPPED, Bed, private
from tests.servers._tuning import PATIENCE_S, applied, command, finished
from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.events import Status
from trimtab.load import LoadRun
from trimtab.plants.tomcat import process
from trimtab.plants.tomcat.jmx import Jmx
from trimtab.store import Store
from trimtab.workloads._population import Url
from trimtab.workloads.closed_loop import ClosedLoop

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with private() as running:
        yield running


@pytest.fixture
def loaded(bed: Bed) -> Iterator[Bed]:
    """One whose pages take 20 ms."""
    traffic = ClosedLoop(connections=8, think_s=0.05, urls=(Url("/shop/work?ms=20"),))
    with LoadRun(f"127.0.0.1:{bed.testbed.port}", traffic.populations(), 300.0, SystemClock()) as run:
        yield bed
        errors = {c.class_name: dict(c.errors) for c in run.stop().classes if c.errors}
    assert errors == {}, "requests failed through a change of ours"


def tune(bed: Bed, path: Path, *more: object) -> list[str]:
    return command(
        *("tune", "tomcat", "--pid", bed.testbed.pid, "--store", path),
        *("--controller", "fuzzy", "--window", "500ms", *more),
    )


def changed_since(path: Path, before: int) -> bool:
    """Whether more changes were applied than there were."""
    return path.exists() and len(applied(path, "max_threads")) > before


@pytest.fixture(scope="module")
def server(bed: Bed) -> Iterator[Jmx]:
    """Somebody else who asks the server."""
    with contextlib.closing(Jmx(process.TomcatProcess.find(bed.testbed.pid), SystemClock())) as jmx:
        yield jmx


def limit(server: Jmx) -> int:
    """The limit in force."""
    (bean,) = server.names("*:type=ThreadPool,*")
    (found,) = server.read({bean: ("maxThreads",)})
    assert found is not None
    return int(found["maxThreads"] or 0)


def test_a_run_moves_the_limit_of_threads_and_undo_puts_it_back(loaded: Bed, server: Jmx, path: Path) -> None:
    run = subprocess.Popen(
        tune(loaded, path, "--duration", "10m"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    until(partial(changed_since, path, 0), "no change was applied")
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=PATIENCE_S)
    assert (run.returncode, err) == (128 + signal.SIGINT, "")
    moved = applied(path, "max_threads")
    assert any(value != SHIPPED["max_threads"] for value in moved)
    # The run puts back by itself what seemed to be worse than the start, which a busy machine can make so.
    assert limit(server) == (SHIPPED["max_threads"] if Store(path).run(1).restored else moved[-1])
    undone = finished(command("runs", "undo", 1, "--store", path))
    assert undone.returncode == 0, undone.stderr
    assert limit(server) == SHIPPED["max_threads"]


def test_a_signal_ends_the_run_with_all_restored_and_sigkill_with_what_the_next_trimtab_undoes(
    loaded: Bed, server: Jmx, path: Path
) -> None:
    for number, (ends, more) in enumerate(((signal.SIGINT, ("--on-exit", "restore")), (signal.SIGKILL, ())), 1):
        before = len(applied(path, "max_threads")) if path.exists() else 0
        run = subprocess.Popen(
            tune(loaded, path, "--duration", "10m", *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(partial(changed_since, path, before), "no change was applied")
        run.send_signal(ends)
        run.wait(PATIENCE_S)
        if ends is signal.SIGINT:
            assert limit(server) == SHIPPED["max_threads"]
        else:
            assert Store(path).run(number).unfinished
            undone = finished(command("runs", "undo", number, "--store", path))
            assert undone.returncode == 0, undone.stderr
            assert limit(server) == SHIPPED["max_threads"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--pid", os.getpid()), "is not the first process of Tomcat"),
        (("--knob", "max_clients"), "unknown knob 'max_clients': tomcat has max_threads"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    bed: Bed, path: Path, change: tuple[object, ...], message: str
) -> None:
    said = finished(tune(bed, path, "--duration", "5s", *change))
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1), said.stderr
    assert message in said.stderr
    assert not path.exists()


def test_a_server_that_is_killed_ends_the_run_with_what_was_measured(bed: Bed, path: Path) -> None:
    """The last one: it takes the server with it."""
    run = subprocess.Popen(
        tune(bed, path, "--duration", "10m"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    until(lambda: path.exists() and Store(path).runs() and Store(path).windows(1), "no window was measured")
    os.kill(bed.testbed.pid, signal.SIGKILL)
    _, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 1
    assert err.startswith("trimtab: run 1 ended early: ") and err.count("\n") == 1
    assert Store(path).run(1).status is Status.GONE
