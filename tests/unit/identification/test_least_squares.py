"""Recursive least squares: by identities with the solution in one step, and by known systems."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests._white_noise import binary
from trimtab.identification.least_squares import Estimate, initial, updated

numbers = st.floats(-5, 5, allow_subnormal=False)


def after(rows: list[tuple[tuple[float, ...], float]], order: int, forgetting: float = 1.0) -> Estimate:
    estimate = initial(order)
    for regressor, output in rows:
        estimate = updated(estimate, regressor, output, forgetting)
    return estimate


def rows_of(
    theta: list[float], count: int, seed: int = 1, noise: float = 0.0
) -> list[tuple[tuple[float, ...], float]]:
    """Equations of a system that white noise excites."""
    order, rng = len(theta) // 2, random.Random(seed)
    outputs, inputs, rows = [0.0] * order, [0.0] * order, []
    for one in binary(seed, count):
        inputs = [20.0 * one - 10.0, *inputs[: order - 1]]
        q = (*outputs, *inputs)
        output = float(np.dot(theta, q)) + rng.gauss(0, noise)
        rows.append((q, output))
        outputs = [output, *outputs[: order - 1]]
    return rows


def test_it_begins_with_the_papers_values() -> None:
    estimate = initial(2)
    assert estimate.theta == (1.0, 1.0, 1.0, 1.0)
    assert np.array_equal(np.array(estimate.spread), 10 * np.eye(4))
    assert (estimate.order, estimate.equations) == (2, 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.tuples(numbers, numbers, numbers, numbers), numbers), min_size=1, max_size=25))
def test_it_is_the_regularised_least_squares_solution(rows: list[tuple[tuple[float, ...], float]]) -> None:
    """theta minimises sum (V - q theta)^2 + |theta - 1|^2 / 10, so its gradient is 0; R is the inverse Hessian."""
    estimate = after(rows, 2)
    q, v = np.array([row for row, _ in rows]), np.array([output for _, output in rows])
    hessian = q.T @ q + np.eye(4) / 10
    theta = np.array(estimate.theta)
    assert q.T @ (q @ theta - v) + (theta - 1) / 10 == pytest.approx(np.zeros(4), abs=1e-6)
    assert np.array(estimate.spread) @ hessian == pytest.approx(np.eye(4), abs=1e-7)


def test_forgetting_is_the_solution_with_weights_that_decay() -> None:
    """An equation that is j equations old weighs 0.9^j, and so does what the estimate began with."""
    rows = rows_of([0.5, 1.2], 6)
    weights = 0.9 ** np.arange(len(rows) - 1, -1, -1)
    q, v = np.array([row for row, _ in rows]), np.array([output for _, output in rows])
    start = 0.9 ** len(rows) / 10
    theta = np.linalg.solve((q.T * weights) @ q + start * np.eye(2), (q.T * weights) @ v + start)
    assert after(rows, 1, 0.9).theta == pytest.approx(theta, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.tuples(numbers, numbers), numbers), min_size=1, max_size=25), st.floats(0.8, 1.0))
def test_r_stays_symmetric_and_positive(rows: list[tuple[tuple[float, ...], float]], forgetting: float) -> None:
    spread = np.array(after(rows, 1, forgetting).spread)
    assert np.array_equal(spread, spread.T)
    assert np.linalg.eigvalsh(spread).min() > -1e-12


@pytest.mark.parametrize(
    "theta", [[0.5, 1.2], [0.74, -0.37, 0.95, -0.12], [-0.08, -0.2, -0.2, -0.05], [0.5, -0.2, 0.1, 1.0, 0.3, 0.2]]
)
def test_it_recovers_a_known_system_without_noise(theta: list[float]) -> None:
    estimate = after(rows_of(theta, 300), len(theta) // 2)
    assert estimate.theta == pytest.approx(theta, abs=0.02)


def test_it_recovers_a_known_system_in_noise() -> None:
    theta = [0.74, -0.37, 0.95, -0.12]
    assert after(rows_of(theta, 4000, noise=3.0), 2).theta == pytest.approx(theta, abs=0.04)


def test_forgetting_follows_a_system_that_changes_and_not_forgetting_does_not() -> None:
    rows = rows_of([0.5, 1.0], 400, noise=0.05) + rows_of([0.2, 3.0], 80, seed=2, noise=0.05)
    assert after(rows, 1, 0.95).theta == pytest.approx([0.2, 3.0], abs=0.1)
    assert abs(after(rows, 1).theta[1] - 3.0) > 0.5


def test_forgetting_without_news_does_not_blow_up() -> None:
    rows = rows_of([0.5, 1.0], 60) + [((2.0, 1.0), 2.0)] * 5000
    estimate = after(rows, 1, 0.9)
    assert np.trace(np.array(estimate.spread)) <= 20.0 + 1e-9
    assert estimate.theta == pytest.approx([0.5, 1.0], abs=0.05)


def test_the_squared_errors_are_those_of_predictions_made_before() -> None:
    estimate = updated(initial(1), (1.0, 2.0), 5.0)
    assert estimate.squared_error == pytest.approx((5.0 - 3.0) ** 2)
    assert estimate.predicted((1.0, 2.0)) == pytest.approx(5.0, abs=0.05)
