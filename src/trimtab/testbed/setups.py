"""Two set-ups on one Apache, dynamic and static, in which liu2003's trade-off can be seen on today's machines.

Both have the same server, so that the workload can change in mid-run: prefork with mod_php on one CPU, a memory
limit in place of a Pentium's 256 MB, swap on zram in place of its disk. Time runs 60 times as fast as in the paper:
KeepAliveTimeout 250 ms for 15 s, a mean think time of 0.5 s for 30 s, a client that gives up after 1 s for a minute.

Too few workers: each holds its connection for a page and then for what is left of KeepAliveTimeout, so pages wait in
the accept queue. Too many: their memory exceeds the limit, and every page first brings memory back from swap.
A worker costs 0.56 MB with static files, of which 0.25 MB is the kernel's, and 6.5 MB once it has served the dynamic
page. So 256 MiB hold about 40 workers of the dynamic workload, which needs 16, and about 480 of the static one, which
needs 170; Debian's default of 150 is far too many for the first and too few for the second.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from trimtab.testbed.apache_config import ApacheSpec
from trimtab.testbed.content import WEBSTONE, dynamic_url
from trimtab.workloads._population import Population, Step, Url
from trimtab.workloads.wagon import Wagon

TIME_SCALE = 60.0
PAPER_KEEP_ALIVE_TIMEOUT_S = 15.0
CLIENT_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Setup:
    """A server and the workload on it.

    Args:
        name: its name.
        spec: the server; `max_request_workers` is the shipped default.
        workload: its clients.
        sweep: values of MaxRequestWorkers from end to end, for a sweep.
        reference: a value from the middle of the valley that the sweep shows, with which methods are compared.
    """

    name: str
    spec: ApacheSpec
    workload: Wagon
    sweep: tuple[int, ...]
    reference: int


def server_cpus() -> tuple[int, ...] | None:
    """The CPU for the server, or None when there is only one for all."""
    cpus = sorted(os.sched_getaffinity(0))
    return (cpus[0],) if len(cpus) > 1 else None


SPEC = ApacheSpec(
    mpm="prefork",
    max_request_workers=150,
    server_limit=700,
    keep_alive_timeout_ms=round(PAPER_KEEP_ALIVE_TIMEOUT_S / TIME_SCALE * 1000),
    # Bounds the requests that wait at the end, so that a setting that thrashes costs seconds, not minutes.
    listen_backlog=64,
    php=True,
    memory_limit_bytes=256 * 2**20,
    swap=True,
    cpus=server_cpus(),
    # Other programs on the machine are not to take the server's CPU from it.
    cpu_weight=100,
)

DYNAMIC = Setup(
    "dynamic",
    SPEC,
    Wagon(
        class_name="dynamic",
        urls=(Url(dynamic_url(cpu_us=300, memory_kb=3400), cpu_s=0.0011),),
        timeout_s=CLIENT_TIMEOUT_S,
        time_scale=TIME_SCALE,
        rate_scale=0.85,
    ),
    (4, 8, 16, 24, 32, 40, 48, 64, 150),
    32,
)

STATIC = Setup(
    "static",
    SPEC,
    Wagon(
        class_name="static",
        urls=tuple(Url(f.path, f.weight) for f in WEBSTONE),
        timeout_s=CLIENT_TIMEOUT_S,
        time_scale=TIME_SCALE,
        rate_scale=11.0,
    ),
    (32, 64, 150, 200, 300, 450, 600, 700),
    450,
)

SETUPS = {s.name: s for s in (DYNAMIC, STATIC)}


def switch(at_s: float) -> tuple[Population, ...]:
    """The populations of a workload that changes in mid-run from dynamic to static, on the server that both share.

    Args:
        at_s: when new sessions become those of the second, in seconds from the start.
    """
    first = replace(DYNAMIC.workload, schedule=(Step(at_s, 0.0),))
    second = replace(STATIC.workload, schedule=(Step(0.0, 0.0), Step(at_s, 1.0)))
    return first.population(), second.population()
