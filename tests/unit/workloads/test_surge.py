"""SURGE: every published distribution, tested with Kolmogorov and Smirnov's statistic where it is drawn here.

Those that the native programs draw (OFF times, embedded files) are tested in `native/wire/src/sample.rs`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import pytest

from trimtab.errors import UsageError
from trimtab.workloads import _surge_files as surge_files
from trimtab.workloads._choice import workload
from trimtab.workloads._distribution import BoundedPareto, BoundedWeibull, Constant
from trimtab.workloads._population import Closed, Connection, Population, Step, Url
from trimtab.workloads._surge_files import FileSet, path, size_bytes
from trimtab.workloads.surge import WORKLOAD

CDF = Callable[[float], float]


def misfit(values: Sequence[float], weights: Sequence[float], cdf: CDF) -> float:
    """Kolmogorov and Smirnov's statistic of weighted values."""
    total, below, worst = sum(weights), 0.0, 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        worst = max(worst, abs(cdf(value) - below / total))
        below += weight
        worst = max(worst, abs(cdf(value) - below / total))
    return worst


def equally(values: Sequence[float], cdf: CDF) -> float:
    return misfit(values, [1.0] * len(values), cdf)


def published_sizes(mu: float = 9.357, sigma: float = 1.318, shape: float = 1.1, most: float = 5e6) -> CDF:
    """Sizes as in the paper, written down apart from the code: lognormal below 133 KB, Pareto above, 93 to 7."""
    body = NormalDist(mu, sigma)

    def cdf(size: float) -> float:
        if size < 133_000:
            return 0.93 * body.cdf(math.log(size)) / body.cdf(math.log(133_000))
        return 0.93 + 0.07 * (1 - math.pow(133_000 / size, shape)) / (1 - math.pow(133_000 / most, shape))

    return cdf


def pareto(least: float, shape: float) -> CDF:
    return lambda size: 1 - math.pow(least / max(size, least), shape)


def test_file_sizes_follow_the_published_body_and_tail() -> None:
    sizes = FileSet(5000, seed=3).sizes_bytes
    # Stratified sizes are far closer than independent ones, whose critical value at 0.001 is this.
    critical = 1.95 / math.sqrt(5000)
    assert equally(sizes, published_sizes()) < critical / 10
    assert equally(sizes, published_sizes(mu=9.5)) > critical
    assert equally(sizes, published_sizes(sigma=1.2)) > critical / 2
    tail = [size for size in sizes if size >= 133_000]
    assert len(tail) == pytest.approx(350, abs=1)
    assert max(sizes) <= 5_000_000
    assert equally(tail, lambda s: (published_sizes()(s) - 0.93) / 0.07) < 0.01
    assert equally(tail, lambda s: (published_sizes(shape=1.4)(s) - 0.93) / 0.07) > 0.05


def test_a_quantile_of_the_sizes_is_the_inverse_of_their_distribution() -> None:
    for probability in (0.001, 0.3, 0.929, 0.931, 0.999):
        assert published_sizes()(size_bytes(probability, 5e6)) == pytest.approx(probability, abs=1e-9)


def test_popularity_is_zipfs_and_names_are_ranks() -> None:
    urls = FileSet(100).urls
    assert [url.path for url in urls[:2]] == ["/surge/00001.html", "/surge/00002.html"]
    assert urls[0].weight / urls[9].weight == pytest.approx(10)
    assert urls[99].path == path(100)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_request_sizes_come_as_near_to_the_published_pareto_as_the_most_popular_file_allows(seed: int) -> None:
    sizes = list(FileSet(1000, seed).sizes_bytes)
    weights = [1 / rank for rank in range(1, 1001)]
    share = weights[0] / sum(weights)
    assert misfit(sizes, weights, pareto(1000, 1.0)) < 0.6 * share
    random.Random(seed).shuffle(sizes)
    assert misfit(sizes, weights, pareto(1000, 1.0)) > 3 * share, "matching is not what brings them near"


def test_a_file_set_depends_on_its_seed_alone() -> None:
    assert FileSet(50, 1).sizes_bytes == FileSet(50, 1).sizes_bytes
    assert FileSet(50, 1).sizes_bytes != FileSet(50, 2).sizes_bytes
    assert len(FileSet(1).sizes_bytes) == 1
    assert sum(FileSet().sizes_bytes) < 60e6


@pytest.mark.parametrize("wrong", [{"files": 0}, {"files": 100_001}, {"largest_bytes": surge_files.CUTOFF_BYTES}])
def test_a_file_set_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        FileSet(**wrong)


def population(**options: Any) -> Population:
    (one,) = WORKLOAD(**options).populations()
    return one


def test_the_defaults_are_the_published_parameters() -> None:
    one = population()
    assert one.arrivals == Closed(100)
    assert one.burst_requests == BoundedPareto(1.0, 2.43, 100.0, offset=1.0)
    assert one.object_gap_s == BoundedWeibull(1.46, 0.382, 300.0)
    assert one.think_s == BoundedPareto(1.0, 1.5, 300.0)
    assert one.session_pages == Constant(1e9), "a user equivalent never ends"
    assert one.connection is Connection.UNTIL_SERVER_CLOSES
    assert one.pages == FileSet(1000).urls


def test_time_scale_divides_the_off_times_alone() -> None:
    one = population(time_scale=30.0)
    assert one.object_gap_s == BoundedWeibull(1.46 / 30, 0.382, 10.0)
    assert one.think_s == BoundedPareto(1 / 30, 1.5, 10.0)
    assert one.burst_requests == population().burst_requests


def test_the_options_of_every_workload_hold_here_too() -> None:
    given = {
        "users": "7",
        "class_name": "gold",
        "source": "127.0.1.1",
        "schedule": ["870s=2"],
        "urls": ["/a", "/b=2"],
    }
    (one,) = workload("surge", given).populations()
    assert (one.arrivals, one.class_name, one.source) == (Closed(7), "gold", "127.0.1.1")
    assert one.schedule == (Step(870, 2),)
    assert one.pages == (Url("/a"), Url("/b", 2))


@pytest.mark.parametrize("wrong", [{"users": 0}, {"time_scale": 0.0}, {"inactive_off_most_s": 1.0}, {"files": 0}])
def test_users_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        WORKLOAD(**wrong)
