"""A period that is too short for the traffic is told from the first windows, with one that would do."""

from __future__ import annotations

import random
import re

import pytest

from tests._difference_plant import DifferencePlant
from trimtab.errors import UsageError
from trimtab.events import Event, WindowDone
from trimtab.identification.experiment import Experiment
from trimtab.identification.model import PAPER
from trimtab.identification.sampling import LOOK
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


def test_where_no_window_has_dispatches_the_period_is_a_lower_bound() -> None:
    assert " or more enough of them would" in refusal(frozenset(range(1, 1000)), [])


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_traffic_that_would_do_is_not_refused(seed: int) -> None:
    chance = random.Random(seed)
    missing = frozenset(number for number in range(1, 1000) if chance.random() < 0.1)
    plant = DifferencePlant(PAPER[Kind.RELATIVE], noise=0.1, missing=missing)
    assert identify(plant, EXPERIMENT, Store(None), Stop()) is not None
