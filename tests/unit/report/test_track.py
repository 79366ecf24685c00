from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests._curve import NAME
from tests._stored_runs import track_of
from trimtab.core import Subject
from trimtab.core.trial import MoveState
from trimtab.errors import UsageError
from trimtab.report.track import estimate, ratio, tracks
from trimtab.store import Store

positive = st.integers(1, 1000).map(float)


def test_an_interval_is_students() -> None:
    """Mean 3, standard deviation sqrt(2.5), t(0.975, 4) = 2.7764."""
    e = estimate([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.7764451 * math.sqrt(2.5 / 5)
    assert e.mean == 3.0 and e.count == 5
    assert e.low == pytest.approx(3 - half, rel=1e-6)
    assert e.high == pytest.approx(3 + half, rel=1e-6)


def test_one_sample_has_no_interval() -> None:
    e = estimate([7.0])
    assert (e.mean, e.low, e.high, e.count) == (7.0, None, None, 1)
    assert ratio([1.0], [2.0, 3.0]).low is None


def test_a_ratio_is_of_geometric_means_by_welch_on_logs() -> None:
    """Logs 0, 1, 2 and 3, 5, 7: difference 4, variances 1 and 4, error sqrt(5 / 3), 2.94 degrees of freedom."""
    a, b = [math.exp(v) for v in (0, 1, 2)], [math.exp(v) for v in (3, 5, 7)]
    e = ratio(a, b)
    error = math.sqrt(1 / 3 + 4 / 3)
    freedom = (1 / 3 + 4 / 3) ** 2 / ((1 / 3) ** 2 / 2 + (4 / 3) ** 2 / 2)
    assert freedom == pytest.approx(50 / 17)
    t = float(stats.t.ppf(0.975, freedom))
    assert 3.1824 < t < 4.3027, "between those of 3 and of 2 degrees"
    assert e.mean == pytest.approx(math.exp(4))
    assert e.low is not None and e.high is not None
    assert math.log(e.low) == pytest.approx(4 - t * error, abs=1e-9)
    assert math.log(e.high) == pytest.approx(4 + t * error, abs=1e-9)


@given(st.lists(positive, min_size=2, max_size=6), st.lists(positive, min_size=2, max_size=6))
def test_a_ratio_turned_round_is_its_inverse(a: list[float], b: list[float]) -> None:
    one, other = ratio(a, b), ratio(b, a)
    assert one.mean == pytest.approx(1 / other.mean)
    assert one.low is not None and other.high is not None
    assert one.low * other.high == pytest.approx(1.0) or one.low == 0.0 or math.isinf(other.high)
    assert one.low <= one.mean * (1 + 1e-9)


def test_a_ratio_without_any_spread_is_exact() -> None:
    assert ratio([2.0, 2.0], [6.0, 6.0]).low == pytest.approx(3.0)


def test_a_run_is_untouched_up_to_the_window_that_the_first_applied_change_followed_from() -> None:
    moves = [(1, 99, MoveState.REFUSED), (3, 40, MoveState.APPLIED), (5, 30, MoveState.APPLIED)]
    track = track_of(Store(None), "x", lambda i, m: {"response_time_s": float(i)}, moves=moves)
    assert [window.index for window in track.untouched()] == [0, 1, 2, 3]
    assert [m.index for m in track.changes()] == [1, 3, 5]
    assert [m.index for m in track.applied()] == [3, 5]


def test_settled_is_the_second_half_where_it_was_measured() -> None:
    track = track_of(Store(None), "x", lambda i, m: {"response_time_s": float(i)} if i % 2 else {})
    assert track.settled("response_time_s") == [5.0, 7.0, 9.0]
    assert track.settled("cpu_ratio") == []


def test_a_series_has_window_centres_and_leaves_out_what_was_not_measured() -> None:
    track = track_of(Store(None), "x", lambda i, m: {"cpu_ratio": 0.5} if i == 2 else {}, windows=4)
    assert track.series("cpu_ratio") == ([5.0], [0.5])
    assert track.series(NAME) == ([1.0, 3.0, 5.0, 7.0], [150.0] * 4)


def test_a_run_is_called_by_its_label_else_by_its_controller() -> None:
    store = Store(None)
    assert track_of(store, "tuned", lambda i, m: {}).label == "tuned"
    assert track_of(store, "", lambda i, m: {}, controller="fuzzy").label == "fuzzy"


@pytest.mark.parametrize(
    ("plants", "simulated"),
    [
        (("simulated",), True),
        (("simulated", "simulated"), True),
        (("simulated", "apache"), False),
        (("apache",), False),
        (("one-that-is-gone",), False),
        ((), False),
    ],
)
def test_a_run_is_simulated_where_no_part_of_it_is_real(plants: tuple[str, ...], simulated: bool) -> None:
    track = track_of(Store(None), "x", lambda i, m: {})
    plan = replace(track.run.plan, subjects=tuple(map(Subject, plants)))
    assert replace(track, run=replace(track.run, plan=plan)).simulated is simulated


def test_a_run_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="no run 9"):
        tracks(Store(None), [9])
