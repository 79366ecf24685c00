"""The machine's pace: what repeats tell of it, and that it is taken out of costs and of nothing else."""

from __future__ import annotations

import math
import random

import pytest

from trimtab.search.era import Era
from trimtab.search.evidence import Told
from trimtab.search.matter import which_matter
from trimtab.search.pace import PACE, Slope, levelled, mean_of, pace_of, slope_of
from trimtab.sensors.machine import Machine

from .test_matter import KNOBS


def wandering(count: int, follows: float, noise: float = 0.02, seed: int = 3) -> list[tuple[int, float, float]]:
    """Configuration, pace and cost of trials of four configurations on a machine that wanders by a tenth."""
    drawn = random.Random(seed)
    found = []
    for index in range(count):
        z = drawn.gauss(0.0, 0.1)
        found.append((index % 4, z, 0.3 * (index % 4) + follows * z + drawn.gauss(0.0, noise)))
    return found


@pytest.mark.parametrize("follows", [0.0, 0.5, 1.0])
def test_repeats_tell_how_the_cost_follows_the_pace(follows: float) -> None:
    found = [slope_of(wandering(40, follows, seed=seed)).value for seed in range(50)]
    assert sum(found) / 50 == pytest.approx(follows, abs=0.05)
    assert sum(abs(one - follows) < 0.15 for one in found) >= 45


def test_without_repeats_or_a_pace_nothing_is_known_of_it() -> None:
    assert slope_of((index, z, y) for index, (_, z, y) in enumerate(wandering(40, 1.0))) == Slope()
    assert slope_of((key, None, y) for key, _, y in wandering(40, 1.0)) == Slope()
    assert slope_of((key, z, None) for key, z, _ in wandering(40, 1.0)) == Slope()
    assert pace_of({}) is None and pace_of({PACE: 0.0}) is None
    assert pace_of({PACE: 0.5}) == pytest.approx(math.log(0.5))


def test_few_repeats_that_differ_by_chance_explain_little() -> None:
    found = slope_of([(0, 0.0, 0.0), (0, 0.02, 0.25), (1, 0.0, 0.1), (1, 0.001, 0.12)])
    assert found.value < 0.2 and found.error > 0.5


def test_a_cost_that_falls_where_the_machine_is_slower_is_not_explained_by_it() -> None:
    assert slope_of(wandering(40, -1.0)).value == 0.0


def test_on_a_machine_with_one_pace_next_to_nothing_is_taken_out() -> None:
    drawn = random.Random(1)
    steady = [(0, drawn.gauss(0.0, 0.002), drawn.gauss(0.0, 0.1)) for _ in range(30)]
    slope, mean = slope_of(steady).value, mean_of([z for _, z, _ in steady])
    assert max(abs(levelled(y, z, slope, mean) - y) for _, z, y in steady) < 0.01


def test_the_costs_of_an_era_are_those_at_one_pace() -> None:
    trials = [Told((key,), y, pace=z) for key, z, y in wandering(40, 1.0)]
    raw = Era([Told(one.values, one.y) for one in trials])
    era = Era(trials)
    assert raw.noise > 0.08 and era.noise < 0.035
    assert raw.trials == tuple(Told(one.values, one.y) for one in trials)
    slow = Told((0,), trials[0].y, pace=trials[0].pace)
    assert slow.y is not None and era.level(slow) == era.trials[0].y
    assert era.level(Told((0,), None, pace=0.1)) is None
    assert era.level(Told((0,), 0.25)) == 0.25


def test_a_slower_machine_is_strange_only_once_repeats_have_told_what_costs_do_with_it() -> None:
    steady = [Told((0,), 0.01 * one, pace=0.005 * one) for one in (-1, 0, 1)]
    slow, loaded = Told((0,), 0.28, pace=0.2), Told((0,), 0.28, pace=0.0)
    assert Era(steady).strangeness(loaded, (0,)) > 5 > 2 > Era(steady).strangeness(slow, (0,)) > 0
    wide = Era([*steady, *(Told((0,), 1.4 * z, pace=z) for z in (-0.2, -0.1, 0.1, 0.2, 0.3))])
    assert abs(wide.strangeness(slow, (0,))) < 1
    assert wide.strangeness(Told((0,), 0.6, pace=0.2), (0,)) > 5
    unmeasured = [Told((0,), one.y) for one in steady]
    assert Era(unmeasured).strangeness(slow, (0,)) == Era(unmeasured).strangeness(Told((0,), 0.28), (0,)) > 5


def test_repeats_at_an_earlier_load_tell_what_the_pace_does_and_nothing_of_the_cost() -> None:
    before = [Told((0,), 3.0 + 1.4 * z, pace=z) for z in (-0.2, -0.1, 0.0, 0.1, 0.2)]
    now = [Told((0,), 1.4 * z, pace=z) for z in (0.0, 0.2)]
    alone, taught = Era(now), Era(now, [before])
    assert alone.noise > 0.1 and taught.noise < 0.04
    assert taught.costs[(0,)] == pytest.approx([0.14, 0.14], abs=0.02), "at their own mean pace"
    assert len(taught.trials) == 2 and taught.counts == {(0,): 2}


def test_a_knob_matters_by_the_costs_at_one_pace() -> None:
    drawn = random.Random(6)
    trials, raw = [], []
    for index in range(60):
        values = tuple(drawn.choice((2, 3, 4)) for _ in KNOBS) if index % 3 else (3,) * len(KNOBS)
        z = drawn.gauss(0.0, 0.3)
        y = 0.02 * values[0] + z + drawn.gauss(0.0, 0.005)
        trials.append(Told(values, y, pace=z))
        raw.append(Told(values, y))
    assert [one.knob for one in which_matter(KNOBS, trials) if one.matters] == [KNOBS[0].name]
    assert not [one for one in which_matter(KNOBS, raw) if one.matters]


def test_the_sensor_times_the_same_computation_each_time() -> None:
    machine = Machine()
    machine.begin()
    for _ in range(5):
        machine.sample()
    assert [one.name for one in Machine.metrics] == [PACE], "else what searches read is never there"
    assert 0 < machine.read()[PACE] < 1 and pace_of(machine.read()) is not None
    assert Machine()._text == machine._text
