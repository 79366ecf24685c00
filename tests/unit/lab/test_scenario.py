"""A scenario is a pure function of its seed, within the stated ranges, and the same for both batteries."""

from __future__ import annotations

from dataclasses import asdict, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.lab._scenario import BASE_BYTES, MIB, RANGES, Scenario, draw
from trimtab.workloads._population import Closed, Poisson, Url

SEEDS = st.integers(1, 99)
PAGE = (Url("/page.php"),)


@settings(deadline=None, max_examples=40)
@given(SEEDS)
def test_a_seed_always_draws_the_same_scenario(seed: int) -> None:
    assert draw(seed) == draw(seed)


def test_different_seeds_draw_different_scenarios() -> None:
    assert len({replace(draw(seed), seed=0) for seed in range(1, 100)}) == 99


def test_a_seed_draws_what_it_drew_when_it_was_published() -> None:
    one = draw(1)
    assert (one.shape, one.pool, one.clients, one.burst) == ("ramp", "debian", "open", 7)
    assert one.cpu_s == pytest.approx(0.0536, rel=1e-3)


def test_every_field_but_the_seed_and_the_rounds_has_a_range_and_a_reason() -> None:
    assert {"seed", "rounds", *RANGES} == asdict(draw(1)).keys()
    assert all(len(why) > 10 for _, why in RANGES.values())


@settings(deadline=None, max_examples=40)
@given(SEEDS, st.sampled_from(sorted(RANGES)))
def test_a_field_is_drawn_from_a_stream_of_its_own(seed: int, name: str) -> None:
    """Whatever is added or taken away beside it."""
    if name != "php":
        assert asdict(draw(seed))[name] == RANGES[name][0](Random(f"{name}/{seed}"))


def test_a_threaded_server_has_no_php_inside() -> None:
    drawn = [draw(seed) for seed in range(1, 100)]
    assert all(one.php == "fpm" for one in drawn if one.mpm != "prefork")
    assert any(one.php == "fpm" for one in drawn if one.mpm == "prefork")


@settings(deadline=None, max_examples=40)
@given(SEEDS)
def test_the_peak_of_the_load_is_the_share_of_what_the_best_setting_can_serve(seed: int) -> None:
    scenario = draw(seed)
    (population,) = scenario.populations(1500.0, PAGE)
    factors = [step.factor for step in scenario.phases(1500.0)] or [1.0]
    assert max(factors) == pytest.approx(1.0)
    if isinstance(population.arrivals, Poisson):
        random = Random(seed)
        visits = [max(1, round(random.expovariate(1 / scenario.session_pages))) for _ in range(20_000)]
        requests_hz = population.arrivals.rate_hz * scenario.burst * sum(visits) / len(visits)
        assert requests_hz == pytest.approx(scenario.load_ratio * scenario.capacity_hz, rel=0.05)
    else:
        assert isinstance(population.arrivals, Closed)


def test_capacity_is_that_of_what_binds_first() -> None:
    free = replace(
        draw(1), cpu_s=0.01, wait_s=0.09, lock_ratio=0.0, worker_bytes=MIB, cold_ratio=0.0, memory_limit_bytes=1e12
    )
    assert free.capacity_hz == pytest.approx(100.0)
    assert replace(free, lock_ratio=0.5).capacity_hz == pytest.approx(20.0)
    two_fit = replace(free, memory_limit_bytes=BASE_BYTES + 2 * MIB)
    assert two_fit.capacity_hz == pytest.approx(20.0)
    assert replace(two_fit, cold_ratio=0.5).capacity_hz == pytest.approx(40.0)


@pytest.mark.parametrize(("shape", "ends"), [("step", 1.0), ("ramp", 1.0), ("rush", 0.5)])
def test_a_shape_begins_below_the_peak_and_ends_where_it_should(shape: str, ends: float) -> None:
    steps = replace(draw(1), shape=shape, shape_ratio=2.0).phases(1000.0)
    assert (steps[0].at_s, steps[0].factor) == (0.0, 0.5)
    assert steps[-1].factor == pytest.approx(ends)


def test_debians_pool_has_debians_limit() -> None:
    one: Scenario = replace(draw(1), pool="debian")
    assert one.max_request_workers == 150
    assert replace(one, pool="full", full_workers=40.2).max_request_workers == 40


@pytest.mark.parametrize("shape", ["steady", "step", "ramp", "rush"])
def test_several_rounds_are_the_same_course_one_after_another(shape: str) -> None:
    one = replace(draw(1), shape=shape)
    course = one.phases(100.0)
    again = replace(one, rounds=3).phases(300.0)
    assert again == tuple(replace(step, at_s=step.at_s + 100.0 * k) for k in range(3) for step in course)
