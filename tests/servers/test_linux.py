"""`trimtab tune linux`, `observe` and `runs undo` as a user types them, on a private Apache."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests._stranger import STRANGER, his_directory, needs_root
from tests.servers._private_apache import Bed, private, renewed
from tests.servers._tuning import undone, windows
from tests.servers._under_gate import until
from trimtab import processes
from trimtab.clock import SystemClock
from trimtab.plants.linux import journal, knobs, putback, target
from trimtab.plants.linux.plant import Allowed, Linux
from trimtab.sensors.run_queue import RunQueue

pytestmark = [pytest.mark.server, pytest.mark.apache]
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with private("prefork") as running:
        yield running


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "trimtab", *map(str, arguments)]


def finished(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def seen(bed: Bed) -> dict[int, putback.Scheduling]:
    """How each thread of the server is scheduled."""
    start = putback.stat(bed.testbed.pid)
    assert start is not None
    there = putback.threads([(bed.testbed.pid, start[1])])
    return {tid: now for tid in there if (now := putback.read(tid)) is not None}


def tune(bed: Bed, path: Path, *more: object) -> list[str]:
    """Has a method that moves at once and in every window change the slice; one window tells it nothing."""
    return command(
        *("tune", "linux", "--pid", bed.testbed.pid, "--store", path, "--controller", "nelder_mead"),
        *("--minimize", "waiting_threads", "--knob", knobs.SLICE, "--window", "300ms", "--settle", "0s", *more),
    )


def interrupted_after_a_change(bed: Bed, arguments: Sequence[str], before: set[putback.Scheduling]) -> int:
    """Runs a command until the server is scheduled otherwise than before, and ends it as Ctrl-C does."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    until(lambda: set(seen(bed).values()) != before, "no change was applied")
    process.send_signal(signal.SIGINT)
    return process.wait(timeout=PATIENCE_S)


def test_a_run_puts_everything_back_at_its_end_unless_it_is_told_to_keep_it(bed: Bed, path: Path) -> None:
    before = set(seen(bed).values())
    assert interrupted_after_a_change(bed, tune(bed, path, "--duration", "10m"), before) == 128 + signal.SIGINT
    assert set(seen(bed).values()) == before
    interrupted_after_a_change(bed, tune(bed, path, "--duration", "10m", "--on-exit", "keep"), before)
    kept = journal.left()
    if set(seen(bed).values()) != before:  # the judge may have put back what it did not know to be better
        assert kept and kept[0].kept
        undone(path, 2)
    assert set(seen(bed).values()) == before


def test_sigkill_leaves_what_the_next_trimtab_knows_and_undoes(bed: Bed, path: Path) -> None:
    before = set(seen(bed).values())
    process = subprocess.Popen(tune(bed, path, "--duration", "10m"), stdout=subprocess.DEVNULL)
    until(lambda: set(seen(bed).values()) != before, "no change was applied")
    process.kill()
    process.wait()
    assert set(seen(bed).values()) != before
    assert "run 1: undone" in undone(path)
    assert set(seen(bed).values()) == before
    assert journal.left() == ()


def test_a_reload_of_the_server_loses_nothing_and_its_new_workers_are_put_back_too(bed: Bed) -> None:
    before = set(seen(bed).values())
    plant = Linux(SystemClock(), target.find((), (bed.testbed.pid,), ()), Allowed(sensors=False))
    plant.apply({knobs.SLICE: 10_000, knobs.POLICY: 1})
    with renewed(bed.testbed.pid):
        os.kill(bed.testbed.pid, signal.SIGUSR1)
    assert plant.configuration()[knobs.SLICE] == 10_000
    assert {(now.policy, now.slice_ns) for now in seen(bed).values()} == {(putback.BATCH, 10_000_000)}
    plant.restore()
    assert set(seen(bed).values()) == before
    plant.close()


def test_observe_shows_the_run_queue_beside_the_servers_own_sensors(bed: Bed) -> None:
    said = finished(
        command("observe", "linux", "--pid", bed.testbed.pid, "--json", "--window", "500ms", "--duration", "500ms")
    )
    (window,) = windows(said)
    sources = {one["source"] for one in window["measured"]}
    assert {"run-queue", "accept-queue", "resources"} <= sources
    assert set(window["configuration"]) >= {knobs.SLICE, knobs.POLICY}


@pytest.mark.alone  # the doctor looks at all servers of the machine
def test_the_doctor_says_of_each_knob_whether_it_can_be_set_and_why_not() -> None:
    said = finished(command("doctor", "--json"))
    found = {one["subject"]: one for one in map(json.loads, said.stdout.splitlines()) if one["member"] == "linux"}
    assert found["slice of a thread"]["usable"]
    for knob in knobs.MACHINE:
        one = found[knob.knob.native_name]
        assert one["usable"] == (not knobs.hindrance(knob))
        assert one["usable"] or (str(knob.path) in one["detail"] and one["enable"])


@needs_root
def test_another_users_process_of_that_name_is_not_taken_for_the_server() -> None:
    name = f"trimtab-{os.getpid()}"
    with his_directory() as directory:
        program = directory / name
        shutil.copy("/bin/sleep", program)
        with subprocess.Popen([program, "3600"], user=STRANGER, group=STRANGER) as process:
            try:
                until(lambda: processes.program_of(process.pid) == program, "it did not start")
                said = finished(command("tune", "linux", "--server", name, "--duration", "1s", "--window", "1s"))
                assert said.returncode == 2 and said.stderr.count("\n") == 1
                assert f"no {name} of this user's runs" in said.stderr and f"uid {STRANGER}" in said.stderr
            finally:
                process.kill()


@needs_root
def test_a_program_that_others_can_change_is_not_taken_for_the_server() -> None:
    name = f"trimtab-{os.getpid()}"
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / name
        shutil.copy("/bin/sleep", program)
        os.chown(program, STRANGER, -1)
        with subprocess.Popen([program, "3600"]) as process:
            try:
                until(lambda: processes.program_of(process.pid) == program, "it did not start")
                said = finished(command("observe", "linux", "--server", name, "--duration", "1s", "--window", "1s"))
                assert (said.returncode, said.stderr.count("\n")) == (2, 1)
                assert f"belongs to uid {STRANGER}" in said.stderr
            finally:
                process.kill()


def test_bad_input_is_one_line_and_exit_code_2(bed: Bed) -> None:
    for words in (
        (),
        ("--server", "no-such-program"),
        ("--pid", 1),
        ("--cgroup", "/etc"),
        ("--pid", bed.testbed.pid, "--knob", "vm_swappiness"),
        ("--pid", bed.testbed.pid, "--controller", "trim", "--option", "nothing=1"),
    ):
        said = finished(command("tune", "linux", *words))
        assert (said.returncode, said.stderr.count("\n"), said.stdout) == (2, 1, ""), words


SPIN = "import time\nprint('ready', flush=True)\nwhile True: pass"


@needs_root
def test_what_the_threads_ran_is_what_their_control_group_counts() -> None:
    """A cross-check with cpuacct, which counts the same time elsewhere in the kernel."""
    group = Path(f"/sys/fs/cgroup/cpuacct/trimtab-test-{os.getpid()}")
    if not group.parent.is_dir():
        pytest.skip("control groups of version 2 count what kernel threads do for a group too")
    group.mkdir()
    clock, stale_s = SystemClock(), 0.05
    try:
        with subprocess.Popen([sys.executable, "-I", "-S", "-c", SPIN], stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None and process.stdout.readline() == b"ready\n"
                (group / "cgroup.procs").write_text(str(process.pid))

                def used_s() -> float:
                    return int((group / "cpuacct.usage").read_text()) / 1e9

                one = target.find((), (process.pid,), ())
                sensor = RunQueue(one.threads, clock)
                outer, began_s = used_s(), clock.now_s()
                sensor.begin()
                inner = used_s()
                clock.sleep(0.5)
                inside_s = used_s() - inner
                readings = sensor.read()
                outside_s, elapsed_s = used_s() - outer, clock.now_s() - began_s
                # The waits are too few to divide by where nobody else wants this CPU.
                assert readings["timeslice_rate_hz"] >= 0
                ran_s = sum(ran for ran, _, _ in sensor._latest.values()) / 1e9
                ran_s -= sum(ran for ran, _, _ in sensor._first.values()) / 1e9
                assert inside_s - stale_s <= ran_s <= min(outside_s, elapsed_s) + stale_s
            finally:
                process.kill()
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), "the group is not empty")
        group.rmdir()
