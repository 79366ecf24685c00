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
from trimtab.store import Store

PATIENCE_S = 60.0


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


def interrupted(arguments: list[str], once: Callable[[], object], what: str) -> subprocess.CompletedProcess[str]:
    """What came of a command that was ended as Ctrl-C does it, once something had happened."""
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def happened() -> bool:
        assert process.poll() is None, process.communicate()
        return bool(once())

    try:
        until(happened, what)
        process.send_signal(signal.SIGINT)
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
