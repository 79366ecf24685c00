"""The model of a server as it is estimated while a controller runs it: lu2001, Eq. (2) to (5), in the loop.

The controller's own moves and the noise of the load are the excitation, and that is little. So the estimate stays
tied to the model that it began with: in every window R^-1 also gains what keeps that model at `anchor` times the
weight of a whole memory, 1 / (1 - forgetting) windows of a typical excitation. Its a_j are tied `TRUST` times as
strongly as its b_j, because a change of load changes how much the input does before it changes how fast. The ties
are equations too, theta_j as it was at the start, which Eq. (3) to (5) take like any other.

A loop whose input has not moved for `RECENT` windows teaches nothing, and a gap is skipped as in identification.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trimtab.controllers._classes import Delay, Group
from trimtab.core import Window
from trimtab.identification.least_squares import Estimate, updated
from trimtab.identification.model import Model
from trimtab.identification.signals import Kind, Sample, compared, equation, needed

TYPICAL_RATIO = 0.25
"""Share of an even budget by which an input is taken to move, for the weight of the first model."""
TRUST = 10.0
"""How many times as strongly the a_j of the first model are believed as its b_j."""
GROWN = 100.0
"""While the trace of R is more than this many times that of the first model, the loop tells nothing, and nothing is
forgotten. In seconds it is large from the start where delays are milliseconds."""
RECENT = 8
"""A loop whose input has not moved for this many windows teaches nothing."""
_LEAST_SCALE = 1e-6
_TICK_S = 1e-9
"""The gate counts nanoseconds: a ratio to less is no reading."""


@dataclass(frozen=True)
class OnlineModel:
    """A model that is estimated on.

    Args:
        kind: which delay.
        forgetting: weight of a window relative to the next one.
        anchor: how strongly the estimate is tied to the first model.
        first: the first model, with the weight of one memory.
        estimate: the parameters now.
        samples: the latest windows of every loop, as the estimator sees them.
    """

    kind: Kind
    forgetting: float
    anchor: float
    first: Estimate
    estimate: Estimate
    samples: tuple[tuple[Sample, ...], ...] = ()

    @property
    def model(self) -> Model:
        """The model now."""
        return Model.of(self.estimate.theta)

    def learned(self, group: Group, window: Window) -> OnlineModel:
        """The model updated with one more window.

        Args:
            group: the classes under control.
            window: the window.
        """
        found = samples_of(self.kind, group, window)
        order = self.first.order
        before = self.samples or ((),) * len(found)
        length = max(RECENT, needed(self.kind, order))
        samples = tuple((*old, new)[-length:] for old, new in zip(before, found, strict=True))
        estimate, weight = self.estimate, self.forgetting
        most = GROWN * sum(row[j] for j, row in enumerate(self.first.spread))
        for one in samples:
            row = equation(one, self.kind, order)
            if row is not None and _moved(one):
                estimate, weight = updated(estimate, row.regressor, row.output, weight, most), 1.0
        if weight == 1.0:
            estimate = self._tied(estimate)
        known = [*estimate.theta, *(value for row in estimate.spread for value in row)]
        if not all(map(math.isfinite, known)):  # a ratio to a delay of next to nothing is no reading
            estimate = self.estimate
        return replace(self, samples=samples, estimate=estimate)

    def _tied(self, estimate: Estimate) -> Estimate:
        """The estimate with one window's share of the first model added to it."""
        for j, value in enumerate(self.first.theta):
            root = math.sqrt((1 - self.forgetting) * self.anchor / self.first.spread[j][j])
            tie = tuple(root if i == j else 0.0 for i in range(len(self.first.theta)))
            estimate = updated(estimate, tie, root * value)
        return estimate


def begun(kind: Kind, model: Model, forgetting: float, anchor: float, share: float) -> OnlineModel:
    """A model before any window, with the weight of one memory.

    R is about (1 - forgetting) / q^2 after many windows. q is taken to be 1 for a ratio of processes and
    `TYPICAL_RATIO` of an even budget for a number of them, and for an output what the model makes of that.

    Args:
        kind: which delay.
        model: what the controller was designed for.
        forgetting: weight of a window relative to the next one.
        anchor: how strongly the estimate stays tied to the model.
        share: an even budget, in processes.
    """
    moved = 1.0 if kind.rising else max(1.0, TYPICAL_RATIO * share)
    scales = [TRUST * abs(model.gain) * moved] * model.order + [moved] * model.order
    spread = [(1.0 - forgetting) / max(scale, _LEAST_SCALE) ** 2 for scale in scales]
    size = len(spread)
    first = Estimate(
        model.theta, tuple(tuple(spread[i] if i == j else 0.0 for j in range(size)) for i in range(size))
    )
    return OnlineModel(kind, forgetting, anchor, first, first)


def samples_of(kind: Kind, group: Group, window: Window) -> tuple[Sample, ...]:
    """A window as every loop's estimator sees it; only delays that were measured count.

    Args:
        kind: absolute for one loop per class, the others for one per two neighbouring classes.
        group: the classes.
        window: the window.
    """
    budgets = group.in_force(window)
    delays = (None,) * len(group.classes) if window.aborted else group.delays(window)
    measured = [_exact(delay) for delay in delays]
    if kind is Kind.ABSOLUTE:
        inputs: tuple[float | None, ...] = budgets if budgets is not None else (None,) * len(measured)
        return tuple(Sample(u, v) for u, v in zip(inputs, measured, strict=True))
    found = []
    for k in range(1, len(measured)):
        above, below = measured[k - 1], measured[k]
        ratio = budgets[k - 1] / budgets[k] if budgets is not None and budgets[k] else None
        apart = None if above is None or below is None or above < _TICK_S else below / above
        found.append(compared(kind, ratio, apart))
    return tuple(found)


def _exact(delay: Delay | None) -> float | None:
    """A delay that was measured, in seconds; None for none and for a bound."""
    return delay.value_s if delay is not None and delay.exact else None


def _moved(samples: Sequence[Sample]) -> bool:
    """Whether an input has moved lately."""
    return len({sample.input for sample in samples if sample.input is not None}) > 1
