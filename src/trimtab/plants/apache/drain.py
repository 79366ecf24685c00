"""Makes a smaller MaxRequestWorkers harmless for prefork: empties the slots beyond it before the reload.

A prefork parent looks only at the slots below its present limit when a child ends (`ap_find_child_by_pid` in
server/mpm_common.c asks for AP_MPMQ_MAX_DAEMON_USED, which prefork answers with the limit). Children that end after a
reload to a lower limit keep their slots for ever: 8 -> 2 -> 8 leaves 2 usable slots out of 8 until Apache is
stopped and started. So the children in the slots to be given up are asked to finish first, with the same signal that
the parent sends them in a graceful reload, and the parent reloads once it has noticed that they are gone. Where some
serve on, as a download does, the reload is refused, but not of a crowded server (`Change`). worker and event do not
have this defect.

A crowded prefork has another: the parent replaces one for one the children that have ended when it has read its
configuration again; a second later it starts what is missing in slots that are free by then, and after that one
process a second for ten seconds (`remaining_children_to_start` and `hold_off_on_exponential_spawning` in
server/mpm/prefork/prefork.c). Children that finish a kept connection end in between and are not replaced: of 45
workers 11 came. So on a crowded server all children are asked first, and new connections wait in the accept queue for
as long as the last of them takes.

A third: the signal ends the parent's sleep, and before it reloads it starts children where fewer than MinSpareServers
are idle (`perform_idle_server_maintenance`), one, or twice as many each second that this goes on, in the lowest slots
that are free. Those of them in slots to be given up are lost, and are counted as idle later: a limit that was raised
again had one worker. So where few will be idle the slots within the limit are emptied too, which then are the lowest,
and the parent is held still (`held`) until all have ended, so that it starts none meanwhile, let alone twice as many
each second. Up to 32 it starts at once where its pool has been growing for five seconds, so that a limit below that
may still lose the difference.

The status page says who is where, except for workers that have not served yet; these are asked too. A worker that the
parent starts meanwhile may stay when it is surely below the limit (`Slots`), and else is asked before it accepts a
connection, hence the short distance of the polls. The parent notices ended children once a second and starts new ones
a second after that, so there is time for a reload when `drain` returns. It also returns when the parent has started
some twice, and only of those just started some may be beyond the limit: these count as idle, so that the signal adds
none to them. An idle worker may wait for its turn to accept, and sees the signal only then; on a quiet server it is
requests for the status page that pass the turn on, as Apache's own dummy connections do in a reload.
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from trimtab import processes
from trimtab.core import Clock
from trimtab.plants.apache import process, status
from trimtab.plants.apache.process import Parent
from trimtab.plants.apache.slots import Slots

_POLL_S = 0.002
_START_S = 1.2
_YOUNG_S = 0.1
"""A child this young may not have its signal handlers yet, so it is asked again."""
_KNOCK_S, _BUSY_S, _KNOCK_PATIENCE_S = 0.01, 0.5, 0.05
"""Distance of the requests on a quiet server and on a busy one, and how long each may take."""


@dataclass(frozen=True)
class Drained:
    """What came of it.

    Args:
        left: how many processes are still there that may be beyond the limit.
        slots: process id to the number of its slot, where it is known.
        fresh: whether the parent has just started these, so that they serve nothing yet.
    """

    left: int
    slots: Mapping[int, int]
    fresh: bool = False


def drain(
    parent: Parent,
    clock: Clock,
    status_url: str,
    limit: int,
    patience_s: float,
    noticed: bool = True,
    everyone: bool = False,
    known: Mapping[int, int] | None = None,
) -> Drained:
    """Empties the slots from `limit` on: asks their workers to finish.

    Args:
        parent: Apache's parent process.
        clock: for the wait.
        status_url: the status page.
        limit: number of slots that remain.
        patience_s: how long to wait, in seconds.
        noticed: whether the parent must have noticed the end of those that have ended, also of those within.
        everyone: whether those within the limit are asked too, that are there at the beginning.
        known: process id to slot, as far as it is known already.

    Raises:
        PlantGone: Apache has ended.
    """
    before = set(processes.children(parent.pid))
    workers = set(process.generations(parent, frozenset()).workers)
    helpers = {child for child in before if processes.program_of(child) is not None} - workers
    slots = Slots(limit, status.slots(status_url) if known is None else known, before - helpers)
    asked, deadline, knock_s = dict[int, float](), clock.now_s() + patience_s, 0.0
    while True:
        now_s = clock.now_s()
        there = set(processes.children(parent.pid)) - helpers
        alive = {child for child in there if processes.program_of(child) is not None}
        for child in sorted(alive - before - workers - slots.known.keys()):
            if processes.program_of(child) in (parent.exe, None):
                slots.start(child, now_s)
            else:
                helpers.add(child)  # such as a log program that was started anew
        keep = slots.within(alive & slots.born if everyone else alive)
        _ask(parent, alive - keep - helpers, asked, now_s)
        before, left = there, (there if noticed else alive) - helpers - keep
        slots.look(there - helpers)
        beyond = left - slots.within(there)
        fresh = slots.only_fresh([asked.get(one, 0.0) for one in beyond], now_s)
        if not left or now_s > deadline or fresh:
            return Drained(len(beyond), slots.known, fresh)
        if now_s > knock_s:
            knock_s = _knocked(clock, status_url)
        parent.check()
        clock.sleep(_POLL_S)


def _ask(parent: Parent, children: Collection[int], asked: dict[int, float], now_s: float) -> None:
    """Asks children to finish, those first asked a moment ago once more; says in `asked` when each was first."""
    for child in sorted(children):
        if now_s - asked.setdefault(child, now_s) < _YOUNG_S:
            parent.signal_child(child, signal.SIGUSR1)


def _knocked(clock: Clock, status_url: str) -> float:
    """Asks for the status page, and returns when to ask again."""
    quiet = status.scoreboard(status_url, _KNOCK_PATIENCE_S) is not None
    return clock.now_s() + (_KNOCK_S if quiet else _BUSY_S)


def started(parent: Parent, clock: Clock) -> None:
    """Waits until the parent has started the children that it starts within a second of a reload."""
    starts = [processes.start_of(pid) for pid in process.generations(parent, frozenset()).workers]
    oldest = min((start for start in starts if start is not None), default=None)
    if oldest is not None:
        clock.sleep(min(_START_S, _START_S - (processes.uptime_s() - oldest / processes.TICKS_HZ)))
