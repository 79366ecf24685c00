"""The trust region once the operator has taken a knob: what it still believes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.controllers.test_trust_region import OBJECTIVE, USUAL, standing, walk
from trimtab.controllers.trust_region import TrustRegion
from trimtab.core import Move, Trial
from trimtab.errors import UsageError
from trimtab.lab._surfaces import METRIC
from trimtab.search.evidence import Told
from trimtab.search.space import in_force, named
from trimtab.search.trust_region_state import FIRST_RADIUS, TrustRegionState


def taken(
    controller: TrustRegion, state: TrustRegionState, index: int, value: int, trials: int = 1
) -> tuple[TrustRegionState, list[Move]]:
    """The search after so many trials more, once the operator has set a knob; the incumbent is in force first."""
    name, incumbent = USUAL.knobs[index].name, state.incumbent
    assert incumbent is not None
    held = {**named(USUAL.knobs, incumbent), name: value}
    state, moves = controller.withdraw(state, name), list[Move]()
    for _ in range(trials):
        values = in_force(USUAL.knobs, held)
        assert values is not None
        state, move = controller.step(state, Trial(USUAL.window(len(state.told), values)))
        assert name not in move.changes
        moves.append(move)
        held |= move.changes
    return state, moves


@pytest.mark.parametrize("index", range(3))
def test_where_the_operator_sets_what_the_incumbent_had_nothing_is_measured_again(index: int) -> None:
    controller = TrustRegion(OBJECTIVE)
    before = standing(controller)
    assert before.incumbent is not None
    kept = [one for one in before.told if one.values[index] == before.incumbent[index]]
    refuted = tuple(value + (k != index) for k, value in enumerate(before.incumbent))
    state = replace(before, rejected=(*before.rejected, refuted), radius=0.3)
    after, moves = taken(controller, state, index, before.incumbent[index], 4)
    assert not any("to know the noise" in move.reason for move in moves)
    assert len(after.believed.trials) == len(kept) + 4
    assert after.era == 0 and after.radius >= 0.3 * 0.6 > FIRST_RADIUS
    assert (*refuted[:index], *refuted[index + 1 :]) in after.rejected
    assert len(after.scales.lengths) == len(USUAL.knobs) - 1


def test_where_he_sets_another_value_the_incumbent_is_repeated_and_no_old_trial_believed() -> None:
    controller = TrustRegion(OBJECTIVE)
    before = standing(controller)
    assert before.incumbent is not None
    after, moves = taken(controller, before, 0, USUAL.knobs[0].domain.maximum, 3)
    assert [move.incumbent for move in moves] == [named(USUAL.knobs[1:], before.incumbent[1:])] * 3
    assert moves[0].changes == moves[0].incumbent
    assert f"k00 is {USUAL.knobs[0].domain.maximum} now" in moves[0].reason and "know the noise" in moves[0].reason
    assert "know the noise" not in moves[1].reason, "two are enough, as after a changed load"
    assert after.radius == FIRST_RADIUS and not after.rejected
    assert len(after.believed.trials) == 3 and len(after.told) == 33, "those before stay where he may come back to"


def test_what_was_known_at_a_value_is_known_again_when_he_comes_back_to_it() -> None:
    controller = TrustRegion(OBJECTIVE)
    before = standing(controller)
    assert before.incumbent is not None
    away, _ = taken(controller, before, 0, USUAL.knobs[0].domain.maximum, 2)
    assert len(away.believed.trials) == 2
    window = USUAL.window(40, before.incumbent)
    back, move = controller.step(away, Trial(window))
    assert "know the noise" not in move.reason
    assert len(back.believed.trials) == 1 + sum(one.values[0] == before.incumbent[0] for one in before.told)


def test_a_trial_at_another_value_of_the_taken_knob_is_no_repeat_of_the_incumbent() -> None:
    controller = TrustRegion(OBJECTIVE)
    state, _, _ = walk(USUAL, 3, controller)
    other = (USUAL.knobs[0].domain.maximum, *USUAL.start[1:])
    state, _ = controller.step(state, Trial(USUAL.window(3, other)))
    after, _ = taken(controller, state, 0, USUAL.start[0])
    assert after.believed.counts == {USUAL.start[1:]: 4}


def test_what_was_rejected_with_another_value_of_the_taken_knob_may_be_tried_without_it() -> None:
    state, _, _ = walk(USUAL, 3, TrustRegion(OBJECTIVE))
    one, *rest = USUAL.start
    alike, apart = (one, rest[0] + 1, *rest[1:]), (one + 1, rest[0] + 2, *rest[1:])
    state = replace(state, rejected=(alike, apart), asked=apart, earlier=((one + 1, *rest), apart))
    after = TrustRegion(OBJECTIVE).withdraw(state, "k00")
    assert (after.rejected, after.asked) == ((alike[1:],), None)
    assert after.earlier == (apart[1:],), "the other one is the incumbent now"


def test_what_was_repeated_at_another_value_only_is_no_incumbent_of_an_earlier_load() -> None:
    controller = TrustRegion(OBJECTIVE, watch=True)
    before = standing(controller)
    assert before.incumbent is not None
    state = controller.withdraw(before, "k00")
    elsewhere = tuple(value + 1 for value in before.incumbent[1:])
    state = replace(state, told=(*(Told(elsewhere, 0.0, (value,)) for value in (401, 402, 403)), *state.told))
    window = USUAL.window(30, before.incumbent)
    for index in range(2):
        slow = {METRIC: window.readings[METRIC] * 2}
        state, _ = controller.step(state, Trial(replace(window, index=30 + index, readings=slow)))
    assert state.era > 0, "the load has changed"
    assert elsewhere not in (*state.earlier, state.asked)


def test_the_last_knob_cannot_be_taken_from_it() -> None:
    controller = TrustRegion(OBJECTIVE)
    with pytest.raises(UsageError, match="no knob to move"):
        controller.withdraw(controller.start(USUAL.knobs[:1], 1), "k00")
