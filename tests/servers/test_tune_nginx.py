"""`trimtab tune nginx` against a private nginx: end to end, undone, after a SIGKILL; under `trimtab run`."""

from __future__ import annotations

import json
import signal
import statistics
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers._private_nginx import Bed, private
from tests.servers._tuning import PATIENCE_S, applied, command, finished, interrupted, refused, undone, windows
from tests.servers._under_gate import a_name, trimtab_run, until
from trimtab.clock import SystemClock
from trimtab.gate import run_directory
from trimtab.gate.server import processes_of
from trimtab.load import LoadRun
from trimtab.plants.nginx.process import Master, serving
from trimtab.store import Store
from trimtab.testbed import nginx_config
from trimtab.testbed._private import free_ports, worker_user
from trimtab.testbed.nginx_config import NginxSpec
from trimtab.workloads._population import Connection, Url
from trimtab.workloads.closed_loop import ClosedLoop

pytestmark = [pytest.mark.server]

KNOB = "worker_processes"
INTERRUPTED = 128 + signal.SIGINT
CLIENTS = 8


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    """nginx under a light load of pages that wait 50 ms."""
    traffic = ClosedLoop(connections=CLIENTS, think_s=0.05, urls=(Url("/wait"),), connection=Connection.PER_PAGE)
    with private() as running:
        target = f"127.0.0.1:{running.testbed.port}"
        with LoadRun(target, traffic.populations(), 600.0, SystemClock()):
            yield running


def tune(bed: Bed, path: Path, *more: object) -> list[str]:
    return command(
        *("tune", "nginx", "--pid", bed.pid, "--store", path, "--controller", "fuzzy", "--window", "1s"),
        *("--edit-in-place", *more),
    )


def test_a_run_moves_the_processes_and_undo_puts_the_file_back_to_the_byte(bed: Bed, path: Path) -> None:
    before, start = bed.files(), bed.processes()
    arguments = tune(bed, path, "--duration", "10m")
    said = interrupted(arguments, lambda: {*applied(path, KNOB)} - {start}, "the processes were not moved")
    assert (said.returncode, said.stderr) == (INTERRUPTED, "")
    assert "a reload closes idle kept connections" in said.stdout
    # The run puts back by itself what seemed to be worse than the start, which a busy machine can make so.
    assert bed.processes() == (start if Store(path).run(1).restored else applied(path, KNOB)[-1])
    undone(path)
    assert bed.files() == before
    assert bed.processes() == start


def test_restore_on_exit_leaves_nothing(bed: Bed, path: Path) -> None:
    before, start = bed.files(), bed.processes()
    arguments = tune(bed, path, "--duration", "10m", "--on-exit", "restore")
    said = interrupted(arguments, lambda: applied(path, KNOB), "no change was applied")
    assert (said.returncode, said.stderr) == (INTERRUPTED, "")
    assert (bed.files(), bed.processes()) == (before, start)


def test_without_another_word_its_processes_are_climbed(bed: Bed, path: Path) -> None:
    before = bed.files()
    words = ("--pid", bed.pid, "--store", path, "--edit-in-place", "--window", "1s", "--duration", "6s")
    said = finished(command("tune", "nginx", *words, "--on-exit", "restore"))
    assert (said.returncode, said.stderr) == (0, "")
    assert f"trying {KNOB}" in said.stdout
    assert bed.files() == before


def test_sigkill_leaves_a_valid_configuration_that_undo_takes_back(bed: Bed, path: Path) -> None:
    before, start = bed.files(), bed.processes()
    arguments = tune(bed, path, "--duration", "10m")
    interrupted(arguments, lambda: applied(path, KNOB), "no change was applied", signal.SIGKILL)
    urllib.request.urlopen(bed.testbed.url("/nginx_status"), timeout=PATIENCE_S).read()
    undone(path)
    assert (bed.files(), bed.processes()) == (before, start)


def test_the_objective_of_nginx_is_the_time_per_request(bed: Bed, path: Path) -> None:
    said = finished(command("observe", "nginx", "--pid", bed.pid, "--json", "--window", "1s", "--duration", "5s"))
    seen = [window["readings"] for window in windows(said)]
    # Each is a mean of ten looks at the page, so one window can be far off.
    time_s = statistics.median(found["request_time_s"] for found in seen)
    assert time_s > 0.02, "pages that wait 0.05 s"
    # By Little's law, since no more than these requests can be there; the terms are of windows that differ a little.
    assert time_s < 1.5 * CLIENTS / statistics.median(found["request_rate_hz"] for found in seen)
    assert statistics.median(found["requests_under_way"] for found in seen) > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--pid", 1), "is not the first process of nginx"),
        (("--status-url", "http://127.0.0.1:1/nginx_status"), "status page"),
        (("--knob", "workers"), "unknown knob 'workers': nginx has worker_processes"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    bed: Bed, path: Path, change: tuple[object, object], message: str
) -> None:
    before = bed.files()
    refused(tune(bed, path, "--duration", "5s", *change), path, message)
    assert bed.files() == before


@pytest.mark.root
def test_without_permission_it_is_one_line_and_changes_nothing(bed: Bed, path: Path) -> None:
    before = bed.files()
    nobody = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--"]
    refused([*nobody, *tune(bed, path, "--duration", "5s")], path, "permi")
    assert bed.files() == before


def test_under_trimtab_run_it_is_changed_alike_and_the_exact_terms_are_read(tmp_path: Path) -> None:
    (tmp_path / "htdocs").mkdir()
    (tmp_path / "htdocs" / "page.html").write_text("a page\n")
    for name in ("logs", "run"):
        (tmp_path / name).mkdir()
    for directory in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        directory.chmod(0o755)
    port, name, config = free_ports(1)[0], a_name(), tmp_path / "nginx.conf"
    config.write_text(nginx_config.text(NginxSpec(processes=2), tmp_path, port, worker_user()))
    log = ("-e", tmp_path / "logs" / "error.log")
    process = trimtab_run("--name", name, "--ports", port, "--", "nginx", "-p", tmp_path, *log, "-c", config)
    try:
        run_dir = run_directory.named(name)

        def served() -> list[int]:
            """Its master, once it has the title of one, and workers."""
            assert process.poll() is None, process.communicate()
            there = {one.pid for one in processes_of(run_dir)}
            return [one.pid for one in Master.running() if one.pid in there and serving(one)]

        until(lambda: bool(served()), "nginx does not serve")
        (pid,), before = served(), config.read_bytes()
        traffic = ClosedLoop(connections=2, think_s=0.01, urls=(Url("/page.html"),), connection=Connection.PER_PAGE)
        store = tmp_path / "runs.sqlite"
        with LoadRun(f"127.0.0.1:{port}", traffic.populations(), 300.0, SystemClock()):
            run = ("--pid", pid, "--store", store, "--controller", "fuzzy", "--window", "1s", "--duration", "10m")
            arguments = command("tune", "nginx", "--edit-in-place", *run, "--on-exit", "restore", "--json")
            said = interrupted(arguments, lambda: applied(store, KNOB), "no change was applied")
        assert said.returncode == INTERRUPTED, said.stderr
        windows = [line for line in map(json.loads, said.stdout.splitlines()) if "readings" in line]
        assert any(line["readings"].get("request_time_s", 0) > 0 for line in windows), "no page of stub_status"
        assert config.read_bytes() == before
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
