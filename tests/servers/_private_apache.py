"""A private Apache and trimtab attached to it, as the tests of the plant need them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.servers._included import Including
from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.core import Clock
from trimtab.plants.apache import Apache
from trimtab.processes import descriptors
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.testbed.apache_config import Mpm

MPMS: tuple[Mpm, ...] = ("prefork", "worker", "event")
UNDER_WAY = b"GET /file500.html HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
"""A request whose body does not come: Apache's worker waits for it, as it would for a slow program."""


@dataclass(frozen=True)
class Bed(Including):
    """A private Apache.

    Args:
        testbed: the server.
        threads: workers in one process; the step of `max_request_workers`.
    """

    testbed: ApacheTestbed
    threads: int

    @property
    def snippet(self) -> Path:
        """trimtab's own file there."""
        return self.testbed.snippet_directory / "zz-trimtab.conf"

    def attach(self, clock: Clock | None = None, accept_lost: bool = False) -> Apache:
        """trimtab attached to it."""
        testbed = self.testbed
        directory = os.fspath(testbed.snippet_directory)
        return Apache.attach(clock or SystemClock(), testbed.pid, testbed.status_url, directory, accept_lost)


def children(pid: int) -> set[int]:
    """The child processes of a server."""
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


@contextlib.contextmanager
def renewed(pid: int) -> Iterator[None]:
    """Waits at its end until a server has children that it did not have before, as after a reload."""
    before = children(pid)
    yield
    until(lambda: bool(children(pid) - before), "the server has no new children")


def reload(pid: int) -> None:
    """A graceful reload by an operator, to its end; a new child alone may be one of an earlier reload."""
    before = descriptors(pid, "pipe")
    with renewed(pid):
        os.kill(pid, signal.SIGUSR1)
        until(lambda: bool(descriptors(pid, "pipe") - before), "the server has not read its configuration")


@contextlib.contextmanager
def private(mpm: Mpm, environ: Mapping[str, str] | None = None, **fields: object) -> Iterator[Bed]:
    """A small private Apache: 8 processes in force, 16 possible; `environ` is added to its environment."""
    threads = 1 if mpm == "prefork" else 4
    spec = ApacheSpec(
        mpm,
        max_request_workers=8 * threads,
        server_limit=16,
        threads_per_child=max(4, threads),
        keep_alive_timeout_ms=300,
    )
    more = environ or {}
    with ApacheTestbed(replace(spec, **fields), environment=lambda port: more) as testbed:  # type: ignore[arg-type]
        yield Bed(testbed, threads)
