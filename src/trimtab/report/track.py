"""A stored run as the report reads it: windows with their times, moves, notes, and the figures that sum it up."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trimtab import codec, discovery
from trimtab.core import MoveState, Window
from trimtab.errors import StoreError
from trimtab.events import UNRESTORED, Event, Note, NoteKind, WindowDone
from trimtab.records import Run, StoredMove
from trimtab.referee import Course, of_run
from trimtab.replay import Past
from trimtab.store import Store
from trimtab.trials import SearchState
from trimtab.trust import printable

SATURATED = "saturated"
"""The phase of a move that says that a guarantee cannot be met."""


@dataclass(frozen=True)
class Track:
    """A run with its events, all of them or the last that it kept.

    Args:
        run: the run.
        windows: its windows.
        moves: its moves.
        notes: its notes.
        events: all of these in their order.
        search: the state of its search; None where it has none.
        stood: where it stood before the first window, its states as JSON has them; None where none is missing, or
            where that is not known.
    """

    run: Run
    windows: tuple[Window, ...]
    moves: tuple[StoredMove, ...]
    notes: tuple[Note, ...]
    events: tuple[Event, ...] = ()
    search: SearchState[Any] | None = None
    stood: Past | None = None

    @property
    def label(self) -> str:
        """Name in a comparison: the run's label, as far as it can be drawn, else its controller."""
        return printable(self.run.plan.label) or self.run.plan.controller

    @property
    def knob(self) -> str:
        """Name of the knob that was moved; the first one in force when none could be."""
        return next(iter(self.knobs), "")

    @property
    def knobs(self) -> tuple[str, ...]:
        """Names of the knobs that could be moved; of all that are in force when none could be."""
        return tuple(knob.name for knob in self.run.plan.knobs) or tuple(self.run.plan.initial)

    @property
    def simulated(self) -> bool:
        """True when no real server took part."""
        subjects = self.run.plan.subjects
        return bool(subjects) and all(_simulated(subject.plant) for subject in subjects)

    @property
    def forgotten(self) -> int:
        """Windows at its beginning that it did not keep."""
        return self.windows[0].index if self.windows else 0

    @property
    def begun_before(self) -> bool:
        """Whether something was changed, or tried, in windows that it did not keep, as far as that is known."""
        return self.forgotten > 0 and (self.stood is None or self.stood.touched)

    @property
    def cut_short(self) -> bool:
        """Whether it ended while a change was made, so that it is not known whether that came into force."""
        return bool(self.moves) and self.moves[-1].state is MoveState.OPEN

    @property
    def unrestored(self) -> str:
        """Why the configuration from before it could not be put back at its end; empty where it was not tried."""
        last = next((note.text for note in reversed(self.notes) if note.kind is NoteKind.RESTORE), "")
        return last if last.startswith(UNRESTORED) else ""

    def series(self, name: str) -> tuple[list[float], list[float]]:
        """Window centres in s and the values of a metric or knob, where it was measured."""
        points = [
            (w.start_s + w.duration_s / 2, w.readings.get(name, w.configuration.get(name))) for w in self.windows
        ]
        kept = [(t, float(v)) for t, v in points if v is not None]
        return [t for t, _ in kept], [v for _, v in kept]

    def changes(self) -> tuple[StoredMove, ...]:
        """The moves that changed something, or tried to."""
        return tuple(m for m in self.moves if m.state is not MoveState.HELD)

    def applied(self) -> tuple[StoredMove, ...]:
        """The moves that did change something."""
        return tuple(m for m in self.moves if m.state is MoveState.APPLIED)

    def untouched(self) -> tuple[Window, ...]:
        """The windows before the first applied change."""
        applied = self.applied()
        last = applied[0].index if applied else math.inf
        return tuple(w for w in self.windows if w.index <= last)

    def course(self) -> Course | None:
        """The referee before the first window; None where it knew something by then that is not known any more."""
        plan, stood = self.run.plan, None if self.stood is None else self.stood.standing
        room = "trimtab.controllers"
        method: Any = None
        if plan.controller in discovery.names(room):
            method = discovery.load(room, plan.controller).CONTROLLER
        judge = of_run(method, plan.settings.objective, plan.knobs)
        if not self.forgotten or judge is None or not judge.judges_changes:
            return Course(judge, plan.knobs)
        if stood is None:
            return None
        try:
            return Course(judge, stood.knobs, codec.convert(stood.judge_state, codec.state_of(judge)))
        except ValueError:  # another trimtab's
            return None

    def second_half(self) -> tuple[Window, ...]:
        """The windows of the second half of the run."""
        return self.windows[round(len(self.windows) / 2) :]

    def settled(self, name: str) -> list[float]:
        """A metric's values in the second half of the run."""
        return [w.readings[name] for w in self.second_half() if name in w.readings]


def _simulated(plant: str) -> bool:
    """Whether a plant is a simulated one; one that is unknown here was real."""
    room = "trimtab.plants"
    return plant in discovery.names(room) and bool(discovery.load(room, plant).PLANT.simulated)


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval; the interval is absent for a single sample.

    Args:
        mean: arithmetic mean.
        low: lower end.
        high: upper end.
        count: independent samples behind it.
    """

    mean: float
    low: float | None
    high: float | None
    count: int


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of independent samples and its 95 % interval by Student's t; `values` must not be empty."""
    mean, n = statistics.fmean(values), len(values)
    if n < 2:
        return Estimate(mean, None, None, n)
    half = _student(n - 1, 0.975) * statistics.stdev(values) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def ratio(better: Sequence[float], worse: Sequence[float], together: int = 1) -> Estimate:
    """How many times `worse` is `better`, from positive samples: the ratio of geometric means (Welch, on logs).

    Args:
        better: samples of one.
        worse: samples of the other.
        together: how many such intervals are to hold together (Bonferroni).
    """
    a, b = [math.log(v) for v in better], [math.log(v) for v in worse]
    middle, count = statistics.fmean(b) - statistics.fmean(a), min(len(a), len(b))
    if count < 2:
        return Estimate(math.exp(middle), None, None, count)
    parts = [statistics.variance(values) / len(values) for values in (a, b)]
    half = 0.0
    if sum(parts) > 0:
        freedom = sum(parts) ** 2 / sum(p**2 / (len(v) - 1) for p, v in zip(parts, (a, b), strict=True))
        half = _student(freedom, 1 - 0.025 / together) * math.sqrt(sum(parts))
    return Estimate(math.exp(middle), _exp(middle - half), _exp(middle + half), count)


def _student(freedom: float, share: float) -> float:
    """The quantile of Student's t with so many degrees of freedom below which this share is."""
    from scipy.special import stdtrit  # takes longer to load than all else, and what judges one run does without

    return float(stdtrit(freedom, share))


def _exp(value: float) -> float:
    """The exponential, infinite where it is too large for a number."""
    return math.exp(value) if value < 700 else math.inf


def tracks(store: Store, run_ids: Sequence[int]) -> list[Track]:
    """The runs of these numbers, whole, each once: named twice it is no repeat of itself.

    Raises:
        UsageError: there is no such run.
        StoreError: one has the state of another trimtab's search.
    """
    return [_track(store, i) for i in dict.fromkeys(run_ids)]


def _track(store: Store, run_id: int) -> Track:
    """A run, whole; each of its windows once in memory, since a long one has hundreds of thousands."""
    events = store.events(run_id)
    windows = tuple(event.window for event in events if isinstance(event, WindowDone))
    notes = tuple(event for event in events if isinstance(event, Note))
    moves = tuple(store.moves(run_id))
    stood = None if (kept := store.checkpoint(run_id)) is None else kept[0]
    return Track(store.run(run_id), windows, moves, notes, tuple(events), _search(store, run_id), stood)


def _search(store: Store, run_id: int) -> SearchState[Any] | None:
    """State of a run's search; None where it has none, or has not begun.

    Raises:
        StoreError: it is another trimtab's.
    """
    past = store.past(run_id) if store.run(run_id).plan.search is not None else None
    if past is None or not past[0].standing.knobs:
        return None
    try:
        return codec.convert(past[0].standing.state, SearchState[Any])
    except ValueError as error:
        raise StoreError(f"the search of run {run_id} cannot be read: {error}") from None
