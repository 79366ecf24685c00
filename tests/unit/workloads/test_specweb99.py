"""SPECweb99-like load: shares, sizes and popularity against the published tables, intervals against the paper's hill.

The distributions that the native programs draw are tested in `native/wire/src/sample.rs`.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pytest
from scipy import stats

from trimtab.errors import UsageError
from trimtab.workloads._choice import workload
from trimtab.workloads._distribution import BoundedPareto, Constant, Gaussian, Lognormal
from trimtab.workloads._population import Closed, Connection, Population, Url
from trimtab.workloads._specweb99_files import SHARES, WITHIN_CLASS, Mix, SpecFileSet, path, size_bytes
from trimtab.workloads.specweb99 import WORKLOAD

DRAWS = 40_000
CRITICAL = 0.001


def drawn(mix: Mix, directories: int) -> list[tuple[int, int, int]]:
    """Directory, class and number of files drawn by their weights."""
    files = list(SpecFileSet(directories, mix).files())
    chosen = random.Random(5).choices(files, [file.weight for file in files], k=DRAWS)
    names = [file.path.split("/") for file in chosen]
    return [(int(where[3:]), int(what[5]), int(what[7])) for _, _, where, what in names]


def fits(counts: list[int], shares: list[float]) -> bool:
    """Whether counts could come from shares, by chi-square."""
    total = sum(counts)
    expected = [total * share / sum(shares) for share in shares]
    return float(stats.chisquare(counts, expected).pvalue) > CRITICAL


@pytest.mark.parametrize(
    ("mix", "shares"), [(Mix.STANDARD, [0.35, 0.50, 0.14, 0.01]), (Mix.LARGE, [0.01, 0.14, 0.50, 0.35])]
)
def test_classes_are_asked_for_as_in_table_2(mix: Mix, shares: list[float]) -> None:
    seen = Counter(kind for _, kind, _ in drawn(mix, 3))
    assert fits([seen[kind] for kind in range(4)], shares)
    assert not fits([seen[kind] for kind in range(4)], [0.30, 0.50, 0.15, 0.05])


def test_directories_follow_zipfs_law() -> None:
    seen = Counter(directory for directory, _, _ in drawn(Mix.STANDARD, 20))
    counts = [seen[directory] for directory in range(20)]
    assert fits(counts, [1 / rank for rank in range(1, 21)])
    assert not fits(counts, [rank**-0.9 for rank in range(1, 21)])


@pytest.mark.parametrize("kind", range(3))
def test_files_of_a_class_have_the_published_shares_which_are_zipfs(kind: int) -> None:
    seen = Counter(number for _, one, number in drawn(Mix.STANDARD, 3) if one == kind)
    counts = [seen[number] for number in range(9)]
    assert fits(counts, list(WITHIN_CLASS))
    assert sorted(WITHIN_CLASS, reverse=True) == pytest.approx(
        [1 / rank / sum(1 / r for r in range(1, 10)) for rank in range(1, 10)], abs=6e-4
    )
    assert WITHIN_CLASS.index(max(WITHIN_CLASS)) == 4


def test_sizes_are_nine_steps_in_each_of_four_decades() -> None:
    assert [size_bytes(0, n) for n in (0, 1, 8)] == [102, 205, 922]
    assert [size_bytes(kind, 0) for kind in range(1, 4)] == [1024, 10_240, 102_400]
    assert size_bytes(3, 8) == 921_600
    files = list(SpecFileSet(2).files())
    assert len(files) == len({file.path for file in files}) == 72
    assert sum(file.size_bytes for file in files) == pytest.approx(2 * 5.12e6, rel=0.01)


@pytest.mark.parametrize(("mix", "mean_bytes"), [(Mix.STANDARD, 14.7e3), (Mix.LARGE, 204e3)])
def test_the_mean_reply_is_that_of_the_mix(mix: Mix, mean_bytes: float) -> None:
    files = list(SpecFileSet(5, mix).files())
    mean = sum(file.weight * file.size_bytes for file in files) / sum(file.weight for file in files)
    assert mean == pytest.approx(mean_bytes, rel=0.02)


def population(**options: Any) -> Population:
    (one,) = WORKLOAD(**options).populations()
    return one


def test_the_defaults_are_the_papers_load() -> None:
    one = population()
    assert one.arrivals == Closed(400)
    assert one.think_s == BoundedPareto(1.0, 1.5, 300.0), "Barford and Crovella's inactive OFF time"
    assert one.burst_requests == Gaussian(4.0, 2.0)
    assert one.session_pages == Constant(1e9), "a user never ends"
    assert one.connection is Connection.UNTIL_SERVER_CLOSES
    assert one.pages == SpecFileSet(20).urls
    assert one.to_wire()["round_trip_s"] == 0.1


def histogram(one: Population) -> list[float]:
    """Share of the intervals that the server sees in each bin of 50 ms, from the distributions' own formulas."""
    gap, think = one.object_gap_s, one.think_s
    assert isinstance(gap, Lognormal) and isinstance(think, BoundedPareto)
    variance = math.log1p((gap.sigma / gap.mean) ** 2)
    within = stats.lognorm(math.sqrt(variance), scale=gap.mean * math.exp(-variance / 2))

    def thought(x: float) -> float:
        cut = 1 - (think.scale / think.most) ** think.shape
        return (1 - (think.scale / min(think.most, x)) ** think.shape) / cut if x > think.scale else 0.0

    def cdf(x: float) -> float:
        x -= one.round_trip_s
        return 0.75 * float(within.cdf(x)) + 0.25 * thought(x)

    return [cdf((bin_ + 1) * 0.05) - cdf(bin_ * 0.05) for bin_ in range(400)]


def test_the_server_sees_the_hill_of_fig_7() -> None:
    seen = histogram(population())
    assert seen.index(max(seen)) in (4, 5, 6), "its top is at 200 to 350 ms"
    assert sum(seen[4:8]) / sum(seen[:16]) > 0.8
    below = [k for k in range(3, 40) if seen[k] < 0.05 * sum(seen[: k + 1])]
    assert below[0] * 50 == 450, "where the paper's histogram falls below 5 %"
    assert sum(seen[12:22]) < 0.005, "nobody thinks for less than a second"


def test_options_are_read_as_typed() -> None:
    (one,) = workload(
        "specweb99", {"users": "7", "mix": "large", "round_trip_s": "20ms", "gap_mean_s": "1s"}
    ).populations()
    assert (one.arrivals, one.round_trip_s, one.object_gap_s) == (Closed(7), 0.02, Lognormal(1.0, 0.08))
    assert one.pages == SpecFileSet(20, Mix.LARGE).urls
    assert population(urls=(Url("/a"),)).pages == (Url("/a"),)
    assert SHARES[Mix.LARGE][3] == 0.35
    assert path(3, 2, 1) == "/file_set/dir00003/class2_1"


@pytest.mark.parametrize(
    "wrong",
    [
        *({"users": 0}, {"directories": 0}, {"gap_mean_s": 0.0}, {"round_trip_s": -0.1}, {"round_trip_s": math.nan}),
        *({"think_most_s": 1.0}, {"objects_sigma": -1.0}),
    ],
)
def test_a_load_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        WORKLOAD(**wrong)
