"""trim's promises, with referee and guards, on a closed-form server, and its proposals on windows made by hand."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace

import pytest

from tests._curve import NAME, seen, window_of, worker_knob
from tests._valley import DYNAMIC, STATIC, Course, Valley, without
from trimtab.controllers.trim import Trim
from trimtab.core import Domain, Judgement, Move, Objective, Role, Trial, Verdict, Window
from trimtab.errors import UsageError

TRIM = Trim(Objective())
NOISY = 0.2
MIB = 2.0**20
TIME = dataclasses.replace(worker_knob(), name="keep", role=Role.KEEP_ALIVE, domain=Domain(1, 60_000))


def proposed(window: Window, *earlier: Trial) -> Move:
    """The move that follows from a window, and what came before it."""
    state = TRIM.start((worker_knob(maximum=1000),), 0)
    for trial in earlier:
        state, _ = TRIM.step(state, trial)
    return TRIM.step(state, Trial(window))[1]


def course(server: Valley, start: int, windows: int = 100, noise: float = NOISY, seed: int = 1) -> Course:
    """A run on a server with noise."""
    return Course(TRIM, replace(server, cv=noise), seed=seed, limit=start).run(windows)


# With referee and guards.


@pytest.mark.parametrize("start", [60, 150, 400])
def test_from_too_many_workers_it_goes_to_where_nobody_waits_for_memory(start: int) -> None:
    run = course(DYNAMIC, start)
    assert run.changes() == (2 if start == 400 else 1), "a factor of four at a time"
    assert DYNAMIC.response_time_s(run.final) <= 1.05 * DYNAMIC.best_s()


@pytest.mark.parametrize(("server", "start"), [(DYNAMIC, 2), (DYNAMIC, 8), (STATIC, 2), (STATIC, 32), (STATIC, 60)])
def test_from_too_few_it_goes_up_until_nobody_waits(server: Valley, start: int) -> None:
    run = course(server, start)
    assert server.response_time_s(run.final) <= 1.2 * server.best_s(), run.limits
    assert run.changes() <= 4


@pytest.mark.parametrize("seed", range(1, 21))
@pytest.mark.parametrize(("server", "start"), [(DYNAMIC, 20), (DYNAMIC, 32), (STATIC, 150), (STATIC, 200)])
def test_where_nothing_is_lost_nothing_is_changed(server: Valley, start: int, seed: int) -> None:
    assert course(server, start, 60, seed=seed).changes() == 0


def test_memory_that_nobody_waits_for_is_no_reason_whatever_its_demand() -> None:
    """131 % of the limit and stalls of 8 %, as a real application had where 150 workers were right."""
    roomy = Valley(worker_mib=1.0, limit_mib=130.0)
    run = Course(TRIM, roomy, limit=150)
    run.edited = lambda w: replace(w, readings={**w.readings, "memory_ratio": 1.31, "memory_pressure_ratio": 0.08})
    assert run.run(60).changes() == 0


def test_a_proposal_that_makes_things_worse_is_taken_back_and_not_made_again() -> None:
    """Stalls that fewer workers do not end: others on the machine cause them."""

    def misled(window: Window) -> Window:
        slower = 5.0 if window.configuration[NAME] < 150 else 1.0
        times = ("response_time_s", "accept_queue_delay_s", "service_time_s")
        readings = {n: v * slower if n in times else v for n, v in window.readings.items()}
        return replace(window, readings={**readings, "memory_pressure_ratio": 0.9})

    run = Course(TRIM, STATIC, limit=150, edited=misled).run(200)
    assert run.changes() == 2, run.limits
    assert run.final == 150
    assert sum(limit != 150 for limit in run.limits) <= 4, "seen within three windows"
    back = next(move for move in run.moves if move.phase == "return")
    assert f"back to {NAME} 150" in back.reason


def test_no_more_workers_are_asked_for_than_fit_however_many_connections_wait() -> None:
    """Beyond what fits the kernel may end workers, and requests with them."""
    starved = Valley(page_rate_hz=400.0, cpu_s=0.0005, worker_mib=4.0)
    run = Course(TRIM, starved, limit=30).run(60)
    assert max(run.limits) <= 37, "(0.85 * 200 - 20) / 4"


def test_a_busier_hour_alone_is_no_reason_for_a_change() -> None:
    run = Course(TRIM, replace(STATIC, cv=NOISY), limit=200, seed=2).run(30)
    assert run.run(60, replace(STATIC, cv=NOISY, page_rate_hz=470.0)).changes() == 0


def test_the_same_windows_give_the_same_moves() -> None:
    first, second = course(DYNAMIC, 8), course(DYNAMIC, 8)
    assert first.moves == second.moves


# Proposals.


def test_workers_that_wait_for_memory_are_too_many_and_what_fits_is_proposed() -> None:
    move = proposed(DYNAMIC.window(0, 60, 0))
    assert move.changes == {NAME: 37}, "(0.85 * 200 - 20) / 4"
    assert "some of 60 workers wait for memory" in move.reason
    assert move.gain == pytest.approx(1 - 1 / 16 / (1 + 15 / 16 * 0.64 / 0.36)), "others wait for those who wait, too"
    assert move.capacity == pytest.approx(16)


def test_waits_for_memory_of_others_on_the_machine_are_not_the_servers() -> None:
    window = DYNAMIC.window(0, 60, 0)
    assert not proposed(replace(window, readings={**window.readings, "swap_in_rate_hz": 0.5})).changes
    assert proposed(replace(window, readings={**window.readings, "swap_in_rate_hz": 300.0})).changes


@pytest.mark.parametrize(
    ("busy", "rate_hz", "gain"), [(0.4, 10.0, 0.5), (0.0, 10.0, 0.8), (3.0, 10.0, 0.2), (0.0, 0.0, 0.2)]
)
def test_stalls_of_a_server_that_is_mostly_idle_are_a_larger_share_of_its_requests(
    busy: float, rate_hz: float, gain: float
) -> None:
    """A fifth of the time is stalls; by Little's law a quarter of a request is under way, or what is seen if more."""
    window = DYNAMIC.window(0, 60, 0)
    times = {"request_rate_hz": rate_hz, "request_time_s": 0.025, "busy_workers": busy, "idle_workers": 60 - busy}
    stalls = {"memory_pressure_ratio": 0.2, "cpu_ratio": 0.0}
    move = proposed(replace(window, readings={**window.readings, **stalls, **times}))
    assert move.gain == pytest.approx(gain)


@pytest.mark.parametrize(("cpu", "gain"), [(0.0, 0.2), (0.5, 1 - 0.8 / 1.2), (1.0, 1 - 0.8 / 4.8), (math.nan, 0.2)])
def test_where_the_cpu_is_busy_others_wait_for_those_who_wait_for_memory(cpu: float, gain: float) -> None:
    """R = S / (1 - rho): a fifth less work for each is more than a fifth less time; rho is at most 0.95."""
    readings = {"memory_pressure_ratio": 0.2, "busy_workers": 60.0, "idle_workers": 0.0, "cpu_ratio": cpu}
    known = {name: value for name, value in readings.items() if not math.isnan(value)}
    assert proposed(window_of(60, known)).gain == pytest.approx(gain)


@pytest.mark.parametrize(
    ("user", "capacity"), [(None, 20.0), (0.04, 20.0), (0.3, 1 / 0.3), (0.65, 1 / 0.65), (0.95, 0.0), (1.2, 0.0)]
)
def test_what_the_cpu_does_for_requests_meanwhile_is_not_lost_to_memory(user: float | None, capacity: float) -> None:
    """Of many on a full CPU one nearly always waits for memory: without that no more is done than fills the CPU."""
    readings = {"memory_pressure_ratio": 0.95, "busy_workers": 60.0, "idle_workers": 0.0, "cpu_ratio": 1.0}
    move = proposed(window_of(60, readings if user is None else {**readings, "cpu_user_ratio": user}))
    assert bool(move.changes) == (capacity > 0)
    if capacity:
        lost = 1 - 1 / capacity
        assert move.changes == proposed(window_of(60, readings)).changes, "where to go is told by the waits"
        assert move.evidence.get("cpu_user_ratio") == user
        assert move.capacity == pytest.approx(capacity)
        assert move.gain == pytest.approx(min(0.99, lost / (1 - 0.95 * (1 - lost))))


def test_where_what_fits_cannot_be_told_the_step_is_small() -> None:
    blind = without("worker_memory_bytes", "memory_limit_bytes")(DYNAMIC.window(0, 60, 0))
    assert proposed(blind).changes == {NAME: 44}


def test_a_limit_above_the_workers_there_are_is_not_lowered_for_the_sake_of_memory() -> None:
    window = seen(150, memory_pressure_ratio=0.9, busy_workers=20.0, idle_workers=5.0)
    assert not proposed(window).changes


def test_a_queue_of_one_window_is_chance_and_promises_what_it_has_in_the_mean_of_three() -> None:
    """Five workers of whom four are busy: once in twelve windows a connection waits."""
    usual = seen(5, accept_queue_length=0.4, accept_queue_delay_s=0.02, busy_workers=3.9, cpu_ratio=0.6)
    short = seen(
        5, response_time_s=1.0, accept_queue_length=1.3, accept_queue_delay_s=0.24, busy_workers=4.3, cpu_ratio=0.6
    )
    at_four = replace(short, configuration={NAME: 4})
    assert proposed(short).gain == pytest.approx(0.24), "nothing else is known of it"
    assert not proposed(short, Trial(usual), Trial(usual)).changes
    assert proposed(short, Trial(short), Trial(usual)).gain == pytest.approx(0.16)
    assert proposed(short, Trial(short), Trial(short), Trial(usual)).gain == pytest.approx(0.16)
    assert proposed(short, Trial(usual), Trial(short), Trial(short)).gain == pytest.approx(0.24)
    assert proposed(short, Trial(at_four), Trial(replace(usual, configuration={NAME: 4}))).gain == pytest.approx(0.24)


def test_where_all_are_busy_and_connections_wait_it_goes_to_where_the_cpu_saturates() -> None:
    window = seen(
        10,
        response_time_s=1.0,
        accept_queue_delay_s=0.9,
        accept_queue_length=30.0,
        busy_workers=10.0,
        cpu_ratio=0.4,
    )
    move = proposed(window)
    assert move.changes == {NAME: 35}, "25 and twice its square root"
    assert move.gain == pytest.approx(0.9)
    assert move.capacity == pytest.approx(2.5), "no more than the CPU"


@pytest.mark.parametrize(
    "missing",
    [{"accept_queue_length": 0.2}, {"busy_workers": 5.0}, {"cpu_ratio": 0.88}],
    ids=["nobody waits", "half are idle", "no CPU left"],
)
def test_more_workers_are_not_asked_for_where_they_could_save_nothing(missing: dict[str, float]) -> None:
    short = {"response_time_s": 1.0, "accept_queue_delay_s": 0.9, "accept_queue_length": 30.0, "busy_workers": 10.0}
    move = proposed(window_of(10, {**short, "cpu_ratio": 0.4, **missing}))
    assert not move.changes
    # "10 busy, 30.0 waiting" and no cause: without a word on the CPU its reader takes that for a defect.
    assert ("the CPU is at 88%, and more workers would only share it" in move.reason) == ("cpu_ratio" in missing)


def test_a_server_that_answers_nothing_and_lets_connections_wait_counts_as_all_busy() -> None:
    assert proposed(seen(10, accept_queue_length=30.0, cpu_ratio=0.2)).changes == {NAME: 40}


def test_while_a_change_is_on_trial_nothing_is_proposed() -> None:
    running = Judgement(Verdict.OPEN, {NAME: 60}, 0.1, 0.2, 2, "at equal load")
    state = TRIM.start((worker_knob(),), 0)
    _, move = TRIM.step(state, Trial(DYNAMIC.window(0, 60, 0), judgement=running))
    assert not move.changes
    assert "on trial: at equal load" in move.reason


def test_what_was_not_better_is_not_proposed_again_before_the_referee_allows_it() -> None:
    state = TRIM.start((worker_knob(),), 0)
    window = DYNAMIC.window(2, 60, 0)
    _, held = TRIM.step(state, Trial(window, refuted=frozenset({(NAME, -1)})))
    assert not held.changes
    assert "a step that way was already tried" in held.reason
    _, again = TRIM.step(state, Trial(window, refuted=frozenset({(NAME, 1)})))
    assert again.changes == {NAME: 37}


def test_the_other_knob_is_moved_once_one_is_left_to_the_operator_and_without_any_it_ends() -> None:
    state = TRIM.withdraw(TRIM.start((worker_knob(), TIME), 0), "keep")
    _, move = TRIM.step(state, Trial(DYNAMIC.window(2, 60, 0)))
    assert move.changes == {NAME: 37}
    with pytest.raises(UsageError, match="no knob to move"):
        TRIM.withdraw(state, NAME)


def test_a_knob_that_is_left_to_the_operator_is_not_moved() -> None:
    state = TRIM.withdraw(TRIM.start((worker_knob(), TIME), 0), NAME)
    _, move = TRIM.step(state, Trial(DYNAMIC.window(0, 60, 0)))
    assert not move.changes
    assert TRIM.step(TRIM.start((worker_knob(), TIME), 0), Trial(DYNAMIC.window(0, 60, 0)))[1].changes


@pytest.mark.parametrize(
    ("option", "value"), [("ratio", 0.0), ("ratio", 1.0), ("ratio", -2.0), ("margin", 0.0), ("margin", 85.0)]
)
def test_an_option_that_makes_no_sense_is_refused_in_a_line(option: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"option {option} is {value:g}, allowed is"):
        Trim(Objective(), **{option: value}).start((worker_knob(),), 1)


def test_it_holds_when_the_value_in_force_is_not_known() -> None:
    window = replace(window_of(10, {}), configuration={})
    assert "not known" in proposed(window).reason


def test_a_proposal_is_a_member_of_the_domain() -> None:
    knob = worker_knob(minimum=25, maximum=1000, step=25)
    _, move = TRIM.step(TRIM.start((knob,), 0), Trial(DYNAMIC.window(0, 150, 0)))
    assert move.changes == {NAME: 25} or move.changes == {NAME: 50}


def with_time(held: float, **readings: float) -> Move:
    """The move where idle connections hold some of 20 busy workers, the keep-alive time being 5 s."""
    usual = {"busy_workers": 20.0, "idle_held_workers": held, "cpu_ratio": 0.2, "idle_workers": 10.0}
    window = window_of(30, {**usual, **readings})
    window = replace(window, configuration={**window.configuration, "keep": 5000})
    return TRIM.step(TRIM.start((worker_knob(), TIME), 0), Trial(window))[1]


def test_workers_that_idle_connections_hold_are_freed_before_the_limit_is_touched() -> None:
    move = with_time(18.0, accept_queue_length=30.0, busy_workers=30.0, idle_held_workers=27.0)
    assert move.changes == {"keep": 1250}
    assert "idle connections hold 27 of 30 busy workers" in move.reason
    assert (move.gain, move.capacity > 1) == (0.99, True)
    full = with_time(18.0, accept_queue_length=30.0, busy_workers=30.0, idle_held_workers=27.0, cpu_ratio=0.88)
    assert not full.changes, "freed workers would have no CPU left to use"


def test_where_they_wait_for_memory_fewer_workers_belong_to_it_but_not_fewer_than_are_held() -> None:
    move = with_time(12.0, memory_pressure_ratio=0.6)
    assert move.changes == {"keep": 1250, NAME: 22}
    assert f"trying keep 1250 instead of 5000 and {NAME} 22 instead of 30" in move.reason
    assert (move.gain, move.capacity > 1) == (0.6, True)
    assert with_time(25.0, memory_pressure_ratio=0.6, busy_workers=28.0, idle_workers=0.0).changes[NAME] == 25


@pytest.mark.parametrize(
    ("limit", "why", "refuted"),
    [(100, "a quarter of the limit is more than there are", ()), (30, "fewer were tried in vain", ((NAME, -1),))],
)
def test_where_no_fewer_workers_can_be_a_shorter_time_saves_no_memory_and_is_not_tried(
    limit: int, why: str, refuted: tuple[tuple[str, int], ...]
) -> None:
    there = {"busy_workers": 20.0, "idle_held_workers": 18.0, "idle_workers": 0.0, "cpu_ratio": 0.2}
    memory = {"memory_pressure_ratio": 0.4, "memory_bytes": 200 * MIB, "memory_limit_bytes": 100 * MIB}
    window = window_of(limit, {**there, **memory, "worker_memory_bytes": 10 * MIB})
    window = replace(window, configuration={NAME: limit, "keep": 5000})
    state = TRIM.start((worker_knob(), TIME), 0)
    assert not TRIM.step(state, Trial(window, refuted=frozenset(refuted)))[1].changes, why
    waits = replace(window, readings={**window.readings, "busy_workers": limit, "accept_queue_length": 9.0})
    held = replace(waits, readings={**waits.readings, "idle_held_workers": 0.9 * limit})
    assert TRIM.step(state, Trial(held, refuted=frozenset(refuted)))[1].changes == {"keep": 1250}, "connections wait"


@pytest.mark.parametrize(("changed", "left"), [({}, 18), ({"cpu_ratio": 0.9}, 8)])
def test_where_connections_wait_as_many_remain_as_would_be_at_work_without_the_stalls(
    changed: dict[str, float], left: int
) -> None:
    """With fewer the stalls would end, and less be completed all the same, unless the CPU is what limits it."""
    short = {"busy_workers": 30.0, "idle_workers": 0.0, "accept_queue_length": 30.0, "memory_pressure_ratio": 0.4}
    memory = {"memory_bytes": 300 * MIB, "worker_memory_bytes": 10 * MIB, "memory_limit_bytes": 100 * MIB}
    assert with_time(0.0, **{**short, **memory, **changed}).changes == {NAME: left}


@pytest.mark.parametrize(
    ("changed", "left"),
    [({}, 26), ({"cpu_ratio": 0.97}, 26), ({"accept_queue_length": 0.9}, 26), ({"memory_pressure_ratio": 0.7}, 15)],
)
def test_where_nobody_waits_nobody_is_to_wait_for_a_worker_afterwards(changed: dict[str, float], left: int) -> None:
    """At work without the stalls are 18, or 9; with no more than that some would wait most of the time."""
    kept_up = {"busy_workers": 30.0, "idle_workers": 0.0, "accept_queue_length": 0.0, "memory_pressure_ratio": 0.4}
    memory = {"memory_bytes": 300 * MIB, "worker_memory_bytes": 10 * MIB, "memory_limit_bytes": 100 * MIB}
    assert with_time(0.0, **{**kept_up, **memory, **changed}).changes == {NAME: left}


def test_whether_anybody_waits_has_to_be_known_for_more_than_what_fits_to_remain() -> None:
    seen = {"busy_workers": 30.0, "idle_workers": 0.0, "memory_pressure_ratio": 0.4, "cpu_ratio": 0.2}
    memory = {"memory_bytes": 300 * MIB, "worker_memory_bytes": 10 * MIB, "memory_limit_bytes": 100 * MIB}
    window = window_of(30, {**seen, **memory})
    unseen = {name: value for name, value in window.readings.items() if name != "accept_queue_length"}
    assert proposed(replace(window, readings=unseen)).changes == {NAME: 8}


def test_where_those_who_are_there_are_hardly_enough_none_of_them_goes() -> None:
    kept_up = {"busy_workers": 30.0, "idle_workers": 0.0, "accept_queue_length": 0.0, "memory_pressure_ratio": 0.12}
    memory = {"memory_bytes": 300 * MIB, "worker_memory_bytes": 10 * MIB, "memory_limit_bytes": 100 * MIB}
    assert not with_time(0.0, **kept_up, **memory).changes


@pytest.mark.parametrize(("held", "left"), [(12.0, 12), (18.0, 18), (20.0, 20), (5.0, 10)])
def test_no_fewer_workers_remain_than_idle_connections_hold_however_many_are_busy(held: float, left: int) -> None:
    """Of 40 busy ones: how many are busy because they wait for memory says nothing of who is held."""
    thrashing = {"busy_workers": 40.0, "idle_workers": 0.0, "memory_pressure_ratio": 0.9, "memory_bytes": 400 * MIB}
    memory = {"worker_memory_bytes": 10 * MIB, "memory_limit_bytes": 100 * MIB}
    window = window_of(40, {**thrashing, **memory, "idle_held_workers": held})
    assert proposed(window).changes == {NAME: left}


def test_where_idle_connections_would_hold_most_of_the_workers_that_remain_the_time_goes_with_them() -> None:
    thrashing = {"busy_workers": 30.0, "idle_workers": 0.0, "memory_pressure_ratio": 0.9, "memory_bytes": 300 * MIB}
    memory = {"worker_memory_bytes": 10 * MIB, "memory_limit_bytes": 180 * MIB}
    assert with_time(9.0, **thrashing, **memory).changes == {NAME: 15, "keep": 1250}
    assert with_time(6.0, **thrashing, **memory).changes == {NAME: 15}
    window = replace(
        window_of(30, {**thrashing, **memory, "idle_held_workers": 9.0}), configuration={NAME: 30, "keep": 5000}
    )
    _, move = TRIM.step(TRIM.start((worker_knob(), TIME), 0), Trial(window, refuted=frozenset({("keep", -1)})))
    assert move.changes == {NAME: 15}, "it was tried"


def test_a_shorter_time_comes_before_more_workers_than_the_operator_lets_in_at_once_even_where_they_fit() -> None:
    short = {"accept_queue_length": 30.0, "busy_workers": 30.0, "idle_workers": 0.0, "memory_bytes": 30 * MIB}
    fit = {"worker_memory_bytes": 1 * MIB, "memory_limit_bytes": 400 * MIB}
    assert with_time(27.0, **short, **fit).changes == {"keep": 1250}
    assert with_time(12.0, **short, **fit).changes == {NAME: 120}, "most of them are at work"


def test_of_two_ways_the_one_that_is_left_to_the_operator_or_was_tried_is_not_taken_with_the_other() -> None:
    short = {"accept_queue_length": 30.0, "busy_workers": 30.0, "idle_workers": 0.0, "memory_bytes": 30 * MIB}
    fit = {
        "worker_memory_bytes": 1 * MIB,
        "memory_limit_bytes": 400 * MIB,
        "idle_held_workers": 27.0,
        "cpu_ratio": 0.2,
    }
    window = replace(window_of(30, {**short, **fit}), configuration={NAME: 30, "keep": 5000})
    state = TRIM.start((worker_knob(), TIME), 0)
    _, left = TRIM.step(TRIM.withdraw(state, "keep"), Trial(window))
    _, tried = TRIM.step(state, Trial(window, refuted=frozenset({("keep", -1)})))
    assert left.changes == tried.changes == {NAME: 120}


def test_a_limit_that_is_not_reached_is_lowered_from_the_workers_that_are_there() -> None:
    grown = {"busy_workers": 40.0, "idle_workers": 0.0, "memory_bytes": 400 * MIB, "memory_limit_bytes": 150 * MIB}
    thrashing = window_of(150, {**grown, "worker_memory_bytes": 10 * MIB, "memory_pressure_ratio": 0.9})
    assert proposed(thrashing).changes == {NAME: 12}
    a_little = {**thrashing.readings, "memory_pressure_ratio": 0.3}
    assert proposed(replace(thrashing, readings=a_little)).changes == {NAME: 37}, "a quarter of the limit"


def test_where_requests_hold_the_workers_the_keep_alive_time_is_left_alone() -> None:
    assert NAME in with_time(4.0, memory_pressure_ratio=0.6).changes


def test_idle_connections_that_cost_nobody_anything_are_left_alone() -> None:
    assert not with_time(18.0).changes


def test_where_a_shorter_time_has_done_nothing_so_far_for_an_overloaded_server_the_next_cause_follows() -> None:
    short = {"busy_workers": 30.0, "idle_held_workers": 20.0, "cpu_ratio": 0.2, "memory_pressure_ratio": 0.6}
    after = replace(window_of(30, short), configuration={NAME: 30, "keep": 1250})
    so_far = Judgement(Verdict.SAME, {NAME: 30, "keep": 5000}, None, None, 0, "completes no more")
    state = TRIM.start((worker_knob(), TIME), 0)
    _, second = TRIM.step(state, Trial(after, judgement=so_far, refuted=frozenset({("keep", -1)})))
    assert NAME in second.changes
    both = frozenset({("keep", -1), (NAME, -1)})
    _, onward = TRIM.step(state, Trial(after, judgement=so_far, refuted=both))
    assert not onward.changes, "neither way is open any more"
    _, other = TRIM.step(state, Trial(after, judgement=replace(so_far, verdict=Verdict.OPEN)))
    assert not other.changes


def test_where_workers_wait_for_memory_and_most_are_idle_those_go_first() -> None:
    move = with_time(18.0, memory_pressure_ratio=0.6, idle_workers=200.0)
    assert NAME not in move.changes, "the limit is 30: the others are finishing"
    crowd = {"busy_workers": 20.0, "idle_held_workers": 18.0, "idle_workers": 130.0, "memory_pressure_ratio": 0.6}
    window = replace(window_of(150, crowd), configuration={NAME: 150, "keep": 5000})
    _, move = TRIM.step(TRIM.start((worker_knob(), TIME), 0), Trial(window))
    assert move.changes == {NAME: 37}
    assert "130 are idle" in move.reason


def test_those_who_are_busy_because_they_wait_for_memory_are_not_taken_for_needed() -> None:
    crowd = {"busy_workers": 50.0, "idle_workers": 90.0, "memory_pressure_ratio": 0.9}
    assert proposed(window_of(140, crowd)).changes == {NAME: 35}
    half = {**crowd, "memory_pressure_ratio": 0.5}
    assert proposed(window_of(140, half)).changes == {NAME: 50}


def test_of_idle_workers_all_that_fit_stay_and_twice_as_many_as_were_ever_needed() -> None:
    crowd = {"busy_workers": 2.0, "idle_workers": 343.0, "memory_pressure_ratio": 0.6, "memory_bytes": 800 * MIB}
    memory = {"worker_memory_bytes": 10 * MIB, "memory_limit_bytes": 280 * MIB}
    move = proposed(window_of(345, {**crowd, **memory}))
    assert (move.changes, move.spare) == ({NAME: 23}, True), "0.85 * 280 / 10, at once"
    rush = window_of(
        345, {**crowd, **memory, "busy_workers": 40.0, "idle_workers": 305.0, "memory_pressure_ratio": 0.5}
    )
    calm = window_of(345, {**crowd, **memory})
    assert proposed(calm, Trial(rush)).changes == {NAME: 40}, "half of them only waited for memory"


def test_where_idle_workers_that_were_taken_away_are_missed_the_limit_of_before_comes_back() -> None:
    state = TRIM.start((worker_knob(), TIME), 0)
    crowd = {"busy_workers": 20.0, "idle_workers": 130.0, "memory_pressure_ratio": 0.6}
    state, move = TRIM.step(state, Trial(replace(window_of(150, crowd), configuration={NAME: 150, "keep": 5000})))
    assert move.changes == {NAME: 37}
    rush = {"busy_workers": 40.0, "idle_held_workers": 39.0, "idle_workers": 0.0, "accept_queue_length": 20.0}
    window = replace(window_of(40, {**rush, "cpu_ratio": 0.5}), configuration={NAME: 40, "keep": 5000})
    _, move = TRIM.step(state, Trial(window))
    assert move.changes == {NAME: 150}
    assert "the limit was 150 before" in move.reason
    _, other = TRIM.step(TRIM.start((worker_knob(), TIME), 0), Trial(window))
    assert other.changes == {"keep": 1250}, "nobody was spared"


def test_one_step_beyond_what_fits_is_tried_where_nothing_stalls_and_there_is_swap() -> None:
    mib = 2.0**20
    short = {"accept_queue_length": 30.0, "busy_workers": 40.0, "cpu_ratio": 0.3, "memory_bytes": 400 * mib}
    memory = {"worker_memory_bytes": 10 * mib, "memory_limit_bytes": 400 * mib, "idle_workers": 0.0}
    assert not proposed(window_of(40, {**short, **memory})).changes
    assert proposed(window_of(40, {**short, **memory, "swap_free_bytes": 900 * mib})).changes == {NAME: 54}
    assert not proposed(window_of(40, {**short, **memory, "swap_free_bytes": 90 * mib})).changes, (
        "14 more take 140 MiB"
    )
    stalled = window_of(40, {**short, **memory, "swap_free_bytes": 900 * mib, "memory_pressure_ratio": 0.6})
    assert proposed(stalled).changes[NAME] < 40
