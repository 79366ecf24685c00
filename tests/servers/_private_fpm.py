"""A private PHP-FPM and trimtab attached to it, as the tests of the plant need them."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers._included import Including
from tests.servers._under_gate import PATIENCE_S, until
from trimtab.clock import SystemClock
from trimtab.core import Clock
from trimtab.plants.php_fpm import fastcgi, process, status
from trimtab.plants.php_fpm.plant import PhpFpm
from trimtab.plants.php_fpm.private import FpmSpec, FpmTestbed

__all__ = ["DEBIAN", "PATIENCE_S", "Asked", "Bed", "private", "until"]

DEBIAN = {"max_children": 5, "pm": 1, "start_servers": 2, "min_spare_servers": 1, "max_spare_servers": 3}
"""What Debian ships."""
WORK = """<?php
$end = hrtime(true) + 1000000 * (int)$_GET['ms'];
while (($left = $end - hrtime(true)) > 0) usleep(intdiv($left, 1000) + 1);
echo 'done';
"""
"""A page that takes so many milliseconds and next to no CPU; it sleeps on where a reload wakes it."""


@dataclass(frozen=True)
class Bed(Including):
    """A private FPM.

    Args:
        testbed: the server.
    """

    testbed: FpmTestbed
    pool: str = "www"

    @property
    def snippet(self) -> Path:
        """trimtab's own file there."""
        return self.testbed.snippet_directory / f"zz-trimtab-{self.pool}.conf"

    @property
    def page(self) -> Path:
        """The page that takes its time."""
        return self.testbed.directory / "work.php"

    def attach(self, clock: Clock | None = None, accept_lost: bool = False) -> PhpFpm:
        """trimtab attached to it."""
        return PhpFpm.attach(clock or SystemClock(), self.testbed.pid, self.pool, accept_lost=accept_lost)

    def workers(self) -> int:
        """Workers of the pool that run, by their titles."""
        return len(process.FpmMaster.find(self.testbed.pid).workers(self.pool))

    def says(self) -> status.Page:
        """What the status page says now."""
        found: list[status.Page] = []

        def said() -> bool:
            """A reply says nothing where a reload or an idle worker's end has cut it short."""
            page = status.ask(status.StatusPage(self.testbed.listen, "/status", False), SystemClock(), PATIENCE_S)
            found.extend([] if page is None else [page])
            return bool(found)

        until(said, "the status page does not come")
        return found[0]

    def ask(self, milliseconds: int) -> str:
        """One page that takes so long; what became of it: "done", or the error."""
        family, address = status.endpoint(self.testbed.listen)
        asked = {"SCRIPT_FILENAME": os.fspath(self.page), "SCRIPT_NAME": "/work.php", "REQUEST_METHOD": "GET"}
        query = f"ms={milliseconds}"
        try:
            with socket.socket(family) as connection:
                connection.settimeout(PATIENCE_S)
                connection.connect(address)
                connection.sendall(fastcgi.request({**asked, "QUERY_STRING": query}))
                reply = b"".join(iter(lambda: connection.recv(1 << 16), b""))
            return fastcgi.reply(reply)[1].decode()
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def restart_pool(self) -> None:
        """Reloads it as an operator does, and waits until it serves."""
        master = process.FpmMaster.find(self.testbed.pid)
        before = master.generation()
        os.kill(master.pid, 12)
        until(lambda: master.anew(before), "it did not reload")
        self.says()


@dataclass
class Asked:
    """Pages that are under way.

    Args:
        bed: the server.
        milliseconds: how long each takes, one entry for each.
    """

    bed: Bed
    milliseconds: tuple[int, ...]
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._threads = [threading.Thread(target=self._one, args=(ms,)) for ms in self.milliseconds]
        for thread in self._threads:
            thread.start()

    def wait(self) -> list[str]:
        """What became of each."""
        for thread in self._threads:
            thread.join(2 * PATIENCE_S)
        return self.said

    def _one(self, milliseconds: int) -> None:
        self.said.append(self.bed.ask(milliseconds))


@contextmanager
def private(**fields: object) -> Iterator[Bed]:
    """A small private FPM with Debian's pool and a page that takes its time."""
    with FpmTestbed(FpmSpec(**fields)) as testbed:  # type: ignore[arg-type]
        bed = Bed(testbed, testbed.spec.pools[0])
        bed.page.write_text(WORK)
        yield bed
