"""A private nginx with Debian's own configuration, and trimtab attached to it, as the plant's tests need them."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers._included import Including
from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.core import Clock
from trimtab.plants.nginx.plant import Nginx
from trimtab.plants.nginx.process import Master, serving, workers
from trimtab.testbed.nginx import NginxSpec, NginxTestbed

CPUS = os.sysconf("SC_NPROCESSORS_ONLN")
MORE = CPUS + 1
SHIPPED = {"worker_processes": CPUS, "worker_connections": 768, "keepalive_timeout_ms": 75_000}
ETC = Path("/etc/nginx")
MODULES = Path("/usr/lib/nginx/modules")
SITE = """
server {{
    listen 127.0.0.1:{port} default_server;
    root {root};
    location = /nginx_status {{ stub_status; allow 127.0.0.1; deny all; }}
    location = /wait {{ default_type text/plain; echo_sleep 0.05; echo waited; }}
    location = /long {{ default_type text/plain; echo_read_request_body; echo waited; }}
}}
"""


class DebianNginx(NginxTestbed):
    """nginx as Debian ships it, moved to a private directory: its whole configuration, with a site of ours."""

    @property
    def config_file(self) -> Path:
        """Its main file."""
        return self.directory / "etc" / "nginx.conf"

    def configured(self, ports: Sequence[int]) -> list[str]:
        """Copies the configuration, and gives the command of Debian's unit, in the foreground.

        What its links lead to is copied too: a test that writes through one would change the packages' own files.
        """
        etc = self.config_file.parent
        shutil.rmtree(etc, ignore_errors=True)
        shutil.copytree(ETC, etc, ignore=shutil.ignore_patterns("sites-enabled", "sites-available"))
        (etc / "sites-enabled").mkdir()
        modules = self.directory / "modules"
        modules.unlink(missing_ok=True)
        modules.symlink_to(MODULES)
        (etc / "sites-enabled" / "default").write_text(SITE.format(port=ports[0], root=self.directory / "htdocs"))
        text = self.config_file.read_text().replace("/etc/nginx", str(etc)).replace("/var/log/nginx", "logs")
        text = text.replace("/run/nginx.pid", f"{self.directory}/run/nginx.pid")
        places = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = "".join(f"{place}_temp_path {self.directory}/run/{place};\n" for place in places)
        self.config_file.write_text(text.replace("http {", f"http {{\n{temporary}", 1))
        return [self._program, "-p", f"{self.directory}/", "-c", str(self.config_file), "-g", "daemon off;"]

    def answers(self) -> bool:
        """Whether its processes serve; it listens a moment before it has any, a title and a file with its number."""
        return any(one.pid == self.pid and len(serving(one)) == CPUS for one in Master.running())


@dataclass(frozen=True)
class Bed(Including):
    """A private nginx.

    Args:
        testbed: the server.
    """

    testbed: NginxTestbed

    @property
    def pid(self) -> int:
        """Its master."""
        return self.testbed.pid

    @property
    def config(self) -> Path:
        """Its main file."""
        return self.testbed.config_file

    @property
    def snippets(self) -> Path:
        """`*.conf` in here are included in http {}."""
        return self.config.parent / "conf.d"

    @property
    def master(self) -> Master:
        """Its master process."""
        return Master.find(self.pid)

    def attach(self, clock: Clock | None = None, edit: bool = True) -> Nginx:
        """trimtab attached to it."""
        return Nginx.attach(clock or SystemClock(), self.pid, None, edit)

    def processes(self) -> int:
        """How many serve, apart from what the plant believes."""
        return len(serving(self.master))

    def replace(self, pattern: str, by: str) -> None:
        """An operator's edit of the main file."""
        text = self.config.read_text()
        assert re.search(pattern, text), pattern
        self.config.write_text(re.sub(pattern, by, text))

    def files(self) -> dict[Path, bytes]:
        """The whole configuration, hidden files too."""
        found = (Path(top) / name for top, _, names in os.walk(self.config.parent) for name in names)
        return {path: path.read_bytes() for path in found if path.is_file()}


@contextmanager
def private() -> Iterator[Bed]:
    """A small private nginx as Debian ships it."""
    with DebianNginx(NginxSpec()) as testbed:
        yield Bed(testbed)


@contextmanager
def left_as_found(bed: Bed) -> Iterator[None]:
    """Puts its files back at the end, and has it read them."""
    before = bed.files()
    yield
    if bed.files() != before:
        for path in bed.files().keys() - before.keys():
            path.unlink()
        for path, text in before.items():
            assert not path.is_symlink(), f"{path} is written through a link"
            path.write_bytes(text)
        with renewed(bed):
            os.kill(bed.pid, signal.SIGHUP)


@contextmanager
def renewed(bed: Bed) -> Iterator[None]:
    """Waits at its end until other processes serve than before, as many as Debian's configuration asks for."""
    before = workers(bed.master)
    yield
    until(lambda: len(now := serving(bed.master)) == CPUS and not now & before, "nginx did not reload")


@pytest.fixture(scope="module")
def shared() -> Iterator[Bed]:
    """The one of a module, which takes it over by this name."""
    with private() as bed:
        yield bed


@pytest.fixture
def bed(shared: Bed) -> Iterator[Bed]:
    """That one, left as it was found."""
    with left_as_found(shared):
        yield shared
