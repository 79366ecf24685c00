"""Whether a port is another's is asked where the server is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests._stranger import needs_root
from trimtab.errors import NotMeasured
from trimtab.plants._in_use import in_use

APART = """
import ctypes, fcntl, socket, struct
assert ctypes.CDLL(None, use_errno=True).unshare(0x40000000) == 0
with socket.socket() as up:
    fcntl.ioctl(up, 0x8914, struct.pack("16sH14x", b"lo", 0x41))
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
input()
"""


@pytest.fixture
def apart() -> Iterator[tuple[int, int]]:
    """A process that listens in a network namespace of its own, and its port."""
    with subprocess.Popen([sys.executable, "-c", APART], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.communicate(b"\n", timeout=300)


def at(port: int, pid: int) -> bool:
    return in_use((socket.AF_INET, ("127.0.0.1", port)), pid)


@needs_root
@pytest.mark.root
@pytest.mark.parametrize("entered", [True, False])
def test_a_port_is_that_of_the_servers_own_network(
    apart: tuple[int, int], monkeypatch: pytest.MonkeyPatch, entered: bool
) -> None:
    pid, port = apart

    def refused(pid: int, make: Callable[[], object]) -> object:
        raise NotMeasured("entering it failed: Operation not permitted")

    if not entered:
        for module in ("plants._in_use", "sensors._tcp_listeners"):
            monkeypatch.setattr(f"trimtab.{module}.in_network_of", refused)
    with socket.create_server(("127.0.0.1", 0)) as here:
        ours = here.getsockname()[1]
        assert at(port, pid)
        assert at(ours, os.getpid())
        assert ours == port or not at(ours, pid)
