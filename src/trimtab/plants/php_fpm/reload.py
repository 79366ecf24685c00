"""A reload of FPM, from the signal until the new generation serves.

At SIGUSR2 the master asks all workers of all pools to end (SIGQUIT), waits for them for process_control_timeout at
most, ends those that are left, and executes itself with the listening sockets kept. A worker that was asked
ends when its request is done. What was tried with PHP 8.2, and what follows from it:

- With process_control_timeout = 0, as shipped, the workers are ended at once: requests in progress are lost, their
  connections reset. With a time given, they finish; a sleep() in a script is cut short by the signal.
- Connections wait in the queue of the kernel meanwhile and are served afterwards, at a Unix socket as over TCP.
- All pools wait for the slowest request of any of them: that is how long nothing is served. Hundreds of workers who
  are asked at once hinder one another so much that the time given is not enough: see `drain`.
- A worker that has replied waits until the web server closes; the signal ends that wait too. Over a Unix socket a web
  server that has not sent the request's last, empty record by then is refused it: Apache sends that one by a write of
  its own, and answers 503 then (docs/php-fpm.md says how rarely). nginx sends all in one write; TCP keeps the reply.
- A pool begins with start_servers workers (dynamic) or with none (ondemand), and grows from there.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from trimtab.core import Clock
from trimtab.errors import ApplyFailed
from trimtab.plants._standstill import Standstill
from trimtab.plants.php_fpm.drain import drained
from trimtab.plants.php_fpm.process import FpmMaster


@dataclass(frozen=True)
class Patience:
    """How long things may take, in seconds.

    Args:
        drain_s: until idle workers have ended who are asked before the reload.
        reload_s: beyond process_control_timeout, until the master has executed itself.
        serve_s: until the workers of the new generation are there.
        page_s: until the status page answers: longer it only waits in the queue of a pool that is busy, and meanwhile
            nothing is seen or done.
    """

    drain_s: float = 10.0
    reload_s: float = 10.0
    serve_s: float = 10.0
    page_s: float = 1.0


def reload(
    master: FpmMaster,
    pool: str,
    busy: int,
    least: int,
    timeout_s: float,
    clock: Clock,
    patience: Patience,
    standstill: Standstill,
) -> int:
    """Reloads FPM and waits until the pool has its first workers.

    Args:
        master: FPM's master.
        pool: the pool.
        busy: its busy workers.
        least: workers that it must have then.
        timeout_s: process_control_timeout.
        clock: for the waits.
        patience: how long to wait.
        standstill: begins with the signal and ends with the pool's first worker.

    Returns:
        Workers of the pool at the end of the wait.

    Raises:
        ApplyFailed: it did not reload, or its workers did not come, in time.
        PlantGone: it has ended.
        UsageError: not permitted.
    """
    before, look = master.generation(), standstill.during
    with drained(master, pool, busy, clock, patience.drain_s):
        standstill.begin()
        master.signal(signal.SIGUSR2)
    if not master.awaited(clock, timeout_s + patience.reload_s, lambda: look(master.anew(before))):
        raise ApplyFailed(f"PHP-FPM did not reload within {timeout_s + patience.reload_s:g} s")
    master.awaited(clock, patience.serve_s, lambda: look(len(master.workers(pool)) >= min(1, least)))
    standstill.end()
    if not master.awaited(clock, patience.serve_s, lambda: look(len(master.workers(pool)) >= least)):
        raise ApplyFailed(f"{len(master.workers(pool))} workers of pool {pool} run after the reload, not {least}")
    return len(master.workers(pool))
