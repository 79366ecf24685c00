"""Start and winner measured in turn: the order, the claim and its interval."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from dataclasses import replace

import pytest
from scipy.stats import t

from trimtab.core import Limit, Objective, Verdict, Window
from trimtab.referee.turns import Claim, Seen, at_one_pace, candidates_turns, claimed, factor, slope_in, spread
from trimtab.search.pace import Slope

MOST = Objective("request_rate_hz", minimize=False)
LEAST = Objective("response_time_s")


def seen(value: float | None, broken: bool = False, **held: int) -> Seen:
    return Seen(held or {"workers": 10}, value, broken, 10.0)


def in_turn(start: list[float | None], winner: list[float | None]) -> list[Seen]:
    """The windows in the order in which they are measured."""
    sides = (iter(start), iter(winner))
    return [seen(next(sides[is_winner])) for is_winner in candidates_turns(len(start))]


def test_a_second_round_is_as_the_first() -> None:
    assert candidates_turns(5, 2) == candidates_turns(5) * 2
    seen = in_turn([10.0, 11.0, 9.0], [12.0, 13.5, 10.0])
    assert claimed([*seen, *seen], MOST, rounds=2).gain == pytest.approx(claimed(seen, MOST).gain)


@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_each_turn_has_both_and_the_last_window_is_the_winners(repeats: int) -> None:
    order = candidates_turns(repeats)
    assert len(order) == 2 * repeats
    assert all(order[2 * i] is not order[2 * i + 1] for i in range(repeats))
    assert order[-1] and order[-2:] == (False, True)


def test_a_steady_drift_falls_on_both_alike() -> None:
    order = candidates_turns(4)
    places = [statistics.fmean(i for i, of_winner in enumerate(order) if of_winner is side) for side in (True, False)]
    assert places[0] == places[1]


@pytest.mark.parametrize("objective", [MOST, LEAST])
def test_the_factor_and_its_interval_are_those_of_paired_logarithms(objective: Objective) -> None:
    start, winner = [10.0, 11.0, 9.0], [12.0, 13.5, 10.8]
    if objective is LEAST:
        start, winner = winner, start
    found = claimed(in_turn([*start], [*winner]), objective)
    logs = [math.log(12 / 10), math.log(13.5 / 11), math.log(10.8 / 9)]
    half = float(t.ppf(1 - 0.0294 / 2, 2)) * statistics.stdev(logs) / math.sqrt(3)
    assert found.gain == pytest.approx(math.exp(statistics.fmean(logs)))
    assert found.low == pytest.approx(math.exp(statistics.fmean(logs) - half), rel=1e-5)
    assert found.verdict is Verdict.BETTER
    assert claimed(in_turn([*winner], [*start]), objective).verdict is Verdict.WORSE


def looked(draw: Callable[[int], list[Seen]]) -> tuple[Claim, int]:
    """The claim after a second round where the first one is promising, and the rounds that it took."""
    seen = draw(1)
    first = claimed(seen, MOST)
    if not first.promising:
        return first, 1
    seen = [*seen, *draw(2)]
    return claimed(seen, MOST, rounds=2), 2


def test_of_equal_ones_at_most_a_few_in_a_hundred_are_called_better_though_it_looks_twice() -> None:
    drawn = random.Random(7)

    def noise(round_: int) -> list[Seen]:
        values = [math.exp(drawn.gauss(0, 0.05)) for _ in range(10)]
        return in_turn([*values[:5]], [*values[5:]])

    found = [looked(noise) for _ in range(1000)]
    assert 6 <= sum(claim.verdict is Verdict.BETTER for claim, _ in found) <= 40, "at most 2.5 % on one side"
    assert 20 <= sum(rounds == 2 for _, rounds in found) <= 150, "a second round is rare where nothing is to be had"


def test_a_small_gain_that_one_round_leaves_open_is_found_by_two() -> None:
    drawn = random.Random(8)

    def gain(round_: int) -> list[Seen]:
        values = [math.exp(drawn.gauss(0, 0.04)) for _ in range(10)]
        return in_turn([*values[:5]], [1.08 * value for value in values[5:]])

    once = twice = 0
    for _ in range(300):
        once += claimed(gain(1), MOST).verdict is Verdict.BETTER
        twice += looked(gain)[0].verdict is Verdict.BETTER
    assert once < 0.6 * 300 < twice


def test_what_was_not_measured_in_both_does_not_count_and_one_turn_says_nothing() -> None:
    found = claimed(in_turn([1.0, None, 1.0], [2.0, 2.0, None]), MOST)
    assert (found.verdict, found.turns, found.gain) == (Verdict.UNMEASURED, 1, None)
    assert claimed(in_turn([0.0, 1.0], [1.0, 1.0]), MOST).verdict is Verdict.UNMEASURED


def test_a_winner_that_breaks_a_limit_is_worse_and_one_that_mends_it_is_better_whatever_it_gains() -> None:
    order = candidates_turns(3)
    breaks = [seen(20.0 if of_winner else 10.0 + i % 2, broken=of_winner) for i, of_winner in enumerate(order)]
    mends = [seen(9.0 if of_winner else 10.0 + i % 2, broken=not of_winner) for i, of_winner in enumerate(order)]
    both = [seen(20.0 + i % 2 if of_winner else 10.0, broken=True) for i, of_winner in enumerate(order)]
    verdicts = [claimed(one, MOST).verdict for one in (breaks, mends, both)]
    assert verdicts == [Verdict.WORSE, Verdict.BETTER, Verdict.OPEN]


def test_of_equal_ones_that_break_a_limit_in_half_of_their_windows_few_are_said_to_mend_it() -> None:
    drawn, order = random.Random(9), candidates_turns(5)
    found = [
        claimed([seen(math.exp(drawn.gauss(0, 0.05)), drawn.random() < 0.5) for _ in order], MOST)
        for _ in range(1000)
    ]
    assert sum("keeps a limit" in claim.why for claim in found) <= 40
    assert sum(claim.verdict is Verdict.BETTER for claim in found) <= 60


def test_a_limit_is_mended_where_chance_hardly_explains_it() -> None:
    def of(start: int, winner: int) -> Verdict:
        left = {False: start, True: winner}
        found = []
        for i, of_winner in enumerate(candidates_turns(5)):
            left[of_winner] -= 1
            found.append(seen(10.0 + i % 2, broken=left[of_winner] >= 0))
        return claimed(found, MOST).verdict

    assert [of(5, 0), of(5, 1), of(4, 0)] == [Verdict.BETTER] * 3
    assert [of(3, 2), of(3, 0), of(4, 1)] == [Verdict.OPEN] * 3


@pytest.mark.parametrize("nothing", [None, 0.0])
def test_a_winner_with_which_nothing_was_served_in_a_turn_is_not_better(nothing: float | None) -> None:
    assert claimed(in_turn([1.0] * 5, [2.0, 2.1, 2.0, 2.1, 2.0]), MOST).verdict is Verdict.BETTER
    found = claimed(in_turn([1.0] * 5, [2.0, 2.1, nothing, 2.1, 2.0]), MOST)
    assert found.verdict is Verdict.OPEN and "in 1 more" in found.why
    assert not found.promising, "no further turns make it better, and each of them may serve nothing again"
    assert claimed(in_turn([1.0, None, 1.0, 1.0], [2.0, nothing, 2.1, 2.0]), MOST).verdict is Verdict.BETTER


def test_where_less_is_better_nothing_is_the_best_and_next_to_nothing_is_no_ratio() -> None:
    some, none, little = [0.2, 0.3, 0.25], [0.0] * 3, [1e-9, 2e-6, 3e-12]
    found = claimed(in_turn([*some], [*none]), LEAST)
    assert found.verdict is Verdict.BETTER and found.gain is not None and found.gain <= 1000
    assert claimed(in_turn([*some], [*little]), LEAST) == found
    assert claimed(in_turn([*none], [*some]), LEAST).verdict is Verdict.WORSE
    assert claimed(in_turn([*none], [*none]), LEAST).verdict is Verdict.OPEN
    assert claimed(in_turn([*some], [*none]), MOST).verdict is Verdict.UNMEASURED


def test_who_reads_nothing_because_more_fail_is_worse() -> None:
    windows = in_turn([0.2, 0.3, 0.25], [0.0] * 3)
    failing = [replace(one, failed={"error_rate_hz": 20.0 if one.value else 400.0}) for one in windows]
    assert claimed(failing, LEAST).verdict is Verdict.WORSE


def test_a_winner_that_serves_where_the_start_lets_nothing_be_measured_and_breaks_a_limit_is_better() -> None:
    def of(*winners: float | None, fails: float = 0.0) -> Verdict:
        left, found = iter(winners), []
        for of_winner in candidates_turns(len(winners)):
            one = replace(seen(next(left)), failed={"error_rate_hz": fails}) if of_winner else seen(None, True)
            found.append(one)
        return claimed(found, LEAST).verdict

    assert of(1.0, 1.1, 1.0) is Verdict.BETTER
    assert of(1.0, None, 1.0) is Verdict.UNMEASURED
    assert of(1.0, 1.1, 1.0, fails=50.0) is Verdict.UNMEASURED
    assert of(1.0, 1.1) is Verdict.UNMEASURED, "two windows against two may be chance"


def test_a_window_in_which_no_request_completed_is_not_measured() -> None:
    window = Window(0, 0.0, 10.0, {"workers": 3}, {"response_time_s": 0.0}, 0)
    assert Seen.of(window, ["workers"], LEAST).value is None
    assert Seen.of(replace(window, samples=1), ["workers"], LEAST).value == 0.0


def test_the_spread_is_that_within_configurations_and_unknown_without_repeats() -> None:
    assert spread([seen(1.0, a=1), seen(5.0, a=2), seen(None, a=1)]) is None
    found = spread([seen(1.0, a=1), seen(math.e, a=1), seen(50.0, a=2), seen(50.0, a=2)])
    assert found == pytest.approx(0.5)


def test_a_window_without_the_reading_of_a_limit_is_not_measured() -> None:
    objective = Objective("request_rate_hz", False, (Limit("cpu_ratio", 0.5),))
    window = Window(0, 0.0, 10.0, {"workers": 3, "other": 1}, {"request_rate_hz": 5.0})
    assert Seen.of(window, ["workers"], objective) == Seen({"workers": 3}, None, False, 10.0)
    busy = Window(0, 0.0, 10.0, {"workers": 3}, {"request_rate_hz": 5.0, "cpu_ratio": 0.6})
    assert Seen.of(busy, ["workers"], objective) == Seen({"workers": 3}, 5.0, True, 10.0)


def paced(logs: list[tuple[float, float]], repeats: int, gain: float, follows: float) -> list[Seen]:
    """Windows in turn on a machine whose pace is the first of each pair, with the second as noise; more is better."""
    found = []
    for of_winner, (z, noise) in zip(candidates_turns(repeats), logs, strict=True):
        value = 100 * math.exp(gain * of_winner - follows * z + noise)
        found.append(Seen({"workers": 20 if of_winner else 10}, value, False, 10.0, pace=z))
    return found


def drawn_paces(seed: int, repeats: int = 6) -> list[tuple[float, float]]:
    drawn = random.Random(seed)
    return [(drawn.gauss(0.0, 0.1), drawn.gauss(0.0, 0.01)) for _ in range(2 * repeats)]


def test_what_the_machine_s_pace_did_is_taken_out_of_the_turns_and_both_are_said() -> None:
    seen, others = paced(drawn_paces(2), 6, 0.05, 1.5), slope_in(paced(drawn_paces(9), 6, 0.0, 1.5), MOST)
    raw, level = claimed(seen, MOST), claimed(seen, MOST, others)
    assert raw.verdict is Verdict.OPEN and level.verdict is Verdict.BETTER
    assert level.gain == pytest.approx(math.exp(0.05), abs=0.02)
    assert f"at the same pace of the machine, and {raw.gain:.3g} (" in level.why
    slower = [replace(one, value=1 / (one.value or 1)) for one in seen]
    assert slope_in(slower, LEAST) == pytest.approx(slope_in(seen, MOST))
    assert claimed(slower, LEAST, others).gain == pytest.approx(level.gain)


def test_of_equal_ones_at_one_pace_no_more_are_called_better() -> None:
    better = 0
    for seed in range(1000):
        others = slope_in(paced(drawn_paces(5000 + seed), 6, 0.0, 1.5), MOST)
        better += claimed(paced(drawn_paces(seed), 6, 0.0, 1.5), MOST, others).verdict is Verdict.BETTER
    assert better <= 40, "at most 2.5 % on one side"


def test_where_the_pace_differs_between_both_a_claim_has_to_hold_with_it_and_without() -> None:
    order = candidates_turns(6)
    moved = [(0.3 * of_winner + z, noise) for of_winner, (z, noise) in zip(order, drawn_paces(3), strict=True)]
    seen = paced(moved, 6, 0.05, 1.5)
    raw, both = claimed(seen, MOST), claimed(seen, MOST, Slope(1.5, 0.01))
    assert raw.verdict is Verdict.WORSE and both.verdict is Verdict.OPEN
    assert both.low == raw.low and both.gain == pytest.approx(math.exp(0.05), abs=0.03)
    silent = [replace(one, pace=None) for one in paced(moved, 6, 0.05, 1.5)]
    assert slope_in(silent, MOST) == Slope()
    assert claimed(silent, MOST, Slope(1.5)) == claimed(silent, MOST)


def test_values_at_one_pace_are_those_of_the_mean_and_nothing_else_changes() -> None:
    seen = paced(drawn_paces(4), 6, 0.05, 1.5)
    sides: list[list[float]] = [[], []]
    for one in at_one_pace(seen, MOST):
        sides[one.configuration["workers"] == 20].append(math.log(one.value or 0))
    assert max(map(statistics.stdev, sides)) < 0.02 < statistics.stdev(math.log(one.value or 0) for one in seen)
    assert statistics.fmean(sides[1]) - statistics.fmean(sides[0]) == pytest.approx(0.05, abs=0.02)
    assert [replace(one, value=None) for one in at_one_pace(seen, MOST)] == [replace(one, value=None) for one in seen]
    assert at_one_pace([seen[0], replace(seen[1], value=None)], MOST)[1].value is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0004, "1.0004"), (0.99996, "0.99996"), (1.0, "1"), (1.0000001, "1"), (1.2345, "1.23"), (0.5, "0.5")],
)
def test_a_factor_that_is_not_1_is_not_shown_as_1(value: float, text: str) -> None:
    assert factor(value) == text


def test_a_large_factor_has_no_exponent() -> None:
    assert factor(1234.5) == "1,234"


def failing(starts: list[float], winners: list[float], gain: float = 2.0) -> Claim:
    """The claim on a winner that is so many times better, with how many failed in each window."""
    order = candidates_turns(len(starts))
    sides = (iter(starts), iter(winners))
    windows = []
    for i, is_winner in enumerate(order):
        value = (1.0 + i % 2 / 50) / (gain if is_winner else 1.0)
        windows.append(replace(seen(value), failed={"failed_connection_rate_hz": next(sides[is_winner])}))
    return claimed(windows, LEAST)


def test_who_answers_faster_because_more_are_refused_is_worse() -> None:
    found = failing([0, 1, 0, 0, 0], [40, 35, 50, 38, 41])
    assert found.verdict is Verdict.WORSE and found.gain is not None and found.gain > 1.9
    assert "more failed with it: failed_connection_rate_hz 4.08 in place of 0.02" in found.why


@pytest.mark.parametrize(
    ("starts", "winners"),
    [
        ([0, 0, 0, 0, 0], [0, 1, 0, 2, 0]),
        ([40, 35, 50, 38, 41], [41, 50, 30, 55, 47]),
        ([40, 35, 50, 38, 41], [80, 71, 99, 78, 80]),
        ([1, 0, 0, 0, 1], [0, 300, 0, 1, 0]),
    ],
    ids=["chance", "as many", "in proportion to what is served", "one burst"],
)
def test_failures_that_are_not_the_winners_take_nothing_from_it(starts: list[float], winners: list[float]) -> None:
    assert failing(starts, winners).verdict is Verdict.BETTER
