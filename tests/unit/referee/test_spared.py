"""A limit of workers for whom nobody waits: what more clients wait is not its doing, and no reason to go back."""

from __future__ import annotations

import pytest

from tests.unit.referee.test_rule import WINDOW_S, Bench, ready

RATE_HZ, WAITED_S = 210.0, 0.09
INSIDE = RATE_HZ * WAITED_S
MORE_USERS = {"request_rate_hz": RATE_HZ, "connection_rate_hz": RATE_HZ / 2, "cpu_ratio": 0.84}
SPARE = {**MORE_USERS, "requests_under_way": INSIDE, "busy_workers": INSIDE, "idle_workers": 20.0}
"""Four times the requests on a CPU that is nearly full, each of which takes as long as that explains."""


def begun(**values: int) -> Bench:
    """A change of which the first window has passed, as it was before."""
    return ready().change(**values).see(1, requests_under_way=1.0, busy_workers=1.0, idle_workers=30.0)


def test_what_more_users_wait_while_workers_are_idle_is_not_blamed_on_fewer_workers() -> None:
    bench = begun(w=40)
    spent_s = bench.state.spent_s
    bench.see(2, WAITED_S, **SPARE)
    assert not bench.backs and bench.state.spent_s == spent_s
    assert not bench.judge.abort(bench.state, bench.window(WAITED_S, **SPARE))


@pytest.mark.parametrize(
    "readings",
    [
        {**SPARE, "idle_workers": 0.5},
        {**SPARE, "accept_queue_length": 5.0},
        {**SPARE, "busy_workers": 36.0},
        {name: value for name, value in SPARE.items() if name != "busy_workers"},
    ],
    ids=["none idle", "some wait", "nearly all busy", "not known"],
)
def test_it_is_where_somebody_may_wait_for_one(readings: dict[str, float]) -> None:
    bench = begun(w=40).see(2, WAITED_S, **readings)
    assert bench.backs == [{"w": 150}]
    assert bench.state.judgement is not None and "more than may be risked" in bench.state.judgement.why


@pytest.mark.parametrize("values", [{"w": 170}, {"k": 1000}, {"w": 40, "k": 1000}], ids=str)
def test_it_is_with_any_other_change(values: dict[str, int]) -> None:
    assert begun(**values).see(2, WAITED_S, **SPARE).backs


def test_the_first_window_pays_for_the_change() -> None:
    bench = ready().change(w=40)
    spent_s = bench.state.spent_s
    bench.see(1, WAITED_S, **SPARE)
    assert bench.state.spent_s > spent_s + 5 * WINDOW_S


def test_what_takes_longer_by_itself_still_goes_back() -> None:
    at_the_same_load = {"requests_under_way": 2.5, "busy_workers": 2.5, "idle_workers": 30.0}
    bench = begun(w=40)
    while not bench.backs and bench.index < 190:
        bench.see(1, 0.05, **at_the_same_load)
    assert bench.backs == [{"w": 150}]
    assert bench.state.judgement is not None and "at equal load" in bench.state.judgement.why
