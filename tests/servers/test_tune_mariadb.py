"""`trimtab tune mariadb`, `observe` and `runs undo` as a user types them, on a private MariaDB under load."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers._private_mariadb import DEBIAN, Bed, private
from tests.servers._under_gate import until
from trimtab.core.trial import MoveState
from trimtab.events import Status
from trimtab.store import Store

pytestmark = pytest.mark.server
PATIENCE_S = 120.0
KNOBS = ("table_open_cache", "innodb_buffer_pool_size")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """One with two clients that rest for 20 ms at a time."""
    over = threading.Event()
    with private(tmp_path_factory.mktemp("state")) as bed:
        bed.sql(
            "USE shop", "CREATE TABLE t (i INT PRIMARY KEY, v INT)", "INSERT INTO t SELECT seq, 0 FROM seq_1_to_500"
        )

        def client(number: int) -> None:
            with bed.shop() as shop, shop.cursor() as cursor:
                while not over.wait(0.02):
                    cursor.execute(f"UPDATE t SET v = v + 1 WHERE i = {number}")
                    cursor.execute("SELECT SUM(v) FROM t")

        clients = [threading.Thread(target=client, args=(number,)) for number in (1, 2)]
        for one in clients:
            one.start()
        yield bed
        over.set()
        for one in clients:
            one.join()


@pytest.fixture
def bed(loaded: Bed) -> Iterator[Bed]:
    """One that is left as it was found."""
    yield loaded
    loaded.set({name: DEBIAN[name] for name, value in loaded.values().items() if value != DEBIAN[name]})


def start(bed: Bed, *arguments: object) -> subprocess.Popen[str]:
    environ = {**os.environ, "XDG_STATE_HOME": str(bed.journals)}
    words = [sys.executable, "-m", "trimtab", *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)


def said(bed: Bed, *arguments: object, code: int = 0) -> str:
    process = start(bed, *arguments)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, err
    return out if code == 0 else err


def tune(bed: Bed, path: Path, duration: str) -> subprocess.Popen[str]:
    words = ("tune", "mariadb", "--pid", bed.testbed.pid, "--store", path, "--controller", "nelder_mead")
    knobs = [word for name in KNOBS for word in ("--knob", name)]
    return start(bed, *words, *knobs, "--window", "500ms", "--duration", duration)


def applied(path: Path) -> int:
    """How many changes the run has made."""
    if not path.exists():
        return 0
    store = Store(path, create=False)
    moves = [move for run in store.runs() for move in store.moves(run.id) if move.state is MoveState.APPLIED]
    store.close()
    return len(moves)


def test_a_run_that_is_killed_is_undone_by_the_next_trimtab(bed: Bed, path: Path) -> None:
    run = tune(bed, path, "10m")

    def stopped_with_a_change_in_force() -> bool:
        run.send_signal(signal.SIGSTOP)
        if bed.values() == DEBIAN:
            run.send_signal(signal.SIGCONT)
            return False
        return True

    until(stopped_with_a_change_in_force, "no change came into force")
    run.kill()
    run.communicate()
    assert Store(path).run(1).unfinished
    said(bed, "runs", "undo", 1, "--store", path)
    assert bed.values() == DEBIAN
    assert Store(path).run(1).status is Status.UNDONE


def test_a_setting_of_the_operators_in_mid_run_stands_that_knob_down(bed: Bed, path: Path) -> None:
    run = tune(bed, path, "10m")
    until(lambda: applied(path) >= 1, "no change was applied")
    bed.set({"table_open_cache": 1234})
    before = applied(path)
    until(lambda: applied(path) >= before + 2, "it did not go on with the other")
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=PATIENCE_S)
    assert (run.returncode, err) == (128 + signal.SIGINT, "")
    assert "table_open_cache stands down" in out
    assert bed.values()["table_open_cache"] == 1234
    said(bed, "runs", "undo", 1, "--store", path)
    assert bed.values() == {**DEBIAN, "table_open_cache": 1234}


def test_observe_says_what_mariadb_counts_and_touches_nothing(bed: Bed, path: Path) -> None:
    words = ("observe", "mariadb", "--pid", bed.testbed.pid, "--json", "--store", path)
    began_s = time.monotonic()
    lines = said(bed, *words, "--window", "1s", "--duration", "1s").splitlines()
    elapsed_s = time.monotonic() - began_s
    (window,) = [one for one in map(json.loads, lines) if one.get("type") == "window"]
    assert window["configuration"] == DEBIAN
    assert window["readings"]["request_rate_hz"] > 0
    assert 0 < window["readings"]["response_time_s"] < elapsed_s
    assert window["readings"]["open_connections"] == 2
    assert bed.values() == DEBIAN


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--account", "nobody-such"), "does not let account nobody-such in"),
        (("--account", "a", "--defaults-file", "b"), "give one of them"),
        (("--knob", "thread_stack"), "unknown knob 'thread_stack'"),
        (("--knob", "innodb_flush_log_at_trx_commit"), "unknown knob 'innodb_flush_log_at_trx_commit'"),
    ],
)
def test_what_is_asked_wrongly_is_one_line_and_changes_nothing(
    bed: Bed, path: Path, words: tuple[str, ...], why: str
) -> None:
    err = said(bed, "tune", "mariadb", "--pid", bed.testbed.pid, "--store", path, *words, code=2)
    assert why in err and err.count("\n") == 1
    assert bed.values() == DEBIAN
