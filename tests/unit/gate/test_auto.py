"""The controller that `trimtab run` keeps going: started, started anew a bounded number of times, ended."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests._stranger import his_directory, needs_root, plant_modules
from trimtab import own
from trimtab.clock import SystemClock
from trimtab.gate.auto import Auto
from trimtab.gate.keep_alive import OF_SERVER, InCharge, KeepAliveTime, Setting
from trimtab.gate.pair import MOST_RESTARTS
from trimtab.gate.run_directory import RunDirectory

WAITS = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
COMPLAINS = [sys.executable, "-I", "-S", "-c", "raise SystemExit('no way')"]
LEARNED = Setting(InCharge.AUTO, 900)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def auto(run_dir: RunDirectory, said: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Auto]:
    made = Auto(run_dir, SystemClock(), said.append)
    monkeypatch.setattr(made, "_command", lambda: WAITS)
    yield made
    made.stop()
    made.stop()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def waited(auto: Auto) -> None:
    """Returns when the process has ended, and leaves it to be asked for."""
    os.waitid(os.P_PID, auto.pid, os.WEXITED | os.WNOWAIT)


def test_it_runs_while_the_time_is_auto_and_no_longer(auto: Auto, run_dir: RunDirectory, said: list[str]) -> None:
    time = KeepAliveTime(run_dir.shared)
    for setting in (OF_SERVER, Setting(InCharge.FIXED, 400)):
        auto.begin(setting)
        assert time.setting() == setting
        auto.watch()
        assert auto.pid == 0
    time.write(LEARNED)
    auto.watch()
    first = auto.pid
    assert os.getpgid(first) == first, "signals of the terminal would reach it"
    auto.watch()
    assert auto.pid == first
    time.write(Setting(InCharge.FIXED, 400))
    auto.watch()
    assert (auto.pid, gone(first), said) == (0, True, [])
    assert time.setting() == Setting(InCharge.FIXED, 400)
    time.write(LEARNED)
    auto.watch()
    second = auto.pid
    auto.stop()
    assert second != 0 and gone(second)
    assert time.setting() == LEARNED, "the time in force stays"


def test_one_that_dies_is_started_anew(auto: Auto, run_dir: RunDirectory, said: list[str]) -> None:
    auto.begin(LEARNED)
    auto.watch()
    first = auto.pid
    os.kill(first, signal.SIGKILL)
    waited(auto)
    auto.watch()
    assert auto.pid not in (0, first)
    assert said == [f"the controller of the keep-alive time has ended (see {run_dir.tuning_log})"]


@pytest.mark.parametrize(("time_ms", "stays"), [(900, Setting(InCharge.FIXED, 900)), (None, OF_SERVER)])
def test_one_that_dies_again_and_again_is_left_and_the_time_stays(
    auto: Auto,
    run_dir: RunDirectory,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    time_ms: int | None,
    stays: Setting,
) -> None:
    monkeypatch.setattr(auto, "_command", lambda: COMPLAINS)
    auto.begin(Setting(InCharge.AUTO, time_ms))
    auto.watch()
    for _ in range(MOST_RESTARTS + 1):
        waited(auto)
        auto.watch()
    assert auto.pid == 0
    assert said[-1] == f"it has ended 6 times in 60 s; the keep-alive time stays: {stays}"
    assert KeepAliveTime(run_dir.shared).setting() == stays
    auto.watch()
    assert auto.pid == 0
    assert run_dir.tuning_log.read_text() == 6 * "no way\n"
    assert run_dir.tuning_log.stat().st_mode & 0o777 == 0o600


def test_one_that_heeds_no_signal_is_killed(auto: Auto, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({str(ready)!r}, 'w'); signal.pause()"
    monkeypatch.setattr(auto, "_command", lambda: [sys.executable, "-I", "-S", "-c", deaf])
    monkeypatch.setattr("trimtab.gate.auto._END_PATIENCE_S", 0.05)
    auto.begin(LEARNED)
    auto.watch()
    ready.read_text()
    pid = auto.pid
    auto.stop()
    assert gone(pid)


@needs_root
def test_no_module_of_the_working_directory_is_loaded_into_it(
    run_dir: RunDirectory, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    auto = Auto(run_dir, SystemClock(), said.append)
    with his_directory() as his:
        marker = plant_modules(his)
        monkeypatch.chdir(his)
        monkeypatch.setenv("PYTHONPATH", "")
        auto.begin(LEARNED)
        auto.watch()
        waited(auto)
        auto.stop()
        assert not marker.exists()
    assert "no run is named 'web'" in run_dir.tuning_log.read_text(), "it did not come to its own code"


def test_its_log_is_bounded_and_keeps_the_newest(
    auto: Auto, run_dir: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.gate.auto.MOST_LOG_BYTES", 100)
    complains = "import os, signal; os.write(2, b'x' * 200 + b'last'); signal.pause()"
    monkeypatch.setattr(auto, "_command", lambda: [sys.executable, "-I", "-S", "-c", complains])
    auto.begin(LEARNED)
    auto.watch()
    log, old = run_dir.tuning_log, run_dir.directory / "tuning.log.old"
    while log.stat().st_size == 0:
        os.sched_yield()
    auto.watch()
    assert (log.read_text(), old.read_text()) == ("", "x" * 96 + "last")
    assert old.stat().st_mode & 0o777 == 0o600
    os.kill(auto.pid, signal.SIGKILL)
    waited(auto)
    monkeypatch.setattr(auto, "_command", lambda: COMPLAINS)
    auto.watch()
    waited(auto)
    assert log.read_text() == "no way\n", "who writes goes on at its beginning"


def test_its_store_is_bounded_when_it_is_started_anew(
    auto: Auto, run_dir: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.gate.auto.MOST_STORE_BYTES", 100)
    store, wal = run_dir.tuning_store, run_dir.directory / "tuning.sqlite-wal"
    for text in ("a", "b"):
        store.write_text(text * 200)
        wal.write_text(text)
        auto._bound_store()
        assert not store.exists() and not wal.exists()
        assert (run_dir.directory / "tuning.sqlite.old").read_text() == text * 200
        assert (run_dir.directory / "tuning.sqlite.old-wal").read_text() == text
    store.write_text("c")
    auto._bound_store()
    assert store.read_text() == "c"


def test_a_log_or_a_store_that_cannot_be_put_aside_does_not_end_who_watches_the_server(
    auto: Auto, run_dir: RunDirectory, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOG", "STORE"):
        monkeypatch.setattr(f"trimtab.gate.auto.MOST_{name}_BYTES", 100)
    for path in (run_dir.tuning_log, run_dir.tuning_store):
        path.write_text("x" * 200)
        path.with_name(f"{path.name}.old").mkdir()
    auto.begin(LEARNED)
    auto.watch()
    assert run_dir.tuning_log.stat().st_size == 0
    assert said == ["the controller of the keep-alive time cannot be started: Is a directory"]


def test_its_command_is_one_of_trimtabs_own(run_dir: RunDirectory) -> None:
    auto = Auto(run_dir, SystemClock(), print)
    command = auto._command()
    assert command[:6] == [*own.TRIMTAB, "tune", "keep-alive"]
    assert command[command.index("--name") + 1] == "web"
    assert command[command.index("--store") + 1] == str(run_dir.tuning_store)
    auto.stop()
