"""What a local user does to a gate, as a program of its own: started as an unprivileged user by test_gate_hostile.

It prints as JSON what it has reached. Its argument is the run directory.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

HOLD_S = 8.0
"""How long the close of a passed socket blocks whoever closes it last."""
TIMES = 20


def handoffs(directory: str) -> list[str]:
    """Every path at which a hand-off socket could be found by looking around."""
    found = {f"{directory}/handoff.sock", f"{directory}/handoff.sock.new", f"{directory}/handoff.new"}
    for line in Path("/proc/net/unix").read_text().splitlines():
        found.update(word.lstrip("@") for word in line.split()[7:])
    with contextlib.suppress(PermissionError):
        found.update(f"{directory}/{name}" for name in os.listdir(directory))
    for variable in environments():
        found.update(re.findall(rb"/[^\0=:]*handoff[^\0]*", variable))
    return sorted(text if isinstance(text, str) else os.fsdecode(text) for text in found)


def environments() -> Iterator[bytes]:
    """What the environments say that this user may read."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            yield Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue


def lingering() -> socket.socket:
    """A connected socket with bytes that nobody reads: its last close waits for them."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    kept, _ = listener.accept()
    os.dup(kept.fileno())
    client.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            client.send(bytes(1 << 16))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, int(HOLD_S)))
    return client


def freeze(directory: str) -> list[str]:
    """Passes sockets whose close blocks to whatever can be connected to in the run directory."""
    reached = []
    for path in handoffs(directory):
        if path.startswith(directory) and all(passed(path) for _ in range(TIMES)):
            reached.append(path)
    return reached


def passed(path: str) -> bool:
    """Passes a socket whose last close blocks, and tries to close it first; false when nobody can be reached."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
        try:
            one.connect(path)
        except OSError:
            return False
        blocks = lingering().detach()
        rights = array.array("i", [blocks]).tobytes()
        with contextlib.suppress(OSError):
            one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        threading.Thread(target=os.close, args=(blocks,), daemon=True).start()
    return True


def main() -> None:
    """Says what it has reached, and holds it for a while."""
    print(json.dumps(freeze(sys.argv[1])), flush=True)
    time.sleep(HOLD_S)


if __name__ == "__main__":
    main()
