"""Events that the loop emits while it runs: plain records, for the terminal, the store and the tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trimtab import codec
from trimtab.core import Configuration, Move, MoveState, Window


class Status(StrEnum):
    """Status of a run."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    GONE = "gone"
    UNDONE = "undone"


class NoteKind(StrEnum):
    """Subject of a note."""

    STAND_DOWN = "stand-down"
    MISSING = "missing"
    GONE = "gone"
    STOP = "stop"
    RESTORE = "restore"
    PLANT = "plant"


UNRESTORED = "could not restore the configuration"
"""The beginning of a note on what could not be put back at the end of a run."""
RESTORED = "the configuration from before the run is in force again"
_NOTHING_LEFT = "nothing that trimtab had changed is left for its next start"


def restored(status: Status, detail: str, servers: int) -> str:
    """What is said where what a run had changed was put back, or has gone with the server.

    Args:
        status: how the run ended.
        detail: which server has ended, where one has.
        servers: how many the run was about.
    """
    if status is not Status.GONE:
        return RESTORED
    if servers < 2:
        return f"the server has ended, and {_NOTHING_LEFT}"
    return f"{detail}, and {_NOTHING_LEFT}; all others are as they were before the run"


@dataclass(frozen=True)
class Stamp:
    """Place of an event: in a run, its events have numbers that rise and are never used twice.

    Args:
        run: number of the run in its store.
        sequence: number of the event in the run, from 0.
        node: the machine on which it came to pass; empty for the one that trimtab runs on.
    """

    run: int = 0
    sequence: int = 0
    node: str = ""


_NOWHERE = Stamp()


@dataclass(frozen=True)
class WindowDone:
    """A window has been measured and stored.

    Args:
        window: the window.
        stamp: its place in the run.
    """

    window: Window
    stamp: Stamp = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True)
class MoveDone:
    """A move has been decided and, where it changes something, carried out or not.

    Args:
        window: the window that it follows from.
        proposed: the controller's move.
        move: the move after the guards.
        state: its outcome.
        detail: why it was refused or failed, or what the plant said of it; may be empty.
        configuration: the configuration in force after it; None when it was not applied.
        stamp: its place in the run.
    """

    window: Window
    proposed: Move
    move: Move
    state: MoveState
    detail: str = ""
    configuration: Configuration | None = None
    stamp: Stamp = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True)
class Note:
    """A note for the operator.

    Args:
        at_s: time on the run's clock.
        kind: its subject.
        text: the event in one line.
        knob: the knob concerned; may be empty.
        stamp: its place in the run.
    """

    at_s: float
    kind: NoteKind
    text: str
    knob: str = ""
    stamp: Stamp = field(default=_NOWHERE, compare=False)


Event = WindowDone | MoveDone | Note
_TYPES = {WindowDone: "window", MoveDone: "move", Note: "note"}


def to_json(event: Event) -> dict[str, Any]:
    """An event as programs read it: type, run, node and sequence, then its own fields; a move names its window."""
    body: dict[str, Any] = codec.builtins(event)
    head = {"type": _TYPES[type(event)], **body.pop("stamp")}
    if isinstance(event, WindowDone):
        body = body["window"]
    elif isinstance(event, MoveDone):
        body["window"] = event.window.index
    return head | body


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Args:
        status: its status.
        detail: why it ended before its time; may be empty.
        windows: windows measured.
        restored: True when the configuration from before the run is in force again.
    """

    status: Status
    detail: str
    windows: int
    restored: bool
