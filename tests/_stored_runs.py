"""Runs written into a store without a plant: windows from a formula, moves from a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tests._curve import NAME, worker_knob
from trimtab.core import Applied, Move, Objective, Subject, Window
from trimtab.core.trial import MoveState
from trimtab.events import Note, NoteKind, Outcome, Status
from trimtab.records import Plan
from trimtab.report.track import Track, tracks
from trimtab.settings import Settings
from trimtab.store import RunWriter, Store

Readings = Mapping[str, float]
At = Callable[[int, int], Readings]
"""Readings from the window's index and the limit in force."""


def whole(response_s: float, **more: float) -> Readings:
    """All that the report draws: a quarter of the time is waiting, the rest 4 requests in service."""
    return {
        "response_time_s": response_s,
        "accept_queue_delay_s": response_s / 4,
        "burst_length": 4.0,
        "service_time_s": response_s * 3 / 16,
        "cpu_ratio": 0.5,
        "memory_ratio": 1.1,
        "busy_workers": 9.0,
        "request_rate_hz": 160.0,
        **more,
    }


def always(readings: Readings) -> At:
    """The same readings in every window."""
    return lambda index, limit: readings


def write_run(
    store: Store,
    label: str,
    at: At,
    *,
    windows: int = 10,
    moves: Sequence[tuple[int, int, MoveState]] = (),
    start: int = 150,
    group: str = "",
    seed: int = 1,
    plant: str = "apache",
    controller: str = "trim",
    objective: Objective | None = None,
    reason: str = "more fit",
    notes: Sequence[str] = (),
    problems: tuple[str, ...] = (),
    version: str = "1.0",
    outcome: tuple[Status, str] = (Status.DONE, ""),
) -> int:
    """Writes a run and returns its number.

    Args:
        store: where to.
        label: its label.
        at: what each window measured.
        windows: how many, of 2 s each.
        moves: window index, value asked for, what became of it.
        start: the limit in force before the first move.
        group: the comparison it belongs to.
        seed: its seed.
        plant: its plant's name.
        controller: its controller's name.
        objective: what it strove for.
        reason: the reason of every move.
        notes: texts of notes.
        problems: what every window could not measure.
        version: the version of trimtab that made it.
        outcome: how it ended, and why.
    """
    settings, knobs = Settings(2.0, math.inf, objective or Objective(), seed=seed), (worker_knob(maximum=1000),)
    host, begin = {"kernel": "Linux 6.1", "trimtab": version}, {NAME: start}
    plan = Plan((), "", (Subject(plant),), knobs, controller, {}, settings, begin, host, label, group, "made up")
    writer, limit = store.begin(plan), start
    for index in range(windows):
        writer.window(Window(index, 2.0 * index, 2.0, {NAME: limit}, at(index, limit), 320, problems))
        limit = _moved(writer, index, limit, [move for move in moves if move[0] == index], reason)
    for text in notes:
        writer.note(Note(1.0, NoteKind.PLANT, text))
    writer.finish(Outcome(*outcome, windows, False))
    return writer.run_id


def _moved(
    writer: RunWriter, index: int, limit: int, moves: Sequence[tuple[int, int, MoveState]], reason: str
) -> int:
    """Writes the moves after a window, and what became of them; the limit in force then."""
    for _, value, state in moves:
        move = Move({NAME: value}, reason, {}, "jump")
        stamp = writer.move(index, move, move, MoveState.OPEN)
        if state is not MoveState.OPEN:
            writer.outcome(stamp, state, "", Applied({NAME: value}, 0.25) if state is MoveState.APPLIED else None)
        limit = value if state is MoveState.APPLIED else limit
    return limit


def track_of(store: Store, label: str, at: At, **more: object) -> Track:
    """A run as the report reads it; see `write_run`."""
    return tracks(store, [write_run(store, label, at, **more)])[0]  # type: ignore[arg-type]
