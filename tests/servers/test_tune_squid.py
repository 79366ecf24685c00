"""`trimtab tune squid`, `observe` and `runs undo` as a user types them, on a private Squid under load."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers._private_squid import DEBIAN, Bed, private
from tests.servers._tuning import PATIENCE_S, applied, command, finished, windows
from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.events import Status
from trimtab.load import LoadRun
from trimtab.store import Store
from trimtab.workloads._population import Url
from trimtab.workloads.closed_loop import ClosedLoop

pytestmark = pytest.mark.server
MEASURED = {"request_rate_hz", "hit_ratio", "byte_hit_ratio", "cache_bytes", "cpu_ratio", "request_time_s"}


@pytest.fixture
def bed() -> Iterator[Bed]:
    """One with traffic."""
    traffic = ClosedLoop(connections=4, think_s=0.05, urls=(Url("/2000/a"), Url("/3000/b")))
    with (
        private() as running,
        LoadRun(f"127.0.0.1:{running.testbed.port}", traffic.populations(), 300.0, SystemClock()),
    ):
        yield running


def tune(bed: Bed, path: Path, *more: object) -> list[str]:
    return command(
        *("tune", "squid", "--pid", bed.testbed.pid, "--store", path),
        *("--controller", "fuzzy", "--window", "1s", "--remeasure", "0", "--accept-lost-connections", *more),
    )


def moved(path: Path) -> bool:
    """Whether the cache was given another size."""
    return path.exists() and any(value != DEBIAN["cache_mem"] for value in applied(path, "cache_mem"))


def measured(path: Path) -> bool:
    """Whether there is a window in which all was measured."""
    with contextlib.closing(Store(path, create=False)) as store:
        return any(window.readings.keys() >= MEASURED for window in store.windows(1))


def test_a_run_moves_the_cache_measures_what_it_does_and_undo_puts_it_back(bed: Bed, path: Path) -> None:
    run = subprocess.Popen(
        tune(bed, path, "--duration", "10m"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    until(lambda: moved(path), "no change was applied")
    until(lambda: measured(path), "not all was measured in any window")
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=PATIENCE_S)
    assert (run.returncode, err) == (128 + signal.SIGINT, "")
    # The run puts back by itself what seemed to be worse than the start, which a busy machine can make so.
    assert bed.snippet.exists() != Store(path).run(1).restored
    undone = finished(command("runs", "undo", 1, "--store", path))
    assert undone.returncode == 0, undone.stderr
    assert not bed.snippet.exists()
    seen = finished(
        command(
            *("observe", "squid", "--pid", bed.testbed.pid, "--json"), *("--window", "500ms", "--duration", "500ms")
        )
    )
    assert windows(seen)[0]["configuration"] == DEBIAN


def test_sigkill_leaves_a_valid_configuration_that_the_next_trimtab_knows_and_undoes(bed: Bed, path: Path) -> None:
    process_ = subprocess.Popen(
        tune(bed, path, "--duration", "10m"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until(lambda: path.exists() and applied(path, "cache_mem"), "no change was applied")
    process_.kill()
    process_.wait()
    assert Store(path).run(1).unfinished
    undone = finished(command("runs", "undo", 1, "--store", path))
    assert undone.returncode == 0, undone.stderr
    assert not bed.snippet.exists()


def test_a_master_that_is_stopped_ends_the_run_with_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with private() as bed:
        process_ = subprocess.Popen(
            tune(bed, path, "--duration", "10m"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        until(lambda: path.exists() and Store(path).runs() and Store(path).windows(1), "no window was measured")
        os.kill(bed.testbed.pid, signal.SIGTERM)
        _, err = process_.communicate(timeout=PATIENCE_S)
        assert process_.returncode == 1
        assert err.startswith("trimtab: run 1 ended early: ") and err.count("\n") == 1
        assert Store(path).run(1).status is Status.GONE
        assert not bed.snippet.exists()


def test_bad_input_is_one_line_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with private() as bed:
        for change, message in (
            (("--pid", os.getpid()), "is not the first process of Squid"),
            (("--snippet-directory", "/tmp"), "/tmp is not included"),
            (("--knob", "cache_size"), "unknown knob 'cache_size': squid has cache_mem"),
            (("--manager-url", "http://192.0.2.1/squid-internal-mgr/"), "outside this machine"),
        ):
            said = finished(tune(bed, path, "--duration", "5s", *change))
            assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1), said.stderr
            assert message in said.stderr
            assert not path.exists()
            assert not bed.snippet.exists()
