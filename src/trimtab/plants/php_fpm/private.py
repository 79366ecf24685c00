"""A private PHP-FPM in a temporary directory, with Debian's own pool, confined where this machine allows it.

A web server in front is a testbed of its own, whose `fastcgi` is `FpmTestbed.nginx` or `FpmTestbed.apache`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab import own
from trimtab.clock import SystemClock
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants.php_fpm import status
from trimtab.testbed._private import worker_user
from trimtab.testbed._swapped import SwappedServer
from trimtab.testbed.cgroup import Limits

_NAME = re.compile(r"php-fpm([\d.]*)")


@dataclass(frozen=True)
class FpmSpec(Limits):
    """A private FPM and its limits. The pool is the one that Debian ships.

    Args:
        pm: how workers come and go.
        max_children: workers at most.
        start_servers: workers at the start, where pm is dynamic.
        spare_servers: least and most idle workers, where pm is dynamic.
        timeout_s: process_control_timeout; 0 as Debian ships it.
        status: whether the pool has its status page.
        status_apart: whether that has a socket and a process of its own.
        tcp: whether the pool listens on a port, not on a Unix socket.
        pools: names of the pools; the first one has the port.
        backlog: length of the listen queue; the kernel bounds it by net.core.somaxconn.
        more: further lines of the first pool.
    """

    pm: str = "dynamic"
    max_children: int = 5
    start_servers: int = 2
    spare_servers: tuple[int, int] = (1, 3)
    timeout_s: int = 10
    status: bool = True
    status_apart: bool = False
    tcp: bool = False
    pools: tuple[str, ...] = ("www",)
    backlog: int = 511
    more: tuple[str, ...] = ()


class FpmTestbed(SwappedServer[FpmSpec]):
    """A private FPM; it answers when its status page comes, or where there is none when its socket is there."""

    program_name = "php-fpm"
    ports_wanted = 2
    log = "logs/error.log"
    _program = ""
    _ports: Sequence[int] = (0, 0)

    @property
    def config_file(self) -> Path:
        """Its configuration."""
        return self.directory / "php-fpm.conf"

    @property
    def snippet_directory(self) -> Path:
        """`*.conf` in here are included last; the pools are here too, as on Debian."""
        return self.directory / "pool.d"

    @property
    def listen(self) -> str:
        """FPM's `listen` of the first pool."""
        return self._listen(self.spec.pools[0], self._ports)

    @property
    def nginx(self) -> str:
        """Address of the first pool for nginx's fastcgi_pass."""
        return self.listen if self.spec.tcp else f"unix:{self.listen}"

    @property
    def apache(self) -> str:
        """Address of the first pool for Apache's mod_proxy_fcgi."""
        return f"fcgi://{self.listen}" if self.spec.tcp else f"unix:{self.listen}|fcgi://localhost"

    def require_installed(self) -> None:
        """Finds the program.

        Raises:
            UsageError: PHP-FPM is not installed.
        """
        self._program = program()

    def furnish(self) -> None:
        """Writes its directories."""
        for name in ("logs", "run", "pool.d"):
            (self.directory / name).mkdir(mode=0o755)

    def configured(self, ports: Sequence[int]) -> list[str]:
        """Writes its configuration, and gives its command; without php.ini, so with PHP's own defaults."""
        self._ports = ports
        lines = ["[global]", f"pid = {self.directory}/run/fpm.pid", f"error_log = {self.directory}/logs/error.log"]
        lines += [f"process_control_timeout = {self.spec.timeout_s}s", f"include={self.snippet_directory}/*.conf"]
        self.config_file.write_text("\n".join([*lines, ""]), encoding="utf-8")
        for pool in self.spec.pools:
            text = "\n".join([*self._pool(pool, ports), ""])
            (self.snippet_directory / f"{pool}.conf").write_text(text, encoding="utf-8")
        return [self._program, "-n", "-F", "-y", os.fspath(self.config_file)]

    def answers(self) -> bool:
        """Tries once to get the status page.

        Raises:
            OSError: nothing listens yet.
        """
        if not self.spec.status:
            return self.spec.tcp or Path(self.listen).exists()
        try:
            return status.ask(self._status_page(), SystemClock(), 5.0) is not None
        except NotMeasured:
            return False

    def _status_page(self) -> status.StatusPage:
        apart = self.spec.status_apart
        return status.StatusPage(f"127.0.0.1:{self._ports[1]}" if apart else self.listen, "/status", apart)

    def _listen(self, pool: str, ports: Sequence[int]) -> str:
        if self.spec.tcp and pool == self.spec.pools[0]:
            return f"127.0.0.1:{ports[0]}"
        return f"{self.directory}/run/{pool}.sock"

    def _pool(self, pool: str, ports: Sequence[int]) -> list[str]:
        """The lines of a pool."""
        spec, worker, first = self.spec, worker_user(), pool == self.spec.pools[0]
        user, group = worker or ("", "")
        rights = [f"user = {user}", f"group = {group}", f"listen.owner = {user}", f"listen.group = {group}"]
        low, high = spec.spare_servers
        return [
            f"[{pool}]",
            *(rights if worker else []),
            f"listen = {self._listen(pool, ports)}",
            f"listen.backlog = {spec.backlog}",
            f"pm = {spec.pm}",
            f"pm.max_children = {spec.max_children}",
            f"pm.start_servers = {spec.start_servers}",
            f"pm.min_spare_servers = {low}",
            f"pm.max_spare_servers = {high}",
            *(["pm.status_path = /status"] if spec.status else []),
            *([f"pm.status_listen = 127.0.0.1:{ports[1]}"] if spec.status_apart and first else []),
            *(spec.more if first else ()),
        ]


def program() -> str:
    """FPM's binary, the newest; Debian names it by its version.

    Raises:
        UsageError: it is not installed.
    """
    for directory in own.search_path().split(os.pathsep):
        for name in sorted((n for n in _listed(directory) if _NAME.fullmatch(n)), reverse=True):
            if found := own.program(os.path.join(directory, name)):
                return found
    raise UsageError("php-fpm is not installed; install the package php-fpm")


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
