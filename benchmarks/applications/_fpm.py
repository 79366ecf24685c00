"""Scripts of PHP-FPM, in Debian's pool behind nginx, that ask a server which works on 20 requests at a time.

Each asks once, works for some 3 ms, and answers as it was answered: where it was refused with status 500.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from _backend import SLOTS, TIME_S
from _proxy import PAGE_REQUESTS, backend
from _site import MIB, Site, checked

from trimtab.clock import SystemClock
from trimtab.core import Plant, PlantDefaults
from trimtab.plants import php_fpm
from trimtab.plants.php_fpm.plant import PhpFpm
from trimtab.plants.php_fpm.private import FpmSpec, FpmTestbed
from trimtab.testbed.apache import ApacheSpec
from trimtab.testbed.nginx import NginxTestbed
from trimtab.testbed.nginx_config import NginxSpec
from trimtab.workloads._population import Url

SCRIPT = """<?php
$other = fsockopen('127.0.0.1', {port});
fwrite($other, "GET /page HTTP/1.1\\r\\nHost: behind\\r\\n\\r\\n");
$status = fgets($other);
while (($line = fgets($other)) !== "\\r\\n") if (sscanf($line, 'Content-Length: %d', $length)) $size = $length;
$body = stream_get_contents($other, $size);
for ($turn = 0; $turn < 20000; $turn++) $sum = md5($turn);
if (!strpos($status, '200')) http_response_code(500);
echo strpos($status, '200') ? $body : 'Error establishing a database connection';
"""


class Front(NginxTestbed):
    """nginx, which passes scripts on.

    Args:
        spec: the server.
        fpm: to whom.
        port: whom the script asks.
    """

    def __init__(self, spec: NginxSpec, fpm: FpmTestbed, port: int) -> None:
        self.fpm = fpm
        self._script = SCRIPT.format(port=port)
        super().__init__(spec)

    def furnish(self) -> None:
        """Writes the script."""
        super().furnish()
        (self.directory / "htdocs" / "page.php").write_text(self._script, encoding="ascii")


@dataclass(frozen=True)
class Behind:
    """What is behind the scripts, as an application.

    Args:
        kind: of `_backend`.
    """

    kind: str
    SHIPPED: Path = Path("/usr/lib/php")
    MARK: str = "test"
    MEMORY_BYTES: int = 1024 * MIB
    PAGE_S: float = PAGE_REQUESTS * TIME_S / SLOTS
    DEFAULTS: PlantDefaults = php_fpm.DEFAULTS

    @contextlib.contextmanager
    def serving(self, spec: ApacheSpec, behind_cores: float) -> Iterator[tuple[Front, Site]]:
        """Starts all three.

        Args:
            spec: of an Apache with the same limits.
            behind_cores: of no account: the other server only waits.

        Raises:
            TrimtabError: the other one does not start.
        """
        limit = spec.memory_limit_bytes
        pool = FpmSpec(memory_limit_bytes=limit, swap=True, cpus=spec.cpus, cpu_weight=spec.cpu_weight)
        with backend(self.kind) as port, FpmTestbed(pool) as fpm:
            front = NginxSpec(fastcgi=fpm.nginx, keep_alive_timeout_ms=spec.keep_alive_timeout_ms, cpus=spec.cpus)
            with Front(front, fpm, port) as bed:
                site = Site((Url("/page.php"),), (Url("/page.php?file"),))
                checked(bed, site.pages[0], "pppp")
                yield bed, site

    def attached(self, bed: Front) -> tuple[Plant, dict[str, str]]:
        """The FPM as a plant, and what is known of it."""
        plant = PhpFpm.attach(SystemClock(), bed.fpm.pid)
        return plant, {"server": "PHP-FPM behind nginx", "confinement": bed.fpm.confinement}
