"""The server and the clients of sugiki2005's experiments (Section 5) on one machine.

512 workers, a keep-alive time of 15 s where nothing else is said, all other settings as shipped, and the two loads of
its Table 2. The server has a core of its own. What is scarce is workers: a request takes 0.15 ms of it, so it is a
fifth busy with 1200 clients. A worker is held through a page and for the keep-alive time, so 512 hold about 1200
clients of load (a) at 400 ms, 850 of load (b) at 800 ms, and not many more than themselves at 15 s. A new connection
costs the server next to nothing and the client a round trip of 100 ms.

Thoughts end at 20 s. All clients begin at once, and long thoughts are rare: with those of minutes it would take
minutes until as many clients are in one as there are on average, and a run be slower the later it is looked at.

Load (b) has wider intervals within a burst, as the paper's Fig. 11 shows them: there the network takes its time for
large files, here the gaps are drawn from LogNormal(0.55, 0.15) s. With the round trip they have their top at 550 to
600 ms, and the histogram falls below 5 % at 850 ms, where the paper's does.
"""

from __future__ import annotations

from dataclasses import replace

from trimtab.testbed.apache_config import ApacheSpec, Mpm
from trimtab.testbed.setups import server_cpus
from trimtab.workloads._population import Population, Step
from trimtab.workloads._specweb99_files import Mix
from trimtab.workloads.specweb99 import SpecWeb99

WORKERS = 512
THREADS = 32
"""Threads of a process, where there are any."""
DEFAULT_MS = 15_000
DIRECTORIES = 20
_THOUGHT = SpecWeb99(directories=DIRECTORIES, think_most_s=20.0)
LOADS = {
    Mix.STANDARD: replace(_THOUGHT, mix=Mix.STANDARD, class_name="standard"),
    Mix.LARGE: replace(_THOUGHT, mix=Mix.LARGE, class_name="large", gap_mean_s=0.55, gap_sigma_s=0.15),
}
"""Loads (a) and (b) of Table 2."""


def server(mpm: Mpm = "prefork", keep_alive_ms: int = DEFAULT_MS) -> ApacheSpec:
    """The server.

    Args:
        mpm: how it processes connections; the paper's is prefork.
        keep_alive_ms: its own keep-alive time; 0 for none.
    """
    return ApacheSpec(
        mpm=mpm,
        max_request_workers=WORKERS,
        server_limit=WORKERS if mpm == "prefork" else WORKERS // THREADS,
        threads_per_child=THREADS,
        keep_alive_timeout_ms=keep_alive_ms,
        specweb99_directories=DIRECTORIES,
        cpus=server_cpus(),
        cpu_weight=100,
    )


def clients(mix: Mix, users: int, steps: tuple[tuple[float, int], ...] = ()) -> tuple[Population, ...]:
    """The clients of one load.

    Args:
        mix: which.
        users: how many.
        steps: later numbers of them and since when, in seconds.
    """
    schedule = tuple(Step(at_s, count / users) for at_s, count in steps)
    return replace(LOADS[mix], users=users, schedule=schedule).populations()


def switch(users: int, at_s: float) -> tuple[Population, ...]:
    """Clients who go over from load (a) to load (b).

    Args:
        users: number of clients.
        at_s: time of the switch, in seconds.
    """
    first = replace(LOADS[Mix.STANDARD], users=users, schedule=(Step(at_s, 0.0),))
    second = replace(LOADS[Mix.LARGE], users=users, schedule=(Step(0.0, 0.0), Step(at_s, 1.0)))
    return first.population(), second.population()
