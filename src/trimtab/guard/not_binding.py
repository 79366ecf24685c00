"""Holds an increase of a worker limit that does not bind.

Promises that the limit is not raised while fewer than half of the workers that it allows are busy and nothing waits
in the accept queue. More workers could serve nobody then, and a controller would read noise as the effect of its
move and wander up until the next burst finds far too many. What was not measured holds nothing back.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core import Knob, Move, Window


@dataclass(frozen=True)
class NotBinding:
    """The guard of idle limits.

    Args:
        knob: name of the knob that sets how many workers there may be.
        busy_ratio: the limit binds from this share of it being busy.
        queue_length: the accept queue counts as empty below this time average, in connections.
    """

    knob: str = "max_request_workers"
    busy_ratio: float = 0.5
    queue_length: float = 0.5

    def start(self, knobs: tuple[Knob, ...]) -> None:
        """It keeps no state."""

    def review(self, state: None, window: Window, move: Move) -> tuple[None, Move]:
        """The move, without the increase where the limit does not bind."""
        now, wanted = window.configuration.get(self.knob), move.changes.get(self.knob)
        busy, queue = window.readings.get("busy_workers"), window.readings.get("accept_queue_length")
        if now is None or wanted is None or wanted <= now or busy is None or queue is None:
            return None, move
        if busy >= self.busy_ratio * now or queue >= self.queue_length:
            return None, move
        rest = {name: value for name, value in move.changes.items() if name != self.knob}
        return None, move.amended(rest, f"{self.knob} {now} does not bind: {busy:.1f} busy, {queue:.2f} queued")

    def abort(self, state: None, partial: Window) -> str:
        """Never: it judges proposals, not windows."""
        return ""


GUARD = NotBinding
