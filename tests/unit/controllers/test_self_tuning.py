"""The controller that is redesigned in the loop, on plants that change."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

import pytest

from tests._classes import budget_knobs
from tests._difference_plant import DifferencePlant
from trimtab.controllers.absolute_delay import AbsoluteDelay
from trimtab.controllers.log_relative_delay import LogRelativeDelay
from trimtab.controllers.relative_delay import RelativeDelay
from trimtab.controllers.self_tuning import SelfTuning, SelfTuningState
from trimtab.core import Controller, Move, Objective, Trial, Window
from trimtab.design.pi import judged
from trimtab.design.specification import Specification
from trimtab.errors import UsageError
from trimtab.identification.model import PAPER, Model
from trimtab.identification.signals import Kind

OBJECTIVE = Objective("connection_delay_s@premium")
CLASSES = ("premium", "basic")
RELATIVE = PAPER[Kind.RELATIVE]
SLOW = Model(RELATIVE.a, tuple(b / 4 for b in RELATIVE.b))
FAST = Model(RELATIVE.a, tuple(b * 4 for b in RELATIVE.b))
TUNING = SelfTuning(OBJECTIVE, CLASSES, (1.0, 3.0))


def windows_of(
    controller: Controller, plant: DifferencePlant, count: int, change: Model | None = None, at: int = 60
) -> tuple[list[float], list[Move], SelfTuningState]:
    """The delay ratios and the moves of a run in which the plant's model changes once, and the last state."""
    state, ratios, moves = controller.start(plant.knobs(), 0), [], []
    for index in range(count):
        if index == at and change is not None:
            plant.model = change
        (sensor,) = plant.sensors()
        readings = sensor.read()
        window = Window(index, 30.0 * index, 30.0, dict(plant.values), readings)
        state, move = controller.step(state, Trial(window))
        plant.apply(move.changes)
        moves.append(move)
        if len(readings) == 2:
            ratios.append(readings["connection_delay_s@basic"] / readings["connection_delay_s@premium"])
    return ratios, moves, state


def redesigns(moves: list[Move]) -> list[str]:
    return [move.reason for move in moves if move.phase == "redesign"]


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_on_a_server_that_stays_as_it_is_it_is_the_controller_within(noise: float) -> None:
    design = TUNING.start(budget_knobs(), 0)
    fixed = RelativeDelay(OBJECTIVE, CLASSES, (1.0, 3.0), gain=design.gain, zero=design.zero)
    ours, moves, _ = windows_of(TUNING, DifferencePlant(RELATIVE, noise=noise), 120)
    theirs, _, _ = windows_of(fixed, DifferencePlant(RELATIVE, noise=noise), 120)
    assert redesigns(moves) == []
    assert ours == theirs


@pytest.mark.parametrize("change", [SLOW, FAST])
def test_when_the_server_has_changed_it_is_redesigned_and_says_so(change: Model) -> None:
    _, moves, state = windows_of(TUNING, DifferencePlant(RELATIVE, noise=0.1), 160, change)
    said = redesigns(moves)
    assert 1 <= len(said) <= 4
    assert "the model has drifted to" in said[0]
    assert "redesigned to gain" in said[0]
    first = TUNING.start(budget_knobs(), 0)
    assert (state.gain > first.gain) is (change is SLOW)


@pytest.mark.parametrize("change", [SLOW, FAST])
def test_its_new_gains_suit_the_new_server_better_than_the_old_ones(change: Model) -> None:
    """Settling time, and the stability margin where the loop has become too fast."""
    _, _, state = windows_of(TUNING, DifferencePlant(RELATIVE, noise=0.1), 160, change)
    first = TUNING.start(budget_knobs(), 0)
    specification = Specification()
    old = judged(change, first.gain, first.zero, specification)
    new = judged(change, state.gain, state.zero, specification)
    if change is FAST:
        assert new.margin > old.margin + 0.05
    else:
        assert (new.settling_s or 1e9) < 0.7 * (old.settling_s or 1e9)


def test_after_a_change_it_is_sooner_back_at_the_reference_than_with_fixed_gains() -> None:
    errors = []
    first = TUNING.start(budget_knobs(), 0)
    for controller in (TUNING, RelativeDelay(OBJECTIVE, CLASSES, (1.0, 3.0), gain=first.gain, zero=first.zero)):
        ratios, _, _ = windows_of(controller, DifferencePlant(RELATIVE, noise=0.1), 100, SLOW)
        errors.append(statistics.fmean(abs(ratio - 3) for ratio in ratios[60:]))
    assert errors[0] < 0.85 * errors[1]


def test_a_redesign_is_no_jump_of_the_budgets() -> None:
    """The move of a redesign is what the new gains make of the same state."""
    plant = DifferencePlant(RELATIVE, noise=0.1)
    state = TUNING.start(plant.knobs(), 0)
    for index in range(160):
        if index == 60:
            plant.model = SLOW
        (sensor,) = plant.sensors()
        window = Window(index, 30.0 * index, 30.0, dict(plant.values), sensor.read())
        before = state
        state, move = TUNING.step(state, Trial(window))
        if move.phase == "redesign":
            assert TUNING.within(state.gain, state.zero).step(before.inside, Trial(window))[1].changes == move.changes
            return
        plant.apply(move.changes)
    raise AssertionError("it was never redesigned")


def test_it_learns_nothing_from_windows_without_delays() -> None:
    missing = frozenset(range(30, 90))
    _, moves, state = windows_of(TUNING, DifferencePlant(RELATIVE, noise=0.1, missing=missing), 88)
    _, _, before = windows_of(TUNING, DifferencePlant(RELATIVE, noise=0.1), 29)
    assert redesigns(moves) == []
    assert state.online is not None and before.online is not None
    assert state.online.estimate == before.online.estimate


def test_absolute_delays_are_tuned_too() -> None:
    model = PAPER[Kind.ABSOLUTE]
    controller = SelfTuning(OBJECTIVE, CLASSES, (8.0, 30.0), guarantee=Kind.ABSOLUTE)
    plant = DifferencePlant(model, relative=False, noise=0.05)
    _, moves, state = windows_of(controller, plant, 120, Model(model.a, tuple(b / 5 for b in model.b)), at=30)
    assert isinstance(controller.within(state.gain, state.zero), AbsoluteDelay)
    assert plant.values["process_budget@premium"] > 64
    assert all(move.evidence["gain"] < 0 for move in moves)


def test_given_gains_are_used_until_there_is_reason_to_change_them() -> None:
    controller = dataclasses.replace(TUNING, gain=0.31, zero=0.07)
    state = controller.start(budget_knobs(), 0)
    assert (state.gain, state.zero) == (0.31, 0.07)


@pytest.mark.parametrize("kind", list(Kind))
def test_the_controller_within_is_told_what_the_wrapper_was(kind: Kind) -> None:
    options: dict[str, Any] = {"minimum": (2, 3), "workers": 100, "min_samples": 4, "metrics": ("oldest_wait_s",)}
    made = {
        Kind.RELATIVE: RelativeDelay,
        Kind.LOGARITHMIC: LogRelativeDelay,
        Kind.ABSOLUTE: AbsoluteDelay,
    }[kind]
    gain = 0.31 if kind.rising else -3.1
    model = "0.3,-0.1,0.7,0.4"
    controller = SelfTuning(
        OBJECTIVE, CLASSES, (1.0, 3.0), guarantee=kind, model=model, gain=gain, zero=0.07, **options
    )
    inner = made(OBJECTIVE, CLASSES, (1.0, 3.0), gain=gain, zero=0.07, **options)
    assert controller.within(gain, 0.07) == inner


def test_gains_that_are_out_of_bounds_from_the_start_are_replaced() -> None:
    controller = dataclasses.replace(TUNING, gain=0.02, zero=0.0)
    _, moves, state = windows_of(controller, DifferencePlant(RELATIVE, noise=0.1), 12)
    assert len(redesigns(moves)) == 1
    assert state.gain > 0.2
    assert moves[0].phase != "redesign", "patience"


def test_where_no_gains_meet_the_specification_they_stay_and_that_is_said() -> None:
    controller = dataclasses.replace(TUNING, gain=0.02, zero=0.0, settling_s=60.0)
    _, moves, state = windows_of(controller, DifferencePlant(RELATIVE, noise=0.1), 12)
    assert (state.gain, state.zero) == (0.02, 0.0)
    assert "the gains stay, because no gain and zero meet the specification" in redesigns(moves)[0]


def test_a_design_without_enough_margin_is_not_taken() -> None:
    controller = dataclasses.replace(TUNING, gain=0.02, zero=0.0, least_margin=0.95, patience=1)
    _, moves, state = windows_of(controller, DifferencePlant(RELATIVE, noise=0.1), 12)
    assert (state.gain, state.zero) == (0.02, 0.0)
    assert "the gains stay, because the best design has a stability margin of 0." in redesigns(moves)[0]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"model": "1.2,1"}, "unstable"),
        ({"model": "x"}, "no model"),
        ({"slack_ratio": 0.5}, "slack_ratio"),
        ({"least_margin": 1.0}, "least_margin"),
        ({"patience": 0}, "patience"),
        ({"forgetting": 1.0}, "forgetting"),
        ({"anchor": 2.0}, "anchor"),
        ({"settling_s": 1.0}, "settling time"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, float], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        dataclasses.replace(TUNING, **options).start(budget_knobs(), 0)  # type: ignore[arg-type]
