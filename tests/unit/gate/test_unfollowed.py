"""A server that listens without the shim is told of once, when it has had its time."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tests._memory_plant import FakeClock
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
