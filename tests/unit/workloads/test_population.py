"""Populations: what is refused, and what crosses the border."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import UsageError
from trimtab.workloads._distribution import (
    BoundedPareto,
    BoundedWeibull,
    Constant,
    Exponential,
    Gaussian,
    Lognormal,
    Pareto,
    Weibull,
)
from trimtab.workloads._population import (
    Closed,
    Connection,
    ConstantRate,
    Poisson,
    Population,
    Step,
    Url,
    zipf,
)


def test_a_population_becomes_the_wire_message() -> None:
    population = Population(
        class_name="gold",
        arrivals=Poisson(2.5),
        session_pages=Lognormal(8, 3),
        burst_requests=Gaussian(7, 3),
        think_s=Exponential(1),
        pages=(Url("/a", 3), Url("/b")),
        connection=Connection.PER_PAGE,
        schedule=(Step(0, 0), Step(5, 2)),
        source="127.0.0.2",
    )
    assert json.loads(json.dumps(population.to_wire())) == {
        "class": "gold",
        "arrivals": {"kind": "poisson", "rate_hz": 2.5},
        "session_pages": {"kind": "lognormal", "mean": 8, "sigma": 3},
        "burst_requests": {"kind": "gaussian", "mean": 7, "sigma": 3},
        "think_s": {"kind": "exponential", "mean": 1},
        "object_gap_s": {"kind": "constant", "value": 0},
        "pages": [{"path": "/a", "weight": 3, "cpu_s": 0}, {"path": "/b", "weight": 1, "cpu_s": 0}],
        "objects": [],
        "connection": "per_page",
        "timeout_s": 30,
        "schedule": [{"at_s": 0, "factor": 0}, {"at_s": 5, "factor": 2}],
        "source": "127.0.0.2",
    }


def test_a_network_is_told_where_there_is_one() -> None:
    plain, far = (Population(class_name="a", arrivals=Poisson(1), round_trip_s=s).to_wire() for s in (0.0, 0.1))
    assert "round_trip_s" not in plain
    assert far == {**plain, "round_trip_s": 0.1}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"class_name": " "}, "class"),
        ({"pages": ()}, "pages"),
        ({"timeout_s": 0.0}, "timeout 0"),
        ({"timeout_s": math.nan}, "timeout nan"),
        ({"source": "10.0.0.1"}, "source '10.0.0.1'"),
        ({"source": "::1"}, "source"),
        ({"round_trip_s": -1.0}, "round trip -1"),
        ({"schedule": (Step(5, 1), Step(2, 1))}, "steps"),
        ({"schedule": (Step(5, 1), Step(5, 2))}, "steps"),
    ],
)
def test_a_population_with_an_impossible_value_is_refused_by_name(change: dict[str, Any], name: str) -> None:
    with pytest.raises(UsageError, match=name):
        Population(**{"class_name": "all", "arrivals": Poisson(1), **change})


def test_a_step_to_more_users_or_sessions_than_there_is_memory_for_is_refused() -> None:
    def with_step(arrivals: Closed | ConstantRate, factor: float) -> Population:
        return Population(class_name="all", arrivals=arrivals, schedule=(Step(5, factor),))

    with pytest.raises(UsageError, match="step factor 1001 is not allowed: it must be at most 1000, for"):
        with_step(Closed(1000), 1001)
    with pytest.raises(UsageError, match=r"rate 2e\+07 is not allowed: it must be at most 1e\+07 sessions/s"):
        with_step(ConstantRate(1e4), 2000)
    assert with_step(Closed(1000), 1000).schedule == with_step(ConstantRate(1e4), 1000).schedule


@pytest.mark.parametrize(
    "build",
    [
        lambda: Poisson(0),
        lambda: ConstantRate(math.inf),
        lambda: Closed(0),
        lambda: Url("index.html"),
        lambda: Url("/a b"),
        lambda: Url("/a\r\nX: y"),
        lambda: Url("/a", 0),
        lambda: Url("/a", math.nan),
        lambda: Url("/a", 1, -1),
        lambda: Step(-1, 1),
        lambda: Step(1, -1),
        lambda: Constant(-1),
        lambda: Exponential(0),
        lambda: Lognormal(0, 1),
        lambda: Lognormal(1, -1),
        lambda: Gaussian(1, -1),
        lambda: Gaussian(math.inf, 1),
        lambda: Pareto(0, 1),
        lambda: Weibull(1, 0),
        lambda: BoundedPareto(2, 1, 2),
        lambda: BoundedPareto(1, 1, 2, -1),
        lambda: BoundedWeibull(1, 1, 0),
    ],
)
def test_a_part_with_an_impossible_value_is_refused(build: Any) -> None:
    with pytest.raises(UsageError, match="is not allowed: it must be"):
        build()


@given(st.integers(2, 50), st.floats(0, 3))
def test_zipf_weights_follow_the_rank(count: int, exponent: float) -> None:
    weights = [url.weight for url in zipf([Url(f"/{i}") for i in range(count)], exponent)]
    assert weights[0] == 1
    assert weights[-1] == pytest.approx(count**-exponent)
    assert weights == sorted(weights, reverse=True)
