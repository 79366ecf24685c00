"""The referee in a storm: an overloaded server, a silent status page, a pool that ends or grows after a reload."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.unit.referee.test_rule import IDLE, START, WORKERS, Bench, overloaded, ready
from trimtab.core import Move, Objective, Window
from trimtab.referee.experiment import EVEN, LATELY, Experiment
from trimtab.referee.measure import Workload, measured


def test_under_overload_a_way_that_was_turned_back_from_is_not_taken_again() -> None:
    bench = Bench().see(180)
    inside = iter(range(100, 100_000, 150))
    for down in (40, 20, 30):
        for _ in range(6):
            bench.see(1, accept_queue_length=float(next(inside)))
        assert bench.state.overloaded
        move = bench.asked(Move({"w": down}, "", gain=0.9, capacity=3.0))
        assert move.changes == {"w": down}, move.reason
        bench.change(w=down)
    for _ in range(6):
        bench.see(1, accept_queue_length=float(next(inside)))
    assert bench.state.closed == {("w", -1), ("w", 1)}, "turned back from, and up in vain"
    assert not bench.asked(Move({"w": 25}, "", gain=0.9, capacity=3.0)).changes
    assert not bench.asked(Move({"w": 60}, "", gain=0.9, capacity=3.0)).changes
    assert bench.asked(Move({"k": 1000}, "", gain=0.9, capacity=3.0)).changes == {"k": 1000}


def test_under_overload_a_way_down_may_be_gone_on_with() -> None:
    bench = Bench().see(180)
    inside = iter(range(100, 100_000, 150))
    for down in (40, 20):
        for _ in range(6):
            bench.see(1, accept_queue_length=float(next(inside)))
        assert bench.asked(Move({"w": down}, "", gain=0.9, capacity=3.0)).changes == {"w": down}
        bench.change(w=down)


STORM = {"busy_workers": 20.0, "connection_rate_hz": 5.0}


def test_a_response_time_that_was_not_measured_is_what_is_inside_by_what_comes() -> None:
    for metric, requests in (("request_time_s", 2.0), ("response_time_s", 1.0)):
        seen = Bench().window(None, **STORM, accept_queue_length=30.0)
        found = measured(seen, Objective(metric), per_connection=2.0)
        assert found.log_cost == pytest.approx(math.log(50.0 / 5.0 / requests))
        assert (found.bound, found.inferred, found.measured) == (False, True, True)


@pytest.mark.parametrize("unknown", [{"accept_queue_length": math.nan}, {"connection_rate_hz": 0.5}])
def test_little_says_nothing_of_a_queue_that_is_not_seen_or_of_few_who_came(unknown: dict[str, float]) -> None:
    window = Bench().window(None, **{**STORM, "accept_queue_length": 30.0, "accept_queue_delay_s": 4.0, **unknown})
    readings = {name: value for name, value in window.readings.items() if not math.isnan(value)}
    found = measured(replace(window, readings=readings), Objective("request_time_s"))
    assert (found.log_cost, found.bound) == (math.log(4.0), True)


def test_costs_of_connections_and_of_requests_are_not_compared_with_one_another() -> None:
    """Before the change the page was silent, so that requests per connection are not known: ten of them as it was."""
    quiet = {"busy_workers": 20.0, "idle_workers": 1.0, "connection_rate_hz": 5.0, "accept_queue_length": 30.0}
    bench = Bench().see(8, None, **quiet).change(w=40)
    bench.see(2, 1.0, **quiet, request_rate_hz=50.0)
    found = bench.state.experiment.effect()
    assert abs(found.size) < 0.1, "a second for a request, ten for a connection, before and after"


def test_windows_after_a_return_in_which_connections_are_not_known_say_nothing_of_a_storm() -> None:
    """In the storm only these were; a run ended with an error here."""
    storm = measured(Bench().window(None, **STORM, accept_queue_length=30.0), Objective("request_time_s"))
    after = measured(Bench().window(1.0), Objective("request_time_s"))
    assert storm.inferred and after.measured and after.log_inside is None
    experiment = Experiment({}, (storm,), Workload.of((storm,)), windows=(storm,))
    assert experiment.effect_by_return((after,)) is None
    assert experiment.effect_by_return((storm,)) is not None


@pytest.mark.parametrize("known", [{}, {"request_rate_hz": 0.0}])
def test_a_window_in_which_few_came_costs_nothing_where_no_more_are_inside(known: dict[str, float]) -> None:
    """Users whose connections end together come together: by Little's law each takes 12 s or 100 s in turn."""
    bench = Bench()
    for turn in range(8):
        bench.see(1, None, **{**STORM, **known}, accept_queue_length=220.0 if turn % 2 else 190.0)
        bench.see(1, None, **{**STORM, **known, "connection_rate_hz": 1.5}, accept_queue_length=200.0)
    bench.change(w=600).see(1, None, **{**STORM, **known}, accept_queue_length=180.0)
    budget_s = bench.state.budget_s
    bench.see(1, None, **{**STORM, **known, "connection_rate_hz": 1.1}, accept_queue_length=170.0)
    assert bench.state.budget_s == budget_s
    assert bench.backs == []
    bench.see(1, None, **{**STORM, **known}, accept_queue_length=400.0)
    assert bench.state.budget_s < budget_s, "more are inside"


def test_a_change_that_ends_a_storm_is_kept_though_the_status_page_tells_nothing() -> None:
    storm = Bench().see(8, None, **{**STORM, "busy_workers": 150.0}, accept_queue_length=350.0)
    storm.change(w=40).see(12, None, **STORM, accept_queue_length=20.0)
    assert storm.backs == []
    assert storm.state.incumbent["w"] == 40


def test_what_is_completed_says_nothing_before_the_workers_beyond_a_smaller_limit_have_ended() -> None:
    bench = overloaded(ready()).change(w=40)
    bench.see(4, 8.0, accept_queue_length=2000.0, request_rate_hz=4.0, busy_workers=150.0)
    assert bench.backs == []
    assert not bench.state.onward
    bench.see(2, 8.0, accept_queue_length=2400.0, request_rate_hz=4.0, busy_workers=40.0)
    assert bench.backs == [{"w": 150}]


def test_what_is_completed_says_nothing_before_a_pool_has_grown_again_after_the_reload() -> None:
    growing = {"busy_workers": 10.0, "idle_workers": 0.0, "request_rate_hz": 4.0}
    bench = overloaded(ready()).change(w=40)
    bench.see(4, 8.0, accept_queue_length=2000.0, **growing)
    assert bench.backs == []
    assert not bench.state.onward
    bench.see(2, 8.0, accept_queue_length=2400.0, **{**growing, "busy_workers": 40.0})
    assert bench.backs == [{"w": 150}]


@pytest.mark.parametrize(
    ("there", "paid", "after_s", "kept"),
    [
        ([3.0, 8.0, 40.0, 40.0], 2, 0.02, 40),
        ([10.0, 11.0, 13.0, 16.0], 2, 0.5, 10),
        ([10.0] * 8, 6, 0.5, 10),
    ],
    ids=["to its limit", "beyond what there was", "not at all"],
)
def test_a_pool_that_grows_again_is_not_judged_while_it_is_no_larger_than_before(
    there: list[float], paid: int, after_s: float, kept: int
) -> None:
    """It begins anew with a few workers: what waits meanwhile is the reload's, not the limit's."""
    bench = Bench()
    bench.values["w"] = 10
    bench.see(12, 0.1, busy_workers=10.0, idle_workers=0.0, accept_queue_length=12.0).change(w=40)
    for window, workers in enumerate(there):
        busy = min(workers, 20.0)
        cost_s = 0.5 if window < paid else after_s
        bench.see(
            1, cost_s, busy_workers=busy, idle_workers=workers - busy, accept_queue_length=max(0.1, 24 - workers)
        )
        if window < paid:
            assert not bench.backs
            assert not bench.state.experiment.windows
    assert (bench.values["w"], bench.state.incumbent["w"]) == (kept, kept)


def test_no_gain_is_believed_before_a_pool_has_grown_to_its_limit() -> None:
    bench = Bench()
    bench.values["w"] = 10
    bench.see(12, 0.1, busy_workers=10.0, idle_workers=0.0, accept_queue_length=12.0).change(w=40)
    bench.see(4, 0.02, busy_workers=20.0, idle_workers=0.0, accept_queue_length=2.0)
    assert len(bench.state.experiment.windows) >= 2
    assert bench.state.incumbent["w"] == 10
    bench.see(1, 0.02, busy_workers=20.0, idle_workers=20.0)
    assert bench.state.incumbent["w"] == 40


def test_a_pool_that_completes_more_as_it_grows_is_not_given_up_for_the_backlog_that_it_works_off() -> None:
    full = {"idle_workers": 0.0, "request_rate_hz": 50.0, "connection_rate_hz": 50.0}
    for more_hz, kept in ((120.0, 40), (50.0, 10)):
        bench = Bench()
        bench.values["w"] = 10
        for _ in range(6):
            bench.see(2, 0.3, **full, busy_workers=10.0, accept_queue_length=20.0)
        bench.change(w=40)
        for workers in (5.0, 10.0, 16.0, 22.0, 28.0, 40.0, 40.0):
            rate_hz = more_hz if workers > 10 else 50.0
            done = {**full, "request_rate_hz": rate_hz, "cpu_ratio": rate_hz / 250}
            bench.see(1, 1.5, **done, busy_workers=workers, accept_queue_length=90.0)
            assert bench.state.incumbent["w"] == 10 or workers == 40.0
        assert bench.state.incumbent["w"] == kept


def test_where_old_workers_hang_another_change_may_follow_and_none_goes_back_for_it() -> None:
    bench = overloaded(ready()).change(w=40)
    queue = iter(range(2000, 100_000, 400))
    for _ in range(LATELY + 1):
        bench.see(1, 8.0, accept_queue_length=float(next(queue)), request_rate_hz=4.0, busy_workers=150.0)
    assert not bench.state.onward
    for _ in range(EVEN):
        bench.see(1, 8.0, accept_queue_length=float(next(queue)), request_rate_hz=4.0, busy_workers=150.0)
    assert bench.backs == []
    assert bench.state.onward
    assert bench.asked(Move({"k": 1000}, "", gain=0.9, capacity=3.0)).changes == {"k": 1000}


def test_of_two_servers_limits_neither_is_taken_for_that_of_the_workers_seen() -> None:
    bench = Bench()
    bench.state = bench.judge.start((WORKERS, replace(WORKERS, name="v"), IDLE))
    bench.values["v"] = 150
    overloaded(bench.see(180)).change(w=40)
    bench.see(3, 8.0, accept_queue_length=2000.0, request_rate_hz=4.0, busy_workers=150.0)
    assert bench.backs == [{"w": 150}]


def test_what_is_completed_says_nothing_where_it_was_not_known_just_before() -> None:
    bench = overloaded(ready())
    bench.see(2, None, accept_queue_length=1900.0, request_rate_hz=20.0)
    silent = bench.window(None, accept_queue_length=2400.0)
    silent = replace(silent, readings={k: v for k, v in silent.readings.items() if k != "request_rate_hz"})
    bench.state, _ = bench.judge.judge(bench.state, silent)
    bench.change(w=40).see(3, 8.0, accept_queue_length=2500.0, request_rate_hz=4.0)
    assert bench.backs == []


def test_an_overload_that_begins_opens_what_harmful_changes_before_it_had_closed() -> None:
    bench = ready()
    for harmful in ({"w": 40}, {"k": 1250}):
        bench.change(**harmful).see(1, 0.2).see(180)
    assert bench.state.worse == 2
    assert "tried on this workload already" in bench.asked().reason
    assert "two changes in a row made things worse" in bench.asked(Move({"w": 300}, "", gain=0.9)).reason
    for queue in (200.0, 500.0, 900.0):
        bench.see(1, 5.0, accept_queue_length=queue)
    move = Move({"w": 40}, "", gain=0.9, capacity=3.0)
    assert bench.asked(move) == move


class Silent(Bench):
    """Windows of which the kernel tells what it can: the status page waits too."""

    def window(self, cost_s: float | None = None, **readings: float) -> Window:
        made = super().window(cost_s, **readings)
        return replace(made, readings={k: v for k, v in made.readings.items() if k != "request_rate_hz"}, samples=0)


@pytest.mark.parametrize(
    ("change", "waiting", "better"),
    [({"k": 1250}, 60.0, False), ({"k": 1250}, 20.0, True), ({"w": 200}, 60.0, True)],
    ids=["shorter, and more wait", "shorter, and fewer wait", "no other connections"],
)
def test_the_same_requests_in_more_connections_are_no_shorter_time(
    change: dict[str, int], waiting: float, better: bool
) -> None:
    """Four times the connections: each is inside for half of the time, while twice as many are."""
    storm = {**STORM, "busy_workers": 10.0, "idle_workers": 1.0}
    bench = Silent().see(8, None, **storm, accept_queue_length=30.0).change(**change)
    bench.see(4, None, **{**storm, "connection_rate_hz": 20.0}, accept_queue_length=waiting)
    assert (bench.state.incumbent == {**START, **change}) is better


def piling_up(bench: Bench, waiting: float, by: float, windows: int, **readings: float) -> Bench:
    """Windows in which more wait in each one than in the last."""
    for index in range(windows):
        bench.see(1, None, accept_queue_length=waiting + by * index, **readings)
    return bench


CROWD = {"busy_workers": 150.0, "connection_rate_hz": 100.0}


@pytest.mark.parametrize(
    ("change", "more", "came_hz", "back"),
    [
        ({"w": 120}, 100.0, 100.0, False),
        ({"w": 120}, 100.0, 60.0, True),
        ({"w": 120}, 250.0, 100.0, True),
        ({"w": 120, "k": 1250}, 250.0, 100.0, True),
        ({"w": 120, "k": 1250}, 100.0, 60.0, False),
    ],
    ids=["as before", "fewer come in", "more pile up", "more pile up, shorter", "fewer come in, longer perhaps"],
)
def test_in_a_storm_without_a_count_less_completed_shows_at_the_door(
    change: dict[str, int], more: float, came_hz: float, back: bool
) -> None:
    bench = piling_up(Silent(), 500.0, 100.0, 6, **CROWD).change(**change)
    assert bench.state.overloaded
    piling_up(bench, 1000.0 + more, more, 5, **{**CROWD, "busy_workers": 120.0, "connection_rate_hz": came_hz})
    assert bench.backs == ([{name: START[name] for name in change}] if back else [])


def test_a_change_is_cleared_of_what_stayed_after_its_return_once_on_a_workload() -> None:
    bench = ready()
    load = {"request_rate_hz": 50.0, "connection_rate_hz": 25.0}
    for level_s, cleared in ((0.2, True), (2.0, False), (20.0, True)):
        bench.change(w=40).see(3, level_s, **load).see(4, level_s, **load)
        assert bench.values["w"] == 150
        assert (("w", -1) not in bench.state.refuted) is cleared
        bench.see(180, level_s, **load)
        if not cleared:
            load = {"request_rate_hz": 100.0, "connection_rate_hz": 50.0}
            bench.see(180, level_s, **load)
            assert ("w", -1) not in bench.state.refuted, "another workload"
