"""Which order a model needs, by its prediction error on an experiment with another seed: lu2001, Section 7.2.

Promises the least order whose prediction of unseen data no higher order betters tangibly, that is by more than
`TANGIBLE_RATIO` of its error. The paper looks at Fig. 5(b) to (d): the first order's error is larger, the third's is
not tangibly smaller, so it takes the second.

    rms = sqrt(mean over the equations of (V(m) - V^p(m))^2)
    fit = 1 - rms / (standard deviation of V)

Departures from the paper: it judges by eye. A tangible difference is given a number here, and the errors of all
orders are taken over the same samples. Its initial values, 1 for every parameter with 1/10 of an equation's weight,
are of delays of tens of seconds. Against differences of milliseconds they would outweigh all windows of a run, so
while an absolute model is estimated its outputs are in a unit in which their root mean square is `USUAL_OUTPUT`.

A model is identifiable when its data say that the input has an effect: the sum of its b_j is at least `LEAST_T`
standard errors from 0. The standard errors follow from R, which approaches (sum of q q^T)^-1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.errors import UsageError
from trimtab.identification.least_squares import Estimate, initial, updated
from trimtab.identification.model import Model
from trimtab.identification.signals import Equation, Kind, Pair, Sample, equations, needed

TANGIBLE_RATIO = 0.1
"""About the standard error of an error that is known from the 50 windows of such a run, 1 / sqrt(2 * 50)."""
LEAST_T = 2.0
USUAL_OUTPUT = 10.0
"""What the paper's are in order of magnitude, in seconds: by Eq. (6c) 32 processes make 6."""
LEAST_PER_PARAMETER = 3
"""A model needs this many equations for each parameter."""


@dataclass(frozen=True)
class Candidate:
    """A model of one order, and how well it predicts.

    Args:
        model: the model.
        errors: standard errors of its parameters, in their order.
        t: how many standard errors the sum of the b_j is from 0.
        rms: root mean square error of prediction on the second seed, in the output's unit.
        fit_ratio: 1 for a perfect prediction there, 0 for one as good as the mean, less for a worse one.
        equations: how many of the first seed it was estimated from.
        checked: how many of the second seed it was judged by.
    """

    model: Model
    errors: tuple[float, ...]
    t: float
    rms: float
    fit_ratio: float
    equations: int
    checked: int


@dataclass(frozen=True)
class Prediction:
    """A measured output of the second seed, and a model's prediction of it one window before.

    Args:
        index: index of the window.
        measured: V(m).
        predicted: V^p(m).
    """

    index: int
    measured: float
    predicted: float


def estimated(found: Sequence[Equation], order: int, kind: Kind) -> tuple[Estimate, ...]:
    """The estimate after each equation of a run, Eq. (3) to (5).

    Args:
        found: its equations, at least one.
        order: n.
        kind: ratios have no unit, differences of delays have.
    """
    rms = math.hypot(*(one.output for one in found)) / math.sqrt(len(found))
    unit = rms / USUAL_OUTPUT if kind is Kind.ABSOLUTE and rms > 0 else 1.0
    estimates, estimate = [], initial(order)
    for one in found:
        past, inputs = one.regressor[:order], one.regressor[order:]
        estimate = updated(estimate, (*(value / unit for value in past), *inputs), one.output / unit)
        estimates.append(_in_seconds(estimate, unit))
    return tuple(estimates)


def predictions(model: Model, samples: Sequence[Sample], pair: Pair, widest: int) -> tuple[Prediction, ...]:
    """The predictions of a model, one window ahead, beside what was measured."""
    found = equations(samples, pair.kind, model.order, widest)
    return tuple(Prediction(one.index, one.output, model.predicted(one.regressor)) for one in found)


def compare(
    pair: Pair, training: Sequence[Sample], validation: Sequence[Sample], orders: Sequence[int]
) -> tuple[Candidate, ...]:
    """One candidate for each order.

    Args:
        pair: which input and output.
        training: the windows of the first seed, in order.
        validation: those of the second.
        orders: the orders to try, at least one, each at least 1.

    Raises:
        UsageError: too few windows have the readings that the equations need.
    """
    return tuple(_candidate(pair, training, validation, order, max(orders)) for order in sorted(set(orders)))


def least_windows(kind: Kind, orders: Sequence[int]) -> int:
    """How many windows without a gap the models of these orders need.

    Raises:
        UsageError: these are no orders.
    """
    if not orders or min(orders) < 1:
        raise UsageError(f"--orders {list(orders)}: orders are whole numbers from 1")
    widest = max(orders)
    return least_equations(widest) + needed(kind, widest) - 1


def least_equations(widest: int) -> int:
    """How many equations a model of this order needs."""
    return LEAST_PER_PARAMETER * 2 * widest


def selected(candidates: Sequence[Candidate]) -> Candidate:
    """The least order that no higher one betters tangibly.

    Args:
        candidates: in increasing order, at least one.
    """
    best = candidates[0]
    for candidate in candidates[1:]:
        if candidate.rms < (1 - TANGIBLE_RATIO) * best.rms:
            best = candidate
    return best


def identifiable(candidate: Candidate) -> Candidate:
    """This candidate, once it is known that its data show the input's effect.

    Raises:
        UsageError: they do not, or the model is unstable.
    """
    if not candidate.t >= LEAST_T:
        raise UsageError(
            f"the model cannot be identified: the effect of the input is {candidate.t:.1f} standard errors from "
            f"none, {LEAST_T:g} are needed; let it run longer, set the budgets further apart, or load the server "
            "until connections wait"
        )
    candidate.model.usable()
    return candidate


def _candidate(
    pair: Pair, training: Sequence[Sample], validation: Sequence[Sample], order: int, widest: int
) -> Candidate:
    """The model of one order."""
    found = tuple(equations(training, pair.kind, order, widest))
    wanted = least_equations(widest)
    if len(found) < wanted:
        raise UsageError(
            f"the model cannot be identified: only {len(found)} of {len(training)} windows could be used, {wanted} "
            f"are needed for order {widest}; a window without dispatches in a class has no delay"
        )
    if len({one.regressor[order] for one in found}) < 2:
        raise UsageError("the model cannot be identified: the input never changed")
    estimate = estimated(found, order, pair.kind)[-1]
    model = Model.of(estimate.theta)
    judged = predictions(model, validation, pair, widest)
    if len(judged) < 2:
        raise UsageError("the model cannot be validated: the second seed has no windows that could be used")
    rms = math.sqrt(math.fsum((p.measured - p.predicted) ** 2 for p in judged) / len(judged))
    deviation = float(np.std([p.measured for p in judged]))
    errors, t = _certainty(estimate, found)
    fit_ratio = 1 - rms / deviation if deviation else 0.0
    return Candidate(model, errors, t, rms, fit_ratio, len(found), len(judged))


def _in_seconds(estimate: Estimate, unit: float) -> Estimate:
    """The estimate as it is for outputs that are not in units: the b_j are outputs per input, R one over q^2."""
    order = estimate.order
    per = [1 / unit] * order + [1.0] * order
    theta = (*estimate.theta[:order], *(unit * b for b in estimate.theta[order:]))
    spread = tuple(
        tuple(value * own * other for value, other in zip(row, per, strict=True))
        for row, own in zip(estimate.spread, per, strict=True)
    )
    return Estimate(theta, spread, estimate.equations, unit * unit * estimate.squared_error)


def _certainty(estimate: Estimate, found: Sequence[Equation]) -> tuple[tuple[float, ...], float]:
    """The standard errors of the parameters, and how many of its own the sum of the b_j is from 0."""
    residual = math.fsum((one.output - estimate.predicted(one.regressor)) ** 2 for one in found)
    freedom = max(1, len(found) - len(estimate.theta))
    covariance = residual / freedom * np.asarray(estimate.spread)
    order = estimate.order
    spread = math.sqrt(max(0.0, float(covariance[order:, order:].sum())))
    total = abs(sum(estimate.theta[order:]))
    t = total / spread if spread else math.inf * total if total else 0.0
    return tuple(math.sqrt(max(0.0, float(value))) for value in np.diag(covariance)), t
