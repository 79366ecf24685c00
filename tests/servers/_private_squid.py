"""A private Squid in front of a small origin, and trimtab attached to it, as the tests of the plant need them."""

from __future__ import annotations

import fcntl
import http.client
import http.server
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers._included import Including
from tests.servers._under_gate import PATIENCE_S, until
from trimtab.clock import SystemClock
from trimtab.core import Clock
from trimtab.plants.squid import process
from trimtab.plants.squid.plant import Squid
from trimtab.plants.squid.private import SquidSpec, SquidTestbed

DEBIAN = {
    "cache_mem": 256,
    "maximum_object_size_in_memory": 512,
    "minimum_object_size": 0,
    "maximum_object_size": 4096,
    "cache_swap_low": 90,
    "cache_swap_high": 95,
}
"""What Debian ships."""
MIGRATE = Path("/proc/sys/net/ipv4/tcp_migrate_req")


ANSWER = threading.Event()
"""What /held/name waits for."""


class _Page(http.server.BaseHTTPRequestHandler):
    """/BYTES/name is a page of so many bytes that may be cached; /slow/MS and /held/name wait first and may not."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        _, first, second = self.path.split("/", 2)
        slow = first in ("slow", "held")
        if first == "slow":
            time.sleep(int(second) / 1000)
        elif first == "held":
            ANSWER.wait(PATIENCE_S)
        body = b"x" * (10 if slow else int(first))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store" if slow else "max-age=3600")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


class _Origin(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


@dataclass(frozen=True)
class Bed(Including):
    """A private Squid.

    Args:
        testbed: the server.
    """

    testbed: SquidTestbed

    @property
    def snippet(self) -> Path:
        """trimtab's own file there."""
        return self.testbed.snippet_directory / "zz-trimtab.conf"

    def attach(self, clock: Clock | None = None, accept_lost: bool = True, may_restart: bool = False) -> Squid:
        """trimtab attached to it."""
        clock = clock or SystemClock()
        return Squid.attach(clock, self.testbed.pid, accept_lost=accept_lost, may_restart=may_restart)

    def get(self, path: str) -> tuple[int, str]:
        """One page: its status, and what Squid says of it, such as "HIT"."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.testbed.port, timeout=PATIENCE_S)) as connection:
            connection.request("GET", path)
            reply = connection.getresponse()
            reply.read()
            return reply.status, (reply.getheader("X-Cache") or "").partition(" ")[0]

    def kept(self, path: str) -> bool:
        """Whether a page is there, without asking the origin for it."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.testbed.port, timeout=PATIENCE_S)) as connection:
            connection.request("GET", path, headers={"Cache-Control": "only-if-cached"})
            reply = connection.getresponse()
            reply.read()
            return reply.status == 200

    def worker(self) -> int:
        """The process that serves."""
        return process.SquidMaster.find(self.testbed.pid).worker()

    def serves(self) -> bool:
        """Whether it answers."""
        try:
            return self.get("/100/a")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def reload(self) -> None:
        """Reloads it as an operator does, once it serves, and waits until it listens again."""
        # In the middle of another reload it listens nowhere, and the end of that one would be taken for this one.
        until(self.serves, "it does not serve")
        master = process.SquidMaster.find(self.testbed.pid)
        before = set(master.ports())
        os.kill(master.pid, signal.SIGHUP)
        until(lambda: (now := set(master.ports())) and not now & before, "it did not reload")


@dataclass
class Clients:
    """Clients that come again and again, each time with a new connection, until they are stopped."""

    port: int
    number: int
    said: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(self.number)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> Counter[str]:
        """What became of each."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        return self.said

    def _run(self) -> None:
        while not self._stop.is_set():
            said = self._one()
            with self._lock:
                self.said[said] += 1
            time.sleep(0.002)  # leaves Squid and trimtab some of the machine

    def _one(self) -> str:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as connection:
                connection.sendall(b"GET /500/hot HTTP/1.0\r\nHost: x\r\n\r\n")
                reply = b"".join(iter(lambda: connection.recv(1 << 16), b""))
            return reply.partition(b"\r\n")[0].decode() or "empty"
        except OSError as error:
            return type(error).__name__


@contextmanager
def private(**fields: object) -> Iterator[Bed]:
    """A private Squid as Debian ships it, but for these fields, in front of an origin."""
    with _Origin(("127.0.0.1", 0), _Page) as origin:
        thread = threading.Thread(target=origin.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            with SquidTestbed(SquidSpec(origin_port=origin.server_port, **fields)) as testbed:  # type: ignore[arg-type]
                yield Bed(testbed)
        finally:
            origin.shutdown()
            thread.join()


@contextmanager
def migrating() -> Iterator[None]:
    """net.ipv4.tcp_migrate_req is 1 for a while, for one test at a time, or it could be left so."""
    with MIGRATE.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = MIGRATE.read_text()
        MIGRATE.write_text("1")
        try:
            yield
        finally:
            MIGRATE.write_text(before)
