"""A period that is too short for the traffic is told from the first windows, with one that would do."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests._classes import TWO, budget_knobs, class_window, delays
from tests._difference_plant import DifferencePlant
from trimtab.errors import UsageError
from trimtab.events import Event, WindowDone
from trimtab.identification.experiment import Experiment
from trimtab.identification.model import PAPER
from trimtab.identification.sampling import LOOK, too_short
from trimtab.identification.signals import Kind, Pair
from trimtab.identify import identify
from trimtab.observer import Stop
from trimtab.store import Store
from trimtab.units import parse_duration_s

EXPERIMENT = Experiment(Pair(Kind.RELATIVE, "premium", "basic"))


def refusal(missing: frozenset[int], events: list[Event]) -> str:
    plant = DifferencePlant(PAPER[Kind.RELATIVE], noise=0.1, missing=missing)
    with pytest.raises(UsageError) as refused:
        identify(plant, EXPERIMENT, Store(None), Stop(), events.append)
    assert dict(plant.configuration()) == plant.first, "what was in force is put back"
    return str(refused.value)


def test_windows_without_dispatches_end_it_after_the_first_few_with_a_period_that_would_do() -> None:
    events: list[Event] = []
    said = refusal(frozenset(range(1, 1000)) - {3, 8, 11}, events)
    assert sum(isinstance(event, WindowDone) for event in events) == LOOK
    assert "only 3 of the first 12 windows of 30s can be used" in said
    found = re.search(r"a period of (\S+) enough", said)
    assert found is not None, said
    # With three in twelve a window is without a dispatch with 0.75; three quarters and more of them must have one.
    longer_s = parse_duration_s(found[1])
    assert 1 - 0.75 ** (longer_s / EXPERIMENT.period_s) == pytest.approx(0.75, abs=0.02)


def test_without_connections_of_a_class_no_period_is_named_but_that() -> None:
    events: list[Event] = []
    said = refusal(frozenset(range(1, 1000)), events)
    assert sum(isinstance(event, WindowDone) for event in events) == LOOK
    assert said == (
        "the model cannot be identified: in the first 12 windows of 30s no delay of basic was seen: none of its "
        "connections was dispatched: identify it under its usual load"
    )


def why(kind: Kind, *readings: Mapping[str, float | None], problems: tuple[str, ...] = ()) -> str:
    """Why windows that have these delays in turn are of no use."""
    turn = itertools.cycle(readings)
    budgets = {knob.label: knob for knob in budget_knobs()}
    windows = [
        replace(class_window({"premium": 64, "basic": 64}, delays(next(turn)), index), problems=problems)
        for index in range(LOOK)
    ]
    return too_short(Pair(kind, *TWO), budgets, windows, 56, 30.0, (1, 2, 3))


def test_where_classes_have_their_dispatches_in_turn_the_period_is_a_lower_bound() -> None:
    said = why(Kind.RELATIVE, {"premium": 1.0, "basic": None}, {"premium": None, "basic": 1.0})
    assert " or more enough of them would" in said


@pytest.mark.parametrize(
    ("kind", "readings", "said"),
    [
        (Kind.RELATIVE, {"premium": None, "basic": None}, "no delay of premium nor of basic was seen"),
        (Kind.RELATIVE, {"premium": 0.0, "basic": 0.0}, "nobody of premium waited: load the server until"),
        (Kind.ABSOLUTE, {"premium": None, "basic": 1.0}, "no delay of premium was seen: none of its connections"),
    ],
)
def test_without_load_that_is_the_cause(kind: Kind, readings: Mapping[str, float | None], said: str) -> None:
    assert said in why(kind, readings)


def test_a_gate_that_says_nothing_is_the_cause() -> None:
    said = why(Kind.RELATIVE, {}, problems=("gate: it was started anew",))
    assert said == (
        "in the first 12 windows of 30s no delay of premium nor of basic was seen: gate: it was started anew"
    )


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_traffic_that_would_do_is_not_refused(seed: int) -> None:
    chance = random.Random(seed)
    missing = frozenset(number for number in range(1, 1000) if chance.random() < 0.1)
    plant = DifferencePlant(PAPER[Kind.RELATIVE], noise=0.1, missing=missing)
    assert identify(plant, EXPERIMENT, Store(None), Stop()) is not None
