"""sugiki2005, sections 3.2 and 5: Fig. 4's control on histograms of the shape of the paper's figures."""

from __future__ import annotations

from statistics import NormalDist

import pytest

from tests._idle_periods import NAME, time_knob, window_at
from trimtab.controllers.keep_alive import KeepAlive, KeepAliveState, greatest_interval
from trimtab.core import Objective, Trial

TARGET, ALPHA, GAIN = 0.05, 0.9, 5.0
OBJECTIVE = Objective()


def hill(mean_s: float, sd_s: float, thoughts: float = 1.0, count: float = 500.0) -> dict[int, float]:
    """A hill of intervals within bursts, and as many thoughts in each bin from 0.5 s to 10 s; bins of 50 ms."""
    shape = NormalDist(mean_s, sd_s)
    hist = {t: count * (shape.cdf((t + 1) * 0.05) - shape.cdf(t * 0.05)) for t in range(40)}
    return {t: hist.get(t, 0.0) + (thoughts if 10 <= t < 200 else 0.0) for t in range(200)}


STANDARD = hill(0.3, 0.08)
"""Fig. 7: the hill of the standard load is spread around 300 ms."""
LARGE = hill(0.6, 0.2)
"""Fig. 11: with larger files it is wider."""
WITHIN_MS = 65
"""A bin, and the step by which section 3.2.2 puts right what has become too short."""


def cut(hist: dict[int, float], time_ms: float) -> dict[int, float]:
    """What is left to see of the intervals when connections end at that time."""
    whole, part = divmod(time_ms / 50, 1)
    return {t: count * (1.0 if t < whole else part) for t, count in hist.items() if t <= whole}


def played(hist: dict[int, float], controls: int, time_ms: int = 15_000) -> list[int]:
    """The times in force after each control on the same histogram."""
    controller = KeepAlive(OBJECTIVE, intervals=1)
    state: KeepAliveState = controller.start((time_knob(),), 0)
    times_ms = []
    for index in range(controls):
        seen = {f"intervals_50ms@{t}": count for t, count in cut(hist, time_ms).items()}
        state, move = controller.step(state, Trial(window_at(time_ms, seen, index)))
        time_ms = move.changes.get(NAME, time_ms)
        times_ms.append(time_ms)
    return times_ms


def test_the_papers_constants_are_the_defaults() -> None:
    controller = KeepAlive(OBJECTIVE)
    assert (controller.target, controller.alpha, controller.gain) == (TARGET, ALPHA, GAIN)


@pytest.mark.parametrize(("hist", "papers_ms"), [(STANDARD, 450), (LARGE, 850)], ids=["Fig. 7", "Fig. 11"])
def test_fig_7_and_11_the_time_is_where_the_hill_has_ended(hist: dict[int, float], papers_ms: int) -> None:
    found = greatest_interval(hist, 300.0, TARGET, GAIN)
    assert found.greatest == papers_ms / 50
    assert found.err is None
    settled = played(hist, 200)[-50:]
    assert all(papers_ms <= time_ms <= papers_ms + WITHIN_MS for time_ms in settled), settled


def test_fig_8_the_time_comes_down_geometrically_from_15_s() -> None:
    times_ms = played(STANDARD, 200)
    for n in range(1, 40):
        assert times_ms[n - 1] == pytest.approx(450 + (15_000 - 450) * ALPHA**n, abs=1.0), n


def test_fig_8_it_has_settled_after_about_fifty_controls_and_is_put_right_now_and_then() -> None:
    """The paper sees corrections by section 3.2.2 at about the 50th, the 80th and the 130th control."""
    times_ms = played(STANDARD, 200)
    first_up = next(n for n in range(1, 200) if times_ms[n] > times_ms[n - 1])
    assert 45 <= first_up <= 65
    assert max(times_ms[first_up:]) - min(times_ms[first_up:]) <= WITHIN_MS


def test_fig_5_the_rising_edge_of_a_hill_does_not_end_the_search() -> None:
    """Each bin of the edge has less than a twentieth of all intervals, but more than that of those before it."""
    edge = {t: 1.5**t for t in range(12)}
    total = sum(edge.values())
    assert edge[3] < TARGET * total, "a threshold on the frequency would stop here"
    found = greatest_interval({**edge, 12: 2.0}, 300.0, TARGET, GAIN)
    assert found.greatest == 12


def test_fig_6_a_time_within_the_hill_grows_by_the_error_in_the_bin_before_it() -> None:
    found = greatest_interval(cut(STANDARD, 300), 6.0, TARGET, GAIN)
    ratio = STANDARD[5] / sum(STANDARD[t] for t in range(6))
    err = (ratio - TARGET) / TARGET
    assert found.greatest is not None
    assert (found.t, found.greatest) == pytest.approx((5, 6 + GAIN * err))
    assert (found.ratio, found.err) == pytest.approx((ratio, err))
    assert err > 0


def test_fig_6_more_above_the_target_is_more_growth() -> None:
    flat, falling = {t: 10.0 for t in range(6)}, {t: 10.0 if t < 5 else 4.0 for t in range(6)}
    more, less = (greatest_interval(hist, 6.0, TARGET, GAIN) for hist in (flat, falling))
    assert more.greatest is not None and less.greatest is not None
    assert more.err is not None and less.err is not None
    assert (more.greatest - 6) / (less.greatest - 6) == pytest.approx(more.err / less.err)


@pytest.mark.parametrize(("hist", "papers_ms"), [(STANDARD, 450), (LARGE, 850)], ids=["Fig. 7", "Fig. 11"])
def test_fig_6_from_one_bin_it_grows_until_the_hill_is_in(hist: dict[int, float], papers_ms: int) -> None:
    times_ms = played(hist, 120, time_ms=50)
    assert papers_ms <= times_ms[-1] <= papers_ms + WITHIN_MS
    assert max(times_ms) < 1500, "what overshoots comes back"


@pytest.mark.parametrize("strange", [{0: 500.0}, {0: 250.0, 2: 250.0}, {8: 500.0}])
def test_section_3_2_3_one_burst_of_requests_hardly_moves_it(strange: dict[int, float]) -> None:
    controller = KeepAlive(OBJECTIVE)
    state = controller.start((time_knob(),), 0)
    _, move = controller.step(state, Trial(window_at(450, {f"intervals_50ms@{t}": n for t, n in strange.items()})))
    there_ms = move.changes.get(NAME, 450)
    assert 0.9 * 450 <= there_ms <= 2.2 * 450


def test_section_5_3_alpha_sets_the_pace_and_not_the_place() -> None:
    quick = KeepAlive(OBJECTIVE, alpha=0.5, intervals=1)
    state, time_ms = quick.start((time_knob(),), 0), 15_000
    seen = {f"intervals_50ms@{t}": count for t, count in STANDARD.items()}
    for index in range(5):
        state, move = quick.step(state, Trial(window_at(time_ms, seen, index)))
        time_ms = move.changes[NAME]
    assert time_ms == pytest.approx(450 + 14_550 / 2**5, abs=1)
