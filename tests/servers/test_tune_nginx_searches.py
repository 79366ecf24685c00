"""`trimtab tune nginx` as a search over two knobs, and undone on a server that was started anew since."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.servers._private_nginx import CPUS, Bed, private
from tests.servers._tuning import PATIENCE_S, applied, command, finished
from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.core import Window
from trimtab.load import LoadRun
from trimtab.plants.nginx.process import Master, serving
from trimtab.store import Store
from trimtab.workloads._population import Connection, Url
from trimtab.workloads.closed_loop import ClosedLoop

pytestmark = [pytest.mark.server]

KNOBS = ("worker_processes", "worker_connections")
TRIALS = 200


@pytest.fixture
def bed() -> Iterator[Bed]:
    with private() as running:
        yield running


@contextlib.contextmanager
def load(bed: Bed) -> Iterator[LoadRun]:
    """A light load of pages that wait 50 ms, whatever nginx is set to."""
    traffic = ClosedLoop(connections=8, think_s=0.05, urls=(Url("/wait"),), connection=Connection.PER_PAGE)
    with LoadRun(f"127.0.0.1:{bed.testbed.port}", traffic.populations(), 600.0, SystemClock()) as run:
        yield run


def search(bed: Bed, path: Path, *more: object) -> list[str]:
    knobs = (word for knob in KNOBS for word in ("--knob", knob))
    return command(
        *("tune", "nginx", "--pid", bed.pid, "--store", path, "--edit-in-place", "--controller", "trust_region"),
        *(*knobs, "--trials", TRIALS, "--trial-length", "500ms", "--on-exit", "restore", *more),
    )


def windows_of(path: Path) -> Sequence[Window]:
    with contextlib.closing(Store(path, create=False)) as store:
        return store.windows(1)


def test_a_search_that_finds_nothing_within_reach_ends_long_before_its_trials_do(bed: Bed, path: Path) -> None:
    before = bed.files()
    with load(bed):
        said = finished(search(bed, path, "--settle", "200ms", "--remeasure", 2))
    assert (said.returncode, said.stderr) == (0, ""), said.stdout
    assert "the search has ended: trust_region: " in said.stdout
    moved = {(window.configuration[KNOBS[0]], window.configuration[KNOBS[1]]) for window in windows_of(path)}
    assert len(moved) > 3 and all(len(set(values)) > 1 for values in zip(*moved, strict=True))
    assert len(windows_of(path)) < TRIALS / 2
    assert bed.files() == before
    assert bed.processes() == CPUS


def test_a_trial_in_which_nothing_is_served_ends_after_two_windows_and_nothing_else_is_tried(
    bed: Bed, path: Path
) -> None:
    before = bed.files()
    with load(bed) as run:
        # So long a settling that nobody is there any more when the first trial is measured.
        process = subprocess.Popen(search(bed, path, "--settle", "3s"), stdout=subprocess.DEVNULL)
        try:
            until(lambda: bed.files() != before, "nothing was tried")
            run.stop()
            before_it = len(windows_of(path))
            until(lambda: len(windows_of(path)) > before_it + 8, "it does not go on")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 128 + signal.SIGINT
        finally:
            process.kill()
            process.wait()
    windows = windows_of(path)
    start = windows[0].configuration
    tried = [k for k, window in enumerate(windows) if window.configuration != start]
    assert tried == [tried[0], tried[0] + 1], "two windows, and nothing else after them"
    assert not any("request_time_s" in window.readings for window in windows[tried[0] :])
    assert bed.files() == before


def test_a_server_that_was_started_anew_since_is_undone_by_the_process_that_is_named(bed: Bed, path: Path) -> None:
    before, tuned = bed.files(), ("--controller", "fuzzy", "--window", "1s", "--duration", "10m")
    words = command("tune", "nginx", "--pid", bed.pid, "--store", path, "--edit-in-place", *tuned)
    with load(bed):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: path.exists() and {*applied(path, KNOBS[0])} - {CPUS}, "nothing was changed")
        finally:
            process.kill()
            process.wait()
    trial, directory = bed.processes(), bed.testbed.directory
    os.kill(bed.pid, signal.SIGTERM)
    until(lambda: not bed.testbed.running(), "nginx does not end")
    anew = subprocess.Popen(["nginx", "-p", f"{directory}/", "-c", bed.config, "-g", "daemon off;"])
    try:
        until(lambda: workers(anew.pid) == trial, "it does not serve with what it found")
        refused = finished(command("runs", "undo", 1, "--store", path))
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "name a server that was started anew since with --pid PID" in refused.stderr
        undone = finished(command("runs", "undo", 1, "--store", path, "--pid", anew.pid))
        assert (undone.returncode, undone.stderr) == (0, "")
        assert f"run 1: undone; in force now: worker_processes {CPUS}" in undone.stdout
        until(lambda: workers(anew.pid) == CPUS, "it has not its own number of processes")
        assert bed.files() == before
    finally:
        anew.terminate()
        anew.wait(PATIENCE_S)


def workers(pid: int) -> int:
    """How many processes of an nginx serve; none while it is no nginx yet."""
    return sum(len(serving(one)) for one in Master.running() if one.pid == pid)
