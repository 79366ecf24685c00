"""One knob at a time: what is proposed, what is not proposed again, and where it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests._curve import worker_knob
from trimtab.controllers.climb import Climb
from trimtab.core import Domain, Fate, How, Judgement, Knob, Move, MoveState, Objective, Trial, Verdict, Window
from trimtab.errors import UsageError


def knob(name: str, domain: Domain) -> Knob:
    return Knob(name, name, "units", domain, domain.minimum, How.LIVE, "nothing", "a knob")


SLICE = knob("slice", Domain(100, 100_000, 50, logarithmic=True))
WAY = knob("way", Domain.choice("one", "two"))
LEVEL = knob("level", Domain(-20, 19))
METHOD = Climb(Objective("run_queue_wait_ratio"))


def trial(
    values: Mapping[str, int], refuted: frozenset[tuple[str, int]] = frozenset(), judgement: Judgement | None = None
) -> Trial:
    window = Window(0, 0.0, 1.0, dict(values), {"run_queue_wait_ratio": 2.0}, 200)
    return Trial(window, None, judgement, refuted)


def judged(verdict: Verdict, final: bool = True) -> Judgement:
    return Judgement(verdict, {}, -0.5, 0.1, 3, "seen", final)


def proposed(knobs: tuple[Knob, ...], *trials: Trial) -> Move:
    """The last of the moves that follow from these trials."""
    state, move = METHOD.start(knobs, 0), Move.hold("")
    for one in trials:
        state, move = METHOD.step(state, one)
    return move


@pytest.mark.parametrize(
    ("which", "now", "refuted", "target"),
    [
        (SLICE, 1400, (), 350),
        (SLICE, 1400, (-1,), 5600),
        (SLICE, 100, (), 400),
        (WAY, 0, (), 1),
        (WAY, 1, (), 0),
        (LEVEL, 0, (), -4),
        (LEVEL, 0, (-1,), 4),
    ],
)
def test_it_tries_a_neighbour_that_was_not_refuted(
    which: Knob, now: int, refuted: tuple[int, ...], target: int
) -> None:
    move = proposed((which,), trial({which.name: now}, frozenset((which.name, way) for way in refuted)))
    assert move.changes == {which.name: target}
    assert 0 < move.gain < 1


def test_one_knob_is_tried_after_the_other_and_then_it_holds() -> None:
    values = {"slice": 1400, "way": 0}
    both = frozenset({("slice", -1), ("slice", 1)})
    assert proposed((SLICE, WAY), trial(values, both)).changes == {"way": 1}
    assert proposed((SLICE, WAY), trial(values, both | {("way", 1)})).changes == {}


def test_it_goes_on_where_it_became_better() -> None:
    up = trial({"slice": 1400}, frozenset({("slice", -1)}))
    better = trial({"slice": 5600}, judgement=judged(Verdict.BETTER))
    assert proposed((SLICE,), up, better).changes == {"slice": 22_400}


@pytest.mark.parametrize("judgement", [judged(Verdict.OPEN, final=False), judged(Verdict.WORSE)])
def test_nothing_is_proposed_while_a_change_is_on_trial_or_has_just_gone_back(judgement: Judgement) -> None:
    assert proposed((SLICE,), trial({"slice": 1400}, judgement=judgement)).changes == {}


def test_what_the_plant_refuses_is_not_proposed_again_before_something_came_into_force() -> None:
    now = trial({"slice": 1400, "way": 0})
    refused, applied = (Fate(state, {}, "a rule") for state in (MoveState.REFUSED, MoveState.APPLIED))
    state, asked = METHOD.start((SLICE, WAY), 0), []
    for fate in (None, refused, refused, refused, refused, applied):
        state, move = METHOD.step(state, replace(now, fate=fate))
        asked.append(dict(move.changes))
    assert asked == [{"slice": 350}, {"slice": 5600}, {"way": 1}, {}, {}, {"way": 1}]


def test_what_the_referee_holds_for_now_is_proposed_again() -> None:
    now = trial({"slice": 1400})
    state, _ = METHOD.step(METHOD.start((SLICE,), 0), now)
    _, move = METHOD.step(state, replace(now, fate=Fate(MoveState.HELD, {"slice": 350}, "too few windows")))
    assert move.changes == {"slice": 350}


def test_what_was_not_measured_is_not_climbed() -> None:
    window = Window(0, 0.0, 1.0, {"slice": 1400}, {}, 200)
    assert proposed((SLICE,), Trial(window)).changes == {}


def test_a_worker_limit_is_left_to_methods_that_know_its_causes() -> None:
    with pytest.raises(UsageError, match="use trim"):
        METHOD.start((worker_knob(),), 0)


def test_a_knob_that_is_withdrawn_is_not_moved_any_more() -> None:
    state = METHOD.withdraw(METHOD.start((SLICE, WAY), 0), "slice")
    _, move = METHOD.step(state, trial({"slice": 1400, "way": 0}))
    assert move.changes == {"way": 1}
