"""`trimtab tune squid`, `observe` and `runs undo` as a user types them, on a private Squid under load."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers._private_squid import DEBIAN, Bed, private
from tests.servers._tuning import (
    applied,
    command,
    finished,
    interrupted,
    left_by_its_server,
    refused,
    undone,
    windows,
)
from trimtab.clock import SystemClock
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
    return any(value != DEBIAN["cache_mem"] for value in applied(path, "cache_mem"))


def measured(path: Path) -> bool:
    """Whether there is a window in which all was measured."""
    with contextlib.closing(Store(path, create=False)) as store:
        return any(window.readings.keys() >= MEASURED for window in store.windows(1))


def test_a_run_moves_the_cache_measures_what_it_does_and_undo_puts_it_back(bed: Bed, path: Path) -> None:
    arguments = tune(bed, path, "--duration", "10m")
    said = interrupted(arguments, lambda: moved(path) and measured(path), "not moved, or not all measured")
    assert (said.returncode, said.stderr) == (128 + signal.SIGINT, "")
    # The run puts back by itself what seemed to be worse than the start, which a busy machine can make so.
    assert bed.snippet.exists() != Store(path).run(1).restored
    undone(path)
    assert not bed.snippet.exists()
    seen = finished(
        command(
            *("observe", "squid", "--pid", bed.testbed.pid, "--json"), *("--window", "500ms", "--duration", "500ms")
        )
    )
    assert windows(seen)[0]["configuration"] == DEBIAN


def test_sigkill_leaves_a_valid_configuration_that_the_next_trimtab_knows_and_undoes(bed: Bed, path: Path) -> None:
    arguments = tune(bed, path, "--duration", "10m")
    interrupted(arguments, lambda: applied(path, "cache_mem"), "no change was applied", signal.SIGKILL)
    assert Store(path).run(1).unfinished
    undone(path)
    assert not bed.snippet.exists()


def test_a_master_that_is_stopped_ends_the_run_with_what_was_measured(path: Path) -> None:
    with private() as bed:
        left_by_its_server(
            tune(bed, path, "--duration", "10m"), path, lambda: os.kill(bed.testbed.pid, signal.SIGTERM)
        )
        assert not bed.snippet.exists()


def test_bad_input_is_one_line_and_changes_nothing(path: Path) -> None:
    with private() as bed:
        for change, message in (
            (("--pid", os.getpid()), "is not the first process of Squid"),
            (("--snippet-directory", "/tmp"), "/tmp is not included"),
            (("--knob", "cache_size"), "unknown knob 'cache_size': squid has cache_mem"),
            (("--manager-url", "http://192.0.2.1/squid-internal-mgr/"), "outside this machine"),
        ):
            refused(tune(bed, path, "--duration", "5s", *change), path, message)
            assert not bed.snippet.exists()
