"""A server that listens without the shim is told of once, when it has had its time."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests._memory_plant import FakeClock
from trimtab import processes
from trimtab.gate import server, unfollowed
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.unfollowed import PATIENCE_S, Unfollowed


def told(directory: Path, *ports: int) -> list[str]:
    """What is said of this process, first before its time and then after it, twice."""
    said, clock = list[str](), FakeClock()
    looks = Unfollowed(RunDirectory("one", directory), os.getpid(), ports, clock, said.append)
    looks.watch()
    assert said == []
    clock.sleep(PATIENCE_S)
    looks.watch()
    looks.watch()
    return said


def test_a_process_that_listens_without_the_shim_is_named_once(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert told(tmp_path, port) == []
        listener.listen()
        (said,) = told(tmp_path, port)
        assert said.startswith(f"pid {os.getpid()} listens on port {port} and has not loaded the shim")
        assert told(tmp_path, port + 1) == []


def test_one_that_ends_while_it_is_looked_at_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a worker of a busy server's does at any moment: it listened, and then had nothing mapped any more."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def ends(run_dir: RunDirectory, pid: int) -> bool:
            listener.close()
            return False

        monkeypatch.setattr(unfollowed, "belongs", ends)
        assert told(tmp_path, port) == []


def test_no_process_beside_the_servers_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger may have root wait for his maps, and signals and the gate with it."""
    looked, real = set[int](), processes.maps

    def maps(pid: int) -> list[bytes]:
        looked.add(pid)
        return real(pid)

    RunDirectory("one", tmp_path).shared.write_bytes(bytes(4096))
    monkeypatch.setattr(server, "maps", maps)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert len(told(tmp_path, listener.getsockname()[1])) == 1
    assert looked == {os.getpid()}


def test_where_there_is_no_room_to_look_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(pid: int) -> list[int]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(processes, "children", full)
    assert told(tmp_path, 1) == []
