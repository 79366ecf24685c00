"""A reload, from the signal until the new processes serve.

The master reads its configuration again at SIGHUP (https://nginx.org/en/docs/control.html). Where it is refused, the
master says so in its log and goes on as before, so only the new processes show that it was taken. The listening
sockets stay open all the while, and the old processes accept until 100 ms after the new ones were started: nobody is
refused.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from trimtab.core import Clock
from trimtab.errors import ApplyFailed
from trimtab.plants.nginx.process import Master, Worker, serving, workers


@dataclass(frozen=True)
class Patience:
    """How long to wait.

    Args:
        serve_s: for the new processes.
        drain_s: after that, for the old ones to finish.
    """

    serve_s: float = 20.0
    drain_s: float = 3.0


@dataclass(frozen=True)
class Generations:
    """The processes after a reload.

    Args:
        workers: processes that serve.
        old: earlier processes that still finish their requests.
    """

    workers: frozenset[Worker]
    old: frozenset[Worker]


def reload(master: Master, expected: int, clock: Clock, patience: Patience, counted: bool = False) -> Generations:
    """Reloads nginx and waits until the new processes are there.

    Args:
        master: its master process.
        expected: how many processes the configuration asks for.
        clock: for the wait.
        patience: how long.
        counted: whether nginx itself counts how many those are, so that in the end any number will do.

    Raises:
        ApplyFailed: they did not come in time.
        PlantGone: nginx ended.
        UsageError: not permitted.
    """
    before = workers(master)
    master.signal(signal.SIGHUP)
    if not master.awaited(clock, patience.serve_s, lambda: len(serving(master) - before) == expected):
        fresh = len(serving(master) - before)
        if not (fresh and counted):
            raise ApplyFailed(
                f"nginx has {fresh} new processes and not {expected}, {patience.serve_s:g} s after SIGHUP: "
                "its error log says why"
            )
    master.awaited(clock, patience.drain_s, lambda: not before & workers(master))
    return Generations(serving(master) - before, before & workers(master))
