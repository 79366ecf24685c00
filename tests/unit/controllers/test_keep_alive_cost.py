from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests._idle_periods import NAME, Loop, Mixture, bin_of, time_knob, window_at
from trimtab.controllers._held_worker import Prices
from trimtab.controllers.keep_alive_cost import KeepAliveCost
from trimtab.core import Knob, Move, Objective, Trial, Window
from trimtab.errors import UsageError

OBJECTIVE = Objective()
STANDARD, LARGE = Mixture(), Mixture(burst_s=0.55)
EVEN_S = 0.01
"""A wait at which the price of a worker neither rises nor falls."""


def build(**options: float) -> KeepAliveCost:
    return KeepAliveCost(OBJECTIVE, **options)


def room_for(workers: float) -> Callable[[float], float]:
    """The wait for a worker where idle connections may hold so many, in seconds."""
    return lambda held: 0.002 + 2 * max(0.0, held / workers - 1)


def lost(mixture: Mixture, time_ms: int) -> float:
    """The share of the intervals within bursts that a time cuts."""
    bursts = replace(mixture, thought=0.0)
    return 1 - float(bursts.truth(np.array([time_ms / 1e3]))[0][0])


# The best time, at prices that stay.


@pytest.mark.parametrize(
    ("earning_hz", "start_ms"), [(0.1, 15_000), (0.4, 15_000), (0.8, 15_000), (0.5, 450), (0.8, 450)]
)
def test_at_given_prices_it_comes_to_the_least_cost_that_there_is(earning_hz: float, start_ms: int) -> None:
    """The optimum is found by brute force on periods that nobody ended, from the end of the bursts on."""
    prices = Prices(0.0, setup_s=0.01, wait_s=EVEN_S, known=True).asking(earning_hz)
    loop = Loop(build(), STANDARD, start_ms, wait_s=lambda held: EVEN_S)
    loop.state = replace(loop.state, prices=prices)
    final_s = loop.run(40).time_ms / 1e3
    times_s = np.concatenate([[final_s], np.arange(0.4, 15.0, 0.02)])
    asked, held_s = STANDARD.truth(times_s)
    costs = (prices.mu * held_s - prices.connection_s * asked) / prices.connection_s
    assert loop.state.prices.earning_hz == pytest.approx(earning_hz, rel=0.01), "the prices did stay"
    assert costs[0] - min(costs) < 0.03, (final_s, times_s[np.argmin(costs)])


# Workers in plenty.


@pytest.mark.parametrize(
    ("own_s", "start_ms", "options", "least_ms", "most_ms"),
    [
        (5.0, 5000, {}, 5000, 5000),
        (5.0, 3000, {}, 4000, 5000),
        (5.0, 9000, {}, 9000, 9000),
        (5.0, 5000, {"longest_s": 10.0}, 8000, 10_000),
        (0.0, 5000, {}, 8000, 15_000),
    ],
    ids=["its own", "up to its own", "what was in force", "as long as is said", "not seen"],
)
def test_an_idle_connection_holds_its_worker_no_longer_than_the_operator_has_it(
    own_s: float, start_ms: int, options: dict[str, float], least_ms: int, most_ms: int
) -> None:
    """Workers are plenty as long as there is memory for them, of which nothing is known here."""
    clients = Mixture(burst_s=0.1, think_s=4.0)
    loop = Loop(build(**options), clients, start_ms, rate_hz=100.0, own_s=own_s, duration_s=2.0).run(400)
    assert max(loop.times_ms) <= most_ms
    assert loop.time_ms >= least_ms


def test_bursts_are_not_cut_by_a_servers_own_time_that_is_too_short() -> None:
    loop = Loop(build(), LARGE, 250, own_s=0.25, duration_s=2.0).run(60)
    assert lost(LARGE, 250) > 0.9
    assert lost(LARGE, loop.time_ms) < 0.1 and loop.time_ms < 1500


# Scarce workers.


@pytest.mark.parametrize("seed", range(4))
def test_from_15_s_with_scarce_workers_it_is_at_the_end_of_the_bursts_within_a_minute(seed: int) -> None:
    loop = Loop(build(), STANDARD, wait_s=room_for(50), seed=seed).run(12)
    assert 400 <= loop.time_ms <= 550
    assert loop.moves[-1].evidence["burst_end_s"] == pytest.approx(0.44, abs=0.07)
    after = loop.run(60).times_ms[12:]
    assert all(400 <= time_ms <= 550 for time_ms in after), "and stays"
    assert sum(move.changes != {} for move in loop.moves[12:]) <= 3


def test_windows_of_two_seconds_lead_there_in_the_same_time() -> None:
    loop = Loop(build(), STANDARD, wait_s=room_for(50), duration_s=2.0).run(30)
    assert 400 <= loop.time_ms <= 550


def test_however_scarce_workers_are_bursts_are_not_cut() -> None:
    loop = Loop(build(), STANDARD, wait_s=lambda held: 5.0).run(80)
    assert min(loop.times_ms) >= 400
    assert lost(STANDARD, loop.time_ms) < 0.08


@pytest.mark.parametrize("mixture", [STANDARD, LARGE], ids=["standard", "large"])
def test_where_even_bursts_hold_more_workers_than_there_are_they_are_cut(mixture: Mixture) -> None:
    """Room for 30 idle connections, where those within bursts hold 70 and more."""
    loop = Loop(build(), mixture, wait_s=room_for(30), service_s=0.01).run(60)
    held = [
        move.evidence["burst_end_s"] > time_ms / 1e3 for move, time_ms in zip(loop.moves, loop.times_ms, strict=True)
    ]
    assert loop.times_ms[-1] < 150
    assert any(held)
    told = next(m for m in loop.moves if m.changes and "at the end of bursts" in m.reason)
    assert "idle connections hold 9" in told.reason
    first = next(i for i, time_ms in enumerate(loop.times_ms) if time_ms < 1000)
    assert loop.times_ms[first] >= 400, "the end of the bursts is tried first"
    assert min(loop.times_ms) >= 50


def test_bursts_of_milliseconds_are_kept_where_slow_ones_are_cut() -> None:
    loop = Loop(build(), Mixture(early=0.6), wait_s=room_for(20), service_s=0.01).run(60)
    usual_ms = sorted(loop.times_ms)[30]
    assert 50 <= usual_ms < 150
    assert lost(Mixture(early=0.6), usual_ms) == pytest.approx(0.4, abs=0.05)


def test_bursts_are_not_cut_where_requests_occupy_the_workers() -> None:
    """The processor is short: half a second for a request, and what idle connections hold is a tenth."""
    loop = Loop(build(), STANDARD, wait_s=lambda held: 0.5, service_s=3.0).run(60)
    assert min(loop.times_ms) >= 400


def test_a_wait_that_is_shorter_than_new_connections_cost_cuts_no_bursts() -> None:
    loop = Loop(build(), STANDARD, wait_s=lambda held: 0.05, service_s=0.01, duration_s=2.0).run(120)
    assert min(loop.times_ms) >= 400


def test_while_the_queue_of_a_long_time_clears_bursts_are_not_cut() -> None:
    """There is room at the end of the bursts, but who waited before is served first."""
    queue_s = 30.0

    def wait_s(held: float) -> float:
        nonlocal queue_s
        queue_s = max(0.002, queue_s * 0.85) if held < 120 else 30.0
        return queue_s

    loop = Loop(build(), STANDARD, wait_s=wait_s, service_s=0.01, duration_s=2.0).run(120)
    assert min(loop.times_ms) >= 400
    assert queue_s < 0.02


def test_after_bursts_were_cut_they_are_whole_again_once_there_is_room() -> None:
    loop = Loop(build(fall_s=20.0), STANDARD, wait_s=room_for(30), service_s=0.01).run(40)
    assert min(loop.times_ms) < 150
    loop.wait_s = room_for(1e9)
    loop.run(120)
    assert lost(STANDARD, loop.time_ms) < 0.12


def test_bursts_are_cut_when_the_option_says_so_and_a_worker_is_worth_it() -> None:
    loop = Loop(build(target=1.0), STANDARD, wait_s=lambda held: 0.5, rate_hz=100.0).run(80)
    assert loop.time_ms < 200


@pytest.mark.parametrize("time_ms", [436, 800])
def test_a_wait_that_makes_connections_dear_does_not_lengthen_the_time(time_ms: int) -> None:
    loop = Loop(build(), STANDARD, time_ms, wait_s=lambda held: 6.0).run(20)
    assert max(loop.times_ms) <= max(time_ms, 503)
    loop.wait_s = lambda held: 0.01
    assert max(loop.run(10).times_ms) <= max(time_ms, 503), "nor just after it"


def test_where_there_is_room_for_some_idle_connections_no_more_than_needed_are_ended() -> None:
    room = 170.0
    loop = Loop(build(), STANDARD, wait_s=room_for(room)).run(40)
    (asked,), (held_s,) = STANDARD.truth(np.array([loop.time_ms / 1e3]))
    assert 300 * held_s <= 1.05 * room, "nobody waits in the end"
    (burst_asked,), _ = STANDARD.truth(np.array([0.44]))
    assert asked >= burst_asked - 0.02


def test_it_goes_back_to_longer_times_slowly_when_workers_are_plenty_again() -> None:
    loop = Loop(build(fall_s=20.0), STANDARD, wait_s=room_for(50)).run(20)
    assert loop.time_ms < 600
    loop.wait_s = room_for(1e9)
    soon, later = list(loop.run(4).times_ms), list(loop.run(120).times_ms)
    assert soon[-1] < 600
    assert later[-1] > 1500
    assert "lengthen" in {move.phase for move in loop.moves}


def test_with_plenty_of_workers_the_time_stays_long() -> None:
    assert set(Loop(build(), STANDARD).run(40).times_ms) == {15_000}


def test_without_a_measured_wait_nothing_is_made_of_scarcity() -> None:
    class Unmeasured:
        """The controller in windows whose wait for a worker was not measured."""

        def start(self, knobs: tuple[Knob, ...], seed: int) -> Any:
            return build().start(knobs, seed)

        def step(self, state: Any, trial: Trial) -> tuple[Any, Move]:
            window = trial.window
            rest = {name: value for name, value in window.readings.items() if name != "accept_queue_delay_s"}
            return build().step(state, Trial(replace(window, readings=rest)))

    loop = Loop(Unmeasured(), STANDARD, wait_s=room_for(50)).run(20)
    assert set(loop.times_ms) == {15_000}
    assert "the wait for a worker was not measured" in loop.moves[-1].reason


# Bursts that are cut.


@pytest.mark.parametrize("mixture", [STANDARD, LARGE, Mixture(early=0.6)], ids=["standard", "large", "near-and-far"])
@pytest.mark.parametrize("workers", [1e9, 50.0], ids=["plenty", "scarce"])
def test_from_50_ms_it_is_out_of_the_bursts_within_half_a_minute(mixture: Mixture, workers: float) -> None:
    loop = Loop(build(), mixture, 50, wait_s=room_for(workers)).run(6)
    assert lost(mixture, loop.time_ms) < 0.2
    assert lost(mixture, loop.run(14).time_ms) < 0.12
    grown = next(move for move in loop.moves if move.phase == "grow" and move.changes)
    assert "bursts, which end at" in grown.reason


def test_where_bursts_go_on_to_all_that_was_seen_it_tries_a_quarter_more() -> None:
    """A server's own time of 200 ms: nobody gives trials, and nothing beyond it is known."""
    within = {f"intervals@{bin_of(time_s)}": 100.0 for time_s in (0.11, 0.13, 0.15, 0.17, 0.18)}
    readings = {
        **within,
        f"intervals_ended@{bin_of(0.2)}": 500.0,
        "idle_connections": 30.0,
        "idle_held_workers": 30.0,
    }
    state = build().start((time_knob(),), 0)
    for index in range(2):
        state, move = build().step(state, Trial(window_at(200, readings, index)))
    assert 245 <= move.changes[NAME] <= 275


def test_one_window_moves_nothing_and_says_what_it_would_move() -> None:
    first = Loop(build(), STANDARD, 50).run(1).moves[0]
    assert not first.changes
    assert "once more before moving from 50 ms to" in first.reason


# What changes, and what only seems to.


def test_it_follows_a_switch_of_the_workload_within_a_minute_both_ways() -> None:
    loop = Loop(build(), STANDARD, wait_s=room_for(50)).run(25)
    first_ms = loop.time_ms
    second_ms = loop.run(10, LARGE).time_ms
    assert lost(LARGE, first_ms) > 0.6
    assert lost(LARGE, second_ms) < 0.12
    assert loop.run(14, STANDARD).time_ms < 0.85 * second_ms


def test_from_one_workload_to_the_other_nothing_is_overdone() -> None:
    loop = Loop(build(), STANDARD, wait_s=room_for(50), duration_s=2.0, seed=4).run(40)
    loop.run(60, LARGE)
    assert max(loop.times_ms[40:]) < 1400
    assert all(lost(LARGE, time_ms) < 0.12 and time_ms < 1000 for time_ms in loop.times_ms[-40:])


CROWDS = [Mixture(burst_s=0.02, thought=0.0), Mixture(thought=0.9), Mixture(burst_s=1.2, thought=0.1)]


@pytest.mark.parametrize("crowd", CROWDS, ids=["one-page", "thinkers", "slow"])
@pytest.mark.parametrize("scarce", [False, True])
@pytest.mark.parametrize("windows", [1, 2])
def test_a_crowd_ten_times_the_usual_for_seconds_does_not_move_it(crowd: Mixture, scarce: bool, windows: int) -> None:
    usual = room_for(50) if scarce else room_for(1e9)
    loop = Loop(build(), STANDARD, wait_s=usual).run(30)
    before_ms = loop.time_ms
    loop.wait_s = lambda held: 0.8
    loop.run(windows, crowd, 3000.0)
    loop.wait_s = usual
    assert set(loop.run(20).times_ms[30:]) == {before_ms}


# Servers on which idle connections hold no worker.


@cache
def kept_s(time_ms: int) -> float:
    """For how long a keep-alive time keeps an idle connection on average, in seconds."""
    return float(STANDARD.truth(np.array([time_ms / 1e3]))[1][0])


def crowded(capacity: float, windows: int) -> Loop:
    """A server on which idle connections hold no worker, with capacity for a share of those that 15 s would keep."""
    loop = Loop(build(), STANDARD, holding=0.0, duration_s=2.0)
    for _ in range(windows):
        full = kept_s(loop.time_ms) > capacity * kept_s(15_000)
        loop.wait_s = lambda held, full=full: 8.0 if full else 0.0005  # type: ignore[misc]
        loop.run(1)
    return loop


def test_where_idle_connections_hold_no_worker_the_server_keeps_its_own_time() -> None:
    loop = Loop(build(), STANDARD, 5_000, holding=0.0).run(30)
    assert not any(move.changes for move in loop.moves)
    assert "idle connections hold 0.0 workers: they are free" in loop.moves[-1].reason
    assert loop.moves[-1].phase == "free"


@pytest.mark.parametrize("capacity", [0.95, 0.8, 0.6])
def test_where_they_hold_capacity_that_others_wait_for_they_end_earlier(capacity: float) -> None:
    loop = crowded(capacity, 40)
    assert 0.6 * capacity < kept_s(loop.time_ms) / kept_s(15_000) <= capacity
    assert "new connections had to wait for a free slot" in loop.moves[-1].reason
    first = next(index for index, time_ms in enumerate(loop.times_ms) if time_ms < 15_000)
    assert first * loop.duration_s >= 8, "not at the first connection that waits"


def test_when_nobody_waits_any_more_the_time_grows_again() -> None:
    loop = crowded(0.9, 30)
    least_ms = loop.time_ms
    loop.wait_s = lambda held: 0.0005
    assert loop.run(300).time_ms >= 1.9 * least_ms


def test_when_ending_them_earlier_does_not_shorten_the_wait_the_servers_own_time_comes_back() -> None:
    """As where the processor is what is short."""
    loop = Loop(build(), STANDARD, holding=0.0, duration_s=2.0, wait_s=lambda held: 1.0).run(60)
    assert len(set(loop.times_ms[:20])) == 4, "three steps"
    assert set(loop.times_ms[20:]) == {15_000}
    assert "not for a slot" in loop.moves[-1].reason


def test_even_there_bursts_are_not_cut() -> None:
    loop = Loop(build(), STANDARD, 50, holding=0.0).run(20)
    assert lost(STANDARD, loop.time_ms) < 0.12


# When nothing is decided, and what is said.


def test_few_idle_periods_are_gathered_first() -> None:
    controller = build()
    state = controller.start((time_knob(),), 0)
    _, move = controller.step(state, Trial(window_at(15_000, {"intervals@224": 50.0})))
    assert (move.phase, move.changes) == ("gather", {})
    assert "50 idle periods so far, 200 are needed" in move.reason


def test_idle_periods_that_are_all_alike_are_seen_however_many_are_remembered() -> None:
    """Each client asks once and stays until the server's own time ends it; in the end no slot is free for others."""
    controller = build()
    state = controller.start((time_knob(),), 0)
    alike = {f"intervals_ended@{bin_of(5.0)}": 500.0, "idle_connections": 2500.0, "idle_held_workers": 0.0}
    for index in range(60):
        readings = {**alike, "accept_queue_delay_s": 0.0005 if index < 50 else 8.0}
        state, move = controller.step(state, Trial(window_at(5_000, readings, index)))
        if move.changes:
            break
    assert move.changes[NAME] < 5_000, move.reason
    _, move = controller.step(state, Trial(window_at(5_000, {"accept_queue_delay_s": 8.0}, index + 1)))
    assert "no idle period ended" in move.reason


def test_it_holds_when_the_time_in_force_is_not_known() -> None:
    controller = build()
    _, move = controller.step(
        controller.start((time_knob(),), 0), Trial(Window(0, 0.0, 5.0, {}, {"intervals@224": 500.0}))
    )
    assert "not known" in move.reason


def test_a_move_says_what_it_frees_and_what_it_costs() -> None:
    loop = Loop(build(), STANDARD, wait_s=room_for(50)).run(12)
    move = next(move for move in loop.moves if move.phase == "shorten" and move.changes)
    for part in (
        "connections wait",
        "(scarce above 20 ms)",
        "has to bring",
        "held workers for",
        "more new connections",
    ):
        assert part in move.reason
    assert move.reason.endswith(f"15000 ms to {move.changes[NAME]} ms")
    assert {"best_s", "burst_end_s", "mu", "new_connection_s", "earning_hz"} <= set(move.evidence)


@pytest.mark.parametrize(
    "option",
    [
        {"target": 0.0},
        {"wait_s": 0.0},
        {"fall_s": 0.0},
        {"round_trip_s": 0.0},
        {"memory": 10.0},
        {"worthwhile": -0.1},
        {"longest_s": 0.01},
    ],
)
def test_options_that_cannot_be_used_are_refused_by_name(option: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(option))):
        build(**option)
