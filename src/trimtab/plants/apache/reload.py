"""A graceful reload, from the signal until the new generation of children serves.

The signal goes to the parent process (SIGUSR1, https://httpd.apache.org/docs/2.4/stopping.html), which reads its
configuration again and starts a new generation of children; those of the old one finish their requests.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from trimtab.core import Clock
from trimtab.errors import ApplyFailed
from trimtab.plants._standstill import Standstill
from trimtab.plants.apache.process import Generations, Parent, generations
from trimtab.processes import descriptors

_QUIET_S = 5.0
_NOBODY = Generations((), ())


@dataclass(frozen=True)
class Patience:
    """How long to wait.

    Args:
        reload_s: for the parent to have read its configuration again.
        serve_s: after that, for the first worker of the new generation.
        drain_s: after that, for the workers of the old one to finish.
        shrink_s: before prefork's limit is lowered, for the workers beyond it to finish.
        crowd_s: before a crowded prefork is reloaded, for its workers to finish their connections.
        notice_s: the same where its limit is lowered, and it must have noticed, which it does once a second.
    """

    reload_s: float = 20.0
    serve_s: float = 20.0
    drain_s: float = 3.0
    shrink_s: float = 8.0
    crowd_s: float = 1.5
    notice_s: float = 2.5


def quiet(parent: Parent, clock: Clock) -> frozenset[str]:
    """The pipes of a parent's present generation, once no reload is under way.

    In the middle of a reload by somebody else Apache holds no pipe and may miss a second signal. A parent that never
    looks quiet, because it holds pipes of its own, is taken as it is.

    Args:
        parent: Apache's parent process.
        clock: for the wait.

    Raises:
        PlantGone: Apache has ended.
    """
    return parent.awaited(clock, _QUIET_S, lambda: _quiet(parent)) or descriptors(parent.pid, "pipe")


def reload(
    parent: Parent, clock: Clock, patience: Patience, standstill: Standstill, pipes: frozenset[str]
) -> Generations:
    """Reloads Apache and waits until the new generation is there.

    Args:
        parent: its parent process.
        clock: for the waits.
        patience: how long to wait.
        standstill: begins with the signal, unless it has begun, and ends with the first new worker.
        pipes: those of the present generation, from before its workers were asked to finish: while there is no
            worker Apache does not look quiet until it has started one, a second later and perhaps in a slot that is
            to be given up.

    Returns:
        The children as they are at the end of the wait.

    Raises:
        ApplyFailed: no new generation came in time.
        PlantGone: Apache ended.
        UsageError: not permitted.
    """
    parent.check()
    before = pipes if descriptors(parent.pid, "pipe") == pipes else quiet(parent, clock)
    standstill.begin()
    parent.signal(signal.SIGUSR1)
    look = standstill.during

    def opened() -> frozenset[str]:
        pipes = look(descriptors(parent.pid, "pipe") - before)
        return pipes if len(pipes) >= parent.buckets else frozenset()

    def now() -> Generations:
        """The children of the newest generation: somebody else may reload Apache too, and then it holds no pipe."""
        return generations(parent, pipes) if (pipes := opened()) else _NOBODY

    if not parent.awaited(clock, patience.reload_s, opened):
        raise ApplyFailed(f"Apache did not reload within {patience.reload_s:g} s of SIGUSR1")
    served = parent.awaited(clock, patience.serve_s, lambda: now().workers)
    standstill.end()
    if served:
        parent.awaited(clock, patience.drain_s, lambda: not now().old)

    def settled() -> Generations:
        return seen if (seen := now()).workers or not served else _NOBODY

    # Old ones may hold all the slots until their requests are done. Where there is no child at all, what looked like
    # a worker was mod_cgid's helper, which holds the sockets until it first runs.
    seen = parent.awaited(clock, patience.serve_s, settled) or now()
    if not seen:
        raise ApplyFailed(f"Apache started no new worker within {patience.serve_s:g} s of its reload")
    return seen


def _quiet(parent: Parent) -> frozenset[str]:
    """The pipes of the present generation; none while a reload is under way."""
    pipes = descriptors(parent.pid, "pipe")
    return pipes if pipes and generations(parent, pipes).workers else frozenset()
