"""A stored run as the report reads it: windows with their times, moves, notes, and the figures that sum it up."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from trimtab.core import Window
from trimtab.core.trial import MoveState
from trimtab.events import Note
from trimtab.records import Run, StoredMove
from trimtab.store import Store


@dataclass(frozen=True)
class Track:
    """One run, whole."""

    run: Run
    windows: tuple[Window, ...]
    moves: tuple[StoredMove, ...]
    notes: tuple[Note, ...]

    @property
    def label(self) -> str:
        """What it is called in a comparison: its label, else its controller."""
        return self.run.plan.label or self.run.plan.controller

    @property
    def knob(self) -> str:
        """Name of the knob that was moved; the first one in force when none could be."""
        knobs = self.run.plan.knobs
        return knobs[0].name if knobs else next(iter(self.run.plan.initial), "")

    @property
    def simulated(self) -> bool:
        """True when no real server took part."""
        return self.run.plan.plant == "simulated"

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

    def before(self, name: str) -> list[float]:
        """A metric's values in the windows before the first applied change."""
        applied = self.applied()
        last = applied[0].index if applied else math.inf
        return [w.readings[name] for w in self.windows if w.index <= last and name in w.readings]

    def settled(self, name: str, share: float = 0.5) -> list[float]:
        """A metric's values in the last `share` of the run."""
        first = round(len(self.windows) * (1 - share))
        return [w.readings[name] for w in self.windows[first:] if name in w.readings]


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
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Estimate(mean, None, None, len(values))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(mean, mean - half, mean + half, len(values))


def ratio(better: Sequence[float], worse: Sequence[float]) -> Estimate:
    """How many times `worse` is `better`, from positive samples: the ratio of geometric means (Welch, on logs)."""
    a, b = [math.log(v) for v in better], [math.log(v) for v in worse]
    middle = statistics.fmean(b) - statistics.fmean(a)
    if len(a) < 2 or len(b) < 2:
        return Estimate(math.exp(middle), None, None, min(len(a), len(b)))
    if max(a) == min(a) and max(b) == min(b):  # no spread at all: the test is not defined, the ratio is
        return Estimate(math.exp(middle), math.exp(middle), math.exp(middle), min(len(a), len(b)))
    interval = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    return Estimate(math.exp(middle), math.exp(interval.low), math.exp(interval.high), min(len(a), len(b)))


def tracks(store: Store, run_ids: Sequence[int]) -> list[Track]:
    """The runs of these numbers, whole.

    Raises:
        UsageError: there is no such run.
    """
    return [
        Track(store.run(i), tuple(store.windows(i)), tuple(store.moves(i)), tuple(store.notes(i))) for i in run_ids
    ]
