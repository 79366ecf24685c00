"""A reload of Squid, from the signal until its worker listens again.

At SIGHUP the master sends its worker the same. The worker closes its listening ports, reads its configuration and
opens them anew; what it has accepted goes on, and what is in the memory cache stays (tried with Squid 5.7). While
nothing listens, about a millisecond on an idle machine, connections are refused, and those that waited to be accepted
are reset: some of those under 30 clients at once, unless the ports are held (`held`). A configuration that it refuses
ends the worker, which is why it is tested before.
"""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass
from pathlib import Path

from trimtab.core import Clock
from trimtab.errors import ApplyFailed, UsageError
from trimtab.plants.squid.held import held, hindrances
from trimtab.plants.squid.process import SquidMaster

_SNMP = Path("/proc/net/snmp")


@dataclass(frozen=True)
class Patience:
    """How long things may take, in seconds.

    Args:
        reload_s: until the ports are open again.
        page_s: until the manager's page answers.
    """

    reload_s: float = 20.0
    page_s: float = 5.0


def reload(master: SquidMaster, clock: Clock, patience: Patience) -> tuple[str, ...]:
    """Reloads Squid and waits until it listens again.

    Args:
        master: Squid's master.
        clock: for the waits.
        patience: how long to wait.

    Returns:
        What the user should know, one line each.

    Raises:
        ApplyFailed: it did not listen in time, or its worker has ended.
        PlantGone: it has ended.
        UsageError: not permitted.
    """
    worker, before, kept = master.worker(), master.ports(), not hindrances(master)
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


def _anew(master: SquidMaster, worker: int, before: dict[str, tuple[str, int]]) -> bool:
    """Whether the worker listens at new sockets, or another has taken its place."""
    try:
        if master.worker() != worker:
            return True
        now = master.ports()
    except UsageError:
        return False
    return not set(now) & set(before) and len(now) >= len(before)


def _resets() -> int:
    """Resets that this network namespace has sent so far."""
    names, numbers = (line.split() for line in _SNMP.read_text(encoding="ascii").splitlines() if line[:4] == "Tcp:")
    return int(numbers[names.index("OutRsts")])
