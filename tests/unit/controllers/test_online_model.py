"""The model that is estimated in the loop."""

from __future__ import annotations

import numpy as np
import pytest

from tests._classes import TWO, budget_knobs, class_window, delays
from tests._white_noise import binary
from trimtab.controllers._classes import ClassControl, Group
from trimtab.controllers._online_model import OnlineModel, begun, samples_of
from trimtab.core import Objective, Window
from trimtab.identification.model import Model
from trimtab.identification.signals import Kind, Sample, equation

FIRST = Model((0.74, -0.37), (0.95, -0.12))
GROUP: Group = ClassControl(Objective("connection_delay_s@premium"), TWO, (1.0, 3.0)).group(budget_knobs(), "test", 2)
LAMBDA, ANCHOR = 0.9, 0.3


def windows(model: Model, count: int, still: bool = False) -> list[Window]:
    """White noise on the budgets, and the delay ratio that a model makes of it."""
    outputs, inputs, found = [2.0, 2.0], [1.0, 1.0], []
    for index, one in enumerate(binary(4, count)):
        premium = 64 if still else 64 + 32 * one
        inputs = [premium / (128 - premium), inputs[0]]
        ratio = model.predicted((*outputs, *inputs))
        outputs = [ratio, outputs[0]]
        budgets = {"premium": premium, "basic": 128 - premium}
        found.append(class_window(budgets, delays({"premium": 10.0, "basic": 10.0 * ratio}), index))
    return found


def after(seen: list[Window], anchor: float = ANCHOR) -> OnlineModel:
    online = begun(Kind.RELATIVE, FIRST, LAMBDA, anchor, 64.0)
    for window in seen:
        online = online.learned(GROUP, window)
    return online


def test_it_begins_as_the_first_model() -> None:
    assert after([]).model == FIRST


def test_it_is_the_least_squares_solution_that_forgets_and_is_tied() -> None:
    """R^-1 and R^-1 theta are their own decaying sums; theta solves them."""
    seen = windows(Model((0.6, -0.2), (1.5, 0.1)), 12)
    samples = [samples_of(Kind.RELATIVE, GROUP, window)[0] for window in seen]
    first = np.linalg.inv(np.array(after([]).first.spread))
    information, moment = first.copy(), first @ np.array(FIRST.theta)
    tied = (1 - LAMBDA) * ANCHOR * first
    for index in range(len(samples)):
        row = equation(samples, Kind.RELATIVE, 2, index)
        if row is None or len({sample.input for sample in samples[: index + 1]}) == 1:
            continue
        q = np.array(row.regressor)
        information = LAMBDA * information + np.outer(q, q) + tied
        moment = LAMBDA * moment + q * row.output + tied @ np.array(FIRST.theta)
    assert after(seen).estimate.theta == pytest.approx(np.linalg.solve(information, moment), abs=1e-9)


def test_it_follows_a_server_whose_input_does_more() -> None:
    more = Model(FIRST.a, tuple(3 * b for b in FIRST.b))
    assert after(windows(more, 120)).model.gain == pytest.approx(more.gain, rel=0.1)
    assert after(windows(more, 120)).model.b[0] == pytest.approx(more.b[0], rel=0.1)


def test_without_a_tie_it_comes_to_the_truth_and_with_one_it_stays_between() -> None:
    other = Model((0.3, -0.5), (2.0, 0.5))
    free, tied = (after(windows(other, 120), anchor).model for anchor in (0.0, 1.0))
    assert free.theta == pytest.approx(other.theta, abs=0.01)
    assert FIRST.b[0] < tied.b[0] < other.b[0]
    assert abs(tied.a[0] - FIRST.a[0]) < abs(free.a[0] - FIRST.a[0])


def test_a_loop_that_stands_still_and_one_without_delays_teach_nothing() -> None:
    assert after(windows(Model((0.5, 0.1), (3.0, 0.0)), 50, still=True)).estimate == after([]).estimate
    blind = [class_window({"premium": 96 - i % 2, "basic": 32}, {}, i) for i in range(50)]
    assert after(blind).estimate == after([]).estimate


def test_a_lower_bound_of_a_delay_is_no_sample() -> None:
    waiting = {"connection_delay_s@premium": 2.0, "oldest_wait_s@basic": 9.0}
    window = class_window({"premium": 96, "basic": 32}, waiting)
    assert samples_of(Kind.RELATIVE, GROUP, window) == (Sample(3.0, None),)
    assert samples_of(Kind.ABSOLUTE, GROUP, window) == (Sample(96, 2.0), Sample(32, None))


def absolute_gain(unit: float) -> float:
    """Gain of the model over the first one's, once the input does three times as much; delays in units."""
    first = Model((-0.08, -0.2), (-0.2 * unit, -0.05 * unit))
    online, premium, delay_s = begun(Kind.ABSOLUTE, first, LAMBDA, ANCHOR, 64.0), 64, 100.0 * unit
    outputs, inputs = [0.0, 0.0], [0.0, 0.0]
    for index, one in enumerate(binary(4, 300)):
        server = Model(first.a, tuple(b * (1 if index < 150 else 3) for b in first.b))
        inputs, premium = [float(64 + 32 * one - premium), inputs[0]], 64 + 32 * one
        outputs = [server.predicted((*outputs, *inputs)), outputs[0]]
        delay_s += outputs[0]
        budgets = {"premium": premium, "basic": 128 - premium}
        online = online.learned(GROUP, class_window(budgets, delays({"premium": delay_s}), index))
    return online.model.gain / first.gain


def test_an_absolute_model_follows_the_server_alike_whether_delays_are_seconds_or_milliseconds() -> None:
    slow, fast = absolute_gain(1.0), absolute_gain(0.001)
    assert slow > 2.0
    assert fast == pytest.approx(slow, rel=1e-6)
