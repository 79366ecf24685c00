"""Whether more workers would complete more: what trim concludes from windows of the same run, made by hand."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest

from tests._curve import NAME, window_of, worker_knob
from trimtab.controllers import _behind as behind
from trimtab.controllers.trim import REMEMBERED, Trim
from trimtab.core import Domain, Move, Objective, Role, Trial, Window

TRIM = Trim(Objective())
TIME = dataclasses.replace(worker_knob(), name="keep", role=Role.KEEP_ALIVE, domain=Domain(1, 60_000))
LIMIT = 40


def window(busy: float, rate_hz: float, **readings: float) -> Window:
    """A window with so many at work, and connections that wait where these are all of them."""
    queue = {"accept_queue_length": 60.0, "response_time_s": 1.0, "accept_queue_delay_s": 0.8}
    idle = {"cpu_ratio": 0.1, "idle_workers": LIMIT - busy, "response_time_s": 0.2}
    known = {"busy_workers": busy, "request_rate_hz": rate_hz, **idle, **(queue if busy == LIMIT else {})}
    return window_of(LIMIT, {**known, **readings})


def after(*windows: Window) -> Move:
    """The move after these windows, where no keep-alive time is moved."""
    state = TRIM.start((worker_knob(maximum=1000),), 0)
    for one in windows[:-1]:
        state, _ = TRIM.step(state, Trial(one))
    return TRIM.step(state, Trial(windows[-1]))[1]


FEW, FULL, CROWD = window(10, 100), window(LIMIT, 100), window(LIMIT, 400)


def test_more_workers_are_not_asked_for_where_four_times_as_many_completed_no_more() -> None:
    move = after(*[FEW] * 3, *[FULL] * 3)
    assert not move.changes
    assert move.reason.endswith("twice as many at work completed only 1 times as much")
    assert after(*[FULL] * 3).changes, "nothing is known of fewer"
    more = after(*[FEW] * 3, *[CROWD] * 3)
    assert more.changes == {NAME: 4 * LIMIT}
    assert more.capacity == pytest.approx(4, rel=0.02)


def test_they_promise_as_much_as_windows_with_fewer_at_work_tell() -> None:
    half = after(*[FEW] * 3, *[window(LIMIT, 200)] * 3)
    assert half.changes == {NAME: 4 * LIMIT}
    assert half.capacity == pytest.approx(2, rel=0.02)
    assert half.gain == pytest.approx(0.4, rel=0.02), "half of what the queue takes"
    assert "(80% of the response time of late, of which more at work can save 50%)" in half.reason


def test_what_was_completed_with_twice_as_many_at_work_tells_it_too() -> None:
    """As after a trial of more workers, which went back."""
    crowd = replace(window(2 * LIMIT, 105, accept_queue_length=0.0), configuration={NAME: 2 * LIMIT})
    assert not after(crowd, crowd, *[FULL] * 3).changes


@pytest.mark.parametrize(
    "readings",
    [
        {"memory_pressure_ratio": 0.5},  # there it is memory that was missing
        {"cpu_ratio": 0.9},
        {"request_rate_hz": 5.0},  # too few to tell a rate
        {"busy_workers": 0.5},  # nor of so few workers
        {"busy_workers": 30.0},  # the same but for noise
    ],
)
def test_windows_that_say_nothing_of_what_is_behind_them_do_not_count(readings: dict[str, float]) -> None:
    assert after(*[window(10, 100, **readings)] * 3, *[FULL] * 3).changes


def test_what_is_long_ago_does_not_count() -> None:
    assert not after(*[FEW] * 3, *[FULL] * (REMEMBERED - 3)).changes
    assert after(*[FEW] * 3, *[FULL] * REMEMBERED).changes


def test_while_the_status_page_is_silent_what_another_limit_completed_is_not_known_of_this_one() -> None:
    """As after a limit that was brought down because workers swapped."""

    def silent(limit: int) -> Window:
        readings = {**FULL.readings, "busy_workers": float(limit)}
        del readings["request_rate_hz"]
        return replace(FULL, configuration={NAME: limit}, readings=readings)

    seen = *[FEW] * 3, *[FULL] * 3
    assert not after(*seen, *[silent(LIMIT)] * 9).changes, "it stays known at the same limit"
    assert after(*seen, silent(LIMIT // 4)).changes == {NAME: LIMIT}


def test_who_waits_for_the_cpu_waits_for_nothing_else() -> None:
    """One worker at work in the mean at half of a CPU's time, four at 80 %: a queue's time, S / (1 - rho)."""
    few, many = window(1, 50, cpu_ratio=0.5), window(4, 80, cpu_ratio=0.8)
    told = [behind.work(one, False, 0.1) for one in (few, many)]
    assert [one is not None and one.at_work for one in told] == [pytest.approx(0, abs=1e-9)] * 2
    assert behind.elasticity([one for one in told if one], 1) == 1


def test_workers_that_idle_connections_hold_are_not_at_work() -> None:
    held = {"idle_held_workers": 36.0}
    state = TRIM.start((worker_knob(maximum=1000), TIME), 0)
    kept = replace(FULL, configuration={NAME: LIMIT, "keep": 5000})
    alike = replace(kept, readings={**kept.readings, **held})
    for one in (replace(alike, readings={**alike.readings, "busy_workers": 12.0, "idle_held_workers": 2.0}),) * 3:
        state, _ = TRIM.step(state, Trial(one))
    assert "keep" in TRIM.step(state, Trial(alike))[1].changes, "four are at work now, and were ten before"
    busier = replace(alike, readings={**alike.readings, "idle_held_workers": 20.0, "request_rate_hz": 60.0})
    for _ in range(3):
        state, move = TRIM.step(state, Trial(busier))
    assert not move.changes, "twenty complete less than ten did: to free workers would not help"
    unseen = replace(kept, readings={**kept.readings, "busy_workers": 40.0})
    assert behind.work(unseen, True, 0.1) is None, "who is held is not known"
