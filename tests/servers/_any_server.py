"""Any unmodified server under `trimtab run`, with one class that takes everybody."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.servers._under_gate import PATIENCE_S, a_name, gate_under, trimtab_run
from trimtab.clock import SystemClock
from trimtab.gate import run_directory
from trimtab.gate.link import Link
from trimtab.gate.run_directory import RunDirectory

SPEC = """
listen = [{port}]
workers = {workers}
guarantee = "absolute"
[[class]]
name = "all"
desired = "10s"
"""


@dataclass
class AnyServer:
    """A server under `trimtab run`.

    Args:
        process: `trimtab run`; signals that it gets go to the server.
        run_dir: its run directory.
        port: the gated port.
    """

    process: subprocess.Popen[str]
    run_dir: RunDirectory
    port: int

    def reading(self, name: str) -> int:
        """A count of the gate for its one class, such as "dispatched" or "in_service"."""
        with contextlib.closing(Link(self.run_dir, SystemClock(), PATIENCE_S)) as link:
            return int(getattr(link.readings().classes[0], name))

    def settled(self) -> bool:
        """Whether each connection that has come has been served."""
        gone = sum(map(self.reading, ("dispatched", "refused", "aborted")))
        return 0 < self.reading("arrivals") == gone and self.reading("in_service") == 0

    def gate_processes(self) -> list[int]:
        """Process ids of guardian and gate."""
        return gate_under(self.process.pid)


@contextlib.contextmanager
def under_run(
    command: Sequence[object], port: int, directory: Path, workers: int, more: Sequence[int] = ()
) -> Iterator[AnyServer]:
    """Starts a server that stays in the foreground, and returns when its port takes connections.

    Args:
        command: its program and arguments.
        port: where it listens, on 127.0.0.1.
        directory: a directory for the SPEC.
        workers: connections that it may hold at once.
        more: ports that are gated too, where it may come to listen.
    """
    spec, name = directory / "spec.toml", a_name()
    spec.write_text(SPEC.format(port=", ".join(map(str, (port, *more))), workers=workers))
    process = trimtab_run("--name", name, "--gate", spec, "--", *command)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not listens(port):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.05)
        server = AnyServer(process, run_directory.named(name), port)
        # The connection that looked whether the port is open is still on its way, or given up.
        while not server.settled():
            assert time.monotonic() < deadline, "the first connection stays"
            time.sleep(0.05)
        yield server
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    with socket.socket() as one:
        one.settimeout(5)
        return one.connect_ex(("127.0.0.1", port)) == 0
