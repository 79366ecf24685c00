"""A graceful reload, from the signal until the new generation of children serves.

The signal goes to the parent process (SIGUSR1, https://httpd.apache.org/docs/2.4/stopping.html), which reads its
configuration again and starts a new generation of children; those of the old one finish their requests.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from trimtab.core import Clock
from trimtab.errors import ApplyFailed
from trimtab.plants.apache.process import Generations, Parent, generations
from trimtab.processes import descriptors

_POLL_S = 0.02
_QUIET_S = 5.0


@dataclass(frozen=True)
class Patience:
    """How long to wait.

    Args:
        reload_s: for the parent to have read its configuration again.
        serve_s: after that, for the first worker of the new generation.
        drain_s: after that, for the workers of the old one to finish.
        shrink_s: before prefork's limit is lowered, for the workers beyond it to finish.
        crowd_s: before a crowded prefork is reloaded, for its workers to finish their connections.
    """

    reload_s: float = 20.0
    serve_s: float = 20.0
    drain_s: float = 3.0
    shrink_s: float = 8.0
    crowd_s: float = 1.5


def reload(parent: Parent, clock: Clock, patience: Patience) -> Generations:
    """Reloads Apache and waits until the new generation is there.

    Returns:
        The children as they are at the end of the wait.

    Raises:
        ApplyFailed: no new generation came in time.
        PlantGone: Apache ended.
        UsageError: not permitted.
    """
    parent.check()
    before = _quiet(parent, clock)
    parent.signal(signal.SIGUSR1)
    fresh = _new_pipes(parent, before, clock, patience.reload_s)
    deadline = clock.now_s() + patience.serve_s
    while True:
        seen = generations(parent, fresh)
        if seen.workers:
            break
        parent.check()
        if clock.now_s() > deadline:
            if seen.old:  # they hold all the places until their requests are done
                return seen
            raise ApplyFailed(f"Apache started no new worker within {patience.serve_s:g} s of its reload")
        clock.sleep(_POLL_S)
    deadline = clock.now_s() + patience.drain_s
    while seen.old and clock.now_s() < deadline:
        clock.sleep(_POLL_S)
        parent.check()
        seen = generations(parent, fresh)
    return seen


def _quiet(parent: Parent, clock: Clock) -> frozenset[str]:
    """The pipes of the present generation, once a reload by somebody else that is under way has ended.

    In the middle of a reload Apache holds no pipe and may miss a second signal. A parent that never looks quiet,
    because it holds pipes of its own, is taken as it is.
    """
    deadline = clock.now_s() + _QUIET_S
    while True:
        pipes = descriptors(parent.pid, "pipe")
        if (pipes and generations(parent, pipes).workers) or clock.now_s() > deadline:
            return pipes
        parent.check()
        clock.sleep(_POLL_S)


def _new_pipes(parent: Parent, before: frozenset[str], clock: Clock, patience_s: float) -> frozenset[str]:
    """The pipes of the new generation, once the parent has read its configuration again."""
    deadline = clock.now_s() + patience_s
    while True:
        fresh = descriptors(parent.pid, "pipe") - before
        if fresh:
            return fresh
        parent.check()
        if clock.now_s() > deadline:
            raise ApplyFailed(f"Apache did not reload within {patience_s:g} s of SIGUSR1")
        clock.sleep(_POLL_S)
