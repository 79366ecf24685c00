"""A private Squid in front of one origin, with Debian's own squid.conf, confined where this machine allows it.

What had to differ from Debian's: it is an accelerator on loopback (http_port, cache_peer), its files and its name are
its own, it sends no pings, and it does not wait 30 s for its clients when it is ended.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab import own
from trimtab.testbed._private import worker_user
from trimtab.testbed._swapped import SwappedServer
from trimtab.testbed.cgroup import Limits

PLAIN_2004 = ("cache_mem 8 MB", "maximum_object_size_in_memory 8 KB")
"""Squid's defaults of 2004, where they differ from today's and memory is the only store."""
_USER = "proxy"
_ACCESS = (
    "acl localnet src 0.0.0.1-0.255.255.255",
    "acl localnet src 10.0.0.0/8",
    "acl localnet src 100.64.0.0/10",
    "acl localnet src 169.254.0.0/16",
    "acl localnet src 172.16.0.0/12",
    "acl localnet src 192.168.0.0/16",
    "acl localnet src fc00::/7",
    "acl localnet src fe80::/10",
    "acl SSL_ports port 443",
    "acl Safe_ports port 80",
    "acl Safe_ports port 21",
    "acl Safe_ports port 443",
    "acl Safe_ports port 70",
    "acl Safe_ports port 210",
    "acl Safe_ports port 1025-65535",
    "acl Safe_ports port 280",
    "acl Safe_ports port 488",
    "acl Safe_ports port 591",
    "acl Safe_ports port 777",
    "http_access deny !Safe_ports",
    "http_access deny CONNECT !SSL_ports",
    "http_access allow localhost manager",
    "http_access deny manager",
)
_FRESH = (
    "refresh_pattern ^ftp: 1440 20% 10080",
    "refresh_pattern ^gopher: 1440 0% 1440",
    r"refresh_pattern -i (/cgi-bin/|\?) 0 0% 0",
    "refresh_pattern . 0 20% 4320",
)


@dataclass(frozen=True)
class SquidSpec(Limits):
    """A private Squid and its limits.

    Args:
        origin_port: port of the server behind it, on 127.0.0.1; None for none, so that it answers for itself alone.
        cache_mem_bytes: memory of the cache; None for what Debian ships.
        most_in_memory_bytes: the largest object that is held in memory; None for what Debian ships.
        plain_2004: whether the two begin as Squid shipped them in 2004.
        kept_queue: whether its port can be kept open through a reload (`worker-queues`); not as Debian ships it.
        more: further lines, which come before Debian's.
    """

    origin_port: int | None = None
    cache_mem_bytes: int | None = None
    most_in_memory_bytes: int | None = None
    plain_2004: bool = False
    kept_queue: bool = False
    more: tuple[str, ...] = ()


class SquidTestbed(SwappedServer[SquidSpec]):
    """A private Squid; it answers when its manager's menu comes."""

    program_name = "squid"
    log = "squid/cache.log"
    _program = ""

    @property
    def config_file(self) -> Path:
        """Its configuration."""
        return self.directory / "squid.conf"

    @property
    def snippet_directory(self) -> Path:
        """`*.conf` in here are included, as on Debian."""
        return self.directory / "conf.d"

    @property
    def words(self) -> tuple[str, ...]:
        """The words with which the command line names it."""
        return ("--pid", str(self.pid))

    def require_installed(self) -> None:
        """Finds the program.

        Raises:
            UsageError: Squid is not installed.
        """
        self._program = own.required("squid", "squid")

    def furnish(self) -> None:
        """Writes its directories; Squid's own user writes its logs, into one that only Squid writes in."""
        for name in ("logs", "conf.d", "squid"):
            (self.directory / name).mkdir(mode=0o755)
        if user := _user():
            os.chown(self.directory / "squid", pwd.getpwnam(user).pw_uid, -1)
        (self.snippet_directory / "debian.conf").write_text("logfile_rotate 0\n", encoding="ascii")

    def configured(self, ports: Sequence[int]) -> list[str]:
        """Writes its configuration, and gives its command, Debian's but for the system's log."""
        self.config_file.write_text("\n".join([*self._lines(ports[0]), ""]), encoding="utf-8")
        name = self._held().shared_memory
        return [self._program, "--foreground", "-n", name, "-f", os.fspath(self.config_file), "-YC"]

    def answers(self) -> bool:
        """Tries once to get the menu of its manager.

        Raises:
            OSError: nothing listens yet.
        """
        return self.status("/squid-internal-mgr/menu") == 200

    def _lines(self, port: int) -> list[str]:
        """The lines of its configuration."""
        spec, logs = self.spec, self.directory / "squid"
        origin = f"defaultsite=127.0.0.1:{spec.origin_port or port} no-vhost"
        peer = f"cache_peer 127.0.0.1 parent {spec.origin_port} 0 no-query no-digest originserver name=origin"
        user = _user()
        return [
            *(PLAIN_2004 if spec.plain_2004 else ()),
            *([f"cache_mem {spec.cache_mem_bytes} bytes"] if spec.cache_mem_bytes is not None else []),
            *(
                [f"maximum_object_size_in_memory {spec.most_in_memory_bytes} bytes"]
                if spec.most_in_memory_bytes is not None
                else []
            ),
            *spec.more,
            *_ACCESS,
            f"include {self.snippet_directory}/*.conf",
            "http_access allow localhost",
            "http_access deny all",
            f"http_port 127.0.0.1:{port} accel {origin}{' worker-queues' if spec.kept_queue else ''}",
            *([peer] if spec.origin_port is not None else ["never_direct allow all"]),
            f"coredump_dir {self.directory}",
            *_FRESH,
            f"pid_filename {self.directory}/squid.pid",
            f"cache_log {logs}/cache.log",
            f"access_log daemon:{logs}/access.log squid",
            "netdb_filename none",
            *([f"cache_effective_user {user}"] if user else []),
            "visible_hostname localhost",
            "pinger_enable off",
            "shutdown_lifetime 0 seconds",
        ]


def _user() -> str:
    """The user that Squid drops to; empty where this process could not change it."""
    if os.geteuid() != 0:
        return ""
    try:
        return pwd.getpwnam(_USER).pw_name
    except KeyError:
        worker = worker_user()
        return worker[0] if worker else ""
