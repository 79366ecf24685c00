"""liu2003: the workload of Table II."""

from __future__ import annotations

import pytest

from trimtab.workloads._distribution import Constant, Gaussian, Lognormal
from trimtab.workloads._population import Connection, Poisson, Population
from trimtab.workloads.wagon import WORKLOAD


def population(**options: float) -> Population:
    (one,) = WORKLOAD(**options).populations()  # type: ignore[arg-type]
    return one


def test_the_defaults_are_table_2() -> None:
    one = population()
    assert one.arrivals == Poisson(10.0), "SessionRate: exponential with mean 0.1 s between sessions"
    assert one.session_pages == Lognormal(8.0, 3.0)
    assert one.burst_requests == Gaussian(7.0, 3.0)
    assert one.think_s == Lognormal(30.0, 30.0)


def test_a_burst_follows_on_one_persistent_connection_as_in_figure_3() -> None:
    one = population()
    assert one.connection is Connection.UNTIL_SERVER_CLOSES
    assert one.object_gap_s == Constant(0.0)


def test_time_scale_divides_the_think_time_and_leaves_the_session_rate() -> None:
    one = population(time_scale=30.0)
    assert one.think_s == Lognormal(1.0, 1.0)
    assert one.arrivals == Poisson(10.0)
    assert (one.session_pages, one.burst_requests) == (population().session_pages, population().burst_requests)


def test_rate_scale_multiplies_the_session_rate_alone() -> None:
    one = population(rate_scale=0.5)
    assert one.arrivals == Poisson(5.0)
    assert one.think_s == population().think_s


def test_little_s_result_gives_the_papers_number_of_sessions() -> None:
    one = population()
    assert isinstance(one.arrivals, Poisson)
    assert isinstance(one.think_s, Lognormal)
    assert isinstance(one.session_pages, Lognormal)
    thinking_s = one.think_s.mean * (one.session_pages.mean - 1)
    assert one.arrivals.rate_hz * thinking_s == pytest.approx(2100)
