"""Each controller on a real Apache, by its command line: it measures, changes, reads back, restores, and replays."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers._asking import Asking, asking
from tests.servers._tuning import command, finished
from tests.servers._under_gate import (
    BASIC,
    PAGE,
    PATIENCE_S,
    PREMIUM,
    SPEC,
    UnderGate,
    fetched,
    under_gate,
    until,
)
from trimtab import cli
from trimtab.clock import SystemClock
from trimtab.core import Window
from trimtab.core.trial import MoveState
from trimtab.events import Status
from trimtab.gate.keep_alive import OF_SERVER, KeepAliveTime
from trimtab.guarantee import DelayGuarantee, scores
from trimtab.load import LoadRun
from trimtab.store import Store
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.workloads._population import Connection, Url
from trimtab.workloads.closed_loop import ClosedLoop

pytestmark = [pytest.mark.server, pytest.mark.apache]

WORKERS, CLIENTS, HOLD_S = 16, 24, 0.2
RELATIVE = SPEC.replace('guarantee = "relative"', 'guarantee = "relative"\nperiod = "1s"\ncontroller_timeout = "10s"')
ABSOLUTE = (
    RELATIVE.replace('"relative"', '"absolute"')
    .replace("desired = 1", 'desired = "100ms"')
    .replace("desired = 3", 'desired = "400ms"')
)
HYBRID = ABSOLUTE.replace('"absolute"', '"hybrid"')
MODEL = ("--model", "0.74,-0.37,0.95,-0.12")
GAINS = ("--gain", "0.2", "--zero", "0.05")
ABSOLUTE_GAINS = ("-10", "0.3")
BUDGETS = ("process_budget@premium", "process_budget@basic")
DELAYS = ("connection_delay_s@premium", "connection_delay_s@basic")
ONE_TO_THREE = DelayGuarantee("relative", ("premium", "basic"), (1.0, 3.0), DELAYS)
WAITING = Url("/dynamic.php?wait_us=400000")
"""Takes a worker and no CPU."""


def interrupted(path: Path, enough: Callable[[list[Window]], bool], *arguments: object) -> None:
    """Runs a command until the windows that it has stored are enough, and ends it as Ctrl-C does."""
    words = command(*arguments, "--store", path, "--on-exit", "restore")
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def is_enough() -> bool:
        assert process.poll() is None, process.communicate()
        with contextlib.closing(Store(path, create=False)) as store:
            return bool(store.runs()) and enough(store.windows(1))

    try:
        until(is_enough, "the run does not come to what was expected of it")
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (128 + signal.SIGINT, "")


def changed(windows: list[Window]) -> bool:
    """Whether a window was measured with another configuration than the first one."""
    return any(dict(window.configuration) != dict(windows[0].configuration) for window in windows)


def nearer(windows: list[Window]) -> bool:
    """Whether the last delays are nearer to 1 to 3 than the first, and premium has the larger budget."""
    first, last = ONE_TO_THREE.ratio(windows[0], 1), scores(ONE_TO_THREE, windows[-3:])[1].quotient
    premium, basic = (windows[-1].configuration[name] for name in BUDGETS)
    if len(windows) <= 3 or first is None or last is None:
        return False
    return premium > basic and abs(3 * last - 3) < abs(first - 3)


def moved(path: Path, controller: str, readings: tuple[str, ...], least: int) -> list[Window]:
    """The windows of a stored run that was interrupted, once it is known that it went as every run has to.

    Args:
        path: its store.
        controller: what it was made with.
        readings: what must have been measured in most of its windows.
        least: how many windows there have to be.
    """
    with contextlib.closing(Store(path, create=False)) as store:
        run, windows, moves = store.run(1), store.windows(1), store.moves(1)
    print(*((move.index, move.state.value, dict(move.move.changes), move.move.reason) for move in moves), sep="\n")
    assert (run.plan.controller, run.status, run.restored) == (controller, Status.STOPPED, True)
    assert len(windows) >= least
    for name in readings:
        assert sum(name in window.readings for window in windows) > len(windows) / 2, name
    applied = [move for move in moves if move.state is MoveState.APPLIED and move.move.changes]
    assert applied, [move.move.reason for move in moves]
    for move in applied:
        assert move.configuration is not None
        assert dict(move.move.changes).items() <= dict(move.configuration).items(), "read back"
        following = [window for window in windows if window.index == move.index + 1]
        assert all(dict(window.configuration) == dict(move.configuration) for window in following)
    assert any(dict(move.move.changes).items() - dict(run.plan.initial).items() for move in applied)
    assert cli.main(["runs", "replay", "1", "--store", str(path)]) == 0
    return windows


@pytest.fixture(scope="module")
def gated() -> Iterator[UnderGate]:
    """An Apache under the gate whose clients wait: more of each class than there are workers."""
    with under_gate(workers=WORKERS, spec=RELATIVE) as bed:

        def holding(source: str) -> Asking:
            def ask() -> int:
                with contextlib.closing(bed.client(source)) as client:
                    assert fetched(client) == 200
                    time.sleep(HOLD_S)
                return 1

            return Asking(ask, CLIENTS)

        premium, basic = holding(PREMIUM), holding(BASIC)
        with asking(premium, basic):
            yield bed
        assert not premium.failed and not basic.failed


@pytest.mark.parametrize(
    ("controller", "spec", "gains"),
    [
        ("log-relative-delay", RELATIVE, ("--controller", "log-relative-delay", "--gain", "0.3", "--zero", "0.05")),
        ("relative-delay", RELATIVE, MODEL),
        ("absolute-delay", ABSOLUTE, ("--gain", ABSOLUTE_GAINS[0], "--zero", ABSOLUTE_GAINS[1])),
        (
            "hybrid-delay",
            HYBRID,
            (*GAINS, "--absolute-gain", ABSOLUTE_GAINS[0], "--absolute-zero", ABSOLUTE_GAINS[1]),
        ),
        ("self-tuning", RELATIVE, ("--controller", "self-tuning", *MODEL)),
    ],
)
def test_a_delay_controller_moves_the_budgets_of_a_real_gate_and_puts_them_back(
    gated: UnderGate, tmp_path: Path, controller: str, spec: str, gains: tuple[str, ...]
) -> None:
    classes, path = tmp_path / "classes.toml", tmp_path / "runs.sqlite"
    classes.write_text(spec.format(port=gated.port, workers=WORKERS))
    run = ("guarantee", classes, "--name", gated.run_dir.name, *gains)
    comes = nearer if controller == "log-relative-delay" else changed
    interrupted(path, lambda windows: len(windows) >= 3 and comes(windows), *run)
    windows = moved(path, controller, DELAYS, 3)
    assert all(sum(window.configuration[name] for name in BUDGETS) == WORKERS for window in windows)
    with contextlib.closing(gated.plant()) as plant:
        assert [plant.configuration()[name] for name in BUDGETS] == [WORKERS // 2, WORKERS // 2]


def test_the_open_loop_leaves_delays_of_1_to_1_and_says_that_they_are_not_1_to_3(
    gated: UnderGate, tmp_path: Path
) -> None:
    classes, path = tmp_path / "classes.toml", tmp_path / "runs.sqlite"
    classes.write_text(RELATIVE.format(port=gated.port, workers=WORKERS))
    options = ("--name", gated.run_dir.name, "--store", path, "--controller", "static", "--duration", "5s")
    said = finished(command("guarantee", classes, *options))
    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines()[-1].startswith("so:    Relative delay guarantee: not kept for basic")
    with contextlib.closing(Store(path, create=False)) as store:
        assert not any(move.move.changes for move in store.moves(1))


def test_the_papers_keep_alive_controller_shortens_the_time_of_a_real_server_and_gives_it_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.sqlite"
    users = ClosedLoop(connections=8, think_s=0.05, urls=(Url(PAGE),), connection=Connection.UNTIL_SERVER_CLOSES)
    with (
        under_gate(workers=12, gate=False) as bed,
        LoadRun(f"127.0.0.1:{bed.port}", users.populations(), 300, SystemClock()),
    ):
        run = ("tune", "keep-alive", "--name", bed.run_dir.name, "--controller", "keep-alive", "--window", "1s")
        interrupted(path, lambda windows: len(windows) >= 3 and changed(windows), *run, "--option", "intervals=50")
        windows = moved(path, "keep-alive", ("interval_rate_hz", "request_interval_s"), 3)
        times = [window.configuration["keep_alive_ms"] for window in windows]
        assert times == sorted(times, reverse=True) and times[-1] < times[0]
        with contextlib.closing(KeepAliveTime(bed.run_dir.shared)) as time_of:
            assert time_of.setting() == OF_SERVER


def greatest(windows: list[Window]) -> int:
    """The largest limit of workers that a window was measured with."""
    return max(window.configuration["max_request_workers"] for window in windows)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: in a control group the CPU is its own")
def test_trim_frees_clients_that_wait_for_a_worker_and_puts_the_limit_back(tmp_path: Path) -> None:
    """Twelve workers for 36 clients whose pages only wait: the evidence is plain."""
    path = tmp_path / "runs.sqlite"
    users = ClosedLoop(connections=36, urls=(WAITING,), connection=Connection.PER_PAGE)
    spec = ApacheSpec(max_request_workers=12, server_limit=40, php=True, cores=1.0)
    with ApacheTestbed(spec) as bed, LoadRun(f"127.0.0.1:{bed.port}", users.populations(), 300, SystemClock()):
        server = ("--pid", bed.pid, "--status-url", bed.status_url, "--snippet-directory", bed.snippet_directory)
        run = ("tune", "apache", *server, "--controller", "trim", "--window", "1s")
        interrupted(path, lambda windows: len(windows) >= 6 and greatest(windows) > 12, *run)
        windows = moved(path, "trim", ("request_time_s", "busy_workers", "accept_queue_delay_s"), 6)
        assert greatest(windows) > 12
        assert list(bed.snippet_directory.iterdir()) == []
