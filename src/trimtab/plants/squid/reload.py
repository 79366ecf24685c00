"""A reload of Squid, from the signal until its worker listens again.

At SIGHUP the master sends its worker the same. The worker closes its listening ports, reads its configuration and
opens them anew; what it has accepted goes on, and what is in the memory cache stays (tried with Squid 5.7). While
nothing listens, about a millisecond on an idle machine and as long as it reads its lists where they are long,
connections are refused, and those that waited to be accepted are reset: some of those under 30 clients at once,
unless the ports are held (`held`). A configuration that it refuses ends the worker, so it is tested before.

What only a start reads takes a new worker. Squid's master replaces one that was killed at once, unless five in turn
have lived for less than ten seconds, which it forgets at each reload (src/ipc/Kid.cc); so a reload goes before. The
connections that the worker had open are lost with it, and what was in memory; those that wait are not, where the
ports are held. A worker with a cache_dir is never killed: its index on disk would be left dirty.
"""

from __future__ import annotations

import contextlib
import math
import signal
from dataclasses import dataclass, replace
from pathlib import Path

from trimtab.core import Clock
from trimtab.errors import ApplyFailed, ApplyLater, UsageError
from trimtab.plants.squid.held import held, hindrances
from trimtab.plants.squid.process import SquidMaster

_SNMP = Path("/proc/net/snmp")
_TIMES = 4
"""A reload took one and a half times as long as the test with 300,000 domains, on a machine that had other work."""


@dataclass(frozen=True)
class Patience:
    """How long things may take, in seconds.

    Args:
        reload_s: until the ports are open again.
        page_s: until the manager's page answers.
    """

    reload_s: float = 20.0
    page_s: float = 5.0

    def also(self, reading_s: float) -> Patience:
        """Patience with a Squid that takes so long to read its configuration; one not known to is no other."""
        return self if math.isinf(reading_s) else replace(self, reload_s=max(self.reload_s, _TIMES * reading_s))


def reload(master: SquidMaster, clock: Clock, patience: Patience) -> tuple[str, ...]:
    """Reloads Squid and waits until it listens again.

    Args:
        master: Squid's master.
        clock: for the waits.
        patience: how long to wait.

    Returns:
        What the user should know, one line each.

    Raises:
        ApplyLater: somebody else's reload is under way and does not end; it was not asked to.
        ApplyFailed: it did not listen in time, or its worker has ended.
        PlantGone: it has ended.
        UsageError: not permitted.
    """
    if not (before := master.awaited(clock, patience.reload_s, master.ports)):
        raise ApplyLater(f"Squid has listened nowhere for {patience.reload_s:g} s, as in a reload: not reloaded")
    worker, kept = master.worker(), not hindrances(master)
    resets, began_s = _resets(), clock.now_s()
    with held(master) if kept else contextlib.nullcontext():
        master.signal(signal.SIGHUP)
        anew = master.awaited(clock, patience.reload_s, lambda: _anew(master, worker, before))
    if not anew:
        raise ApplyFailed(f"Squid did not open its ports again within {patience.reload_s:g} s")
    if master.worker() != worker:
        raise ApplyFailed("Squid's worker has ended in the reload, and another took its place with an empty cache")
    if kept:
        return ()
    took_s, lost = clock.now_s() - began_s, _resets() - resets
    return (
        f"at most {lost} connections were refused or reset by the reload: as many resets left this machine within "
        f"{1000 * took_s:.0f} ms",
    )


def restart(master: SquidMaster, clock: Clock, patience: Patience) -> tuple[str, ...]:
    """Has the master replace its worker; right after a reload.

    Args:
        master: Squid's master.
        clock: for the waits.
        patience: how long to wait.

    Returns:
        What the user should know, one line each.

    Raises:
        ApplyFailed: no other worker listens in time.
        PlantGone: it has ended.
        UsageError: not permitted.
    """
    worker, before, lost = master.worker(), master.ports(), master.open_connections()
    with contextlib.nullcontext() if hindrances(master) else held(master):
        master.signal_child(worker, signal.SIGKILL)
        if not master.awaited(clock, patience.reload_s, lambda: _replaced(master, worker, before)):
            raise ApplyFailed(f"no new worker of Squid listens within {patience.reload_s:g} s")
    return (f"the worker was replaced: {lost} connections that it had open were ended, and its memory is empty",)


def _replaced(master: SquidMaster, worker: int, before: dict[str, tuple[str, int]]) -> bool:
    """Whether another worker listens."""
    try:
        return master.worker() != worker and len(master.ports()) >= len(before)
    except UsageError:
        return False


def _anew(master: SquidMaster, worker: int, before: dict[str, tuple[str, int]]) -> bool:
    """Whether the worker listens at new sockets, or another has taken its place."""
    try:
        if master.worker() != worker:
            return True
        now = master.ports()
    except UsageError:
        return False
    return bool(now) and not set(now) & set(before) and len(now) >= len(before)


def _resets() -> int:
    """Resets that this network namespace has sent so far."""
    names, numbers = (line.split() for line in _SNMP.read_text(encoding="ascii").splitlines() if line[:4] == "Tcp:")
    return int(numbers[names.index("OutRsts")])
