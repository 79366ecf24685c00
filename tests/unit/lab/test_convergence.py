from __future__ import annotations

import pytest

from tests._stored_runs import At, always, track_of
from trimtab.core.trial import MoveState
from trimtab.lab._convergence import SMOOTHED, reached, score
from trimtab.report.track import Track
from trimtab.store import Store


def falling(until: int, late_s: float = 1.0) -> At:
    """10 s per page in the windows before `until`, then `late_s`."""
    return lambda index, limit: {"response_time_s": 10.0 if index < until else late_s}


def run(at: At, **more: object) -> Track:
    return track_of(Store(None), "trim", at, windows=30, **more)


def test_the_first_window_of_a_running_mean_that_is_there_is_counted() -> None:
    assert reached(run(falling(7)), 1.1) == 7
    assert reached(run(falling(0)), 1.1) == 0


def test_it_is_counted_from_where_it_is_told() -> None:
    assert reached(run(falling(17)), 1.1, since=15) == 2


def test_never_is_not_a_number() -> None:
    assert reached(run(falling(27)), 1.1) is None, "three windows are not a running mean"
    assert reached(run(falling(30)), 1.1) is None


def test_one_bad_window_keeps_it_from_being_there() -> None:
    spoiled = run(lambda i, m: {"response_time_s": 3.0 if i == 4 else 1.0})
    assert reached(spoiled, 1.1) == 5, f"a mean of {SMOOTHED} with 3 s in it is 1.4 s"


def test_a_window_without_a_response_time_is_not_there() -> None:
    assert reached(run(lambda i, m: {} if i == 4 else {"response_time_s": 1.0}), 1.1) == 5


def test_a_score_by_hand() -> None:
    """Settled at 1.1 and 1.3 s; the reference of their seed is 1 s."""
    moves = [(2, 40, MoveState.APPLIED), (20, 41, MoveState.APPLIED), (25, 40, MoveState.REFUSED)]
    repeats = [run(falling(3, 1.1), moves=moves), run(falling(5, 1.3), moves=moves[:1])]
    s = score("trim", repeats, best_s={1: 1.0}, tolerance=0.2)
    assert s.settled_s.mean == pytest.approx(1.2)
    assert s.times_best.mean == pytest.approx(1.2)
    assert s.times_best.low is not None and s.times_best.high is not None
    half = 12.7062047 * 0.1  # t(0.975, 1) and the standard error of 1.1 and 1.3
    assert s.times_best.high - s.times_best.mean == pytest.approx(half, rel=1e-6)
    assert s.windows_to == (3, None)
    assert s.ends == (41, 40)
    assert s.changes == (2, 0), "the refused one was tried, so it counts as restless"
    assert s.spread_ratio == pytest.approx(1.3 / 1.1)


def test_a_method_that_measured_nothing_once_settled_has_no_score() -> None:
    with pytest.raises(ValueError, match="trim: no response time once settled"):
        score("trim", [run(lambda i, m: {"response_time_s": 1.0} if i < 10 else {})], {1: 1.0}, 0.1)


def test_a_single_repeat_has_no_interval() -> None:
    assert score("trim", [run(always({"response_time_s": 2.0}))], {1: 1.0}, 0.1).times_best.low is None


def test_each_repeat_is_measured_against_the_reference_of_its_own_seed() -> None:
    """A busier seed is slower at every setting: 2 s against 2 s is as good as 1 s against 1 s."""
    repeats = [run(always({"response_time_s": float(seed)}), seed=seed) for seed in (1, 2, 3)]
    s = score("trim", repeats, {1: 1.0, 2: 2.0}, 0.1)
    assert (s.times_best.mean, s.times_best.count) == (1.0, 2), "the third has no reference and is left out"
    assert s.windows_to == (0, 0)


def test_a_run_of_few_windows_is_judged_by_its_second_half() -> None:
    short = track_of(Store(None), "fuzzy", falling(4, 2.0), windows=8)
    assert score("fuzzy", [short], {1: 1.0}, 0.1).settled_s.mean == 2.0
