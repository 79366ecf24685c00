"""Inputs, outputs and equations out of windows; gaps."""

from __future__ import annotations

import dataclasses

import pytest

from tests._classes import budget_knobs, class_window, delays
from trimtab.core import Role, Window, by_label
from trimtab.identification.signals import Equation, Kind, Pair, Sample, equation, equations

RELATIVE = Pair(Kind.RELATIVE, "premium", "basic")
ABSOLUTE = Pair(Kind.ABSOLUTE, "premium", "basic")
BUDGETS = by_label(budget_knobs(), Role.PROCESS_BUDGET)


def window(premium: float | None = 2.0, basic: float | None = 6.0) -> Window:
    return class_window({"premium": 96, "basic": 32}, delays({"premium": premium, "basic": basic}))


def samples(*values: tuple[float | None, float | None]) -> list[Sample]:
    return [Sample(u, v) for u, v in values]


def test_a_relative_sample_is_the_ratio_of_budgets_and_the_inverse_ratio_of_delays() -> None:
    assert RELATIVE.sample(window(), BUDGETS) == Sample(3.0, 3.0)


def test_an_absolute_sample_is_the_budget_and_the_delay_of_the_upper_class() -> None:
    assert ABSOLUTE.sample(window(basic=None), BUDGETS) == Sample(96.0, 2.0)


@pytest.mark.parametrize(("premium", "basic"), [(None, 6.0), (2.0, None), (0.0, 6.0), (None, None)])
def test_a_window_without_dispatches_in_one_class_has_no_ratio(premium: float | None, basic: float | None) -> None:
    assert RELATIVE.sample(window(premium, basic), BUDGETS) == Sample(3.0, None)


def test_a_window_that_was_cut_short_has_no_output() -> None:
    cut = dataclasses.replace(window(), aborted="it ran away")
    assert RELATIVE.sample(cut, BUDGETS).output is None
    assert ABSOLUTE.sample(cut, BUDGETS).output is None


def test_a_budget_that_is_not_known_is_no_input() -> None:
    bare = Window(0, 0.0, 30.0, {}, window().readings)
    assert RELATIVE.sample(bare, BUDGETS) == Sample(None, 3.0)
    assert ABSOLUTE.sample(bare, BUDGETS) == Sample(None, 2.0)


def test_another_reading_may_count_as_the_delay() -> None:
    pair = dataclasses.replace(ABSOLUTE, delay="connection_delay_p95_s")
    seen = Window(0, 0.0, 30.0, {"process_budget@premium": 9}, {"connection_delay_p95_s@premium": 7.0})
    assert pair.sample(seen, BUDGETS) == Sample(9.0, 7.0)


def test_an_equation_pairs_an_output_with_the_input_that_was_in_force_while_it_was_measured() -> None:
    run = samples((1, 10), (2, 20), (3, 30), (4, 40))
    assert equation(run, Kind.RELATIVE, 2) == Equation(3, (30, 20, 4, 3), 40)
    assert equation(run, Kind.RELATIVE, 1, index=1) == Equation(1, (10, 2), 20)


def test_an_absolute_equation_is_made_of_differences() -> None:
    run = samples((1, 10), (2, 21), (4, 33), (7, 46))
    assert equation(run, Kind.ABSOLUTE, 1) == Equation(3, (12, 3), 13)
    assert equation(run, Kind.ABSOLUTE, 2) == Equation(3, (12, 11, 3, 2), 13)


def test_there_is_no_equation_before_there_are_enough_samples() -> None:
    run = samples((1, 10), (2, 20), (3, 30))
    assert equation(run, Kind.RELATIVE, 3) is None
    assert equation(run, Kind.ABSOLUTE, 2) is None
    assert equation([], Kind.RELATIVE, 1) is None


def test_every_equation_that_needs_a_gap_is_skipped_and_no_other() -> None:
    run = samples(*((u, float(10 * u)) for u in range(1, 11)))
    run[4] = Sample(5.0, None)
    assert [one.index for one in equations(run, Kind.RELATIVE, 1, 1)] == [1, 2, 3, 6, 7, 8, 9]
    assert [one.index for one in equations(run, Kind.RELATIVE, 2, 2)] == [2, 3, 7, 8, 9]
    assert [one.index for one in equations(run, Kind.ABSOLUTE, 1, 1)] == [2, 3, 7, 8, 9]


def test_the_input_of_the_oldest_window_of_an_equation_is_not_needed() -> None:
    run = samples((None, 10), (2, 20))
    assert equation(run, Kind.RELATIVE, 1) == Equation(1, (10, 2), 20)


def test_orders_are_compared_on_the_same_windows() -> None:
    run = samples(*((u, float(u * u)) for u in range(1, 11)))
    indices = [[one.index for one in equations(run, Kind.RELATIVE, order, 3)] for order in (1, 2, 3)]
    assert indices[0] == indices[1] == indices[2] == [3, 4, 5, 6, 7, 8, 9]
