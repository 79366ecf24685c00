"""The trust region and trials that failed, or were made under another load: what it takes for proof."""

from __future__ import annotations

from dataclasses import replace

from trimtab.controllers.trust_region import TrustRegion
from trimtab.core import Domain, Fate, How, Knob, Limit, Move, MoveState, Objective, Trial, Window
from trimtab.search.trust_region_state import TrustRegionState

SIZE = Knob("size", "Size", "", Domain(0, 99), 50, How.LIVE, "nothing", "A number.")
SEARCH = TrustRegion(Objective(limits=(Limit("cpu_ratio", 0.1),)))
READING = {"pages": 100.0, "orders": 10.0}
BUYING = {"pages": 100.0, "orders": 50.0}


def told(
    state: TrustRegionState,
    size: int,
    cost: float,
    cpu: float = 0.05,
    asked: dict[str, float] = READING,
    fate: Fate | None = None,
) -> tuple[TrustRegionState, Move]:
    """The step after a window with this size in force."""
    readings = {"response_time_s": cost, "cpu_ratio": cpu}
    return SEARCH.step(state, Trial(Window(0, 0.0, 10.0, {"size": size}, readings, 100), fate, asked=asked))


def test_a_configuration_whose_second_trial_failed_is_not_proven() -> None:
    state = SEARCH.start((SIZE,), 1)
    for size, cost, cpu in ((50, 1.0, 0.05),) * 3 + ((60, 0.5, 0.05), (60, 0.5, 0.3)):
        state, move = told(state, size, cost, cpu)
    assert move.incumbent == {"size": 50}
    state, move = told(state, 60, 0.5)
    assert move.incumbent == {"size": 60}


def test_the_trial_by_which_another_mix_was_told_is_no_noise_of_the_load_before() -> None:
    state = SEARCH.start((SIZE,), 1)
    for cost, asked in ((1.0, READING),) * 3 + ((2.0, BUYING),) * 4:
        state, _ = told(state, 50, cost, asked=asked)
    assert (state.era, len(state.past)) == (4, 1)
    for _ in range(2):
        state, _ = told(state, 50, 3.0, asked=BUYING)
    assert state.era == 7, "half as much again, twice, is another load"


def test_once_a_trial_keeps_the_limits_nothing_that_breaks_them_is_recommended_any_more() -> None:
    state = SEARCH.start((SIZE,), 1)
    for size, cpu in ((50, 0.50), (50, 0.53), (50, 0.47), (60, 0.49), (60, 0.48)):
        state, move = told(state, size, 1.0, cpu)
    assert (move.incumbent, move.recommended) == ({"size": 50}, {"size": 60})
    state, move = told(state, 55, 2.0)
    assert move.recommended == move.incumbent == {"size": 55}


def test_of_what_is_as_good_the_one_that_changes_the_least_is_recommended() -> None:
    extra = replace(SIZE, name="extra")
    for more, best in ((0.497, {"size": 80, "extra": 50}), (0.42, {"size": 80, "extra": 55})):
        state = SEARCH.start((SIZE, extra), 1)
        start = [(50, 50, cost) for cost in (1.0, 1.03, 0.97)]
        for size, other, cost in (*start, (80, 55, more), (80, 50, 0.51), start[0], (80, 55, more), (80, 50, 0.49)):
            readings = {"response_time_s": cost, "cpu_ratio": 0.05}
            window = Window(0, 0.0, 10.0, {"size": size, "extra": other}, readings, 100)
            state, move = SEARCH.step(state, Trial(window, asked=READING))
        assert (move.incumbent, move.recommended) == ({"size": 50, "extra": 50}, best)


def test_what_was_on_trial_when_a_run_was_killed_is_asked_for_again_when_it_goes_on() -> None:
    """The way back to the operator's configuration is no refusal."""
    state = SEARCH.start((SIZE,), 1)
    for size, cost in ((50, 1.0),) * 3 + ((60, 0.5),):
        state, move = told(state, size, cost)
    assert move.changes == {"size": 60}, "what looks better is measured again"
    state, move = told(state, 50, 1.0, fate=Fate(MoveState.APPLIED, {"size": 60}))
    assert move.changes == {"size": 60}
    state, move = told(state, 60, 0.5, fate=Fate(MoveState.APPLIED, {"size": 60}))
    assert move.incumbent == {"size": 60}
