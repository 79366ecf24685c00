"""A stored run as the report reads it: windows with their times, moves, notes, and the figures that sum it up."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import stdtrit

from trimtab import codec, discovery
from trimtab.core import Knob, MoveState, Window
from trimtab.events import Event, Note
from trimtab.records import Plan, Run, StoredMove
from trimtab.referee import Course, of_run
from trimtab.store import Store
from trimtab.trials import SearchState

SATURATED = "saturated"
"""The phase of a move that says that a guarantee cannot be met."""


@dataclass(frozen=True)
class Track:
    """A whole run with its events."""

    run: Run
    windows: tuple[Window, ...]
    moves: tuple[StoredMove, ...]
    notes: tuple[Note, ...]
    events: tuple[Event, ...] = ()
    search: SearchState[Any] | None = None

    @property
    def label(self) -> str:
        """Name in a comparison: the run's label, else its controller."""
        return self.run.plan.label or self.run.plan.controller

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

    def settled(self, name: str) -> list[float]:
        """A metric's values in the second half of the run."""
        first = round(len(self.windows) / 2)
        return [w.readings[name] for w in self.windows[first:] if name in w.readings]


def _simulated(plant: str) -> bool:
    """Whether a plant is a simulated one; one that is unknown here was real."""
    room = "trimtab.plants"
    return plant in discovery.names(room) and bool(discovery.load(room, plant).PLANT.simulated)


def course_of(plan: Plan, knobs: Sequence[Knob]) -> Course:
    """The referee of a run, before its first window.

    Args:
        plan: the run's.
        knobs: those that it may move.
    """
    room = "trimtab.controllers"
    method: Any = None
    if plan.controller in discovery.names(room):
        method = discovery.load(room, plan.controller).CONTROLLER
    return Course(of_run(method, plan.settings.objective, knobs), knobs)


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
    half = float(stdtrit(n - 1, 0.975)) * statistics.stdev(values) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def ratio(better: Sequence[float], worse: Sequence[float]) -> Estimate:
    """How many times `worse` is `better`, from positive samples: the ratio of geometric means (Welch, on logs)."""
    a, b = [math.log(v) for v in better], [math.log(v) for v in worse]
    middle, count = statistics.fmean(b) - statistics.fmean(a), min(len(a), len(b))
    if count < 2:
        return Estimate(math.exp(middle), None, None, count)
    parts = [statistics.variance(values) / len(values) for values in (a, b)]
    half = 0.0
    if sum(parts) > 0:
        freedom = sum(parts) ** 2 / sum(p**2 / (len(v) - 1) for p, v in zip(parts, (a, b), strict=True))
        half = float(stdtrit(freedom, 0.975)) * math.sqrt(sum(parts))
    return Estimate(math.exp(middle), _exp(middle - half), _exp(middle + half), count)


def _exp(value: float) -> float:
    """The exponential, infinite where it is too large for a number."""
    return math.exp(value) if value < 700 else math.inf


def tracks(store: Store, run_ids: Sequence[int]) -> list[Track]:
    """The runs of these numbers, whole.

    Raises:
        UsageError: there is no such run.
    """
    return [
        Track(
            store.run(i),
            tuple(store.windows(i)),
            tuple(store.moves(i)),
            tuple(store.notes(i)),
            tuple(store.events(i)),
            _search(store, i),
        )
        for i in run_ids
    ]


def _search(store: Store, run_id: int) -> SearchState[Any] | None:
    """State of a run's search; None where it has none, or has not begun."""
    past = store.past(run_id) if store.run(run_id).plan.search is not None else None
    if past is None or not past[0].standing.knobs:
        return None
    return codec.convert(past[0].standing.state, SearchState[Any])
