"""Every search over many knobs, once one of its knobs is left to the operator."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab import codec
from trimtab.core import Fate, Move, MoveState, Objective, Trial
from trimtab.core.controller import restarts
from trimtab.lab._contest_run import built, searches
from trimtab.lab._surfaces import KINDS, METRIC, surface
from trimtab.trials import MEASURE, Search, Searching

BEFORE, TRIALS, REMEASURE = 14, 40, 2
OBJECTIVE = Objective(METRIC)
every = pytest.mark.parametrize("name", searches())
edited = pytest.mark.parametrize("index", [0, 5, -1])


class Walk:
    """A search on a surface, step by step, until a knob is taken and after."""

    def __init__(self, controller: Any) -> None:
        self.drawn = surface(KINDS["usual"][0], 3, 60)
        self.controller, self.state = controller, controller.start(self.drawn.knobs, 1)
        self.values = dict(zip((knob.name for knob in self.drawn.knobs), self.drawn.start, strict=True))
        self.moves: list[Move] = []
        self.fate: Fate | None = None
        self.taken = ""

    def run(self, steps: int) -> list[Move]:
        """The moves of so many steps more; a move that is applied whole is told so."""
        for _ in range(steps):
            window = self.drawn.window(len(self.moves), tuple(self.values.values()))
            self.state, move = self.controller.step(self.state, Trial(window, self.fate))
            self.moves.append(move)
            wanted = dict((move.incumbent or {}) if move.finished else move.changes)
            assert self.taken not in wanted
            self.values |= wanted
            self.fate = Fate(MoveState.APPLIED, wanted) if wanted else self.fate
        return self.moves[-steps:]

    def take(self, index: int) -> str:
        """The operator sets a knob to the end of its domain that is farther from what is in force."""
        knob = self.drawn.knobs[index]
        ends = (knob.domain.clip(knob.domain.minimum), knob.domain.clip(knob.domain.maximum))
        self.values[knob.name] = max(ends, key=lambda end: abs(end - self.values[knob.name]))
        self.state, self.taken = self.controller.withdraw(self.state, knob.name), knob.name
        return knob.name


@every
@edited
def test_a_knob_that_was_taken_is_not_moved_again_and_the_rest_of_the_incumbent_is_kept(
    name: str, index: int
) -> None:
    walk = Walk(built(name, OBJECTIVE))
    stood = dict(walk.run(BEFORE)[-1].incumbent or {})
    taken = walk.take(index)
    after = walk.run(TRIALS - BEFORE)
    del stood[taken]
    assert after[0].incumbent == stood
    assert {frozenset(move.incumbent) for move in after if move.incumbent} == {frozenset(stood)}
    assert any(move.changes for move in after)


@every
def test_knobs_are_taken_one_after_the_other_until_one_is_left(name: str) -> None:
    walk = Walk(built(name, OBJECTIVE))
    walk.run(BEFORE)
    for index in range(len(walk.drawn.knobs) - 1):
        walk.take(index)
        stood = walk.run(1)[0].incumbent
        walk.run(index % 3)
    assert set(stood or {}) == {walk.drawn.knobs[-1].name}


@every
def test_before_the_first_window_a_knob_may_be_taken_too(name: str) -> None:
    walk = Walk(built(name, OBJECTIVE))
    walk.take(0)
    assert any(move.changes for move in walk.run(BEFORE))


@every
def test_its_state_without_a_knob_comes_back_from_json_and_goes_on_alike(name: str) -> None:
    walk = Walk(built(name, OBJECTIVE))
    walk.run(BEFORE)
    walk.take(1)
    for _ in range(3):
        kind = codec.state_of(walk.controller)
        assert codec.decode(codec.encode(walk.state), kind) == walk.state
        walk.run(1)


@every
def test_trials_made_and_what_they_cost_stay_counted_and_the_search_ends_in_time(name: str) -> None:
    walk = Walk(Searching(OBJECTIVE, built(name, OBJECTIVE), Search(TRIALS, REMEASURE, None, 10.0)))
    walk.run(BEFORE)
    lost_s = walk.moves[-1].evidence["lost_s"]
    stood = dict(walk.moves[-1].incumbent or {})
    taken = walk.take(2)
    after = walk.run(1)[0]
    assert (after.evidence["trial"], after.evidence["trials"]) == (BEFORE + 1, TRIALS)
    assert after.evidence["lost_s"] >= lost_s
    assert after.incumbent == {key: value for key, value in stood.items() if key != taken}
    walk.run(TRIALS + 2 * REMEASURE + 3 - BEFORE)
    measured = [index for index, move in enumerate(walk.moves) if move.phase == MEASURE]
    assert measured[0] <= TRIALS - 1 or walk.moves[TRIALS - 1].finished, "it goes by all trials that were made"
    assert walk.moves[-1].finished
    assert walk.values.keys() - {taken} == (walk.moves[-1].incumbent or {}).keys()


@every
def test_it_says_where_it_does_not_go_on_with_what_it_has_learned(name: str) -> None:
    method = built(name, OBJECTIVE)
    assert hasattr(method, "withdraw")
    geometry = name in ("simplex", "nelder-mead")
    said = "the search starts again from the best that it knows, with the others" if geometry else ""
    assert restarts(method) == restarts(Searching(OBJECTIVE, method, Search(3, 0, None, 1.0))) == said
