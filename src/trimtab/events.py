"""What the loop tells while it runs: plain records, for the terminal, the store and the tests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trimtab.core.move import Move
from trimtab.core.trial import MoveState
from trimtab.core.window import Window


class Status(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    GONE = "gone"
    UNDONE = "undone"


class NoteKind(StrEnum):
    """What a note is about."""

    STAND_DOWN = "stand-down"
    MISSING = "missing"
    GONE = "gone"
    STOP = "stop"
    RESTORE = "restore"
    PLANT = "plant"


@dataclass(frozen=True)
class WindowDone:
    """A window has been measured and stored.

    Args:
        window: the window.
    """

    window: Window


@dataclass(frozen=True)
class MoveDone:
    """A move has been decided and, where it changes something, carried out or not.

    Args:
        window: the window that it follows from.
        proposed: what the controller decided.
        move: what the guards made of it.
        state: what became of it.
        detail: why it was refused or failed, or what the plant said of it; may be empty.
    """

    window: Window
    proposed: Move
    move: Move
    state: MoveState
    detail: str = ""


@dataclass(frozen=True)
class Note:
    """Something the operator should know.

    Args:
        at_s: when, on the run's clock.
        kind: what it is about.
        text: what happened, in one line.
        knob: the knob concerned; may be empty.
    """

    at_s: float
    kind: NoteKind
    text: str
    knob: str = ""


Event = WindowDone | MoveDone | Note


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Args:
        status: how it stands now.
        detail: why it ended before its time; may be empty.
        windows: windows measured.
        restored: True when the configuration from before the run is in force again.
    """

    status: Status
    detail: str
    windows: int
    restored: bool
