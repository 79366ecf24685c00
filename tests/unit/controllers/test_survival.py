from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests._idle_periods import Mixture, bin_of, ended
from trimtab.controllers._intervals import BINS, Tally
from trimtab.controllers._survival import FEWEST, Survival

few_bins = st.dictionaries(st.integers(180, 300), st.floats(0.1, 1e4), max_size=8)


def estimated(mixture: Mixture, time_s: float, periods: int = 60_000, seed: int = 1) -> Survival:
    """The estimate from that many periods at a keep-alive time, with its trials."""
    rng = np.random.default_rng(seed)
    lengths, asks = mixture.draw(rng, periods)
    return Survival(Tally().seen(ended(lengths, asks, time_s, rng), time_s, 1e9, 1.0))


def dense(of: dict[int, float]) -> tuple[float, ...]:
    """The counts of all bins."""
    return tuple(of.get(index, 0.0) for index in range(BINS))


@pytest.mark.parametrize("time_s", [0.05, 0.2, 0.4, 1.0, 15.0])
def test_it_is_right_up_to_the_trials_however_short_the_time_in_force(time_s: float) -> None:
    """The truth is counted on periods that nobody ended; a naive count knows nothing beyond the time."""
    mixture = Mixture()
    curve = estimated(mixture, time_s)
    trial_s = max(2 * time_s, time_s + 0.5)
    times_s = np.array([0.25, 0.3, 0.4, 0.5, 0.9, 2.0, 5.0])
    times_s = times_s[times_s < min(trial_s, curve.horizon_s)]
    asked, held_s = mixture.truth(times_s)
    assert len(times_s) >= 4
    for at_s, share, mean_s in zip(times_s, asked, held_s, strict=True):
        assert curve.asked(at_s) == pytest.approx(share, abs=0.03), at_s
        assert curve.held_s(at_s) == pytest.approx(mean_s, rel=0.05), at_s


def test_clients_that_leave_are_no_requests() -> None:
    mixture = Mixture(leaves=0.9, think_s=0.5)
    curve = estimated(mixture, 15.0)
    (asked,), _ = mixture.truth(np.array([5.0]))
    assert curve.asked(5.0) == pytest.approx(asked, abs=0.01)
    assert curve.asked(5.0) < 0.84 < 1 - curve.lasting(5.0)


@given(few_bins, few_bins, few_bins)
def test_shares_stay_shares_and_no_period_is_lost(
    asked: dict[int, float], left: dict[int, float], cut: dict[int, float]
) -> None:
    curve = Survival(Tally(dense(asked), dense(left), dense(cut)))
    mirrored = Survival(Tally(dense(left), dense(asked), dense(cut)))
    before = (1.0, 0.0, 0.0)
    for edge_s in curve.edges_s:
        now = (curve.lasting(edge_s), curve.asked(edge_s), curve.held_s(edge_s))
        assert now[0] <= before[0] and now[1] >= before[1] and now[2] >= before[2]
        assert now[0] + now[1] + mirrored.asked(edge_s) == pytest.approx(1.0)
        assert now[2] <= edge_s * (1 + 1e-9)
        before = now


def test_without_cuts_it_is_what_was_counted() -> None:
    lengths = {200: 30.0, 210: 50.0, 220: 20.0}
    curve = Survival(Tally(asked=dense(lengths)))
    assert curve.asked(curve.edges_s[201]) == pytest.approx(0.3)
    assert curve.asked(curve.edges_s[211]) == pytest.approx(0.8)
    assert curve.lasting(curve.edges_s[211]) == pytest.approx(0.2)
    assert curve.asked_within(curve.edges_s[201], curve.edges_s[211]) == pytest.approx(50 / 70)


def test_nothing_is_said_beyond_what_enough_periods_have_reached() -> None:
    curve = Survival(Tally(asked=dense({208: 1000.0, 260: FEWEST - 1})))
    assert curve.edges_s[-1] == curve.horizon_s == pytest.approx(0.3020, abs=1e-3)
    assert curve.asked(100.0) == curve.asked(curve.horizon_s)
    assert curve.held_s(10.0) == pytest.approx(
        curve.held_s(curve.horizon_s) + (10 - curve.horizon_s) * 19 / 1019, rel=0.01
    )


@pytest.mark.parametrize("time_s", [0.1, 0.4, 2.0, 9.0])
def test_the_time_that_holds_so_long_is_the_inverse_of_how_long_a_time_holds(time_s: float) -> None:
    curve = estimated(Mixture(), 15.0)
    assert curve.time_holding(curve.held_s(time_s)) == pytest.approx(time_s, rel=1e-6)
    assert curve.time_holding(1e9) == curve.horizon_s
    assert curve.time_holding(0.0) == 0.0


def test_nothing_seen_is_a_horizon_of_nothing() -> None:
    curve = Survival(Tally())
    assert (curve.horizon_s, curve.asked(1.0), curve.lasting(1.0), curve.burst_end_s(0.05)) == (0.0, 0.0, 1.0, 0.0)
    assert curve.held_s(2.0) == 2.0


@pytest.mark.parametrize("time_s", [0.1, 0.45, 15.0])
@pytest.mark.parametrize(
    ("mixture", "end_s"), [(Mixture(), 0.44), (Mixture(burst_s=0.55), 0.8), (Mixture(early=0.6), 0.4)]
)
def test_bursts_end_where_the_hill_does(mixture: Mixture, end_s: float, time_s: float) -> None:
    """A hill at 3 ms before the one at 300 ms, as of clients near and far, is a part of the bursts."""
    reached_s = max(2 * time_s, time_s + 0.5)
    found_s = estimated(mixture, time_s).burst_end_s(0.05)
    assert 0.85 * min(end_s, reached_s) <= found_s <= 1.15 * end_s


def test_bursts_at_3_ms_alone_end_with_the_first_bin() -> None:
    curve = Survival(Tally(asked=dense({bin_of(0.003): 1000.0}), ended=dense({bin_of(15.0): 500.0})))
    assert 0.05 <= curve.burst_end_s(0.05) <= 0.06


def test_one_or_two_late_intervals_are_no_hill() -> None:
    late = Survival(Tally(asked=dense({bin_of(0.01): 30.0, bin_of(0.2): 2.0}), ended=dense({bin_of(15.0): 500.0})))
    more = Survival(Tally(asked=dense({bin_of(0.01): 30.0, bin_of(0.2): 3.0}), ended=dense({bin_of(15.0): 500.0})))
    assert late.burst_end_s(0.05) < 0.1
    assert more.burst_end_s(0.05) > 0.2


def test_what_a_worker_brings_is_requests_over_the_time_held() -> None:
    curve = Survival(Tally(asked=dense({240: 1000.0}), ended=dense({bin_of(60.0): 1000.0})))
    a, b = curve.edges_s[240], curve.edges_s[241]
    assert curve.earned_hz(a, b) == pytest.approx(0.5 / (0.75 * (b - a)))
    assert curve.earned_hz(b, 2 * b) == 0.0
