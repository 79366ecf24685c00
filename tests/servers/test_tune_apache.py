"""`trimtab tune apache` on a real Apache: however trimtab ends, Apache serves with a valid configuration."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

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
from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.core.trial import MoveState
from trimtab.events import Status
from trimtab.load import LoadRun
from trimtab.store import Store
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.testbed.content import WEBSTONE
from trimtab.workloads._population import Connection, Url
from trimtab.workloads.closed_loop import ClosedLoop

pytestmark = [pytest.mark.server, pytest.mark.apache]

START = 6
SPEC = ApacheSpec(max_request_workers=START, server_limit=40, keep_alive_timeout_ms=200)
PAGE = WEBSTONE[0].path
KNOB = "max_request_workers"
INTERRUPTED = 128 + signal.SIGINT


@pytest.fixture(scope="module")
def unloaded() -> Iterator[ApacheTestbed]:
    """A private Apache that nobody asks for anything."""
    with ApacheTestbed(SPEC) as running:
        yield running


@pytest.fixture
def bed() -> Iterator[ApacheTestbed]:
    """A private Apache whose clients close after each page, so that no worker is held for long."""
    traffic = ClosedLoop(connections=8, think_s=0.05, urls=(Url(PAGE),), connection=Connection.PER_PAGE)
    clients = traffic.populations()
    with ApacheTestbed(SPEC) as running, LoadRun(f"127.0.0.1:{running.port}", clients, 300.0, SystemClock()):
        yield running


def tune(bed: ApacheTestbed, path: Path, *more: object) -> list[str]:
    return command(
        *("tune", "apache", "--pid", bed.pid, "--status-url", bed.status_url, "--store", path),
        *("--snippet-directory", bed.snippet_directory, "--controller", "fuzzy", "--window", "500ms", *more),
    )


def require_serving(bed: ApacheTestbed) -> None:
    """The configuration on disk is valid and the server answers."""
    program = shutil.which("apache2") or "/usr/sbin/apache2"
    test = subprocess.run([program, "-t", "-f", bed.config_file], capture_output=True, text=True, check=False)
    assert test.returncode == 0, test.stderr
    with urllib.request.urlopen(bed.url(PAGE), timeout=PATIENCE_S) as answer:
        assert answer.status == 200


def workers(bed: ApacheTestbed) -> int:
    """The worker limit in force, read by another trimtab."""
    said = finished(
        command(
            *("observe", "apache", "--pid", bed.pid, "--status-url", bed.status_url, "--json"),
            *("--snippet-directory", bed.snippet_directory, "--window", "500ms", "--duration", "500ms"),
        )
    )
    return int(windows(said)[0]["configuration"][KNOB])


def test_a_run_moves_the_limit_and_undo_puts_it_back(bed: ApacheTestbed, path: Path) -> None:
    arguments = tune(bed, path, "--duration", "10m")
    said = interrupted(arguments, lambda: {*applied(path, KNOB)} - {START}, "the limit was not moved")
    assert (said.returncode, said.stderr) == (INTERRUPTED, "")
    # The last one may be where it began: this controller goes up and down. The run puts back by itself what seemed
    # to be worse than the start, too, which a busy machine can make so.
    last = START if Store(path).run(1).restored else applied(path, KNOB)[-1]
    assert workers(bed) == last
    require_serving(bed)
    kept = [file.read_text(encoding="utf-8") for file in bed.snippet_directory.iterdir()]
    assert len(kept) == (last != START)
    for text in kept:
        assert "MaxRequestWorkers" in text and "StartServers" not in text, "later reloads are the operator's"

    undone(path)
    assert list(bed.snippet_directory.iterdir()) == []
    assert workers(bed) == START
    require_serving(bed)


@pytest.mark.parametrize(("number", "on_exit"), [(signal.SIGINT, "keep"), (signal.SIGTERM, "restore")])
def test_a_signal_ends_the_run_cleanly(bed: ApacheTestbed, path: Path, number: signal.Signals, on_exit: str) -> None:
    arguments = tune(bed, path, "--duration", "10m", "--on-exit", on_exit)
    said = interrupted(arguments, lambda: applied(path, KNOB), "no change was applied", number)
    assert (said.returncode, said.stderr) == (128 + number, "")
    run = Store(path).run(1)
    assert (run.status, run.detail, run.restored) == (Status.STOPPED, number.name, on_exit == "restore")
    assert (list(bed.snippet_directory.iterdir()) == []) == (on_exit == "restore")
    if on_exit == "restore":
        assert workers(bed) == START
    assert MoveState.OPEN not in {move.state for move in Store(path).moves(1)}
    require_serving(bed)


@pytest.mark.parametrize("on_exit", ["keep", "restore"])
def test_the_trial_of_a_run_that_got_sigkill_is_undone_before_the_next_one_begins(
    bed: ApacheTestbed, path: Path, on_exit: str
) -> None:
    arguments = tune(bed, path, "--duration", "10m", "--window", "2s")
    interrupted(arguments, lambda: applied(path, KNOB)[-1:] not in ([], [START]), "not moved", signal.SIGKILL)
    require_serving(bed)
    assert Store(path).run(1).unfinished
    assert list(bed.snippet_directory.iterdir())

    looked = finished(tune(bed, path, "--duration", "1s", "--mode", "advise"))
    assert f"run 1 was killed before its end; 'trimtab runs undo 1 --store {path}' undoes it" in looked.stderr
    again = finished(tune(bed, path, "--controller", "static", "--duration", "1s", "--on-exit", on_exit))
    assert again.returncode == 0
    said = f"run 1 was killed before its end; what it left is undone, in force again: {KNOB} {START}"
    assert f"{said}; 'trimtab runs resume 1 --store {path}' goes on with it instead" in again.stderr
    assert Store(path).run(3).plan.initial[KNOB] == START
    assert list(bed.snippet_directory.iterdir()) == []
    assert workers(bed) == START
    require_serving(bed)


def test_a_trial_that_got_sigkill_before_its_reload_is_undone_before_the_next_run(
    bed: ApacheTestbed, path: Path
) -> None:
    """It is in a file and not in force: the next reload, such as logrotate's, would bring it there."""
    killed_before_its_reload(tune(bed, path, "--duration", "10m"), "apache")
    assert [file.read_text() for file in bed.snippet_directory.iterdir()] and workers(bed) == START
    again = finished(tune(bed, path, "--controller", "static", "--duration", "1s"))
    assert again.returncode == 0
    assert "run 1 was killed before its end; what it left is undone, in force again:" in again.stderr
    assert list(bed.snippet_directory.iterdir()) == []
    assert workers(bed) == START
    require_serving(bed)


def test_a_killed_run_resumes_where_it_was(bed: ApacheTestbed, path: Path) -> None:
    arguments = tune(bed, path, "--duration", "10s", "--on-exit", "restore")
    interrupted(arguments, lambda: applied(path, KNOB), "no change was applied", signal.SIGKILL)
    before = Store(path).windows(1)
    said = finished(command("runs", "resume", 1, "--store", path))
    assert said.returncode == 0, said.stderr
    windows = Store(path).windows(1)
    assert windows[: len(before)] == before
    assert [window.index for window in windows] == list(range(len(windows)))
    assert len(windows) > len(before)
    assert Store(path).run(1).status is Status.DONE
    assert list(bed.snippet_directory.iterdir()) == []
    assert workers(bed) == START


def test_the_undo_script_works_without_trimtab(bed: ApacheTestbed, path: Path) -> None:
    arguments = tune(bed, path, "--duration", "10m")
    said = interrupted(arguments, lambda: {*applied(path, KNOB)} - {START}, "the limit was not moved")
    assert said.returncode == INTERRUPTED
    script = finished(command("runs", "undo", 1, "--script", "--store", path)).stdout
    done = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(bed.snippet_directory.iterdir()) == []
    until(lambda: workers(bed) == START, "the limit is not as it was")
    require_serving(bed)


def test_a_server_that_is_killed_ends_the_run_with_what_was_measured(bed: ApacheTestbed, path: Path) -> None:
    left_by_its_server(tune(bed, path, "--duration", "10m"), path, lambda: os.kill(bed.pid, signal.SIGKILL))
    assert list(bed.snippet_directory.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--pid", os.getpid()), "is not"),
        (("--status-url", "http://127.0.0.1:1/server-status"), "status page"),
        (("--snippet-directory", "/tmp"), "not included"),
        (("--knob", "max_clients"), "unknown knob 'max_clients': apache has max_request_workers"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    unloaded: ApacheTestbed, path: Path, change: tuple[object, object], message: str
) -> None:
    refused(tune(unloaded, path, "--duration", "5s", *change), path, message)
    assert list(unloaded.snippet_directory.iterdir()) == []


@pytest.mark.root
def test_without_permission_it_is_one_line_and_changes_nothing(unloaded: ApacheTestbed, tmp_path: Path) -> None:
    nobody = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--"]
    home = {**os.environ, "XDG_STATE_HOME": "/nonexistent"}
    arguments = tune(unloaded, tmp_path / "runs.sqlite", "--duration", "5s")
    said = subprocess.run([*nobody, *arguments], capture_output=True, text=True, check=False, env=home)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1), said.stderr
    assert "permi" in said.stderr
    assert list(unloaded.snippet_directory.iterdir()) == []


@pytest.mark.root
def test_no_apache_is_one_line() -> None:
    alone = ["unshare", "--pid", "--fork", "--mount-proc"]
    said = finished([*alone, *command("tune", "apache", "--duration", "10s")])
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1), said.stderr
    assert "no running Apache found" in said.stderr
