"""Processes of earlier configurations that still finish what they have, and when another reload would be too much.

A reload leaves the old processes to their connections: a WebSocket or a download keeps its process, with all its
memory, for as long as it lasts, and every further reload adds as many. So a new setting is put off while processes of
`FEW` of our own changes are still there, or take the memory that is kept free for what grows under load. What the run
had in force before may be needed back, so it comes also beside those of up to `MOST` changes, and the start always.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from trimtab.core.memory import MARGIN_RATIO, MIB
from trimtab.plants.nginx.process import Master, Worker, workers
from trimtab.sensors._worker_memory import private_bytes

FEW = 2
"""Changes of ours whose processes may be there at a time: one that is tried, and one that is taken back."""
MOST = 2 * FEW


class Finishing:
    """The processes that finish since our changes.

    Args:
        master: nginx's master process.
        start: knob to value before the first change.
    """

    def __init__(self, master: Master, start: Mapping[str, int]) -> None:
        self._master = master
        self._changes: list[frozenset[Worker]] = []
        self._been: list[Mapping[str, int]] = []
        self.start = dict(start)

    def reloaded(self, old: frozenset[Worker], before: Mapping[str, int] | None) -> None:
        """Enters a reload of ours.

        Args:
            old: all processes of earlier configurations that are there after it.
            before: knob to value that were in force before it; None where it took back what did not come into force.
        """
        self._changes.append(old.difference(*self._changes))
        if before is not None and before not in self._been:
            self._been.append(before)

    def too_many(self, now: Mapping[str, int], wanted: Mapping[str, int], limit_bytes: int | None) -> str:
        """Why a change has to wait for processes of those before it; empty where it has not.

        Args:
            now: knob to value in force.
            wanted: knob to value that are to come.
            limit_bytes: memory that nginx may use; None where that is not known.
        """
        if self._to_start(wanted):
            return ""
        there = workers(self._master)
        self._changes = [left for one in self._changes if (left := one & there)]
        back = not self._to_start(now) and any(_same(one, {**now, **wanted}) for one in self._been)
        count, changes = sum(map(len, self._changes)), len(self._changes)
        of = "an earlier configuration" if changes == 1 else f"{changes} earlier configurations"
        said = f"{count} process{'es' if count > 1 else ''} of {of} still finish{'es' if count == 1 else ''}"
        what = "what lasts, such as downloads or WebSockets: not reloaded before that"
        if changes >= (MOST if back else FEW):
            return f"{said} {what}"
        share = 1 - MARGIN_RATIO
        if changes and not back and limit_bytes is not None and (held := self._bytes()) > share * limit_bytes:
            return f"{said}, with {held / MIB:.0f} MiB, more than {share:.0%} of the memory, {what}"
        return ""

    def _to_start(self, values: Mapping[str, int]) -> bool:
        return all(self.start.get(knob) == value for knob, value in values.items())

    def _bytes(self) -> int:
        """Memory that comes free when these processes end."""
        total = 0
        for pid, _ in frozenset[Worker]().union(*self._changes):
            with contextlib.suppress(OSError):
                total += private_bytes(pid)
        return total


def _same(been: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    """Whether a configuration is one that was in force, as far as it is asked for."""
    return all(been.get(knob) == value for knob, value in wanted.items())
