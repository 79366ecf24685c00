"""A private Tomcat with a small application, and trimtab attached to it, as the tests of the plant need them."""

from __future__ import annotations

import contextlib
import functools
import http.client
import itertools
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers._under_gate import PATIENCE_S
from trimtab import own
from trimtab.clock import SystemClock
from trimtab.core import Clock
from trimtab.plants.tomcat import java, process
from trimtab.plants.tomcat.attached import Attached
from trimtab.plants.tomcat.plant import Tomcat
from trimtab.plants.tomcat.private import HOME, Jdbc, TomcatSpec, TomcatTestbed

_number = itertools.count()
SOURCES = Path(__file__).parent / "tomcat_app"
NOWHERE = Jdbc("jdbc:nowhere:shop", "nobody", driver="NoDatabase")
"""A pool whose connections need no database."""
SHIPPED = {
    "max_threads": 200,
    "min_spare_threads": 10,
    "max_connections": 8192,
    "keep_alive_timeout_ms": 20_000,
    "read_buffer_bytes": 8192,
    "write_buffer_bytes": 8192,
}
"""What Debian's connector has."""
POOL = {"pool_max_active": 100, "pool_min_idle": 10, "pool_max_idle": 100, "pool_max_wait_ms": 30_000}
"""What Tomcat's own pool has."""


@dataclass(frozen=True)
class Bed:
    """A private Tomcat.

    Args:
        testbed: the server.
    """

    testbed: TomcatTestbed

    def attach(self, clock: Clock | None = None, restart: bool = False) -> Tomcat:
        """trimtab attached to it; to be closed."""
        clock = clock or SystemClock()
        return Tomcat(clock, Attached(process.TomcatProcess.find(self.testbed.pid), clock, restart))

    def ask(self, milliseconds: int, more: str = "") -> int:
        """One page that takes so long; its status, or 0 where there was none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.testbed.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", f"/shop/work?ms={milliseconds}{more}")
            reply = connection.getresponse()
            reply.read()
            return reply.status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()


@dataclass
class Asked:
    """Pages that are under way.

    Args:
        bed: the server.
        number: how many.
        milliseconds: how long each takes.
        more: more of the query, such as "&db=1".
    """

    bed: Bed
    number: int
    milliseconds: int
    more: str = ""
    said: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.threads = [threading.Thread(target=self._one, daemon=True) for _ in range(self.number)]
        for thread in self.threads:
            thread.start()

    def wait(self) -> list[int]:
        """The status of each."""
        for thread in self.threads:
            thread.join(2 * PATIENCE_S)
        return self.said

    def _one(self) -> None:
        self.said.append(self.bed.ask(self.milliseconds, self.more))


class Held(Asked):
    """Pages that are under way until they are waited for.

    Args:
        bed: the server.
        number: how many.
        more: more of the query, such as "&db=1".
    """

    def __init__(self, bed: Bed, number: int, more: str = "") -> None:
        self._end = bed.testbed.directory / f"end-{next(_number)}"
        super().__init__(bed, number, int(1000 * PATIENCE_S), f"{more}&until={self._end}")

    def finish(self) -> None:
        """Has them end."""
        self._end.touch()

    def wait(self) -> list[int]:
        """Has them end; the status of each."""
        self.finish()
        return super().wait()


@functools.cache
def _classes() -> dict[str, bytes]:
    """The application's classes, compiled once."""
    with tempfile.TemporaryDirectory(prefix="trimtab-classes-") as name:
        sources = sorted(map(str, SOURCES.glob("*.java")))
        command = ["javac", "-J-XX:TieredStopAtLevel=1", "-cp", str(HOME / "lib" / "servlet-api.jar")]
        subprocess.run([*command, "--release", "11", "-d", name, *sources], check=True)
        return {path.name: path.read_bytes() for path in Path(name).iterdir()}


def built(directory: Path) -> Path:
    """The application, compiled."""
    classes = directory / "WEB-INF" / "classes"
    classes.mkdir(parents=True)
    for name, code in _classes().items():
        (classes / name).write_bytes(code)
    (directory / "page.txt").write_text("a page\n")
    (directory / "long.txt").write_text("x" * 30_000)
    return directory


@contextlib.contextmanager
def private(jdbc: Jdbc | None = NOWHERE, **fields: object) -> Iterator[Bed]:
    """A small private Tomcat with an application that takes its time."""
    with tempfile.TemporaryDirectory(prefix="trimtab-app-") as name:
        app = built(Path(name) / "app")
        quick = ("-XX:TieredStopAtLevel=1",)  # it lives for some seconds
        spec = TomcatSpec(webapp=app, heap_bytes=128 << 20, jdbc=jdbc, java_options=quick, **fields)  # type: ignore[arg-type]
        with TomcatTestbed(spec) as testbed:
            yield Bed(testbed)


def in_process(code: str, directory: Path) -> list[str]:
    """The command that runs this in a process of its own, which has our Java program from here, compiled.

    Args:
        code: what is run, its indentation taken away.
        directory: where the program is put; compiling it takes most of such a process's time.
    """
    jar = directory / "Jmx.jar"
    program = own.program("java")
    assert program is not None
    jar.write_bytes(java.compiled(program))
    given = f"import pathlib; from trimtab.plants.tomcat import java, jmx; jar = pathlib.Path({str(jar)!r})"
    theirs = "java.compiled = jmx.compiled = lambda program: jar.read_bytes()"
    return [sys.executable, "-c", f"{given}\n{theirs}\n{textwrap.dedent(code)}"]


def opened(pid: int) -> list[str]:
    """What a process has open; what it closes meanwhile is left out."""
    names = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names.append(os.readlink(entry))
    return names
