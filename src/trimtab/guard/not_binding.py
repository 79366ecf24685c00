"""Holds an increase of a worker limit that does not bind.

Promises that the limit is not raised while fewer than half of the workers that it allows are busy and nothing waits
in the accept queue. More workers could serve nobody then, and a controller would read noise as the effect of its
move and wander up until the next burst finds far too many. What was not measured holds nothing back.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core import Knob, Move, Role, Window, of_role


@dataclass(frozen=True)
class NotBinding:
    """The guard of idle limits.

    Args:
        busy_ratio: the limit binds from this share of it being busy.
        queue_length: the accept queue counts as empty below this time average, in connections.
    """

    busy_ratio: float = 0.5
    queue_length: float = 0.5

    def start(self, knobs: tuple[Knob, ...]) -> Knob | None:
        """The worker limit's knob; None where it is not moved."""
        return of_role(knobs, Role.WORKER_LIMIT)

    def review(self, state: Knob | None, window: Window, move: Move) -> tuple[Knob | None, Move]:
        """The move, without the increase where the limit does not bind."""
        if state is None:
            return state, move
        name = state.name
        now, wanted = window.configuration.get(name), move.changes.get(name)
        busy, queue = window.readings.get("busy_workers"), window.readings.get("accept_queue_length")
        if now is None or wanted is None or wanted <= now or busy is None or queue is None:
            return state, move
        if busy >= self.busy_ratio * now or queue >= self.queue_length:
            return state, move
        rest = {key: value for key, value in move.changes.items() if key != name}
        return state, move.amended(rest, f"{name} {now} does not bind: {busy:.1f} busy, {queue:.2f} queued")

    def abort(self, state: Knob | None, partial: Window) -> str:
        """Never: it judges proposals, not windows."""
        return ""


GUARD = NotBinding
