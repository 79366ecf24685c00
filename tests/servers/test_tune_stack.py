"""`trimtab tune stack` on a private nginx in front of a private PHP-FPM: searched, restored, undone, stood down."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers import _private_fpm, _private_nginx
from tests.servers._tuning import applied as values_of
from tests.servers._tuning import command, finished, undone
from tests.servers._under_gate import until
from trimtab.core.trial import MoveState
from trimtab.store import Store

pytestmark = [pytest.mark.server]

PATIENCE_S = 120.0
SITE = (
    "location = /work {{ include {etc}/fastcgi_params; fastcgi_param SCRIPT_FILENAME {page}; fastcgi_pass {pool}; }}"
)
FILE = """
knobs = ["web.*", "app.max_children"]
[tiers.web]
plant = "nginx"
pid = {web}
edit-in-place = true
[tiers.app]
plant = "php-fpm"
pid = {app}
[objective]
maximize = "client_page_rate_hz"
subject-to = ["client_error_rate_hz<=5"]
[clients]
url = "http://127.0.0.1:{port}/work?ms=2"
workload = "closed-loop"
connections = 4
think = "20ms"
warm-up = "300ms"
"""


@dataclass(frozen=True)
class Bed:
    """The two servers and the file that names them."""

    web: _private_nginx.Bed
    app: _private_fpm.Bed
    file: Path

    def state(self) -> tuple[dict[Path, bytes], bool, int]:
        """What trimtab may have left: nginx's files and processes, and its own file for the pool."""
        return self.web.files(), self.app.snippet.exists(), self.web.processes()


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with _private_fpm.private() as app, _private_nginx.private() as web:
        etc = web.config.parent
        site = SITE.format(etc=etc, page=app.page, pool=app.testbed.nginx)
        default = etc / "sites-enabled" / "default"
        default.write_text(default.read_text().replace("location = /wait", f"{site}\n    location = /wait"))
        os.kill(web.pid, 1)
        file = tmp_path_factory.mktemp("stack") / "stack.toml"
        file.write_text(FILE.format(web=web.pid, app=app.testbed.pid, port=web.testbed.port))
        deadline = time.monotonic() + PATIENCE_S
        while not _answers(web) or web.processes() != _private_nginx.CPUS:
            assert time.monotonic() < deadline, "nginx does not pass pages on, or its old processes stay"
            time.sleep(0.1)
        yield Bed(web, app, file)


def _answers(web: _private_nginx.Bed) -> bool:
    with contextlib.suppress(OSError):
        return bool(urllib.request.urlopen(web.testbed.url("/work?ms=1"), timeout=10).read() == b"done")
    return False


def tune(bed: Bed, path: Path, *more: object) -> list[str]:
    search = ("--controller", "nelder_mead", "--trial-length", "500ms", "--settle", "200ms")
    return command("tune", "stack", bed.file, "--store", path, *search, *more)


def applied(path: Path) -> int:
    """Changes that are in force, or were."""
    with contextlib.closing(Store(path, create=False)) as store:
        return sum(move.state is MoveState.APPLIED for run in store.runs() for move in store.moves(run.id))


def changed(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Waits until a run has changed something."""
    deadline = time.monotonic() + PATIENCE_S
    while not (path.exists() and applied(path)):
        assert process.poll() is None and time.monotonic() < deadline, "no change was applied"
        time.sleep(0.05)


def test_the_doctor_says_tier_by_tier_what_can_be_moved(bed: Bed) -> None:
    before = bed.state()
    said = finished(command("doctor", bed.file))
    assert said.returncode == 0, said.stderr
    assert "yes  tier web worker_processes: " in said.stdout
    assert "yes  tier app max_children: " in said.stdout
    assert "takes their connections" in said.stdout
    assert bed.state() == before


def test_a_search_moves_knobs_of_both_tiers_and_what_it_leaves_is_proven_or_the_start(bed: Bed, path: Path) -> None:
    before = bed.state()
    said = finished(tune(bed, path, "--trials", 6, "--remeasure", 2, "--report", path.with_suffix(".html")))
    assert (said.returncode, said.stderr) == (0, ""), said.stdout
    with contextlib.closing(Store(path, create=False)) as store:
        moves = [move for move in store.moves(1) if move.state is MoveState.APPLIED]
        run, windows = store.run(1), store.windows(1)
    moved = {name.partition(".")[0] for move in moves for name in move.move.changes}
    assert moved == {"web", "app"}
    # On a busy machine a report of the generator may miss its window, which then has no rate; none may be of 0.
    rates = [window.readings["client_page_rate_hz"] for window in windows if "client_page_rate_hz" in window.readings]
    assert len(rates) > len(windows) / 2 and min(rates) > 0
    assert "measured again in 2 turns" in said.stdout or "no improvement" in said.stdout
    assert "What users lost and gained" in path.with_suffix(".html").read_text()
    if "no improvement" in said.stdout:
        assert run.restored
        until(lambda: bed.state() == before, "it is not as it was")
    assert finished(command("runs", "replay", 1, "--store", path)).returncode == 0
    undone(path)
    until(lambda: bed.state() == before, "it is not as it was")


def test_a_killed_search_is_undone_from_what_the_store_kept_although_the_file_is_gone(bed: Bed, path: Path) -> None:
    before, text = bed.state(), bed.file.read_text()
    process = subprocess.Popen(tune(bed, path, "--trials", 400), stdout=subprocess.DEVNULL)
    changed(path, process)
    process.kill()
    process.wait()
    bed.file.unlink()
    try:
        undone(path)
    finally:
        bed.file.write_text(text)
    until(lambda: bed.state() == before, "it is not as it was")


def test_what_a_killed_search_left_in_a_tier_is_undone_before_that_server_is_tuned_alone(
    bed: Bed, path: Path
) -> None:
    before, knob = bed.state(), "web.worker_connections"
    words = ("--trials", 400, "--trial-length", "2s", "--knob", knob, "--knob", "app.max_children")
    process = subprocess.Popen(tune(bed, path, *words), stdout=subprocess.DEVNULL)
    try:
        changed(path, process)
        until(lambda: values_of(path, knob)[-1] != 768, "nginx was not changed")
    finally:
        process.kill()
        process.wait()
    static = ("--controller", "static", "--window", "500ms", "--duration", "500ms")
    alone = finished(command("tune", "nginx", "--pid", bed.web.pid, "--edit-in-place", "--store", path, *static))
    assert alone.returncode == 0, alone.stderr
    assert "was killed before its end; what it left is undone, in force again: worker_connections 768" in alone.stderr
    assert f"'trimtab runs undo 1 --store {path}' undoes its app too" in alone.stderr
    with contextlib.closing(Store(path, create=False)) as store:
        assert store.run(2).plan.initial["worker_connections"] == 768
    undone(path)
    until(lambda: bed.state() == before, "it is not as it was")


def test_a_killed_search_goes_on_with_its_trials_and_leaves_nothing_when_nothing_was_better(
    bed: Bed, path: Path
) -> None:
    before, nothing = bed.state(), ("--maximize", "memory_limit_bytes")
    process = subprocess.Popen(tune(bed, path, "--trials", 6, *nothing), stdout=subprocess.DEVNULL)
    changed(path, process)
    process.kill()
    process.wait()
    said = finished(command("runs", "resume", 1, "--store", path))
    assert (said.returncode, said.stderr) == (0, ""), said.stdout
    with contextlib.closing(Store(path, create=False)) as store:
        trials = [move.proposed.evidence["trial"] for move in store.moves(1) if "trial" in move.proposed.evidence]
        assert store.run(1).restored
    assert trials == [1, 2, 3, 4, 5, 6]
    assert "no improvement: nothing did better than the start configuration" in said.stdout
    until(lambda: bed.state() == before, "it is not as it was")


def test_an_operators_edit_in_one_tier_stands_that_knob_down_and_the_others_go_on(bed: Bed, path: Path) -> None:
    config = bed.web.config
    with _private_nginx.left_as_found(bed.web):
        words = tune(bed, path, "--trials", 20, "--trial-length", "1s", "--json")
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            lines = map(json.loads, process.stdout)
            moves = (one for one in lines if one["type"] == "move" and one["state"] == "applied")
            assert "web.worker_processes" in next(moves)["move"]["changes"]
            edited = re.sub(r"worker_processes .*;", "worker_processes 4;", config.read_text())
            config.with_suffix(".new").write_text(edited)
            config.with_suffix(".new").rename(config)  # a window before trimtab's next change
            os.kill(bed.web.pid, signal.SIGHUP)  # until he reloads, a change of that tier waits
            note = next(one for one in lines if one["type"] == "note" and one["kind"] == "stand-down")
            assert note["knob"] == "web.worker_processes"
            assert "web.worker_processes" not in next(moves)["move"]["changes"]
            process.terminate()
            list(process.stdout)
            assert process.wait(PATIENCE_S) == 143
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        assert "worker_processes 4;" in config.read_text()
    assert not bed.app.snippet.exists()


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        ('plant = "nginx"', 'plant = "ngnix"', "unknown plant 'ngnix'"),
        ("edit-in-place = true", "edit = true", "has no key 'edit': there are pid, status-url, edit-in-place"),
        ('knobs = ["web.*"', 'knobs = ["wb.*"', "unknown knob 'wb.*': stack has web.worker_processes"),
        ("client_page_rate_hz", "client_pages_rate_hz", "unknown metric 'client_pages_rate_hz'; did you mean"),
        ("http://127.0.0.1:", "http://127.0.0.1:1", "[clients]: "),
        ("http://127.0.0.1:", "http://192.0.2.1:", "192.0.2.1 (192.0.2.1) is not this machine"),
        ("pid = ", "pid = 1 # ", "is not the first process of nginx"),
        ("<=5", "<5", "write METRIC<=VALUE or METRIC>=VALUE"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    bed: Bed, path: Path, was: str, becomes: str, message: str
) -> None:
    before, file = bed.state(), path.with_name("bad.toml")
    text = bed.file.read_text()
    assert was in text
    file.write_text(text.replace(was, becomes, 1))
    said = finished(command("tune", "stack", file, "--store", path, "--trials", 2, "--controller", "nelder_mead"))
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1), said.stderr
    assert message in said.stderr
    assert not path.exists()
    assert bed.state() == before
