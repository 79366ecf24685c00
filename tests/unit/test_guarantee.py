"""How well windows keep a guarantee, against figures worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests._class_runs import guaranteed, write_guarantee
from tests._classes import class_window, delays
from trimtab.core import Window
from trimtab.guarantee import scores, settled
from trimtab.store import Store


def seen(a: float | None, b: float | None) -> Window:
    return class_window({"a": 16, "b": 16}, delays({"a": a, "b": b}))


@pytest.mark.parametrize(
    ("kind", "desired", "a", "b", "quotients"),
    [
        ("relative", (1, 3), 2.0, 6.6, (None, pytest.approx(1.1))),
        ("relative", (1, 3), 0.0, 6.0, (None, None)),
        ("relative", (1, 3), None, 6.0, (None, None)),
        ("relative", (1, 3), 0.00002, 0.00003, (None, None)),
        ("relative", (1, 3), 0.00002, 0.002, (None, pytest.approx(100 / 3))),
        ("absolute", (4, 8), 5.0, 8.0, (1.25, 1.0)),
        ("absolute", (4, 8), None, 4.0, (None, 0.5)),
        ("hybrid", (4, 8), 2.0, 5.0, (1.0, 1.25)),
        ("hybrid", (4, 8), 5.0, 12.0, (1.25, 1.5)),
    ],
)
def test_the_quotient_is_what_was_measured_of_what_is_desired(
    kind: str, desired: tuple[float, float], a: float | None, b: float | None, quotients: tuple[object, object]
) -> None:
    guarantee = guaranteed(kind, desired)
    window = seen(a, b)
    assert (guarantee.quotient(window, 0), guarantee.quotient(window, 1)) == quotients


def test_a_score_has_the_mean_the_spread_and_the_share_within_a_tenth() -> None:
    windows = [seen(4.0, 8.0), seen(4.0, 8.8), seen(4.0, 12.0), seen(4.0, None)]
    first, second = scores(guaranteed("absolute", (4, 8)), windows)
    assert (first.quotient, first.quotient_half, first.within, first.windows) == (1.0, (1.0, 1.0), 1.0, 4)
    assert first.kept is True
    assert second.quotient == pytest.approx(1.2)
    assert second.quotient_half == pytest.approx((1.05, 1.3))
    assert second.within == pytest.approx(2 / 3)
    assert (second.windows, second.kept) == (3, False)


def test_a_server_on_which_nobody_waits_breaks_no_guarantee() -> None:
    """A worker takes each connection within some tens of microseconds, whatever the budgets are."""
    idle = [seen(0.00002, 0.00003)] * 4
    assert [score.kept for score in scores(guaranteed("relative", (1, 3)), idle)] == [None, None]
    assert [score.kept for score in scores(guaranteed("absolute", (4, 8)), idle)] == [True, True]
    assert [score.kept for score in scores(guaranteed("hybrid", (4, 8)), idle)] == [True, None]


def test_a_delay_that_is_too_long_breaks_an_absolute_guarantee_and_a_shorter_one_keeps_it() -> None:
    first, second = scores(guaranteed("absolute", (4, 8)), [seen(5.0, 2.0)] * 4)
    assert (first.kept, second.kept) == (False, True)
    assert (second.quotient, second.within) == (0.25, 0.0)


def test_one_window_with_a_delay_near_zero_does_not_decide_about_a_ratio() -> None:
    """Nine windows of 0.1 and 0.3 s, one of 0.001 and 0.3 s: the ratios' mean is 32, that of the means 3.3."""
    windows = [seen(0.1, 0.3)] * 9 + [seen(0.001, 0.3)]
    _, second = scores(guaranteed("relative", (1, 3)), windows)
    assert second.quotient == pytest.approx(3.0 / 0.901 / 3)
    assert second.within == pytest.approx(0.9)
    assert second.quotient_half == pytest.approx((1.0, 1.0)), "a standard deviation would be 2970 %"


@pytest.mark.parametrize(
    ("kind", "desired", "a", "least"),
    [
        ("relative", (1, 3), 2.0, 5.0),
        ("relative", (1, 3), None, None),
        ("absolute", (4, 8), 4.0, 3.75),
        ("absolute", (4, 40), 4.0, None),
        ("hybrid", (4, 8), 2.0, 7.5),
        ("hybrid", (4, 8), 5.0, 3.75),
    ],
)
def test_a_class_that_waits_and_is_never_served_is_at_least_as_late_as_it_has_waited(
    kind: str, desired: tuple[float, float], a: float | None, least: float | None
) -> None:
    """For 30 s by the end of every window."""
    stuck = class_window({"a": 31, "b": 1}, {**delays({"a": a}), "oldest_wait_s@b": 30.0})
    second = scores(guaranteed(kind, desired), [stuck] * 4)[1]
    assert (second.delay_s, second.quotient) == (None, least)
    assert second.kept is (None if least is None else False)


def test_a_wait_that_ends_counts_once_as_the_delay_that_it_is() -> None:
    stuck = class_window({"a": 31, "b": 1}, {**delays({"a": 4.0}), "oldest_wait_s@b": 30.0})
    assert scores(guaranteed("absolute", (4, 8)), [stuck, seen(4.0, 8.0)])[1].quotient == 1.0


def test_a_run_is_judged_by_its_second_half() -> None:
    windows = [seen(float(i), 1.0) for i in range(5)]
    assert list(settled(windows)) == windows[2:]


def test_the_store_keeps_what_was_guaranteed(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs.sqlite")
    plan = store.run(write_guarantee(store, "relative", windows=2)).plan
    assert plan.guarantee == guaranteed("relative", (1.0, 3.0))
