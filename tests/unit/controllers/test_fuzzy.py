from __future__ import annotations

import statistics
from itertools import pairwise

import pytest

from tests._curve import NAME, Curve, Drive, seen, worker_knob
from trimtab.controllers.fuzzy import Fuzzy
from trimtab.core import Objective, Trial
from trimtab.errors import UsageError

OBJECTIVE = Objective()


def test_it_starts_with_an_exploratory_step_downward() -> None:
    fuzzy = Fuzzy(OBJECTIVE)
    _, move = fuzzy.step(fuzzy.start((worker_knob(),), 0), Trial(seen(150, response_time_s=5.0)))
    assert move.changes == {NAME: 90}
    assert move.phase == "explore"


def test_from_the_default_it_is_within_a_quarter_of_the_best_after_forty_windows() -> None:
    ratios = [Drive(Fuzzy(OBJECTIVE), Curve(), seed=seed).run(40).final_ratio() for seed in range(40)]
    assert statistics.median(ratios) <= 1.25
    assert sorted(ratios)[35] <= 1.5, "nine runs of ten"


def test_without_noise_it_settles_to_steps_of_about_a_tenth() -> None:
    limits = Drive(Fuzzy(OBJECTIVE), Curve(cv=0.0)).run(60).limits[-20:]
    assert max(abs(b - a) / a for a, b in pairwise(limits)) <= 0.15


def test_it_climbs_back_when_the_valley_moves_up() -> None:
    run = Drive(Fuzzy(OBJECTIVE), Curve(cv=0.1, short=60.0, cliff=300.0), seed=2).run(60, start=15)
    assert run.final_ratio() <= 1.25


def test_a_change_that_did_not_happen_is_followed_by_one_the_other_way() -> None:
    fuzzy = Fuzzy(OBJECTIVE)
    state = fuzzy.start((worker_knob(),), 0)
    state, down = fuzzy.step(state, Trial(seen(50, 0, response_time_s=1.0)))
    _, up = fuzzy.step(state, Trial(seen(50, 1, response_time_s=1.0)))
    assert down.changes[NAME] < 50 < up.changes[NAME]


def test_it_turns_at_the_end_of_the_domain() -> None:
    falling = Curve(cv=0.0, short=1e-9, cliff=10.0)
    limits = Drive(Fuzzy(OBJECTIVE), falling, worker_knob(10, 40)).run(40, start=40).limits
    assert min(limits) == 10
    assert set(limits[-10:]) <= set(range(10, 14))


def test_what_is_maximised_is_climbed() -> None:
    fuzzy = Fuzzy(Objective("request_rate_hz", minimize=False))
    state = fuzzy.start((worker_knob(),), 0)
    limit = 150
    for index in range(40):
        state, move = fuzzy.step(state, Trial(seen(limit, index, request_rate_hz=1 / Curve().response_time_s(limit))))
        limit = move.changes.get(NAME, limit)
    assert Curve().response_time_s(limit) <= 1.25 * Curve().best_s()


@pytest.mark.parametrize("option", [{"step_ratio": 1.0}, {"least_ratio": 0.0}, {"shrink": 1.5}, {"growth": -1.0}])
def test_options_that_cannot_be_used_are_refused_by_name(option: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(option))):
        Fuzzy(OBJECTIVE, **option)  # type: ignore[arg-type]
