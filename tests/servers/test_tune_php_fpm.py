"""`trimtab tune php-fpm`, `observe` and `runs undo` as a user types them, on a private FPM under load."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers._private_fpm import DEBIAN, Bed, private, until
from tests.servers._traffic import errors
from tests.servers._tuning import (
    PATIENCE_S,
    applied,
    command,
    finished,
    interrupted,
    killed_before_its_reload,
    left_by_its_server,
    refused,
    undone,
    windows,
)
from tests.servers._under_gate import a_name, trimtab_run
from trimtab import processes
from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.plants.php_fpm import process
from trimtab.store import Store
from trimtab.testbed.content import dynamic_url
from trimtab.testbed.nginx import NginxSpec, NginxTestbed
from trimtab.workloads._population import Url
from trimtab.workloads.closed_loop import ClosedLoop

pytestmark = pytest.mark.server
KNOB = "max_children"


@pytest.fixture
def bed() -> Iterator[Bed]:
    """One whose pages take 20 ms, and little CPU."""
    traffic = ClosedLoop(connections=8, think_s=0.05, urls=(Url(dynamic_url(0, 500, wait_us=20_000)),))
    with private() as running, NginxTestbed(NginxSpec(fastcgi=running.testbed.nginx)) as front:
        with LoadRun(f"127.0.0.1:{front.port}", traffic.populations(), 300.0, SystemClock()) as run:
            yield running
            failed = errors(run.stop())
        assert failed == {}, "requests failed through a change of ours"


def tune(bed: Bed, path: Path, *more: object) -> list[str]:
    return command(
        *("tune", "php-fpm", "--pid", bed.testbed.pid, "--store", path),
        *("--controller", "fuzzy", "--window", "1s", *more),
    )


def limit(bed: Bed, path: Path) -> int:
    """max_children in force, read by another trimtab."""
    said = finished(
        command(
            *("observe", "php-fpm", "--pid", bed.testbed.pid, "--json"), *("--window", "500ms", "--duration", "500ms")
        )
    )
    return int(windows(said)[0]["configuration"][KNOB])


def test_a_run_moves_max_children_and_undo_puts_it_back(bed: Bed, path: Path) -> None:
    arguments = tune(bed, path, "--duration", "10m")
    said = interrupted(arguments, lambda: {*applied(path, KNOB)} - {DEBIAN[KNOB]}, "the limit was not moved")
    assert (said.returncode, said.stderr) == (128 + signal.SIGINT, "")
    # The run puts back by itself what seemed to be worse than the start, which a busy machine can make so.
    restored = Store(path).run(1).restored
    assert limit(bed, path) == (DEBIAN[KNOB] if restored else applied(path, KNOB)[-1])
    assert bed.snippet.exists() != restored
    undone(path)
    assert not bed.snippet.exists()
    assert limit(bed, path) == DEBIAN[KNOB]


@pytest.mark.parametrize("on_exit", ["keep", "restore"])
def test_a_signal_ends_the_run_cleanly(bed: Bed, path: Path, on_exit: str) -> None:
    arguments = tune(bed, path, "--duration", "10m", "--on-exit", on_exit)
    said = interrupted(arguments, lambda: applied(path, KNOB), "no change was applied")
    assert (said.returncode, said.stderr) == (128 + signal.SIGINT, "")
    assert bed.snippet.exists() == (on_exit == "keep")


def test_sigkill_leaves_a_valid_configuration_that_the_next_trimtab_knows_and_undoes(bed: Bed, path: Path) -> None:
    arguments = tune(bed, path, "--duration", "10m")
    interrupted(arguments, lambda: applied(path, KNOB), "no change was applied", signal.SIGKILL)
    assert Store(path).run(1).unfinished
    undone(path)
    assert not bed.snippet.exists()
    assert limit(bed, path) == DEBIAN[KNOB]


def test_a_trial_that_got_sigkill_before_its_reload_is_undone_before_the_next_run(bed: Bed, path: Path) -> None:
    """The next run refused to begin, and had it loaded by hand."""
    killed_before_its_reload(tune(bed, path, "--duration", "10m"), "php_fpm")
    assert bed.snippet.exists()
    again = finished(tune(bed, path, "--controller", "static", "--duration", "1s"))
    assert again.returncode == 0, again.stderr
    assert "run 1 was killed before its end; what it left is undone, in force again:" in again.stderr
    assert not bed.snippet.exists()
    assert limit(bed, path) == DEBIAN[KNOB]


def test_a_master_that_is_killed_ends_the_run_with_what_was_measured(path: Path) -> None:
    with private() as bed:
        workers = list[processes.Process | None]()

        def kill() -> None:
            workers.extend(map(processes.identify, processes.children(bed.testbed.pid)))
            os.kill(bed.testbed.pid, signal.SIGKILL)

        left_by_its_server(tune(bed, path, "--duration", "10m"), path, kill)
        for worker in filter(None, workers):  # FPM's do not end with their master
            worker.send(signal.SIGKILL)
        assert not bed.snippet.exists()


@pytest.mark.parametrize(
    ("fields", "change", "message"),
    [
        ({}, ("--pid", os.getpid()), "is not the first process of PHP-FPM"),
        ({}, ("--pool", "three"), "unknown pool 'three'; choose from: www"),
        ({}, ("--snippet-directory", "/tmp"), "/tmp is not included"),
        ({}, ("--knob", "max_clients"), "unknown knob 'max_clients': php-fpm has max_children"),
        ({"status": False}, (), "add 'pm.status_path = /status' to [www]"),
        ({"timeout_s": 0}, (), "add 'process_control_timeout = 30s' to [global]"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    path: Path, fields: dict[str, object], change: tuple[object, ...], message: str
) -> None:
    with private(**fields) as bed:
        refused(tune(bed, path, "--duration", "5s", *change), path, message)
        assert not bed.snippet.exists()


def test_it_is_tuned_under_trimtab_run_too(path: Path) -> None:
    """The shim is in FPM, at a port, through its reloads."""
    with private(tcp=True) as bed:
        command_ = Path(f"/proc/{bed.testbed.pid}/exe").resolve(), "-n", "-F", "-y", bed.testbed.config_file
        os.kill(bed.testbed.pid, signal.SIGTERM)
        until(lambda: not os.path.exists(f"/proc/{bed.testbed.pid}/exe"), "it did not end")

        def running() -> list[int]:
            """It, and no FPM of another test."""
            return [
                one.pid for one in process.FpmMaster.running() if str(bed.testbed.config_file) in " ".join(one.argv)
            ]

        under = trimtab_run("--name", a_name(), "--", *command_)
        try:
            until(lambda: bool(running()), "it did not start under trimtab run")
            (pid,) = running()
            until(lambda: bed.ask(1) == "done", "it does not serve")
            arguments = tune(bed, path, "--duration", "8s", "--on-exit", "restore")
            arguments[arguments.index("--pid") + 1] = str(pid)
            run = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            said = set()
            while run.poll() is None:
                said.add(bed.ask(10))
            out, err = run.communicate()
            assert (run.returncode, err) == (0, ""), out
            assert said == {"done"}
            windows = Store(path).windows(1)
            assert any(window.readings.get("service_time_s", 0) > 0.005 for window in windows)
        finally:
            under.send_signal(signal.SIGTERM)
            under.communicate(timeout=PATIENCE_S)
