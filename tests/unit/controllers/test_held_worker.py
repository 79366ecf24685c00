from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests._idle_periods import Mixture, ended
from trimtab.controllers._held_worker import RISE, Prices, cheapest_s, most_earned_hz
from trimtab.controllers._intervals import Tally
from trimtab.controllers._survival import Survival

FALL_S = 300.0
START = Prices(0.0, 0.01).asking(1.0)
"""A held worker has to bring a request per second."""
TARGET_S = 0.02

amounts = st.floats(1e-4, 100.0)


def curve_of(mixture: Mixture, time_s: float = 15.0, periods: int = 60_000) -> Survival:
    """The estimate from many periods."""
    rng = np.random.default_rng(5)
    lengths, asks = mixture.draw(rng, periods)
    return Survival(Tally().seen(ended(lengths, asks, time_s, rng), time_s, 1e9, 1.0))


CURVE = curve_of(Mixture())


def brute_force(mixture: Mixture, prices: Prices) -> tuple[float, float]:
    """The best time of a fine grid and its cost, on the periods themselves: (C2) without any estimate."""
    times_s = np.concatenate([np.arange(0.01, 2.0, 0.01), np.arange(2.0, 15.1, 0.1)])
    asked, held_s = mixture.truth(times_s)
    costs = prices.mu * held_s - prices.connection_s * asked
    return float(times_s[np.argmin(costs)]), float(np.min(costs))


@pytest.mark.parametrize("earning_hz", [0.05, 0.3, 0.7, 2.0, 8.0])
@pytest.mark.parametrize("mixture", [Mixture(), Mixture(burst_s=0.55, thought=0.4), Mixture(think_s=0.6, leaves=0.0)])
def test_the_cheapest_time_costs_what_the_best_of_all_costs(mixture: Mixture, earning_hz: float) -> None:
    prices = Prices(earning_hz * 0.05 / (1 - earning_hz * 0.01), setup_s=0.01, wait_s=0.04)
    assert prices.earning_hz == pytest.approx(earning_hz)
    found_s = cheapest_s(curve_of(mixture), prices, 0.01, 15.0)
    _, least = brute_force(mixture, prices)
    (asked,), (held_s,) = mixture.truth(np.array([found_s]))
    assert (prices.mu * held_s - prices.connection_s * asked - least) / prices.connection_s < 0.015


def test_a_price_of_nothing_keeps_connections_and_a_high_one_ends_them_with_the_bursts() -> None:
    assert cheapest_s(CURVE, Prices(1e-9, 0.01), 0.4, 15.0) > 4.0
    assert cheapest_s(CURVE, Prices(10.0, 0.01), 0.4, 15.0) < 0.5


@settings(deadline=None)
@given(amounts, amounts, amounts, st.floats(1.0, 100.0), st.sampled_from(["mu", "setup_s", "wait_s"]))
def test_the_time_falls_with_the_price_of_a_worker_and_rises_with_that_of_a_connection(
    mu: float, setup_s: float, wait_s: float, factor: float, which: str
) -> None:
    prices = Prices(mu, setup_s, wait_s)
    dearer = replace(prices, **{which: factor * getattr(prices, which)})
    before_s, after_s = (cheapest_s(CURVE, one, 0.05, 15.0) for one in (prices, dearer))
    assert after_s <= before_s if which == "mu" else after_s >= before_s


@given(amounts, amounts, amounts)
def test_never_is_more_asked_of_a_worker_than_setting_up_a_connection_costs_it(
    mu: float, setup_s: float, wait_s: float
) -> None:
    assert Prices(mu, setup_s, wait_s).earning_hz < 1 / setup_s


@settings(deadline=None)
@given(amounts, st.floats(0.01, 10.0), st.floats(0.01, 20.0))
def test_the_time_stays_between_its_ends(mu: float, shortest_s: float, longer_s: float) -> None:
    found_s = cheapest_s(CURVE, Prices(mu, 0.01), shortest_s, shortest_s + longer_s)
    assert shortest_s <= found_s <= shortest_s + longer_s


def ascended(prices: Prices, scarcity: float | None, duration_s: float = 5.0, most_hz: float = 1e9) -> Prices:
    return prices.ascended(scarcity, FALL_S, duration_s, most_hz)


def test_prices_ask_what_they_were_made_to_ask() -> None:
    asking = Prices(0.0, 0.01, 0.4).asking(2.5)
    assert asking.earning_hz == pytest.approx(2.5)
    assert asking.mu == pytest.approx(2.5 * asking.connection_s)
    assert Prices(0.0, 0.01, 0.4).asking(1e9).earning_hz == pytest.approx(100.0, rel=0.01)


def test_the_price_rises_only_when_workers_have_been_scarce_for_a_while() -> None:
    one = ascended(ascended(START, 50.0), 50.0)
    two = ascended(one, 50.0)
    assert (one.earning_hz, two.earning_hz) == pytest.approx((1.0, RISE))
    calm = ascended(one, 0.5)
    assert ascended(calm, 50.0).earning_hz == pytest.approx(1.0), "the count begins anew"


@pytest.mark.parametrize(("duration_s", "factor"), [(10.0, RISE), (5.0, RISE), (2.5, RISE**0.5)])
def test_the_pace_is_by_time_and_at_most_a_factor_in_a_window(duration_s: float, factor: float) -> None:
    assert ascended(replace(START, scarce_s=60.0), 50.0, duration_s).earning_hz == pytest.approx(factor)


def test_a_little_too_long_a_wait_raises_the_price_a_little() -> None:
    assert ascended(replace(START, scarce_s=60.0), 1.2).earning_hz == pytest.approx(1.2)


def test_it_stays_near_the_wait_aimed_at_and_without_a_measured_one() -> None:
    for scarcity in (0.3, 0.9, None):
        assert ascended(START, scarcity).earning_hz == pytest.approx(1.0)


def test_it_falls_by_half_in_its_time_while_nobody_waits_and_not_below_the_least() -> None:
    prices = START
    for _ in range(60):
        prices = ascended(prices, 0.0)
    assert prices.earning_hz == pytest.approx(0.5)
    for _ in range(5000):
        prices = ascended(prices, 0.0)
    assert prices.earning_hz == pytest.approx(1 / 60)


def test_no_more_is_asked_than_what_changes_something() -> None:
    scarce = replace(START, scarce_s=60.0)
    for _ in range(50):
        scarce = ascended(scarce, 50.0, most_hz=4.0)
    assert scarce.earning_hz == pytest.approx(4.0)
    assert ascended(scarce, 0.5, most_hz=2.0).earning_hz == pytest.approx(2.0), "nor when that has become less"


def test_a_longer_wait_alone_asks_as_much_of_a_worker_as_before() -> None:
    prices = replace(START, known=True)
    for _ in range(10):
        prices = prices.measured({"connection_setup_s": 0.01, "accept_queue_delay_s": 30.0})
    assert prices.wait_s > 20
    assert prices.earning_hz == pytest.approx(1.0)
    assert prices.mu > 20


def test_a_dearer_setup_asks_less_of_a_worker_once_it_is_known() -> None:
    first = START.measured({"connection_setup_s": 0.0001})
    assert (first.setup_s, first.earning_hz) == pytest.approx((0.0001, 1.0)), "what was assumed had no price yet"
    dearer = first.measured({"connection_setup_s": 0.001})
    assert dearer.earning_hz < first.earning_hz
    assert dearer.mu == pytest.approx(first.mu)


def test_a_worker_of_which_more_is_asked_than_it_can_earn_is_not_held_beyond_the_bursts() -> None:
    most_hz = most_earned_hz(CURVE, 0.4)
    assert most_hz > 0
    assert cheapest_s(CURVE, START.asking(1.01 * most_hz), 0.4, 15.0) == 0.4
    assert cheapest_s(CURVE, START.asking(0.99 * most_hz), 0.4, 15.0) > 0.4
    assert most_earned_hz(CURVE, 1000.0) == 0.0


@pytest.mark.parametrize(
    ("readings", "scarcity"),
    [
        ({}, None),
        ({"accept_queue_delay_s": 0.06}, 3.0),
        ({"accept_queue_delay_s": 0.06, "idle_workers": 0.0}, RISE),
        ({"accept_queue_delay_s": 0.2, "idle_workers": 0.4}, 10.0),
        ({"accept_queue_delay_s": 0.2, "idle_workers": 8.0}, 1.0),
        ({"idle_workers": 0.0}, RISE),
        ({"idle_workers": 8.0}, 0.0),
    ],
)
def test_scarce_is_what_connections_wait_for_unless_workers_are_idle(
    readings: dict[str, float], scarcity: float | None
) -> None:
    assert START.scarcity(readings, TARGET_S) == (None if scarcity is None else pytest.approx(scarcity))


def test_the_price_of_a_connection_follows_what_is_measured_and_keeps_what_is_not() -> None:
    seen = START
    for _ in range(30):
        seen = seen.measured({"connection_setup_s": 0.05, "accept_queue_delay_s": 0.2})
    assert (seen.setup_s, seen.wait_s) == pytest.approx((0.05, 0.2), rel=0.01)
    assert seen.connection_s == pytest.approx((1 + seen.mu) * seen.setup_s + seen.wait_s)
    kept = seen.measured({})
    assert (kept.setup_s, kept.wait_s) == pytest.approx((seen.setup_s, seen.wait_s))
