"""The server that the simulator plays and the traffic that it gets when none is named."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from trimtab.core import Domain, How, Knob, Role
from trimtab.workloads._lu2001 import WORKERS, keep_alive_time_ms
from trimtab.workloads._population import Url, required
from trimtab.workloads.wagon import Wagon

MIB = 2**20
PAGE = Url("/page.php")


class Traffic(Protocol):
    """A population of clients that can cross the border to the native programs."""

    def to_wire(self) -> dict[str, Any]:
        """The population as the wire's `Population`."""
        ...


@dataclass(frozen=True)
class SimulatedServer:
    """The server to simulate; the defaults mirror the testbed: prefork and PHP on one core under a limit of 400 MB.

    Args:
        max_request_workers: worker limit at the start; Apache's default.
        server_limit: largest worker limit that can be set; Apache's ServerLimit.
        keep_alive_timeout_ms: how long an idle connection holds its worker, in milliseconds; scaled as the
            think times are.
        accept_queue: connections that can wait to be accepted; Apache's ListenBacklog.
        cores: cores that the workers share.
        memory_limit_bytes: memory that the server may use, in bytes.
        base_memory_bytes: memory without workers, in bytes.
        worker_memory_bytes: memory per worker that has served, busy or idle, in bytes; a tenth until then.
        cold_ratio: share of it that no request touches again.
        start_workers: workers started with the server, from then on by the rules of Apache's prefork; its
            StartServers. 0: workers are there the moment they are needed.
        min_spare_workers: idle workers below which more are started; Apache's MinSpareServers.
        spare_workers: idle workers that stay; Apache's MaxSpareServers.
        swap_bytes_hz: bytes per second that one core brings back from swap; fitted to a prefork with swap on zram.
        request_cpu_s: CPU seconds of a request whose URL names none.
        other_s: service time off the cores per request, in seconds.
        lock_ratio: share of a request under a lock that one worker holds at a time.
        status_timeout_s: wait in the accept queue from which the status page does not answer; 0 for always.
        exponential_service: True for exponential CPU times, False for constant ones.
        reload_s: seconds until a change is in force.
    """

    max_request_workers: int = 150
    server_limit: int = 256
    keep_alive_timeout_ms: int = 500
    accept_queue: int = 511
    cores: float = 1.0
    memory_limit_bytes: float = 400.0 * MIB
    base_memory_bytes: float = 40.0 * MIB
    worker_memory_bytes: float = 12.0 * MIB
    cold_ratio: float = 0.0
    start_workers: int = 0
    min_spare_workers: int = 0
    spare_workers: int = 10
    swap_bytes_hz: float = 3e8
    request_cpu_s: float = 0.0022
    other_s: float = 0.0
    lock_ratio: float = 0.0
    status_timeout_s: float = 0.0
    exponential_service: bool = True
    reload_s: float = 0.2

    def check(self) -> None:
        """Refuses what no message to the simulator can say; it names what else it cannot play.

        Raises:
            UsageError: a number is not finite, or a count is none.
        """
        for name, value in asdict(self).items():
            count = isinstance(getattr(SimulatedServer, name), int)
            fits, allowed = (0 <= value < 2**32, "0 to 2^32 - 1") if count else (math.isfinite(value), "finite")
            required(fits, f"simulated server: {name}", f"{value:g}", allowed)
        required(self.cores > 0, "simulated server: cores", f"{self.cores:g}", "more than 0")

    def to_wire(self) -> dict[str, Any]:
        """This server as the wire's `Server`."""
        fields = asdict(self)
        del fields["server_limit"], fields["request_cpu_s"]
        return fields

    def knobs(self) -> tuple[Knob, ...]:
        """The two knobs with the domains that hold for this server."""
        cost = "idle connections are closed; the clients open new ones"
        return (
            Knob(
                name="max_request_workers",
                native_name="MaxRequestWorkers",
                unit="workers",
                domain=Domain(
                    1, self.server_limit, 1, "ServerLimit; a larger one needs a restart with a larger ServerLimit"
                ),
                default=150,
                how=How.RELOAD,
                cost=cost,
                description="Most connections served at the same time; the others wait in the accept queue.",
                role=Role.WORKER_LIMIT,
            ),
            Knob(
                name="keep_alive_timeout_ms",
                native_name="KeepAliveTimeout",
                unit="ms",
                domain=Domain(0, 60_000),
                default=5_000,
                how=How.RELOAD,
                cost=cost,
                description="How long an idle connection holds its worker before the server closes it.",
                role=Role.KEEP_ALIVE,
            ),
        )


def holding(workers: int) -> tuple[str, ...]:
    """The fields, as a user writes them, of a server that holds so many connections and no more."""
    return f"max_request_workers={workers}", f"server_limit={workers}"


def lu2001_server(time_scale: float = 1.0) -> SimulatedServer:
    """The server of lu2001's experiments: 128 workers of Apache for static files, in a memory that holds them.

    Args:
        time_scale: divides the keep-alive time.
    """
    return SimulatedServer(
        max_request_workers=WORKERS,
        keep_alive_timeout_ms=keep_alive_time_ms(time_scale),
        worker_memory_bytes=0.56 * MIB,
        request_cpu_s=0.0002,
    )


def default_traffic(server: SimulatedServer) -> tuple[Traffic, ...]:
    """WAGON sessions, think times scaled by 30, at the rate that keeps the server's cores busy for 70 % of the time.

    Args:
        server: gives the cores and the CPU time of a request; its memory is to suffice.
    """
    table = Wagon()
    requests_per_session = table.session_pages_mean * table.burst_mean
    session_rate_hz = 0.7 * server.cores / (server.request_cpu_s * requests_per_session)
    scale = session_rate_hz * table.session_gap_mean_s
    return Wagon(class_name="dynamic", time_scale=30.0, rate_scale=scale, urls=(PAGE,)).populations()


def costed(population: dict[str, Any], request_cpu_s: float) -> dict[str, Any]:
    """The population with a CPU cost for every URL."""
    for mix in ("pages", "objects"):
        population[mix] = [{**url, "cpu_s": url["cpu_s"] or request_cpu_s} for url in population[mix]]
    return population
