"""`trimtab tune tomcat` and `runs undo` as a user types them, on a private Tomcat under load."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers._private_tomcat import SHIPPED, Bed, private
from tests.servers._traffic import errors
from tests.servers._tuning import applied, command, interrupted, left_by_its_server, refused, undone
from trimtab.clock import SystemClock
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
        failed = errors(run.stop())
    assert failed == {}, "requests failed through a change of ours"


def tune(bed: Bed, path: Path, *more: object) -> list[str]:
    return command(
        *("tune", "tomcat", "--pid", bed.testbed.pid, "--store", path),
        *("--controller", "fuzzy", "--window", "500ms", *more),
    )


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
    arguments = tune(loaded, path, "--duration", "10m")
    said = interrupted(arguments, lambda: applied(path, "max_threads"), "no change was applied")
    assert (said.returncode, said.stderr) == (128 + signal.SIGINT, "")
    moved = applied(path, "max_threads")
    assert any(value != SHIPPED["max_threads"] for value in moved)
    # The run puts back by itself what seemed to be worse than the start, which a busy machine can make so.
    assert limit(server) == (SHIPPED["max_threads"] if Store(path).run(1).restored else moved[-1])
    undone(path)
    assert limit(server) == SHIPPED["max_threads"]


def test_a_signal_ends_the_run_with_all_restored_and_sigkill_with_what_the_next_trimtab_undoes(
    loaded: Bed, server: Jmx, path: Path
) -> None:
    arguments = tune(loaded, path, "--duration", "10m")
    interrupted([*arguments, "--on-exit", "restore"], lambda: applied(path, "max_threads"), "no change was applied")
    assert limit(server) == SHIPPED["max_threads"]
    before = len(applied(path, "max_threads"))
    interrupted(
        arguments, lambda: len(applied(path, "max_threads")) > before, "no change was applied", signal.SIGKILL
    )
    assert Store(path).run(2).unfinished
    undone(path, 2)
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
    refused(tune(bed, path, "--duration", "5s", *change), path, message)


def test_a_server_that_is_killed_ends_the_run_with_what_was_measured(bed: Bed, path: Path) -> None:
    """The last one: it takes the server with it."""
    left_by_its_server(tune(bed, path, "--duration", "10m"), path, lambda: os.kill(bed.testbed.pid, signal.SIGKILL))
