"""Calls on descriptors besides the usual ones, by a program with the shim in it: what the shim knows stays right."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trimtab import native
from trimtab.sensors import _shared_file
from trimtab.sensors._shared_file import MODE_FIXED, KeepAlive, SharedFile

PROGRAM = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
served, _ = listener.accept()
fd = served.detach()
client.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
answer = b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n"
"""
CALLS = {
    "close_range": "os.read(fd, 99); os.write(fd, answer); assert libc.close_range(fd, fd, 0) == 0",
    "fcntl": "copy = libc.fcntl(fd, 0, 100); assert copy >= 100; os.read(fd, 99); os.write(fd, answer); os.close(fd)",
    "dup": "copy = libc.dup(fd); os.read(fd, 99); os.write(fd, answer); os.close(copy); os.close(fd)",
    "recv nowhere": "os.read(fd, 5); assert libc.recv(fd, None, 13, 32) == 13; os.write(fd, answer); os.close(fd)",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_request_is_counted_once_whatever_call_the_server_makes(tmp_path: Path, call: str) -> None:
    shared = tmp_path / "shared"
    _shared_file.create(shared)
    with contextlib.closing(SharedFile(shared, write=True)) as file:
        # Only then the shim looks at bytes, and only here at those that are not there.
        if call == "recv nowhere":
            file.set_keep_alive(KeepAlive(time_ns=10**12, trial_ns=0, trial_every=0, mode=MODE_FIXED))
    shim = str(native.shim_path())
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + CALLS[call]],
        env=os.environ | {"LD_PRELOAD": shim, "TRIMTAB_SHARED": str(shared), "TRIMTAB_PORTS": "*"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    with contextlib.closing(SharedFile(shared)) as file:
        counted = file.counters()
    assert (counted.connections, counted.requests) == (1, 1)
