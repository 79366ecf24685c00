"""Limits come first: what breaks one costs more than all that keep them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.core import Limit, Objective, Window
from trimtab.core.objective import BROKEN

LATE = Limit("client_page_time_p95_s", 2.0, text="2s")
SHARE = Limit("idle_workers", 3.0, at_most=False)
PAGES = Objective("client_page_rate_hz", False, (LATE, SHARE))
values = st.floats(0, 1e12, allow_subnormal=False)


def window(**readings: float) -> Window:
    return Window(0, 0.0, 1.0, {}, readings)


def of(rate: float, late_s: float, idle: float) -> Window:
    return window(client_page_rate_hz=rate, client_page_time_p95_s=late_s, idle_workers=idle)


@settings(deadline=None)
@given(values, values, values, values, values, values)
def test_whatever_breaks_a_limit_costs_more_than_whatever_keeps_them(
    rate: float, late_s: float, idle: float, other_rate: float, other_late_s: float, other_idle: float
) -> None:
    one, other = of(rate, late_s, idle), of(other_rate, other_late_s, other_idle)
    kept = [late_s <= 2 and idle >= 3, other_late_s <= 2 and other_idle >= 3]
    costs = [PAGES.cost(one), PAGES.cost(other)]
    assert None not in costs
    if kept[0] and not kept[1]:
        assert costs[0] < costs[1]  # type: ignore[operator]
    if all(kept):
        assert costs == [-rate, -other_rate]


def test_the_farther_beyond_a_limit_the_more_it_costs() -> None:
    costs = [PAGES.cost(of(9.0, late_s, 3.0)) or 0.0 for late_s in (1.0, 2.0, 2.1, 4.0, 90.0)]
    assert costs == sorted(costs)
    assert costs[0] == costs[1] == -9.0
    assert PAGES.said(costs[3]) == "2 times its limits"


@pytest.mark.parametrize("missing", ["client_page_rate_hz", "client_page_time_p95_s", "idle_workers"])
def test_without_the_reading_of_a_limit_the_cost_is_not_known_and_its_name_is_said(missing: str) -> None:
    readings = {k: v for k, v in of(9.0, 1.0, 5.0).readings.items() if k != missing}
    assert PAGES.cost(window(**readings)) is None
    assert PAGES.missing(window(**readings)) == missing


@pytest.mark.parametrize("missing", ["client_page_rate_hz", "client_page_time_p95_s"])
def test_what_plainly_breaks_one_limit_is_no_unknown_cost_whatever_else_was_not_measured(missing: str) -> None:
    """As where every page fails, so that no page has a time."""
    readings = {k: v for k, v in of(9.0, 1.0, 1.0).readings.items() if k != missing}
    assert (PAGES.cost(window(**readings)) or 0.0) >= BROKEN
    assert (PAGES.excess(window(**readings)) or 0.0) > 0


def test_a_margin_is_what_is_left_in_the_metrics_unit() -> None:
    assert LATE.margin(of(1.0, 0.5, 0.0)) == 1.5
    assert SHARE.margin(of(1.0, 0.5, 1.0)) == -2.0
    assert LATE.margin(window()) is None


def test_an_objective_reads_as_it_was_asked_for() -> None:
    assert str(PAGES) == "maximize client_page_rate_hz subject to client_page_time_p95_s <= 2s, idle_workers >= 3"
    assert PAGES.broken(of(1.0, 3.0, 5.0)) == (LATE,)


@pytest.mark.parametrize("at_most", [True, False])
@settings(deadline=None)
@given(value=values, bound=values)
def test_the_excess_is_above_0_exactly_where_a_limit_is_broken(at_most: bool, value: float, bound: float) -> None:
    limit, seen = Limit("idle_workers", bound, at_most), window(idle_workers=value)
    margin, excess = limit.margin(seen), limit.excess(seen)
    assert margin is not None
    assert excess is not None
    assert (excess > 0) == (margin < 0)
