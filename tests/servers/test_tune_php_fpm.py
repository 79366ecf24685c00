"""`trimtab tune php-fpm`, `observe` and `runs undo` as a user types them, on a private FPM under load."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers._private_fpm import DEBIAN, Bed, private, until
from tests.servers._tuning import PATIENCE_S, applied, command, finished, interrupted, windows
from tests.servers._under_gate import a_name, trimtab_run
from trimtab import processes
from trimtab.clock import SystemClock
from trimtab.events import Status
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
            errors = {c.class_name: dict(c.errors) for c in run.stop().classes if c.errors}
        assert errors == {}, "requests failed through a change of ours"


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
    assert limit(bed, path) == applied(path, KNOB)[-1]
    assert bed.snippet.exists()
    undone = finished(command("runs", "undo", 1, "--store", path))
    assert undone.returncode == 0, undone.stderr
    assert not bed.snippet.exists()
    assert limit(bed, path) == DEBIAN[KNOB]


@pytest.mark.parametrize("on_exit", ["keep", "restore"])
def test_a_signal_ends_the_run_cleanly(bed: Bed, path: Path, on_exit: str) -> None:
    arguments = tune(bed, path, "--duration", "10m", "--on-exit", on_exit)
    said = interrupted(arguments, lambda: applied(path, KNOB), "no change was applied")
    assert (said.returncode, said.stderr) == (128 + signal.SIGINT, "")
    assert bed.snippet.exists() == (on_exit == "keep")


def test_sigkill_leaves_a_valid_configuration_that_the_next_trimtab_knows_and_undoes(bed: Bed, path: Path) -> None:
    process_ = subprocess.Popen(
        tune(bed, path, "--duration", "10m"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: bool(applied(path, KNOB)), "no change was applied")
    finally:
        process_.kill()
        process_.wait()
    assert Store(path).run(1).unfinished
    undone = finished(command("runs", "undo", 1, "--store", path))
    assert undone.returncode == 0, undone.stderr
    assert not bed.snippet.exists()
    assert limit(bed, path) == DEBIAN[KNOB]


def test_a_master_that_is_killed_ends_the_run_with_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with private() as bed:
        process_ = subprocess.Popen(
            tune(bed, path, "--duration", "10m"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        until(lambda: bool(Store(path, create=False).windows(1)), "no window was measured")
        workers = [one for one in map(processes.identify, processes.children(bed.testbed.pid)) if one is not None]
        os.kill(bed.testbed.pid, signal.SIGKILL)
        _, err = process_.communicate(timeout=PATIENCE_S)
        for worker in workers:  # FPM's do not end with their master
            worker.send(signal.SIGKILL)
        assert process_.returncode == 1
        assert err.startswith("trimtab: run 1 ended early: ") and err.count("\n") == 1
        assert Store(path).run(1).status is Status.GONE
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
    tmp_path: Path, fields: dict[str, object], change: tuple[object, ...], message: str
) -> None:
    path = tmp_path / "runs.sqlite"
    with private(**fields) as bed:
        said = finished(tune(bed, path, "--duration", "5s", *change))
        assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1), said.stderr
        assert message in said.stderr
        assert not path.exists()
        assert not bed.snippet.exists()


def test_it_is_tuned_under_trimtab_run_too(tmp_path: Path) -> None:
    """The shim is in FPM, at a port, through its reloads."""
    path = tmp_path / "runs.sqlite"
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
