"""Which knobs matter: effects are found, and a knob without one is named no more often than is said."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np

from trimtab.core import Domain, How, Knob
from trimtab.search.evidence import Told
from trimtab.search.matter import LEVEL, Matter, which_matter

KNOBS = tuple(
    Knob(f"k{k}", f"k{k}", "", Domain(0, 20), 0, How.LIVE, "nothing", "a knob of a formula") for k in range(8)
)


def trials(seed: int, slope: float, count: int = 40) -> list[Told]:
    """Trials in which only the first knob has an effect, and noise of 3 %."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 21, (count, len(KNOBS)))
    y = slope * values[:, 0] / 20 + 0.03 * rng.standard_normal(count)
    return [Told(tuple(map(int, row)), float(one)) for row, one in zip(values, y, strict=True)]


def test_an_effect_is_found_with_its_size_and_error() -> None:
    first, *others = which_matter(KNOBS, trials(1, 0.3))
    assert first.knob == "k0" and first.matters
    assert first.effect is not None and first.error is not None
    assert abs(first.effect - 0.3) < 3 * first.error
    assert re.fullmatch(r"1\.3\d times the cost \(1\.[23]\d to 1\.[34]\d?\)", first.said)
    assert not any(one.matters for one in others)


def test_reports_that_name_a_knob_without_an_effect_are_as_rare_as_is_said() -> None:
    """Binomial, 200 reports at 0.5 %: more than 5 would come once in a thousand times."""
    wrong = sum(any(one.matters for one in which_matter(KNOBS, trials(seed, 0.0))) for seed in range(200))
    assert LEVEL == 0.005
    assert wrong <= 5


def test_few_trials_have_a_wide_interval_and_what_cannot_be_told_none() -> None:
    assert Matter("k0", True, 0.3, 0.05, freedom=5).said == "1.35 times the cost (1.19 to 1.53)"
    assert Matter("k0", True, 0.3, 0.05, freedom=500).said == "1.35 times the cost (1.22 to 1.49)"
    assert "too few" in Matter("k0", False, 0.0, math.inf, freedom=5).said


def test_too_few_trials_tell_nothing() -> None:
    found = which_matter(KNOBS, trials(1, 0.3, 6))
    assert [one.knob for one in found] == [knob.name for knob in KNOBS]
    assert all("too few" in one.said for one in found)
    assert all(one.said == "not moved" for one in which_matter(KNOBS, []))


def test_fewer_configurations_than_knobs_tell_a_great_effect_and_name_no_other_knob() -> None:
    """A search's way: from the start on, a few knobs at a time."""
    knobs = tuple(replace(KNOBS[0], name=f"k{k}") for k in range(24))
    found, wrong = 0, 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        values = np.where(rng.random((16, len(knobs))) < 0.2, rng.integers(0, 21, (16, len(knobs))), 10)
        y = values[:, 0] / 20 + 0.03 * rng.standard_normal(16)
        told = [Told(tuple(map(int, row)), float(one)) for row, one in zip(values, y, strict=True)]
        named = [one.knob for one in which_matter(knobs, told) if one.matters]
        found += "k0" in named
        wrong += bool(set(named) - {"k0"})
    assert found >= 2
    assert wrong <= 1


def test_what_a_single_configuration_says_names_no_knob() -> None:
    """A cliff of the first knob, at which the last one was moved far: that was named in three of eight."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        values = 10 + rng.integers(-1, 2, (18, len(KNOBS)))
        values[9, 0], values[9, 7] = 4, 20
        y = 0.03 * rng.standard_normal(18) - 0.02 * (values[:, 0] - 10)
        y[9] = 1.0
        told = [Told(tuple(map(int, row)), float(one)) for row, one in zip(values, y, strict=True)]
        assert not any(one.matters for one in which_matter(KNOBS, told) if one.knob != "k0")


def test_of_two_knobs_that_were_moved_together_neither_is_named() -> None:
    together = [Told((one.values[0], one.values[0], *one.values[2:]), one.y) for one in trials(1, 0.3)]
    found = {one.knob: one for one in which_matter(KNOBS, together)}
    assert not found["k0"].matters and not found["k1"].matters
    assert found["k0"].said == "not told from what k1 did"


def test_a_knob_that_was_never_moved_is_not_said_to_matter() -> None:
    held = [Told((*one.values[:7], 3), one.y) for one in trials(1, 0.3)]
    assert {one.knob: one for one in which_matter(KNOBS, held)}["k7"].said == "not moved"


def test_knobs_that_went_nearly_together_are_not_told_from_each_other_and_end_no_report() -> None:
    fine = tuple(replace(knob, domain=Domain(0, 20 * 10**6)) for knob in KNOBS[:2])
    rng = np.random.default_rng(2)
    near = [
        Told((one.values[0] * 10**6, one.values[0] * 10**6 + int(rng.integers(0, 3)), *one.values[2:]), one.y)
        for one in trials(1, 0.3)
    ]
    found = {one.knob: one for one in which_matter((*fine, *KNOBS[2:]), near)}
    assert {found["k0"].said, found["k1"].said} == {"not told from what k1 did", "not told from what k0 did"}
