"""A private nginx in a temporary directory, on loopback, confined where this machine allows it."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from trimtab import own
from trimtab.testbed import content, nginx_config
from trimtab.testbed._private import PrivateServer, worker_user
from trimtab.testbed.cgroup import Limits
from trimtab.testbed.nginx_config import NginxSpec

__all__ = ["NginxSpec", "NginxTestbed"]


class NginxTestbed(PrivateServer[NginxSpec]):
    """A private nginx; it answers as soon as it listens."""

    program_name = "nginx"
    _program = ""

    @property
    def status_url(self) -> str:
        """Its page of stub_status, where its specification asks for one."""
        return self.url("/nginx_status")

    @property
    def config_file(self) -> Path:
        """Its configuration."""
        return self.directory / "nginx.conf"

    def require_installed(self) -> None:
        """Finds the program.

        Raises:
            UsageError: nginx is not installed.
        """
        self._program = own.required("nginx", "nginx")

    def limits(self) -> Limits:
        """The specification's."""
        return Limits(cpus=self.spec.cpus, cpu_weight=self.spec.cpu_weight)

    def furnish(self) -> None:
        """Writes its directories and pages."""
        for name in ("logs", "run"):
            (self.directory / name).mkdir(mode=0o755)
        content.write(self.directory, content.specweb99(self.spec.specweb99_directories))

    def configured(self, ports: Sequence[int]) -> list[str]:
        """Writes its configuration, and gives its command."""
        directory = self.directory
        config, output = self.config_file, directory / "logs" / "output.log"
        config.write_text(nginx_config.text(self.spec, directory, ports[0], worker_user()), encoding="utf-8")
        return [self._program, "-p", os.fspath(directory), "-e", os.fspath(output), "-c", os.fspath(config)]

    def answers(self) -> bool:
        """Tries once to connect.

        Raises:
            OSError: it does not listen yet.
        """
        with socket.create_connection(("127.0.0.1", self.port), timeout=5):
            return True
