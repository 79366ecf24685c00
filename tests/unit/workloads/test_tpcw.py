"""TPC-W's browsers: the mixes, the scaled times, and what their result says."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trimtab import codec
from trimtab.errors import UsageError
from trimtab.load_reports import Browsing, Class, Interaction, Latency, Summary
from trimtab.workloads._distribution import ClippedExponential
from trimtab.workloads._population import Closed, Population, Step, Url
from trimtab.workloads.tpcw import Tpcw, TpcwMix, data

NONE = Latency(0, None, None, None, None, None, None)


def stationary(thresholds: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """The share of each page in an endless walk.

    Args:
        thresholds: a row for each page, as in `Page`.
    """
    steps = np.array([_chances(row) for row in thresholds])
    # pi P = pi and sum(pi) = 1, as one overdetermined system.
    system = np.vstack([steps.T - np.eye(len(steps)), np.ones(len(steps))])
    shares: NDArray[np.float64] = np.linalg.lstsq(system, np.eye(len(steps) + 1)[-1], rcond=None)[0]
    return shares


def _chances(row: Sequence[int]) -> NDArray[np.float64]:
    reached = np.maximum.accumulate(np.array(row, dtype=float))
    chances: NDArray[np.float64] = np.diff(reached, prepend=0.0) / reached[-1]
    return chances


@pytest.mark.parametrize("mix", list(TpcwMix))
def test_an_endless_walk_has_the_printed_mix(mix: TpcwMix) -> None:
    printed = data()["mix"][mix]["percent"]
    graph = Tpcw(mix=mix).graph()
    for page, share in zip(graph.pages, stationary([page.thresholds for page in graph.pages]), strict=True):
        assert 100 * share == pytest.approx(printed[page.name], abs=0.006)


def test_the_stationary_distribution_is_that_of_a_chain_known_by_hand() -> None:
    # From a always to b; from b to a with 1/4, else it stays: 1/5 and 4/5.
    assert stationary([[0, 8], [2, 8]]) == pytest.approx([0.2, 0.8])


def test_every_time_of_the_user_is_scaled() -> None:
    (plain,), (fast,) = (Tpcw(browsers=3, time_scale=k).populations() for k in (1.0, 20.0))
    assert plain.graph is not None
    assert fast.graph is not None
    assert (plain.think_s, fast.think_s) == (ClippedExponential(7.0, 70.0), ClippedExponential(0.35, 3.5))
    assert plain.graph.session_s == ClippedExponential(900.0, 3600.0)
    assert fast.graph.session_s == ClippedExponential(45.0, 180.0)
    assert fast.graph.first_click_s == pytest.approx([at / 20 for at in plain.graph.first_click_s])
    assert Tpcw(time_scale=20).phases().duration_s == pytest.approx((600 + 1800 + 300) / 20)
    assert (plain.arrivals, plain.timeout_s) == (Closed(3), fast.timeout_s)


def test_customers_follow_the_browsers_and_pages_lie_where_the_url_says() -> None:
    def wire(**options: object) -> str:
        return json.dumps(codec.builtins(Tpcw(**options).graph()))  # type: ignore[arg-type]

    assert '"kind": "nu_rand", "a": 4095, "low": 1, "high": 28800' in wire(browsers=10)
    assert '"kind": "nu_rand", "a": 1023, "low": 1, "high": 500' in wire(customers=500)
    assert '"path": "/shop/home"' in wire()
    assert '"path": "/books/home"' in wire(urls=(Url("/books/"),))


def test_a_graph_leaves_nothing_to_the_fields_that_it_replaces() -> None:
    graph = Tpcw().graph()
    with pytest.raises(UsageError, match="left out where a graph is walked"):
        Population(class_name="a", arrivals=Closed(1), graph=graph, pages=(Url("/a"),))
    with pytest.raises(UsageError, match="thresholds of home must be 14"):
        pages = tuple(
            dataclasses.replace(p, thresholds=p.thresholds[1:]) if p.name == "home" else p for p in graph.pages
        )
        dataclasses.replace(graph, pages=pages)


def summary(
    counts: int, *, p90_s: float = 0.1, errors: int = 0, think_s: float = 7.0, duration_s: float = 1800
) -> Summary:
    def latency(count: int, mean_s: float) -> Latency:
        return Latency(count, mean_s, mean_s, mean_s, mean_s, mean_s, None)

    pages = tuple(
        Interaction(name, latency(counts, 0.05), p90_s, {"http_5xx": errors} if errors and name == "home" else {})
        for name in data()["pages"]["order"]
    )
    browsing = Browsing(duration_s, pages, latency(14 * counts, think_s), latency(3, 900.0), 5)
    one = Class("all", 1, 1, 1, 1, 1, NONE, NONE, NONE, NONE, NONE, NONE, {}, 0, 0, 0, 0, 0, 0, browsing)
    return Summary(duration_s, (one,), NONE, 0.1, False)


def test_wips_is_what_was_done_in_the_measured_part() -> None:
    result = Tpcw(browsers=10, mix=TpcwMix.ORDERING).judged(summary(180))
    assert result.metric == "WIPSo"
    assert result.wips == pytest.approx(14 * 180 / 1800)
    assert (result.valid, result.why_not) == (True, ())
    assert "not a TPC-W result" in result.table()
    assert json.loads(codec.encode(result))["interactions"][0]["page"] == "admin_confirm"


@pytest.mark.parametrize(
    ("said", "found", "options"),
    [
        ("90 % of home within 3.10 s, the limit is 3 s", summary(180, p90_s=3.1), {}),
        ("4 interactions failed", summary(180, errors=4), {}),
        ("must be 0.71 to 1.43", summary(10), {}),
        ("a mean think time of 6.00 s", summary(180, think_s=6.0), {}),
        ("a measurement of 1000.0 s, must be 1800.0 s", summary(100, duration_s=1000.0), {}),
        ("a ramp-up of 100.0 s, must be 600.0 s", summary(180), {"ramp_up_s": 100.0}),
        ("2880 customers, must be 28800 for 10 browsers", summary(180), {"customers": 2880}),
        ("the number of browsers changes, must stay the same", summary(180), {"schedule": (Step(900.0, 0.9),)}),
    ],
)
def test_a_run_that_is_not_valid_says_why(said: str, found: Summary, options: dict[str, Any]) -> None:
    result = Tpcw(browsers=10, **options).judged(found)
    assert not result.valid
    assert said in "; ".join(result.why_not)
    assert said in result.table()


def test_a_scaled_run_is_judged_by_scaled_times_and_says_so() -> None:
    result = Tpcw(browsers=10, time_scale=20).judged(summary(180, think_s=0.35, duration_s=90))
    assert result.valid
    assert result.wips == pytest.approx(28.0)
    assert "divided by 20" in result.note
