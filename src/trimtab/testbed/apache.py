"""A private Apache in a temporary directory, on loopback, confined where this machine allows it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from trimtab import own
from trimtab.errors import UsageError
from trimtab.testbed import apache_config, content
from trimtab.testbed._private import DIRECT, worker_user
from trimtab.testbed._swapped import SwappedServer
from trimtab.testbed.apache_config import ApacheSpec

__all__ = ["ApacheSpec", "ApacheTestbed"]

MODULE_DIRECTORIES = ("/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules")


class ApacheTestbed(SwappedServer[ApacheSpec]):
    """A private Apache; it answers when its status page comes.

    Attributes:
        status_url: its status page, on a port of its own, so with an accept queue of its own. The workers are
            shared: while all of them are busy the page waits for one to become free.
    """

    program_name = "apache2"
    ports_wanted = 2
    log = "logs/error.log"
    status_url = ""
    _program = ""
    _modules: Sequence[tuple[str, Path]] = ()

    @property
    def config_file(self) -> Path:
        """Its configuration."""
        return self.directory / "apache2.conf"

    @property
    def snippet_directory(self) -> Path:
        """`*.conf` in here are included last."""
        return self.directory / "conf-enabled"

    def require_installed(self) -> None:
        """Finds the program and its modules.

        Raises:
            UsageError: Apache or a module that is needed is not installed.
        """
        self._program, self._modules = program(), apache_config.modules(self.spec, module_directory())

    def furnish(self) -> None:
        """Writes its directories and pages."""
        directory = self.directory
        for name in ("logs", "run", "php", "conf-enabled"):
            (directory / name).mkdir(mode=0o755)
        more = (*content.surge(self.spec.surge_files), *content.specweb99(self.spec.specweb99_directories))
        content.write(directory, more)
        # Empty: PHP's own defaults, whatever the machine's php.ini says.
        (directory / "php" / "php.ini").write_text("memory_limit = 512M\n", encoding="ascii")

    def configured(self, ports: Sequence[int]) -> list[str]:
        """Writes its configuration, and gives its command."""
        both = (ports[0], ports[1])
        config = apache_config.text(self.spec, self.directory, self._modules, both, worker_user())
        self.config_file.write_text(config, encoding="utf-8")
        return [self._program, "-f", os.fspath(self.config_file), "-d", os.fspath(self.directory), "-DFOREGROUND"]

    def launched(self, ports: Sequence[int]) -> None:
        """Names its status page."""
        self.status_url = f"http://127.0.0.1:{ports[1]}/server-status"
        super().launched(ports)

    def answers(self) -> bool:
        """Tries once to get the status page.

        Raises:
            OSError: it does not come yet.
        """
        with DIRECT.open(f"{self.status_url}?auto", timeout=5):
            return True


def program() -> str:
    """Apache's binary.

    Raises:
        UsageError: it is not installed.
    """
    return own.required("apache2", "apache2", "httpd")


def module_directory() -> Path:
    """Where its modules are.

    Raises:
        UsageError: in none of the usual places.
    """
    found = next((Path(d) for d in MODULE_DIRECTORIES if Path(d).is_dir()), None)
    if found is None:
        raise UsageError(f"Apache's modules are in none of {', '.join(MODULE_DIRECTORIES)}; install apache2")
    return found
