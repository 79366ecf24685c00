"""Apache, with Debian's access log, as a proxy of a server that works on 20 requests at a time, which are too few.

No setting of Apache's makes that server faster. More workers wait there instead of in Apache's accept queue.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from _backend import SLOTS, TIME_S
from _site import MIB, Site, checked

from trimtab.errors import TrimtabError
from trimtab.testbed._private import free_ports
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed, module_directory
from trimtab.testbed.apache_config import Mpm
from trimtab.workloads._population import Url

APACHE_CONFIGURATION = """
<IfModule !proxy_module>
LoadModule proxy_module {modules}/mod_proxy.so
</IfModule>
<IfModule !proxy_http_module>
LoadModule proxy_http_module {modules}/mod_proxy_http.so
</IfModule>
ProxyPass /behind http://127.0.0.1:{port}/behind
LogFormat "%h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined
CustomLog logs/access.log combined
"""
PAGE_REQUESTS = 4.0
END_S = 10.0


class Proxy(ApacheTestbed):
    """Apache with the other server behind it.

    Args:
        spec: the server.
        port: where the other one listens.
    """

    def __init__(self, spec: ApacheSpec, port: int) -> None:
        self._port = port
        super().__init__(spec)

    def furnish(self) -> None:
        """Writes its configuration."""
        super().furnish()
        text = APACHE_CONFIGURATION.format(modules=module_directory(), port=self._port)
        (self.snippet_directory / "proxy.conf").write_text(text, encoding="ascii")


@dataclass(frozen=True)
class Behind:
    """What is behind the proxy, as an application.

    Args:
        kind: of `_backend`.
        mpm: how Apache processes.
    """

    kind: str
    mpm: Mpm = "prefork"
    SHIPPED: Path = Path("/usr/lib/apache2/modules")
    MARK: str = "test"
    MEMORY_BYTES: int = 1024 * MIB
    PAGE_S: float = PAGE_REQUESTS * TIME_S / SLOTS

    @contextlib.contextmanager
    def serving(self, spec: ApacheSpec, behind_cores: float) -> Iterator[tuple[ApacheTestbed, Site]]:
        """Starts both.

        Args:
            spec: its Apache.
            behind_cores: of no account: the other server only waits.

        Raises:
            TrimtabError: the other one does not start.
        """
        with backend(self.kind) as port, Proxy(spec, port) as bed:
            site = Site((Url("/behind/page"),), (Url("/behind/file"),))
            checked(bed, site.pages[0], "pppp")
            yield bed, site


@contextlib.contextmanager
def backend(kind: str) -> Iterator[int]:
    """The other server; gives its port.

    Args:
        kind: of `_backend`.

    Raises:
        TrimtabError: it does not start.
    """
    (port,) = free_ports(1)
    command = [sys.executable, os.fspath(Path(__file__).with_name("_backend.py")), kind, str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as behind:
        try:
            assert behind.stdout is not None
            if behind.stdout.readline() != b"ready\n":
                raise TrimtabError("the server behind does not start")
            yield port
        finally:
            behind.terminate()
            behind.wait(END_S)
