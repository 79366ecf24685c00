"""One change of Apache's configuration: the steps before its reload, and how it is verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trimtab.errors import ApplyFailed, ApplyLater
from trimtab.plants import _change
from trimtab.plants._held import held
from trimtab.plants._standstill import Standstill
from trimtab.plants.apache import status
from trimtab.plants.apache.attached import STARTED_WITH, Attached
from trimtab.plants.apache.drain import Drained, drain, started
from trimtab.plants.apache.knobs import limits
from trimtab.plants.apache.places import lacking
from trimtab.plants.apache.reload import Patience, quiet, reload
from trimtab.processes import children, descriptors
from trimtab.sensors.accept_queue import Queues

_BUSY_S = 60.0
"""For how long nobody is asked to finish again where some served long requests: it ends idle workers in vain."""
_POLL_S = 0.5
"""How often a place is looked for."""
_CROWD_PATIENCE_S = 0.2
"""A status page that takes longer to reply waits for a worker: the server is crowded."""


@dataclass(frozen=True)
class Change(_change.Change[Attached]):
    """A new text for our file.

    Args:
        patience: how long a reload may take.
    """

    patience: Patience

    def reloaded(self, expected: Mapping[str, int]) -> tuple[str, ...]:
        """Reloads Apache, and makes sure that the intended values are in force.

        Raises:
            ApplyLater: prefork would lose places by it, nobody would serve, or a program of mod_fcgid was started
                meanwhile; it was not signalled.
            ApplyFailed: it is not, or Apache did not reload in time.
            PlantGone: it has ended.
        """
        apache = self.server
        standstill = Standstill(self.clock, lambda: Queues(apache.listeners, apache.master.pid))
        with standstill.counted(apache):
            pipes = quiet(apache.master, self.clock)
            try:
                stuck = self._make_room(limits(apache.config).max_request_workers, standstill, not expected)
                if expected and apache.spares and (ends := apache.ended()):
                    raise ApplyLater(f"{ends}: not reloaded")
            except ApplyLater:
                if descriptors(apache.master.pid, "pipe") != pipes:  # then it has read our text
                    raise ApplyFailed(
                        "somebody else reloaded Apache while workers beyond the limit were to finish"
                    ) from None
                raise
            patience = replace(self.patience, reload_s=self.patience.reload_s + 2 * apache.reading_s)
            seen = reload(apache.master, self.clock, patience, standstill, pipes)
        apache.standstill = standstill
        apache.read_running()
        wanted, running = expected.get("max_request_workers", 0), apache.in_force["max_request_workers"]
        if running == apache.limits.server_limit * apache.limits.threads_per_child < wanted:
            raise ApplyFailed(f"max_request_workers is {running} after the reload, not {wanted}: {STARTED_WITH}")
        self.require(expected)
        threads, limit = apache.limits.threads_per_child, apache.in_force["max_request_workers"]

        def within() -> bool:
            apache.refresh()  # somebody else's reload may be under way, in which all children seem to be new
            return len(apache.generations().workers) * threads <= limit

        # mod_cgid's helper looks like a worker until it first runs.
        if not within() and not apache.master.awaited(self.clock, self.patience.serve_s, within):
            workers = len(apache.generations().workers) * threads
            raise ApplyFailed(f"{workers} workers run after the reload, more than the limit of {limit}")
        notes = []
        if seen.old:
            notes.append(f"{len(seen.old)} processes of the previous configuration still finish their connections")
        ending = len(children(apache.master.pid)) - len(seen.workers)
        if lost := apache.blocked(ending):
            notes.append(blocked(lost))
        if not seen.workers:
            notes.append("no new process has started yet: old processes still hold every slot of the scoreboard")
        return (*notes, *stuck)

    def _make_room(self, limit: int, standstill: Standstill, undoes: bool) -> tuple[str, ...]:
        """Before prefork is reloaded with a smaller limit, or crowded: see `drain`.

        The workers within a smaller limit serve on while those beyond it finish. Nobody accepts while all are asked
        to, which a crowded server that swaps takes long over as long as those beyond it are there.

        Args:
            limit: the limit to be.
            standstill: begins here where the server is crowded.
            undoes: whether this is an undo, which is made all the same: what it loses lies beyond the limit that was
                there before.

        Returns:
            What the user should know, one line each.

        Raises:
            ApplyLater: workers beyond a smaller limit are still busy, and the server is not crowded: that one needs
                its reload, and what it loses lies beyond what it can bear. Or, with threads, nobody would serve.
        """
        apache = self.server
        if apache.limits.mpm != "prefork":
            self._require_a_place(limit, undoes)
            return ()
        before = apache.in_force["max_request_workers"]
        within, shrinks = min(limit, before), limit < before
        board = status.scoreboard(apache.status_url, _CROWD_PATIENCE_S)
        crowded = board is None or status.busy(board) > within / 2
        if shrinks and not crowded:  # to serve, and to keep as many spare, takes more than there will be
            crowded = status.busy(board or "") + apache.limits.spare_servers > limit
        if not (shrinks or crowded):
            return ()
        if not (crowded or undoes) and self.clock.now_s() < apache.busy_until_s:
            raise ApplyLater("a short while ago workers beyond the limit served long requests: not yet tried again")
        started(apache.master, self.clock)
        if not crowded:
            room = self._drained(limit, self.patience.shrink_s)
            if room.left and not room.fresh and not undoes:
                apache.busy_until_s = self.clock.now_s() + _BUSY_S
                raise ApplyLater(_long(room.left, limit))
            return (blocked(room.left),) if room.left else ()
        room = Drained(0, {})
        if shrinks:
            with held(apache.master) as still:
                room = self._drained(limit, self.patience.shrink_s, not still)
        standstill.begin()
        # One long request must not hold this up for long.
        patience_s = self.patience.notice_s if shrinks else self.patience.crowd_s
        room = self._drained(within, patience_s, shrinks, room.slots)
        standstill.look()
        return (blocked(room.left),) if room.left and shrinks else ()

    def _require_a_place(self, limit: int, undoes: bool) -> None:
        """Makes sure that somebody serves after a reload with threads, also on a way back.

        Args:
            limit: the limit to be.
            undoes: whether this is an undo, which is not tried again later: a place is waited for.

        Raises:
            ApplyLater: nobody would.
        """
        until_s = self.clock.now_s() + (self.patience.shrink_s if undoes else 0.0)
        while why := lacking(self.server, limit, 1):
            if self.clock.now_s() >= until_s:
                raise ApplyLater(why)
            self.clock.sleep(_POLL_S)

    def _drained(
        self, limit: int, patience_s: float, noticed: bool = True, slots: Mapping[int, int] | None = None
    ) -> Drained:
        """What came of asking workers to finish: all of them, where their slots are given; see `drain`."""
        apache, everyone = self.server, slots is not None
        return drain(apache.master, self.clock, apache.status_url, limit, patience_s, noticed, everyone, slots)


def _long(left: int, limit: int) -> str:
    """Why a limit cannot be lowered now, while so many workers beyond it are busy."""
    many = "" if left == 1 else "s"
    still = "still serves a long request, whose place" if left == 1 else "still serve long requests, whose places"
    return f"{left} worker{many} beyond the limit of {limit} {still} Apache would lose until a restart: not reloaded"


def blocked(slots: int) -> str:
    """Warning about scoreboard slots that prefork has lost."""
    return f"up to {slots} of prefork's places stay blocked until Apache is stopped and started (its AH00167)"
