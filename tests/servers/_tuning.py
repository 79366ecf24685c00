"""`trimtab` as a user types it, and what a run of it has changed."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.servers._under_gate import until
from trimtab.core.trial import MoveState
from trimtab.events import Status
from trimtab.store import Store

PATIENCE_S = 120.0


def command(*arguments: object) -> list[str]:
    """The words of a command line."""
    return [sys.executable, "-m", "trimtab", *map(str, arguments)]


def finished(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """What came of a command."""
    return subprocess.run(arguments, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)


def windows(said: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The windows that a command with `--json` told of."""
    assert said.returncode == 0, said.stderr
    return [event for event in map(json.loads, said.stdout.splitlines()) if event["type"] == "window"]


def interrupted(
    arguments: list[str], once: Callable[[], object], what: str, number: signal.Signals = signal.SIGINT
) -> subprocess.CompletedProcess[str]:
    """What came of a command that was ended, as Ctrl-C does it or by another signal, once something had happened."""
    return _ended(arguments, once, what, lambda process: process.send_signal(number))


def killed_before_its_reload(arguments: list[str], room: str) -> None:
    """A command whose trimtab kills itself in the place of the first reload of a plant, that of this room."""
    code = (
        f"import os, signal, sys; from trimtab import cli; from trimtab.plants.{room} import change\n"
        "change.reload = lambda *given: os.kill(os.getpid(), signal.SIGKILL)\n"
        "cli.main(sys.argv[1:])"
    )
    python, _, _, *words = arguments
    dead = subprocess.run([python, "-c", code, *words], check=False, timeout=PATIENCE_S)
    assert dead.returncode == -signal.SIGKILL


def left_by_its_server(arguments: list[str], path: Path, end: Callable[[], object]) -> None:
    """A run whose server is ended once a window is measured: it ends early, and says so in one line."""
    with contextlib.closing(Store(path)) as store:
        said = _ended(arguments, lambda: store.windows(1), "no window was measured", lambda _: end())
        assert said.returncode == 1
        assert said.stderr.startswith("trimtab: run 1 ended early: ") and said.stderr.count("\n") == 1
        assert store.run(1).status is Status.GONE


def refused(arguments: list[str], path: Path, message: str) -> None:
    """A tuning that is used wrongly: one line says so, and nothing is stored."""
    said = finished(arguments)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1), said.stderr
    assert message in said.stderr
    assert not path.exists()


def undone(path: Path, run: int = 1) -> str:
    """What `trimtab runs undo` says, which has to succeed."""
    said = finished(command("runs", "undo", run, "--store", path))
    assert said.returncode == 0, said.stderr
    return said.stdout


def _ended(
    arguments: list[str], once: Callable[[], object], what: str, end: Callable[[subprocess.Popen[str]], object]
) -> subprocess.CompletedProcess[str]:
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def happened() -> bool:
        assert process.poll() is None, process.communicate()
        return bool(once())

    try:
        until(happened, what)
        end(process)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def applied(path: Path, knob: str) -> list[int]:
    """What the runs of a store have set a knob to."""
    with contextlib.closing(Store(path, create=False)) as store:
        moves = [move for run in store.runs() for move in store.moves(run.id) if move.state is MoveState.APPLIED]
    return [move.configuration[knob] for move in moves if move.configuration is not None]
