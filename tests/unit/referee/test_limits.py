"""The referee under limits: a limit that breaks is worse, one that is mended better, and chance is neither."""

from __future__ import annotations

import random

import pytest

from tests.unit.referee.test_rule import DOWN, START, Bench
from trimtab.core import Limit, Objective, Verdict
from trimtab.referee import Afterwards, Referee
from trimtab.referee.limits import mended, newly_broken
from trimtab.referee.measure import Measured, measured

LIMIT = Limit("memory_ratio", 0.8, text="80%")
GOAL = Objective("request_time_s", limits=(LIMIT,))


def bench(memory: float = 0.5, count: int = 180) -> Bench:
    """A referee with a reference of a quarter of an hour."""
    return Bench(Referee(GOAL)).see(count, memory_ratio=memory)


def test_a_change_that_breaks_a_limit_goes_back_although_the_objective_is_ten_times_better() -> None:
    judged = bench().change(w=40).see(3, 0.002, memory_ratio=0.9)
    assert judged.backs == [{"w": 150}]
    assert judged.state.judgement.verdict is Verdict.WORSE
    assert judged.state.judgement.why == "memory_ratio <= 80% was kept before the change and is broken now"


def test_a_change_that_mends_a_broken_limit_stays_although_the_objective_is_twice_as_bad() -> None:
    judged = bench(0.9).change(w=40).see(4, 0.04, memory_ratio=0.5)
    assert judged.backs == []
    assert judged.state.incumbent == {**START, "w": 40}


def test_while_a_limit_is_broken_nearer_to_it_is_better_and_farther_worse() -> None:
    assert bench(3.0).change(w=40).see(12, 0.02, memory_ratio=1.2).state.incumbent == {**START, "w": 40}
    farther = bench(1.2).change(w=40)
    while not farther.backs and farther.index < 200:
        farther.see(1, 0.01, memory_ratio=3.0)
    assert farther.backs == [{"w": 150}]
    assert "what is beyond the limits is" in farther.state.judgement.why


def test_one_odd_window_breaks_nothing_but_the_change_is_better_only_after_more_that_keep_the_limit() -> None:
    judged = bench().change(w=40).see(1, 0.002, memory_ratio=0.5).see(1, 0.002, memory_ratio=0.9)
    judged.see(8, 0.002, memory_ratio=0.5)
    assert (judged.backs, judged.state.incumbent) == ([], START)
    judged.see(8, 0.002, memory_ratio=0.5)
    assert (judged.backs, judged.state.incumbent) == ([], {**START, "w": 40})


def test_within_the_limits_the_objective_decides() -> None:
    assert bench().change(w=40).see(8, 0.002, memory_ratio=0.7).state.incumbent == {**START, "w": 40}
    assert bench().change(w=40).see(3, 0.06, memory_ratio=0.3).backs == [{"w": 150}]


def test_without_the_reading_of_the_limit_nothing_is_tried_and_the_reason_names_it() -> None:
    judged = Bench(Referee(GOAL)).see(30)
    assert judged.asked(DOWN).reason.endswith("window 0 of 3 of a reference: memory_ratio was not measured")


def test_a_change_after_which_the_limit_is_not_measured_goes_back_and_the_reason_names_it() -> None:
    judged = bench().change(w=40).see(5, 0.002)
    assert judged.backs == [{"w": 150}]
    assert "memory_ratio was not measured in 2 windows after the change" in judged.state.judgement.why


def test_a_run_of_a_method_without_experiments_goes_back_where_it_ends_beyond_a_limit() -> None:
    def run(memory: float) -> Bench:
        return Bench(Afterwards(GOAL)).see(10, memory_ratio=0.5).change(w=40).see(10, 0.01, memory_ratio=memory)

    assert run(0.9).judge.final(run(0.9).state) == {"w": 150}
    assert run(0.7).judge.final(run(0.7).state) == {}


def windows(rng: random.Random, count: int, chance: float) -> list[Measured]:
    """Windows that break the limit with that chance, each by itself."""
    return [
        measured(
            Bench().window(memory_ratio=0.9 if rng.random() < chance else 0.5),
            GOAL,
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("chance", [0.0, 0.02, 0.1, 0.3])
def test_a_change_that_makes_no_difference_to_a_limit_is_seldom_blamed_in_a_dozen_looks(chance: float) -> None:
    false = 0
    for seed in range(1, 100):
        rng = random.Random(seed)
        before, after = windows(rng, 36, chance), windows(rng, 12, chance)
        false += any(newly_broken(before, after[:count]) for count in range(1, 13))
    assert false <= 12


@pytest.mark.parametrize(("before", "after", "broke"), [(0.02, 0.8, True), (0.95, 0.1, False)])
def test_a_limit_that_mostly_breaks_or_mostly_mends_is_found_within_a_dozen_windows(
    before: float, after: float, broke: bool
) -> None:
    found = 0
    for seed in range(1, 100):
        rng = random.Random(seed)
        was, now = windows(rng, 36, before), windows(rng, 12, after)
        found += any((newly_broken if broke else mended)(was, now[:count]) for count in range(1, 13))
    assert found >= 97
