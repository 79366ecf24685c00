"""The referee on windows made by hand: what it allows, what it puts back, what it says."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from trimtab.core import Domain, How, Knob, Move, Objective, Readings, Role, Verdict, Window
from trimtab.referee import Afterwards, Referee
from trimtab.referee.experiment import FURTHER
from trimtab.referee.rule import COOLDOWN_S, LEAST_REFERENCE, REFERENCE

WORKERS = Knob("w", "W", "workers", Domain(1, 1000), 100, How.RELOAD, "a reload", "workers", Role.WORKER_LIMIT)
IDLE = Knob("k", "K", "ms", Domain(1, 60_000), 5000, How.RELOAD, "a reload", "time", Role.KEEP_ALIVE)
WINDOW_S = 5.0
START = {"w": 150, "k": 5000}
DOWN = Move({"w": 40}, "40 fit", gain=0.9)


class Bench:
    """A referee, fed with windows of 50 requests a second on a fifth of the CPU.

    Args:
        judge: the referee.
    """

    def __init__(self, judge: Any = None) -> None:
        self.judge: Any = judge or Referee(Objective("request_time_s"))
        self.state: Any = self.judge.start((WORKERS, IDLE))
        self.values: dict[str, int] = dict(START)
        self.index = 0
        self.backs: list[Mapping[str, int]] = []
        self.noise = random.Random(1)
        self.last: Any = None

    def window(self, cost_s: float | None = 0.02, **readings: float) -> Window:
        """The next window."""
        seen: dict[str, float] = {"request_rate_hz": 50.0, "connection_rate_hz": 25.0, "cpu_ratio": 0.2}
        seen |= {"accept_queue_length": 0.1}
        if cost_s is not None:
            seen["request_time_s"] = cost_s * self.noise.uniform(0.95, 1.05)
        full: Readings = {**seen, **readings}
        rate = full["request_rate_hz"]
        made = Window(self.index, self.index * WINDOW_S, WINDOW_S, dict(self.values), full, round(rate * WINDOW_S))
        self.index += 1
        return made

    def see(self, count: int = 1, cost_s: float | None = 0.02, **readings: float) -> Bench:
        """Some windows; what has to be put back is, at once."""
        for _ in range(count):
            self.last = self.window(cost_s, **readings)
            self.state, back = self.judge.judge(self.state, self.last)
            if back:
                self.backs.append(back)
                self.values |= back
        return self

    def change(self, **values: int) -> Bench:
        """A change that was applied."""
        self.values |= values
        return self

    def asked(self, move: Move = DOWN) -> Move:
        """What becomes of a move after the last window."""
        found: Move = self.judge.review(self.state, self.last, move)
        return found


def ready() -> Bench:
    """With a reference of a quarter of an hour, so that a change can earn back what it costs."""
    return Bench().see(180)


@pytest.mark.parametrize(("gain", "needed"), [(0.9, LEAST_REFERENCE), (0.15, REFERENCE)])
def test_the_smaller_the_promised_gain_the_longer_the_reference(gain: float, needed: int) -> None:
    held = Bench().see(needed - 1, cpu_ratio=0.6).asked(replace(DOWN, gain=gain))
    assert not held.changes
    assert f"window {needed - 1} of {needed} of a reference" in held.reason
    later = Bench().see(needed, cpu_ratio=0.6).asked(replace(DOWN, gain=gain))
    assert "of a reference" not in later.reason


def test_a_change_that_can_be_judged_and_paid_passes_as_it_is() -> None:
    assert ready().asked() == DOWN


class Uncounted(Bench):
    """Windows of which only the objective is known."""

    def window(self, cost_s: float | None = 0.02, **readings: float) -> Window:
        made = super().window(cost_s, **readings)
        return replace(made, readings={"request_time_s": made.readings["request_time_s"]}, samples=0)


def test_where_requests_are_not_counted_verdicts_come_all_the_same() -> None:
    assert Uncounted().see(6).change(w=100).see(8, 0.013).state.incumbent["w"] == 100
    worse = Uncounted().see(6).change(w=100).see(4, 0.03)
    assert worse.backs == [{"w": 150}]


def restless(bench: Bench, windows: int, factor: float = 1.0, **readings: float) -> Bench:
    """Windows that differ by more than a verdict could be told from at once."""
    for index in range(windows):
        bench.see(1, factor * (0.012, 0.034, 0.02)[index % 3], **readings)
    return bench


def test_fewer_workers_of_which_nothing_is_seen_become_still_fewer_and_all_come_back() -> None:
    bench = restless(restless(Bench(), 180).change(w=100), 1 + FURTHER)
    assert bench.state.judgement.verdict is Verdict.SAME and not bench.state.judgement.final
    assert bench.asked(replace(DOWN, changes={"w": 40})).changes == {"w": 40}
    for other in ({"w": 120}, {"k": 1000}):
        assert "only still fewer" in bench.asked(replace(DOWN, changes=other)).reason
    bench.change(w=40).see(2)
    assert "still being judged" in bench.asked(replace(DOWN, changes={"w": 30})).reason
    assert bench.see(6, 0.2).backs == [{"w": 150}]


@pytest.mark.parametrize("change", [{"w": 200}, {"k": 4000}, {"w": 100, "k": 4000}])
def test_nothing_else_goes_on_before_its_verdict(change: dict[str, int]) -> None:
    bench = restless(restless(Bench(), 180).change(**change), 1 + FURTHER)
    assert not bench.state.judgement.final
    further = {name: 2 * value - START[name] for name, value in change.items()}
    assert "still being judged" in bench.asked(replace(DOWN, changes=further)).reason


def test_fewer_workers_that_seem_to_do_something_go_no_further_before_their_verdict() -> None:
    bench = restless(restless(Bench(), 180).change(w=100), 1 + FURTHER, 0.7)
    assert bench.state.judgement.verdict is Verdict.OPEN and not bench.backs
    assert "still being judged" in bench.asked(replace(DOWN, changes={"w": 40})).reason


def test_six_windows_tell_that_it_is_another_load_by_now() -> None:
    bench = Bench().see(3).see(3, connection_rate_hz=60.0, request_rate_hz=120.0, cpu_ratio=0.48)
    assert len(bench.state.reference) == 3 and bench.state.since_s == bench.last.start_s


def test_the_first_change_costs_less_where_few_are_inside_though_the_cpu_is_full() -> None:
    """Clients who wait for their replies: no queue of strangers is that short on a full CPU."""
    few, many = ({"cpu_ratio": 0.99, "standstill_s": 0.3, "busy_workers": busy} for busy in (2.0, 60.0))
    assert Bench().see(12, **few).asked(replace(DOWN, gain=0.5)).changes
    held = Bench().see(12, **many).asked(replace(DOWN, gain=0.5))
    assert "does not yet earn back what a change costs" in held.reason


def test_a_standstill_that_is_known_may_take_all_that_a_long_run_has_earned() -> None:
    seen = {"cpu_ratio": 0.6, "standstill_s": 1.0, "busy_workers": 1.0}
    assert "the budget of" in Bench().see(22, **seen).asked().reason
    assert Bench().see(40, **seen).asked() == DOWN


def test_a_trial_that_all_of_a_long_run_has_earned_for_may_spend_that() -> None:
    bench = ready().change(w=40).see(1, 0.2).see(13)
    assert bench.backs == [{"w": 150}] and bench.state.budget_s < -10
    shorter = Move({"k": 1250}, "", gain=0.9)
    assert bench.see(60).asked(shorter) == shorter, "30 s, and 5 % of 1,270 s"
    assert bench.state.budget_s < 5
    bench.change(k=1250).see(3, 0.025)
    assert len(bench.backs) == 1


def test_a_setting_three_times_worse_goes_back_as_it_was_within_three_windows_by_one_change() -> None:
    bench = ready().change(w=40, k=250).see(3, 0.06)
    assert bench.backs == [START]
    assert bench.values == START
    assert bench.state.judgement.verdict is Verdict.WORSE
    assert "at equal load the cost is" in bench.state.judgement.why


def test_a_better_setting_becomes_the_one_that_is_returned_to() -> None:
    bench = ready().change(w=40).see(8, 0.002)
    assert bench.backs == []
    assert bench.state.incumbent == {"w": 40, "k": 5000}
    bench.see(180, 0.002).change(w=20).see(3, 0.02)
    assert bench.backs == [{"w": 40}]


def test_a_setting_that_makes_no_difference_goes_back() -> None:
    bench = ready().change(w=140).see(40)
    assert bench.backs == [{"w": 150}]
    assert bench.state.judgement is None or bench.state.judgement.verdict in (Verdict.SAME, Verdict.OPEN)


def test_what_was_refuted_is_not_tried_again_until_the_workload_changes() -> None:
    bench = ready().change(w=40).see(3, 0.1).see(30)
    held = bench.asked()
    assert "tried on this workload already" in held.reason
    bench.see(20, 0.02, request_rate_hz=150.0, connection_rate_hz=75.0, cpu_ratio=0.6)
    assert bench.state.refuted == frozenset()
    assert bench.asked().changes or "tried" not in bench.asked().reason


def test_the_other_way_is_open_after_a_pause() -> None:
    bench = ready().change(w=40).see(3, 0.1)
    up = Move({"w": 200}, "more", gain=0.9)
    bench.see(5)
    assert "no change for another" in bench.asked(up).reason
    bench.see(round(COOLDOWN_S / WINDOW_S) + 200)
    assert bench.asked(up) == up


def test_after_two_harmful_changes_in_a_row_nothing_more_is_tried() -> None:
    bench = ready().change(w=40).see(3, 0.1).see(200).change(w=300).see(3, 0.1).see(200)
    assert "two changes in a row made things worse" in bench.asked(Move({"k": 1000}, "shorter", gain=0.9)).reason


def test_a_knob_that_is_left_to_the_operator_gives_no_new_budget_and_forgives_nothing() -> None:
    bench = ready().change(w=40).see(3, 0.1).see(200).change(w=300).see(3, 0.1).see(20)
    before = bench.state
    bench.state = bench.judge.withdraw(before, (WORKERS,))
    assert (bench.state.knobs, bench.state.incumbent, bench.state.reference) == ((WORKERS,), None, ())
    assert bench.state.budget_s == before.budget_s
    assert (bench.state.refuted, bench.state.worse) == (before.refuted, 2)
    assert "tried on this workload already" in bench.see(180).asked().reason


def test_a_rise_that_stays_after_the_return_was_the_loads_and_blames_nothing() -> None:
    bench = ready().change(w=40).see(3, 0.2)
    assert bench.backs == [{"w": 150}]
    blamed = bench.state
    assert ("w", -1) in blamed.refuted and blamed.worse == 1 and blamed.quiet_until_s > 0 and blamed.spent_s > 5
    bench.see(6, 0.2)
    cleared = bench.state
    assert ("w", -1) not in cleared.refuted
    assert (cleared.worse, cleared.quiet_until_s) == (0, 0.0)
    assert cleared.spent_s >= blamed.spent_s, "clients have lost it all the same"
    assert cleared.spent_s - cleared.excused_s < 2, "its standstill"
    assert cleared.budget_s > blamed.budget_s + 5
    assert "made things worse" not in bench.asked().reason


def test_a_fall_after_the_return_blames_the_setting() -> None:
    bench = ready().change(w=40).see(1, 0.2).see(6)
    assert ("w", -1) in bench.state.refuted
    assert bench.state.worse == 1 and bench.state.quiet_until_s > 0 and bench.state.spent_s > 0


def test_windows_in_which_nobody_comes_say_nothing_of_a_change() -> None:
    nobody = {"request_rate_hz": 0.0, "connection_rate_hz": 0.0, "accept_queue_length": 0.0}
    run = ready().see(1, None, **nobody).see(3).change(w=40).see(1).see(4, None, **nobody)
    assert not run.backs and run.state.experiment.silent == 4
    assert run.see(3, 0.01).backs == [] and run.state.incumbent["w"] == 40
    never = ready().change(w=40).see(1).see(2, None, **nobody)
    assert never.backs == [{"w": 150}], "somebody always came before: a proxy may have turned away"
    came = {**nobody, "connection_rate_hz": 3.0}
    hidden = ready().see(1, None, **nobody).see(3).change(w=40).see(1).see(2, None, **came)
    assert hidden.backs == [{"w": 150}], "connections came, and nothing was heard of them"


def test_what_was_not_measured_is_not_good() -> None:
    bench = ready().change(w=40).see(4, None, accept_queue_length=90.0)
    assert bench.backs == [{"w": 150}]


def test_connections_that_pile_up_count_although_those_served_are_fast() -> None:
    bench = ready().change(w=2).see(2, 0.02, accept_queue_length=60.0)
    assert bench.backs == [{"w": 150}]
    assert "more than may be risked" in bench.state.judgement.why


def test_a_window_under_way_is_cut_short_once_its_cost_exceeds_the_budget() -> None:
    bench = ready().change(w=2)
    assert "more than may be risked" in bench.judge.abort(bench.state, bench.window(0.02, accept_queue_length=400.0))
    assert not bench.judge.abort(bench.state, bench.window())


def test_at_the_incumbent_no_window_is_cut_short() -> None:
    bench = ready()
    assert not bench.judge.abort(bench.state, bench.window(9.0, accept_queue_length=400.0))


def overloaded(bench: Bench) -> Bench:
    """Connections come faster than they are served."""
    for queue in (200.0, 500.0, 900.0, 1400.0):
        bench.see(1, 5.0, accept_queue_length=queue, request_rate_hz=20.0)
    return bench


def test_an_overloaded_server_is_not_reloaded_for_what_adds_no_capacity() -> None:
    held = overloaded(ready()).asked()
    assert "the server is overloaded, and this change adds no capacity" in held.reason


def test_an_overloaded_server_that_recovers_by_itself_is_left_alone() -> None:
    bench = overloaded(ready()).see(1, 5.0, accept_queue_length=1000.0)
    assert "drains by itself" in bench.asked(replace(DOWN, capacity=3.0)).reason


def test_an_overloaded_server_may_get_more_capacity_and_the_old_backlog_is_not_blamed_on_it() -> None:
    bench = overloaded(ready())
    more = replace(DOWN, capacity=3.0)
    assert bench.asked(more) == more
    bench.change(w=40).see(1, 8.0, accept_queue_length=1500.0, request_rate_hz=60.0)
    for queue in (1300.0, 900.0, 400.0, 0.2):
        bench.see(1, 8.0, accept_queue_length=queue, request_rate_hz=60.0)
    assert bench.backs == []
    assert bench.state.incumbent == {"w": 40, "k": 5000}
    bench.see(8)
    assert bench.state.incumbent == {"w": 40, "k": 5000}


def test_an_overloaded_server_that_completes_less_after_a_change_gets_the_old_setting_back() -> None:
    bench = overloaded(ready()).change(w=10)
    bench.see(2, 8.0, accept_queue_length=2000.0, request_rate_hz=4.0)
    assert bench.backs == [{"w": 150}]
    assert "completes less than before the change" in bench.state.judgement.why


def test_where_a_change_did_nothing_for_an_overloaded_server_another_may_follow_and_both_go_back_together() -> None:
    bench = overloaded(ready()).change(k=1000)
    more = replace(DOWN, capacity=3.0)
    bench.see(3, 8.0, accept_queue_length=1500.0, request_rate_hz=20.0)
    assert "still being judged" in bench.asked(more).reason
    bench.see(2, 8.0, accept_queue_length=1600.0, request_rate_hz=20.0)
    assert bench.state.judgement.verdict is Verdict.SAME
    assert not bench.state.judgement.final
    assert bench.asked(more) == more
    bench.change(w=40).see(3, 8.0, accept_queue_length=2000.0, request_rate_hz=4.0)
    assert bench.backs == [START]


def test_a_run_ends_with_what_the_evidence_stands_behind() -> None:
    assert ready().judge.final(ready().state) == START
    undecided = ready().change(w=140).see(3)
    assert undecided.judge.final(undecided.state) == START
    better = ready().change(w=40).see(8, 0.002)
    assert better.judge.final(better.state) == {**START, "w": 40}


@pytest.mark.parametrize("seed", range(1, 11))
def test_trying_in_vain_costs_at_most_what_the_budget_allows(seed: int) -> None:
    """Every proposal is harmful; over two hours the excess stays below a twentieth, and the start of the budget."""
    bench, excess_s = ready(), 0.0
    bench.noise = random.Random(seed)
    targets = {"w": (40, 300), "k": (500, 20_000)}
    for _ in range(1440):
        harmful = bench.values != START
        bench.see(1, 0.1 if harmful else 0.02)
        excess_s += 4 * WINDOW_S if harmful else 0.0
        if bench.last.configuration != START or bench.values != START:
            continue
        tried = [Move({name: value}, "try", gain=0.9) for name, values in targets.items() for value in values]
        allowed = next((move for move in tried if bench.asked(move).changes), None)
        bench.change(**dict(allowed.changes if allowed else {}))
    assert excess_s <= 30 + 0.05 * 1440 * WINDOW_S


def test_methods_that_change_something_in_every_window_are_judged_at_the_end() -> None:
    bench = Bench(Afterwards(Objective("request_time_s"))).see(10)
    assert bench.asked() == DOWN
    bench.change(w=100).see(2, 0.05).change(w=40).see(12, 0.1)
    assert bench.backs == []
    assert bench.judge.final(bench.state) == {"w": 150}
    good = Bench(Afterwards(Objective("request_time_s"))).see(10).change(w=40).see(12, 0.004)
    assert good.judge.final(good.state) == {}


def test_half_as_many_more_inside_cost_half_a_window_where_the_objective_is_a_rate() -> None:
    bench = Bench(Referee(Objective("request_rate_hz", minimize=False)))
    bench.see(180, None, accept_queue_length=30.0).change(w=40).see(1, None, accept_queue_length=45.0)
    assert not bench.backs
    assert bench.state.spent_s == pytest.approx(WINDOW_S / 2, rel=0.01)


def test_a_change_that_has_cost_nothing_is_not_taken_back_for_what_an_earlier_one_has_spent() -> None:
    bench = ready()
    bench.state = replace(bench.state, budget_s=-20.0)
    bench.change(w=140).see(3, 0.018)
    assert bench.backs == []
    under_way = replace(bench.window(0.018), duration_s=1.0)
    assert bench.judge.abort(bench.state, under_way) == ""


def test_the_way_back_to_what_the_run_began_with_needs_no_budget_and_no_pause() -> None:
    bench = ready().change(w=40).see(12, 0.002).see(REFERENCE, 0.002)
    assert bench.state.incumbent == {"w": 40, "k": 5000}
    bench.change(k=1000).see(1, 0.5).see(LEAST_REFERENCE + 7)
    assert bench.state.budget_s < 0
    assert not bench.asked(Move({"w": 80}, "", gain=0.9)).changes
    assert bench.asked(Move({"w": 150}, "", gain=0.9)).changes == {"w": 150}
    assert not bench.asked(Move({"w": 150}, "", gain=0.001)).changes, "it has to be worth a change all the same"


def test_a_server_that_fell_behind_during_a_trial_opens_what_was_tried_before_it() -> None:
    bench = ready().change(k=1000).see(12)
    assert bench.state.experiment is None or bench.backs == [{"k": 5000}]
    bench.see(5)
    assert ("k", -1) in bench.state.closed
    bench.change(w=40)
    for queue in (200.0, 500.0, 900.0, 1400.0, 1900.0, 2400.0, 2900.0, 3400.0):
        bench.see(1, 5.0, accept_queue_length=queue, request_rate_hz=20.0)
    assert bench.backs[-1] == {"w": 150}
    assert bench.state.overloaded
    assert bench.state.closed == frozenset()


def test_noise_that_the_windows_do_not_have_is_no_reason_to_wait() -> None:
    busy = {"cpu_ratio": 0.85}
    steady, wild = Bench().see(30, **busy), Bench()
    for i in range(30):
        wild.see(1, 0.02 * (4.0 if i % 8 < 4 else 1.0), **busy)
    few = replace(DOWN, gain=0.35)
    assert "windows to see" not in steady.asked(few).reason
    assert "windows to see" in wild.asked(few).reason


@pytest.mark.parametrize("per", [2.0, None], ids=["more come", "those that are there ask for more"])
@pytest.mark.parametrize(
    ("rates", "held"), [((25, 40, 60, 90), True), ((90, 60, 40, 25), True), ((25, 30, 25, 33), False)]
)
def test_nothing_is_tried_while_the_load_is_changing(rates: tuple[int, ...], held: bool, per: float | None) -> None:
    """As at the beginning of a rush: what the change did could not be told from what the rush does."""
    bench = Bench().see(60)
    for rate_hz in rates:
        connections_hz = 25.0 if per is None else rate_hz / per
        bench.see(1, request_rate_hz=2.0 * rate_hz, connection_rate_hz=connections_hz)
    assert ("still changing" in bench.asked(replace(DOWN, gain=0.5)).reason) == held


def test_windows_whose_few_requests_are_too_short_to_be_seen_take_no_change_back() -> None:
    bench = ready()
    bench.change(w=40)
    bench.see(1)  # which pays for the change
    bench.see(4, 0.0, request_rate_hz=2.0, connection_rate_hz=1.0, accept_queue_length=0.0)
    assert not bench.backs


@pytest.mark.parametrize("inside", [0.6, 30.0])
def test_a_cost_that_cannot_be_seen_while_some_wait_counts_against_the_change(inside: float) -> None:
    bench = ready()
    bench.change(w=40)
    bench.see(4, 0.0, request_rate_hz=2.0, connection_rate_hz=1.0, accept_queue_length=inside)
    assert bench.backs
