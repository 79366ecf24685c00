"""The processes of a server are told by what they have mapped, the first before its children; nobody is believed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests._stranger import PYTHON, STRANGER, his_directory, needs_root
from trimtab import processes
from trimtab.errors import UsageError
from trimtab.gate import run_directory
from trimtab.gate import server as looked_for
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.server import processes_of, server_of, shared_of, steerable, threads_of
from trimtab.gate.spawn import ended, spawn
from trimtab.processes import Process, identify

MAPS = """
import mmap, os, sys
held = [mmap.mmap(os.open(path, os.O_RDONLY), mmap.PAGESIZE, prot=mmap.PROT_READ) for path in sys.argv[1:]]
"""
TREE = f"""{MAPS}
import subprocess, threading
child = "import sys, threading; threading.Thread(target=sys.stdin.read).start(); print(1, flush=True)"
below = subprocess.Popen([sys.executable, "-c", {MAPS!r} + child, *sys.argv[1:]], stdin=sys.stdin)
sys.stdin.read()
below.wait()
"""
LEAF = f"{MAPS}print(1, flush=True); sys.stdin.read()"


def a_run(directory: Path, name: str = "web") -> RunDirectory:
    """A run directory with a mapped file that only its owner can open, and something called as the shim is."""
    run_dir = RunDirectory(name, directory)
    directory.mkdir(exist_ok=True)
    for path, mode in ((run_dir.shared, 0o600), (shim_of(run_dir), 0o644)):
        path.write_bytes(bytes(4096))
        path.chmod(mode)
    return run_dir


def shim_of(run_dir: RunDirectory) -> Path:
    return run_dir.directory / "libtrimtab_shim.so"


@contextlib.contextmanager
def mapping(
    script: str, files: Sequence[Path], shared: Path | None = None, user: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has mapped some files, perhaps with a mapped file named in its environment; ends at the end."""
    environment = {**os.environ, **({} if shared is None else {"TRIMTAB_SHARED": str(shared)})}
    command = [PYTHON, "-I", "-S", "-c", script, *map(str, files)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, env=environment, user=user, cwd="/") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        yield process


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDirectory:
    return a_run(tmp_path)


@pytest.fixture
def server(run_dir: RunDirectory) -> Iterator[subprocess.Popen[bytes]]:
    """A process and its child, both with the shim and the mapped file, which end with their standard input."""
    with mapping(TREE, (run_dir.shared, shim_of(run_dir))) as process:
        yield process


def test_the_processes_of_a_run_are_found_and_no_others(
    run_dir: RunDirectory, server: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_directory, "known", lambda: [run_dir])
    assert shared_of(server.pid) == run_dir.shared
    assert shared_of(os.getpid()) is None
    found = [one.pid for one in processes_of(run_dir)]
    assert len(found) == 2
    assert found[0] == server_of(run_dir) == server.pid
    assert threads_of(run_dir) == 2
    assert server_of(RunDirectory("api", run_dir.directory / "api")) is None


def test_what_maps_the_file_without_the_shim_is_no_part_of_the_server(run_dir: RunDirectory) -> None:
    with mapping(LEAF, (run_dir.shared,)):
        assert processes_of(run_dir) == []


def test_a_file_that_was_replaced_is_that_of_another_run(
    run_dir: RunDirectory, server: subprocess.Popen[bytes]
) -> None:
    run_dir.shared.unlink()
    assert processes_of(run_dir) == []
    a_run(run_dir.directory)
    assert processes_of(run_dir) == []


@needs_root
def test_a_stranger_who_names_the_mapped_file_is_not_believed(
    run_dir: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_directory, "known", lambda: [run_dir])
    with mapping(LEAF, (), run_dir.shared, STRANGER) as stranger:
        assert shared_of(stranger.pid) is None
        assert processes_of(run_dir) == []


@needs_root
def test_a_stranger_with_files_of_the_same_names_is_not_believed(
    run_dir: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_directory, "known", lambda: [run_dir])
    with his_directory() as directory:
        his = a_run(directory)
        his.shared.chmod(0o644)
        with mapping(LEAF, (his.shared, shim_of(his)), run_dir.shared, STRANGER) as stranger:
            assert shared_of(stranger.pid) is None
            assert processes_of(run_dir) == []


@pytest.mark.parametrize("end", ["\r", "\n", "\x0c"], ids=ascii)
def test_a_files_name_that_goes_on_like_a_line_of_the_maps_is_no_line_of_them(
    run_dir: RunDirectory, tmp_path: Path, end: str
) -> None:
    device, inode = looked_for._identity(run_dir.shared) or (b"", b"")
    forged = tmp_path / f"his{end}0-1 r--p 0 {device.decode()} {inode.decode()} {shim_of(run_dir).name}"
    forged.write_bytes(bytes(4096))
    with mapping(LEAF, (forged,)):
        assert inode and processes_of(run_dir) == []


def test_maps_longer_than_any_servers_are_not_read_to_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PROC", tmp_path)
    line = b"10-20 r--p 0 08:01 7 /x/libtrimtab_shim.so\n"
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "maps").write_bytes(line)
    assert looked_for._files_under_shim(7) == {(b"08:01", b"7")}
    with (tmp_path / "7" / "maps").open("r+b") as file:
        file.truncate(5 << 20)
    assert looked_for._files_under_shim(7) == set()


def test_a_signal_reaches_the_process_that_was_meant_and_nobody_who_has_its_id_now() -> None:
    with mapping(LEAF, ()) as process:
        meant = identify(process.pid)
        assert meant is not None
        assert not Process(meant.pid, meant.start_ticks - 1).send(signal.SIGTERM)
        assert process.poll() is None
        assert meant.send(signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM
        assert not meant.send(signal.SIGTERM)


def test_a_child_has_no_signal_blocked_and_its_end_is_a_code() -> None:
    shell = "/bin/sh"
    blocked = (
        "while read name mask; do [ $name = SigBlk: ] && exit $((0x$mask != 0)); done < /proc/self/status; exit 9"
    )
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        for script, code in (("exit 3", 3), ("kill -TERM $$", 143), (blocked, 0)):
            pid = spawn([shell, "-c", script], os.environ)
            assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT) is not None
            assert ended(pid) == code
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_run_that_was_killed_can_be_steered_while_its_server_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_directory, "base", lambda: tmp_path)
    left, dead = a_run(tmp_path / "web"), a_run(tmp_path / "old", "old")
    for one in (left, dead):
        one.pid_file.write_text("1 1\n")
    with mapping(LEAF, (left.shared, shim_of(left))):
        assert steerable(None) == steerable("web") == left
        with pytest.raises(UsageError, match="no run is named 'old'"):
            steerable("old")
    with pytest.raises(UsageError, match="no run is named 'web'"):
        steerable("web")
