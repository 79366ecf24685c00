"""Steps a controller and the guards through stored windows: to check a run, and to go on with a killed one.

Controllers and guards are pure, so the same windows must give the same moves. A knob that stood down in the run
stands down at the same place here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.core.controller import Controller
from trimtab.core.knob import Knob
from trimtab.core.move import Move
from trimtab.core.trial import Fate, MoveState
from trimtab.core.window import Window
from trimtab.decision import Oversight, Standing, decide
from trimtab.errors import UsageError
from trimtab.events import Note, NoteKind
from trimtab.records import StoredMove


@dataclass(frozen=True)
class Past:
    """Where a run stands after its last window.

    Args:
        knobs: those that the controller may still move.
        state: the controller's state.
        guard_states: the states of the guards.
        judge_state: the judge's state; None where nobody judges.
        fate: what became of the last move that wanted to change something.
        windows: windows measured so far.
        elapsed_s: the run's clock at the end of the last one, in seconds.
    """

    knobs: tuple[Knob, ...]
    state: Any
    guard_states: tuple[Any, ...]
    judge_state: Any
    fate: Fate | None
    windows: int
    elapsed_s: float


@dataclass(frozen=True)
class Difference:
    """A move that did not come out as stored.

    Args:
        index: index of the window.
        who: "controller" or "guards".
        stored: the move in the store.
        replayed: the move that came out now.
    """

    index: int
    who: str
    stored: Move
    replayed: Move


class Replay:
    """A controller and guards on their way through stored windows.

    Args:
        controller: what decides.
        oversight: what stands between the controller and the plant.
        knobs: those the controller may move at the start.
        seed: the run's seed.
    """

    def __init__(self, controller: Controller, oversight: Oversight, knobs: tuple[Knob, ...], seed: int) -> None:
        self._controller, self._oversight, self._seed = controller, oversight, seed
        self._knobs = knobs
        self._state: Any = None
        self._guard_states: tuple[Any, ...] = ()
        self._judge_state: Any = None
        self._fate: Fate | None = None
        self._start(knobs)

    def through(
        self, windows: Sequence[Window], moves: Sequence[StoredMove], notes: Sequence[Note]
    ) -> Difference | Past:
        """The first difference, or where the run stands when there is none.

        Raises:
            UsageError: the run kept only its last windows, and what led to them is gone.
        """
        if windows and windows[0].index > 0:
            raise UsageError(f"only the windows from {windows[0].index} on were kept: what led to them is not known")
        by_index = {move.index: move for move in moves}
        edits = [note for note in notes if note.kind is NoteKind.STAND_DOWN and note.knob]
        for window, following in zip(windows, [*windows[1:], None], strict=True):
            stored = by_index.get(window.index)
            late: list[Note] = []
            while edits and (following is None or edits[0].at_s <= following.start_s):
                in_apply = stored is not None and stored.state is MoveState.STOOD_DOWN
                if in_apply and stored is not None and edits[0].knob in stored.move.changes:
                    late.append(edits.pop(0))
                else:
                    self._stand_down(edits.pop(0))
            if stored is not None:
                difference = self._step(window, stored)
                if difference is not None:
                    return difference
            for note in late:
                self._stand_down(note)
        end_s = windows[-1].start_s + windows[-1].duration_s if windows else 0.0
        states = (self._state, self._guard_states, self._judge_state, self._fate)
        return Past(self._knobs, *states, len(windows), end_s)

    def _step(self, window: Window, stored: StoredMove) -> Difference | None:
        """Steps once; the difference from what is stored, if any."""
        standing = Standing(self._state, self._guard_states, self._judge_state, self._fate)
        made = decide(standing, window, self._controller, self._oversight)
        self._state, self._guard_states, self._judge_state = made.state, made.guard_states, made.judge_state
        proposed, move = made.proposed, made.move
        if not _same(proposed, stored.proposed):
            return Difference(window.index, "controller", stored.proposed, proposed)
        if not _same(move, stored.move):
            return Difference(window.index, "guards", stored.move, move)
        changes = {name: value for name, value in move.changes.items() if window.configuration.get(name) != value}
        if changes:
            self._fate = Fate(stored.state, changes, stored.detail)
        return None

    def _stand_down(self, edit: Note) -> None:
        try:
            self._start(tuple(knob for knob in self._knobs if knob.name != edit.knob))
        except UsageError:
            self._knobs = ()

    def _start(self, knobs: tuple[Knob, ...]) -> None:
        self._knobs = knobs
        if knobs:
            self._state = self._controller.start(knobs, self._seed)
            self._guard_states, self._judge_state = self._oversight.start(knobs)


def _same(one: Move, other: Move) -> bool:
    """Whether two moves are equal in all they say; `1` and `1.0` are the same number."""
    return (dict(one.changes), one.reason, dict(one.evidence), one.phase) == (
        dict(other.changes),
        other.reason,
        dict(other.evidence),
        other.phase,
    )
