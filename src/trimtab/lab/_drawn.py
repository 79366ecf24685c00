"""A drawn scenario on real servers: Apache with PHP in it, or PHP-FPM behind Apache or nginx."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import ModuleType

from trimtab.clock import SystemClock
from trimtab.core import Plant, PlantDefaults
from trimtab.lab import Arm, Context, World
from trimtab.lab._applications import WORKER_BYTES, check, furnish, require_installed, urls
from trimtab.lab._beds import WARM_S, aside, under_load
from trimtab.lab._scenario import DEBIAN_WORKERS, Scenario, draw
from trimtab.plants import apache, php_fpm
from trimtab.plants.apache import Apache
from trimtab.plants.php_fpm.plant import PhpFpm
from trimtab.plants.php_fpm.private import FpmSpec, FpmTestbed
from trimtab.testbed.apache import ApacheTestbed
from trimtab.testbed.apache_config import ApacheSpec
from trimtab.testbed.nginx import NginxTestbed
from trimtab.testbed.nginx_config import NginxSpec
from trimtab.testbed.setups import server_cpus
from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import Closed, Population

SPEED = 5.0
"""Times of the scenario over times here: a minute is five there, and all of a page's cost is divided too."""
SERVER_LIMIT = 512
"""Apache's ServerLimit: beyond any limit that is tried, so that none needs a restart."""
FPM_CHILDREN = 5
"""pm.max_children as Debian ships it."""
THREADS = 25
FIXED_SHARES = (0.15, 0.4, 1.0, 2.0)
"""The fixed settings, as shares of the workers whose hot memory fits: from few to more than memory holds."""


def hurried(seed: int) -> Scenario:
    """The scenario of a seed in the battery's time; an application costs what it costs."""
    drawn = draw(seed)
    times = {name: getattr(drawn, name) / SPEED for name in ("keep_alive_s", "think_s", "patience_s")}
    if drawn.application != "page":
        kept = WORKER_BYTES[drawn.application]
        return replace(drawn, **times, wait_s=0.0, lock_ratio=0.0, cold_ratio=0.0, worker_bytes=kept)
    return replace(drawn, **times, cpu_s=drawn.cpu_s / SPEED, wait_s=drawn.wait_s / SPEED)


def front(scenario: Scenario) -> str:
    """The server before PHP-FPM: drawn from a stream of its own, and only where the server has no PHP in it."""
    return Random(f"front/{scenario.seed}").choice(("nginx", "apache"))


def fixed_workers(scenario: Scenario) -> list[int]:
    """The limits that are tried as fixed settings."""
    most = SERVER_LIMIT - SERVER_LIMIT % THREADS
    return sorted({max(2, min(most, round(share * scenario.fitting_workers))) for share in FIXED_SHARES})


@dataclass(frozen=True)
class Drawn:
    """A scenario on a real server.

    Args:
        scenario: the scenario, in the battery's time.
        workers: the limit of workers in place of the scenario's own; None to leave it.
        alone: whether one client asks without think time, to measure the cost of a request.
        request_s: CPU time of a request as measured so; None before that.
    """

    scenario: Scenario
    workers: int | None = None
    alone: bool = False
    request_s: float | None = None

    @property
    def module(self) -> ModuleType:
        """The plant's module, which has its `DEFAULTS`."""
        return apache if self.scenario.php == "module" else php_fpm

    @property
    def defaults(self) -> PlantDefaults:
        """The defaults of its plant."""
        found: PlantDefaults = self.module.DEFAULTS
        return found

    def clients(self, duration_s: float) -> tuple[Population, ...]:
        """The clients.

        Args:
            duration_s: length of the run, in seconds.
        """
        scenario = self.scenario if self.request_s is None else replace(self.scenario, cpu_s=self.request_s)
        found = scenario.populations(duration_s, urls(self.scenario))
        if self.alone:
            return tuple(replace(p, arrivals=Closed(1), think_s=Constant(0.001), schedule=()) for p in found)
        return found

    @contextlib.contextmanager
    def open(self, arm: Arm, context: Context) -> Iterator[World]:
        """Starts the servers and their clients."""
        require_installed(self.scenario.application)
        served = self._in_apache() if self.scenario.php == "module" else self._in_fpm()
        with served as (plant, port, facts), aside(server_cpus()) as cpu:
            check(self.scenario, port)
            clients = self.clients(WARM_S + arm.duration_s)
            with under_load(plant, port, clients, WARM_S, arm, cpu, context) as loaded:
                yield World(loaded, {**facts, "application": self.scenario.application})

    @contextlib.contextmanager
    def _in_apache(self) -> Iterator[tuple[Plant, int, Mapping[str, str]]]:
        """Prefork with mod_php."""
        with _Apache(self.spec(), self.scenario.application) as bed:
            plant = Apache.attach(SystemClock(), bed.pid, bed.status_url, os.fspath(bed.snippet_directory))
            with contextlib.closing(plant):
                yield plant, bed.port, {"server": plant.server, "confinement": bed.confinement}

    @contextlib.contextmanager
    def _in_fpm(self) -> Iterator[tuple[Plant, int, Mapping[str, str]]]:
        """PHP-FPM, confined, behind a web server that is not."""
        scenario = self.scenario
        with _Fpm(self.pool(), scenario.application) as fpm, contextlib.ExitStack() as held:
            keep_alive_ms, cpus = round(1000 * scenario.keep_alive_s), server_cpus()
            if front(scenario) == "nginx":
                before: NginxTestbed | ApacheTestbed = _Nginx(
                    NginxSpec(fastcgi=fpm.nginx, keep_alive_timeout_ms=keep_alive_ms, cpus=cpus, cpu_weight=100),
                    scenario.application,
                    fpm.site,
                )
            else:
                before = _Apache(replace(self.spec(), fastcgi=fpm.apache), scenario.application, fpm.site)
            held.enter_context(before)
            plant = held.enter_context(contextlib.closing(PhpFpm.attach(SystemClock(), fpm.pid)))
            said = f"PHP-FPM behind {before.program_name}"
            yield plant, before.port, {"server": said, "confinement": fpm.confinement}

    def spec(self) -> ApacheSpec:
        """Apache, with PHP in it or in front of FPM, as Debian ships it."""
        scenario, inside = self.scenario, self.scenario.php == "module"
        workers = (self.workers or min(SERVER_LIMIT, scenario.max_request_workers)) if inside else DEBIAN_WORKERS
        pooled = scenario.pool == "debian" or not inside
        threaded = scenario.mpm != "prefork"
        start, spare = (2, (25, 75)) if threaded else (5, (5, 10))
        return ApacheSpec(
            mpm=scenario.mpm,  # type: ignore[arg-type]
            max_request_workers=workers,
            server_limit=SERVER_LIMIT // THREADS if threaded else SERVER_LIMIT,
            threads_per_child=THREADS,
            start_servers=min(start, workers) if pooled else workers,
            spare_workers=spare if pooled else None,
            keep_alive_timeout_ms=round(1000 * scenario.keep_alive_s),
            php=inside,
            memory_limit_bytes=round(scenario.memory_limit_bytes) if inside else None,
            swap=inside,
            cpus=server_cpus(),
            cpu_weight=100,
        )

    def pool(self) -> FpmSpec:
        """FPM's pool: Debian's, or a static one."""
        scenario, debian = self.scenario, self.scenario.pool == "debian"
        workers = self.workers or (FPM_CHILDREN if debian else min(SERVER_LIMIT, scenario.max_request_workers))
        return FpmSpec(
            pm="dynamic" if debian else "static",
            max_children=workers,
            start_servers=min(2, workers),
            spare_servers=(1, min(3, workers)),
            memory_limit_bytes=round(scenario.memory_limit_bytes),
            swap=True,
            cpus=server_cpus(),
            cpu_weight=100,
        )


class _Serving:
    """A testbed with an application in it.

    Args:
        spec: the server.
        application: the application.
        site: where the application is already; None to put it into the testbed's own directory.
    """

    directory: Path

    def __init__(self, spec: object, application: str, site: Path | None = None) -> None:
        self._application = application
        self.site = site
        self.found: dict[str, str] = {}
        super().__init__(spec, environment=lambda port: self.found)  # type: ignore[call-arg]

    def furnish(self) -> None:
        """Puts it there, and its pages among the server's."""
        super().furnish()  # type: ignore[misc]
        if self.site is None:
            self.site = self.directory / "site"
            self.site.mkdir(mode=0o755)
            self.found = furnish(self._application, self.site)
        if self._application != "page" and (self.directory / "htdocs").exists():
            (self.directory / "htdocs" / self._application).symlink_to(self.site / self._application)


class _Apache(_Serving, ApacheTestbed):
    """Apache with an application."""


class _Nginx(_Serving, NginxTestbed):
    """nginx with an application."""


class _Fpm(_Serving, FpmTestbed):
    """FPM with the settings and the modules that an application needs."""

    def configured(self, ports: Sequence[int]) -> list[str]:
        """Options of PHP: without php.ini, but with the extensions loaded beside it."""
        self.spec = replace(self.spec, more=tuple(f"env[{name}] = {value}" for name, value in self.found.items()))
        command = super().configured(ports)
        return [word for part in command for word in (("-c", f"{self.site}/none") if part == "-n" else (part,))]
