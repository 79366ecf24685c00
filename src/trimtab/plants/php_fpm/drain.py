"""Ends most idle workers of a large pool before FPM is reloaded, while the others serve.

In a reload FPM asks all workers to end at once. Each needs some memory of its own to end. Hundreds at once need more
than there is, wait for swap, and none is done before process_control_timeout, after which FPM ends them with what
they serve: with 354 workers in 220 MiB it took 11.6 s. Asked a few at a time they took 4 to 5 s, the others served
meanwhile, and the reload itself took 0.3 s.

The master would start another worker for each that ends. So it is held still by ptrace until it has been asked to
reload. It only starts, counts and ends workers, who accept and serve by themselves. Should trimtab be killed
meanwhile, the master goes on (`held`), finds the workers that have ended and starts others in their place.
The master reads what it was told in the order of the signals' numbers: the reload (12) before its children's ends
(17), so it starts none of the old configuration.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from trimtab.core import Clock
from trimtab.plants._held import held
from trimtab.plants.php_fpm.process import FpmMaster

CROWD = 60
"""Workers from which it is worth it: as many end in 0.4 s."""
LEFT = 20
"""Workers that stay at least: as many end in a quarter of a second."""
_AT_ONCE = 4
"""So few fit into memory that is short, and more take as long on one core."""
_POLL_S = 0.01


def left(workers: float, busy: float) -> float:
    """How many workers a reload has to end at once.

    Most of a large pool must be idle: a worker who is asked while it serves holds the others up.

    Args:
        workers: of the pool.
        busy: of them.
    """
    return workers if workers <= CROWD or busy > workers / 2 else max(LEFT, 2 * busy)


@contextlib.contextmanager
def drained(master: FpmMaster, pool: str, busy: int, clock: Clock, patience_s: float) -> Iterator[None]:
    """Holds the master still with few workers left in the pool, until the end of the context.

    Where that is not worth it, or the master may not be held (ptrace is forbidden, or a debugger has it), nothing is
    done.

    Args:
        master: FPM's master.
        pool: the pool.
        busy: its busy workers.
        clock: for the waits.
        patience_s: how long to wait for workers who were asked.

    Raises:
        PlantGone: it has ended.
    """
    workers = master.workers(pool)
    stay = round(left(len(workers), busy))
    if stay >= len(workers):
        yield
        return
    with held(master) as still:
        if still:
            _end(master, pool, stay, clock, patience_s)
        yield


def _end(master: FpmMaster, pool: str, stay: int, clock: Clock, patience_s: float) -> None:
    """Asks workers to end, a few at a time, until so many are left."""
    waiting, asked = list(master.workers(pool)), set[int]()
    deadline_s = clock.now_s() + patience_s
    while clock.now_s() < deadline_s:
        there = set(master.workers(pool))
        asked &= there
        if len(there) <= stay:
            return
        while waiting and len(asked) < min(_AT_ONCE, len(there) - stay):
            worker = waiting.pop()
            asked.add(worker)
            master.signal_child(worker, signal.SIGQUIT)
        clock.sleep(_POLL_S)
