"""Steps a controller and the guards through stored events: to check a run, and to go on with a killed one.

Controllers and guards are pure, so the same windows must give the same moves. A knob that stood down in the run
stands down at the same place here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from trimtab.core import Move, MoveState
from trimtab.decision import Decider, Standing
from trimtab.errors import UsageError
from trimtab.events import Event, Note, NoteKind, WindowDone


@dataclass(frozen=True)
class Past:
    """State of a run after one of its windows.

    Args:
        standing: its state.
        windows: windows measured so far, those included that were not kept.
        elapsed_s: the run's clock at the end of the last one, in seconds.
        touched: whether a change of its own was made, or tried.
    """

    standing: Standing
    windows: int = 0
    elapsed_s: float = 0.0
    touched: bool = False


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


def replayed(decider: Decider, past: Past, events: Iterable[Event]) -> Difference | Past:
    """The first difference, or the run's state when there is none.

    Args:
        decider: judge, controller and guards.
        past: the run's state before these events.
        events: all that came after, in their order.

    Raises:
        UsageError: windows are missing between the past and the events: the run kept only its last ones.
    """
    standing, windows, elapsed_s, touched = past.standing, past.windows, past.elapsed_s, past.touched
    for event in events:
        if isinstance(event, WindowDone):
            window = event.window
            if window.index > windows:
                raise UsageError(
                    f"only the windows from {window.index} on were kept, and not what the controller knew before them"
                )
            windows, elapsed_s = window.index + 1, window.start_s + window.duration_s
        elif isinstance(event, Note):
            if event.kind is NoteKind.STAND_DOWN and event.knob:
                standing = withdrawn(decider, standing, event.knob)[0]
        else:
            made = decider.decide(standing, event.window)
            if not _same(made.proposed, event.proposed):
                return Difference(event.window.index, "controller", event.proposed, made.proposed)
            if not _same(made.move, event.move):
                return Difference(event.window.index, "guards", event.move, made.move)
            touched = touched or event.state not in (MoveState.HELD, MoveState.ADVISED, MoveState.DECLINED)
            standing = decider.after(
                made.standing, made, event.window, event.state, event.detail, event.configuration
            )
    return Past(standing, windows, elapsed_s, touched)


def withdrawn(decider: Decider, standing: Standing, knob: str) -> tuple[Standing, str]:
    """The standing without a knob, and why nothing is decided any more; empty where it goes on with the others."""
    try:
        return decider.without(standing, knob), ""
    except UsageError as error:
        return replace(standing, knobs=()), str(error)


def _same(one: Move, other: Move) -> bool:
    """Whether two moves decide the same; `1` and `1.0` are the same number.

    The reason is not compared: it may be said in other words now, and the figures in it are in the evidence.
    """
    return (dict(one.changes), dict(one.evidence), one.phase) == (
        dict(other.changes),
        dict(other.evidence),
        other.phase,
    )
