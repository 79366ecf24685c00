"""`trimtab run --keep-alive` on an unmodified Apache prefork under load: learned, set, given back, left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers._any_server import listens
from tests.servers._under_gate import PAGE, PATIENCE_S, UnderGate, fetched, trimtab_run, under_gate, until
from trimtab.clock import SystemClock
from trimtab.gate.keep_alive import OF_SERVER, InCharge, KeepAliveTime, Setting
from trimtab.gate.server import processes_of
from trimtab.load import LoadRun
from trimtab.load_reports import Summary
from trimtab.processes import Process, identify
from trimtab.sensors._shared_file import SharedFile
from trimtab.store import Store
from trimtab.workloads._population import Url
from trimtab.workloads.specweb99 import SpecWeb99

pytestmark = [pytest.mark.server, pytest.mark.apache]

WORKERS = 12
SHIPPED_MS, OWN_MS = 15_000, 8000
READERS = SpecWeb99(
    class_name="all",
    users=30,
    urls=(Url(PAGE),),
    gap_mean_s=0.1,
    gap_sigma_s=0.03,
    round_trip_s=0.0,
    timeout_s=120.0,  # at 15 s half of them wait for a worker, some for long
)
"""Bursts with 100 ms from a reply to the next request, then thoughts of a second and more."""
LEARNING_S = 240.0
"""It takes less than one minute on an idle machine."""


@contextlib.contextmanager
def kept(*options: object, own_ms: int = OWN_MS) -> Iterator[UnderGate]:
    """An Apache whose own keep-alive time is this."""
    with under_gate(workers=WORKERS, gate=False, options=options, keep_alive_ms=own_ms, ports=False) as bed:
        yield bed


@contextlib.contextmanager
def readers(bed: UnderGate) -> Iterator[LoadRun]:
    with LoadRun(f"127.0.0.1:{bed.port}", READERS.populations(), 600, SystemClock()) as load:
        yield load


def setting(bed: UnderGate) -> Setting:
    with contextlib.closing(KeepAliveTime(bed.run_dir.shared)) as time_of:
        return time_of.setting()


def trimtab(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trimtab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def set_to(bed: UnderGate, wanted: str) -> None:
    said = trimtab("keep-alive", "set", wanted, "--name", bed.run_dir.name)
    assert (said.returncode, said.stderr) == (0, "")


def idle_s(bed: UnderGate) -> float:
    """The time from a request to the end of its connection, at most, in s."""
    with contextlib.closing(bed.client("127.0.0.1")) as client:
        began_s = time.monotonic()
        assert fetched(client) == 200
        assert client.sock.recv(1) == b""
        return time.monotonic() - began_s


def shortest_cut_s(bed: UnderGate) -> float:
    """The shorter of two such times, since one may be a trial; both are the shim's, neither the server's."""
    with contextlib.closing(SharedFile(bed.run_dir.shared)) as file:
        before = file.idle()
        found_s = min(idle_s(bed), idle_s(bed))
        until(lambda: file.idle().cut == before.cut + 2, "the shim did not end them")
        assert file.idle().expired == before.expired
    return found_s


def controllers(bed: UnderGate) -> list[Process]:
    """The processes that learn the time of this run."""
    found = []
    for entry in (int(e) for e in os.listdir("/proc") if e.isdigit()):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            if b"tune" in words and bed.run_dir.name.encode() in words and (one := identify(entry)) is not None:
                found.append(one)
    return found


def controller(bed: UnderGate) -> Process:
    """The one that learns the time of this run, as soon as it is there; for a moment in its start it has no words."""
    found: list[Process] = []

    def is_there() -> bool:
        found[:] = controllers(bed)
        return len(found) == 1

    until(is_there, "no controller was started")
    return found[0]


def failures(summary: Summary) -> int:
    return sum(sum(one.errors.values()) for one in summary.classes)


def test_auto_comes_down_from_15_s_by_itself_ends_with_the_server_and_leaves_nothing() -> None:
    with kept("--keep-alive", "auto", own_ms=SHIPPED_MS) as bed, readers(bed) as load:
        until(lambda: (setting(bed).time_ms or SHIPPED_MS) < 1000, "the time was not learned", LEARNING_S)
        assert setting(bed).in_charge is InCharge.AUTO
        load.stop()
        summary = load.wait()
        assert failures(summary) == 0
        store = Store(bed.run_dir.tuning_store, create=False)
        moves = [move for move in store.moves(1) if move.configuration]
        assert moves[0].move.reason
        store.close()
        assert bed.run_dir.tuning_log.read_text() == ""
        everybody = [controller(bed), *processes_of(bed.run_dir)]
        bed.process.send_signal(signal.SIGTERM)
        assert bed.ended() == (0, "")
        assert not bed.run_dir.directory.exists()
        assert [one for one in everybody if one.alive()] == []


def test_a_fixed_time_is_in_force_from_the_start_and_is_set_and_given_back_live() -> None:
    with kept("--keep-alive", "400ms") as bed:
        assert setting(bed) == Setting(InCharge.FIXED, 400)
        assert shortest_cut_s(bed) >= 0.4
        set_to(bed, "1200ms")
        assert shortest_cut_s(bed) >= 1.2
        said = trimtab("observe", "keep-alive", "--name", bed.run_dir.name, "--window", "1s", "--duration", "1s")
        assert (said.returncode, said.stderr) == (0, "")
        assert "keep-alive time: fixed, 1.2s" in said.stdout
        set_to(bed, "server")
        body = json.loads(trimtab("keep-alive", "show", "--json", "--name", bed.run_dir.name).stdout)
        assert (body["in_charge"], body["time_ms"], body["server_ms"]) == ("server", None, OWN_MS)
        assert body["cut"] >= 4 and body["expired"] == 0
        assert idle_s(bed) >= OWN_MS / 1000
        assert bed.process.poll() is None


def test_a_controller_comes_and_goes_with_auto_and_is_started_anew_when_it_dies() -> None:
    with kept("--keep-alive", "auto") as bed:
        first = controller(bed)
        os.kill(first.pid, signal.SIGKILL)
        until(lambda: len(controllers(bed)) == 1 and controllers(bed) != [first], "it was not started anew")
        bed.process.send_signal(signal.SIGUSR1)  # a graceful restart of the server
        set_to(bed, "300ms")
        until(lambda: controllers(bed) == [], "the controller did not end")
        assert setting(bed) == Setting(InCharge.FIXED, 300)
        set_to(bed, "auto")
        controller(bed)
        assert setting(bed) == Setting(InCharge.AUTO, 300)
        refused = trimtab("tune", "keep-alive", "--name", bed.run_dir.name)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "is learned already" in refused.stderr
        bed.process.send_signal(signal.SIGTERM)
        code, said = bed.ended()
        assert (code, said.count("\n")) == (0, 1)
        assert "the controller of the keep-alive time has ended" in said


def test_killing_trimtab_leaves_the_last_time_and_a_restart_without_it_leaves_no_trace() -> None:
    with kept("--keep-alive", "auto") as bed:
        learns = controller(bed)
        with contextlib.closing(KeepAliveTime(bed.run_dir.shared)) as time_of:
            time_of.write(Setting(InCharge.AUTO, 500))
        server = processes_of(bed.run_dir)[0]
        bed.process.kill()
        bed.process.wait(PATIENCE_S)
        until(lambda: not learns.alive(), "the controller did not end with trimtab run")
        assert setting(bed) == Setting(InCharge.AUTO, 500)
        assert shortest_cut_s(bed) >= 0.5
        refused = trimtab("keep-alive", "set", "auto", "--name", bed.run_dir.name)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "was killed: only it could learn the time" in refused.stderr
        set_to(bed, "server")
        assert setting(bed) == OF_SERVER
        set_to(bed, "700ms")
        command = Path(f"/proc/{server.pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        os.kill(server.pid, signal.SIGTERM)
        until(lambda: processes_of(bed.run_dir) == [], "Apache did not end")
        # In a group of its own: Apache in the foreground ends its whole group when it ends.
        plain = subprocess.Popen(command, process_group=0)
        try:
            until(lambda: listens(bed.port), "Apache did not start")
            assert "libtrimtab" not in Path(f"/proc/{plain.pid}/maps").read_text()
            assert processes_of(bed.run_dir) == []
            assert idle_s(bed) >= OWN_MS / 1000
        finally:
            plain.send_signal(signal.SIGTERM)
            plain.wait(PATIENCE_S)
            bed.run_dir.release()


def test_bad_input_is_one_line_and_starts_nothing() -> None:
    for wanted in ("0s", "25h", "soon", "400"):
        process = trimtab_run("--ports", 8080, "--keep-alive", wanted, "--", "sh", "-c", "echo started")
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out, err.count("\n")) == (2, "", 1), err
