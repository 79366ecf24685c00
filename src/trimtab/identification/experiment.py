"""Plan of an identification: its input, length and seeds (lu2001, Section 7.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from trimtab.core import Knob, Objective, Plant, Role, by_label, of_class
from trimtab.errors import UsageError
from trimtab.identification.order import least_windows
from trimtab.identification.signals import Pair
from trimtab.settings import Settings


@dataclass(frozen=True)
class Experiment:
    """Plan of an identification experiment.

    Args:
        pair: the input and the output.
        period_s: sampling period, in seconds.
        duration_s: length of each run, warm-up included, in seconds.
        warm_s: how long the low configuration is held first, in seconds.
        low: the lesser budget of the upper class, in processes; 0 for half of what the two classes have.
        high: its greater budget, in processes; 0 for three quarters.
        orders: the orders to try.
        seed: seed of the run that the model comes from.
        validate_seed: seed of the run that judges it.

    Raises:
        UsageError: the seeds are the same, or the durations do not fit.
    """

    pair: Pair
    period_s: float = 30.0
    duration_s: float = 1800.0
    warm_s: float = 120.0
    low: int = 0
    high: int = 0
    orders: tuple[int, ...] = field(default=(1, 2, 3))
    seed: int = 1
    validate_seed: int = 2

    def __post_init__(self) -> None:
        if self.seed == self.validate_seed:
            raise UsageError(
                f"--validate-seed {self.seed} is the seed of the first run: a model is judged by another"
            )
        if not self.period_s > 0:
            raise UsageError(f"the sampling period is {self.period_s:g} s, allowed is more than 0")
        if self.duration_s < self.warm_s + self.period_s:
            raise UsageError(
                f"a run of {self.duration_s:g} s has no window of {self.period_s:g} s after the warm-up of "
                f"{self.warm_s:g} s"
            )
        if self.windows < least_windows(self.pair.kind, self.orders):
            wanted_s = self.warm_s + least_windows(self.pair.kind, self.orders) * self.period_s
            raise UsageError(
                f"a run of {self.duration_s:g} s is too short for a model of order {max(self.orders)}: with windows "
                f"of {self.period_s:g} s and a warm-up of {self.warm_s:g} s it takes {wanted_s:g} s or more"
            )

    @property
    def warm(self) -> int:
        """The warm-up in windows."""
        return math.ceil(self.warm_s / self.period_s - 1e-9)

    @property
    def windows(self) -> int:
        """The windows of a run after its warm-up."""
        return math.floor((self.duration_s - self.warm_s) / self.period_s + 0.1)

    def knobs(self, plant: Plant) -> tuple[Knob, Knob]:
        """The budgets of the two classes.

        Raises:
            UsageError: the plant has no such class.
        """
        there = by_label(plant.knobs(), Role.PROCESS_BUDGET)
        for name in (self.pair.upper, self.pair.lower):
            if name not in there:
                raise UsageError(f"unknown class {name!r}: {plant.name} has {', '.join(classes_of(plant)) or 'none'}")
        return there[self.pair.upper], there[self.pair.lower]

    @property
    def objective(self) -> Objective:
        """The delay of the upper class; reported only."""
        return Objective(of_class(self.pair.delay, self.pair.upper))

    def settings(self, seed: int) -> Settings:
        """How one run goes: nothing is cut short, and no time passes between two samples."""
        return Settings(
            self.period_s, self.duration_s, self.objective, settle_s=0.0, early=0.0, restore=True, seed=seed
        )


def classes_of(plant: Plant) -> tuple[str, ...]:
    """The classes of clients that have a budget, in order of priority."""
    return tuple(by_label(plant.knobs(), Role.PROCESS_BUDGET))
