"""`trimtab guarantee` on an unmodified Apache under the gate: the loop closes on real connections."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers._asking import Asking, asking
from tests.servers._under_gate import BASIC, PREMIUM, SPEC, UnderGate, fetched, under_gate
from trimtab.guarantee import scores, settled
from trimtab.store import Store

pytestmark = [pytest.mark.server, pytest.mark.apache, pytest.mark.quiet]

WORKERS, CLIENTS, HOLD_S = 16, 24, 0.2
TIMED = SPEC.replace('guarantee = "relative"', 'guarantee = "relative"\nperiod = "1s"\ncontroller_timeout = "10s"')


def holding(bed: UnderGate, source: str) -> Asking:
    """Clients of a class that fetch a page, keep their worker for a while, and come back at once."""

    def ask() -> int:
        with contextlib.closing(bed.client(source)) as client:
            assert fetched(client) == 200
            time.sleep(HOLD_S)
        return 1

    return Asking(ask, CLIENTS)


@pytest.fixture(scope="module")
def bed() -> Iterator[UnderGate]:
    with under_gate(workers=WORKERS, spec=TIMED) as running:
        premium, basic = holding(running, PREMIUM), holding(running, BASIC)
        with asking(premium, basic):
            yield running
        assert not premium.failed and not basic.failed


def guarantee(bed: UnderGate, store: Path, *arguments: str) -> list[str]:
    """The lines that `trimtab guarantee` says."""
    command = [sys.executable, "-m", "trimtab", "guarantee", str(bed.directory / "classes.toml")]
    command += ["--name", bed.place.name, "--store", str(store), "--on-exit", "restore", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_delays_of_1_to_1_become_1_to_3_and_the_budgets_are_put_back(bed: UnderGate, tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    lines = guarantee(bed, path, "--gain", "0.3", "--zero", "0.05", "--duration", "24s", "--json")
    store = Store(path)
    windows, plan = store.windows(1), store.run(1).plan
    assert plan.guarantee is not None
    assert [json.loads(line)["type"] for line in lines[:3]] == ["gains", "run", "window"]
    _, basic = scores(plan.guarantee, settled(windows))
    first = plan.guarantee.ratio(windows[0], 1)
    assert first is not None and basic.quotient is not None
    assert abs(3 * basic.quotient - 3) < abs(first - 3), "the ratio has come nearer to 3"
    assert windows[-1].configuration["process_budget@premium"] > windows[-1].configuration["process_budget@basic"]
    for window in windows:
        assert sum(v for name, v in window.configuration.items() if "@" in name) == WORKERS
    plant = bed.plant()
    with contextlib.closing(plant):
        assert plant.configuration()["process_budget@premium"] == WORKERS // 2


def test_the_open_loop_leaves_delays_of_1_to_1(bed: UnderGate, tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    said = guarantee(bed, path, "--controller", "static", "--duration", "8s")
    assert said[-1].startswith("so:    Relative delay guarantee: not kept for basic")
    assert not any(move.move.changes for move in Store(path).moves(1))
