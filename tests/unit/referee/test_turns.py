"""Start and winner measured in turn: the order, the claim and its interval."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from trimtab.core import Limit, Objective, Verdict, Window
from trimtab.referee.turns import Seen, candidates_turns, claimed, spread

MOST = Objective("request_rate_hz", minimize=False)
LEAST = Objective("response_time_s")


def seen(value: float | None, broken: bool = False, **held: int) -> Seen:
    return Seen(held or {"workers": 10}, value, broken, 10.0)


def in_turn(start: list[float | None], winner: list[float | None]) -> list[Seen]:
    """The windows in the order in which they are measured."""
    sides = (iter(start), iter(winner))
    return [seen(next(sides[is_winner])) for is_winner in candidates_turns(len(start))]


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
    start, winner = [10.0, 11.0, 9.0], [12.0, 13.5, 10.0]
    if objective is LEAST:
        start, winner = winner, start
    found = claimed(in_turn([*start], [*winner]), objective)
    logs = [math.log(12 / 10), math.log(13.5 / 11), math.log(10 / 9)]
    half = 4.302653 * statistics.stdev(logs) / math.sqrt(3)
    assert found.gain == pytest.approx(math.exp(statistics.fmean(logs)))
    assert found.low == pytest.approx(math.exp(statistics.fmean(logs) - half), rel=1e-5)
    assert found.verdict is Verdict.BETTER
    assert claimed(in_turn([*winner], [*start]), objective).verdict is Verdict.WORSE


def test_of_equal_ones_at_most_a_few_in_a_hundred_are_called_better() -> None:
    drawn = random.Random(7)
    noise = [[math.exp(drawn.gauss(0, 0.05)) for _ in range(10)] for _ in range(1000)]
    better = sum(claimed(in_turn([*one[:5]], [*one[5:]]), MOST).verdict is Verdict.BETTER for one in noise)
    assert 10 <= better <= 42, "2.5 % on one side"


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
