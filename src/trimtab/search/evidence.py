"""The evidence of a search: each trial's configuration and cost, on a scale on which noise is alike everywhere.

    y = log(cost) where less is better, -log(value) where more is                                       (E1)

so a difference of 0.1 is a tenth, whatever the unit. A trial that broke a limit, was refused, in which nothing was
done, or nothing measured for `patience` windows, has no y: it failed. How far one was beyond the limits is kept,
since that is what is compared until one keeps them.

A knob that is left to the operator is no coordinate any more, and each trial keeps beside its coordinates which value
that knob had. A trial at another value than the one that is in force now measured another configuration, however
small the knob's effect looked: it is no repeat of anything, and does not count. So no evidence is believed that the
operator's edit may have made false, and all of it comes back where he sets a value that was tried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trimtab.core import Configuration, Knob, MoveState, Objective, Trial
from trimtab.core.objective import BROKEN
from trimtab.search.mix import Mix
from trimtab.search.space import Values, dropped, in_force

Beside = tuple[int | None, ...]
"""Values of knobs that are left to the operator; None where one is not known."""
_LEAST = 1e-12


@dataclass(frozen=True)
class Told:
    """One trial.

    Args:
        values: the configuration that was in force, in the order of the knobs.
        y: its cost by Eq. (E1); None where it failed.
        beside: the values of the knobs that were left to the operator by now, in the order in which they were.
        mix: what clients asked for.
        pace: logarithm of the time that a fixed computation took on the machine; None where it was not measured.
        excess: how far it was beyond the limits of the objective, as a logarithm; None where it kept them, or they
            were not measured.
    """

    values: Values
    y: float | None
    beside: Beside = ()
    mix: Mix = ()
    pace: float | None = None
    excess: float | None = None

    def without(self, index: int) -> Told:
        """The trial once the knob at an index is left to the operator."""
        return replace(self, values=dropped(self.values, index), beside=(*self.beside, self.values[index]))


def beside_of(names: Sequence[str], configuration: Configuration) -> Beside:
    """The values of the knobs that are left to the operator."""
    return tuple(map(configuration.get, names))


def believed(told: Sequence[Told], beside: Beside) -> tuple[Told, ...]:
    """The trials that count where the knobs that are left to the operator have these values."""
    return tuple(one for one in told if one.beside == beside)


def y_of(objective: Objective, trial: Trial) -> float | None:
    """The cost of a window by Eq. (E1); None where a limit was broken, nothing was done or it was not measured."""
    cost = objective.cost(trial.window)
    if cost is None or cost >= BROKEN or not math.isfinite(cost):
        return None
    if objective.minimize:
        return math.log(max(cost, _LEAST))  # Eq. (E1)
    return -math.log(-cost) if cost < 0 else None  # Eq. (E1)


def excess_of(objective: Objective, trial: Trial) -> float | None:
    """How far a window was beyond the objective's limits; None where it was not, or they were not measured."""
    return objective.excess(trial.window) or None


def unmeasured(objective: Objective, knobs: Sequence[Knob], trial: Trial) -> str:
    """Why a window cannot be judged; empty where it can."""
    window = trial.window
    if in_force(knobs, window.configuration) is None:
        unknown = next(knob.name for knob in knobs if knob.name not in window.configuration)
        return f"the value of {unknown} in force is not known"
    if objective.broken(window):
        return ""  # it has failed, whatever else was not measured
    if missing := objective.missing(window):
        return f"{missing} was not measured"
    return "no request was completed" if window.samples is not None and window.samples < 1 else ""


def refused(trial: Trial, asked: dict[str, int]) -> str:
    """The plant's reason for refusing the proposal; empty where it did not refuse, or a guard held it."""
    fate = trial.fate
    if fate is None or fate.state not in (MoveState.REFUSED, MoveState.FAILED):
        return ""
    now = trial.window.configuration
    apart = all(now.get(name) != value for name, value in fate.changes.items())
    ours = all(asked.get(name) == value for name, value in fate.changes.items())
    return (fate.detail or fate.state.value) if apart and ours else ""


def taken_back(trial: Trial) -> bool:
    """Whether what had come into force is not any more: a run that was killed is gone on with from the operator's."""
    fate, now = trial.fate, trial.window.configuration
    applied = fate is not None and fate.state is MoveState.APPLIED
    return applied and fate is not None and any(now.get(name) != value for name, value in fate.changes.items())


def best_of(told: Sequence[Told]) -> Values | None:
    """The configuration of the best mean; None where none was measured."""
    sums: dict[Values, list[float]] = {}
    for one in told:
        if one.y is not None:
            sums.setdefault(one.values, []).append(one.y)
    return min(sums, key=lambda values: (sum(sums[values]) / len(sums[values]), values)) if sums else None
