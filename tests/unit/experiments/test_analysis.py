"""A planted effect is found with its size, and none where there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random

import pytest

from trimtab.experiments.analysis import Analysis, Observation, analyse
from trimtab.experiments.design import Factor, block, full, usual

SLICE = Factor("slice", ("1.4 ms", "0.1 ms", "25 ms"))
SWAPPINESS = Factor("swappiness", ("60", "0", "100"))
PLACEBO = Factor("placebo", ("100 ms", "5 ms", "25 ms"), placebo=True)
FACTORS = (SLICE, SWAPPINESS, PLACEBO)


def measured(
    seed: int, effects: Mapping[tuple[str, ...], float], noise: float = 0.02, blocks: int = 5
) -> list[Observation]:
    """A synthetic factorial; an effect is a ratio where all the named levels are in force. Blocks drift by 10 %."""
    chance = Random(seed)
    seen = []
    for number in range(blocks):
        drift = chance.gauss(0, 0.1)
        for cell in block(full(FACTORS), number, usual(FACTORS)):
            acting = sum(math.log(r) for levels, r in effects.items() if set(levels) <= set(cell.values()))
            seen.append(Observation(cell, number, math.exp(7 + drift + acting + chance.gauss(0, noise))))
    return seen


def found(analysis: Analysis) -> set[tuple[str, ...]]:
    return {term.factors for term in analysis.terms if term.found}


def test_a_planted_effect_is_found_with_its_size_and_nothing_else_is() -> None:
    analysis = analyse(measured(2, {("0.1 ms",): 0.96}), FACTORS)
    assert found(analysis) == {("slice",)}
    (contrast,) = (one for one in analysis.contrasts if one.found)
    assert (contrast.factor, contrast.level) == ("slice", "0.1 ms")
    assert contrast.low < 0.96 < contrast.high and contrast.high - contrast.low < 0.03
    assert analysis.noise_ratio == pytest.approx(0.02, rel=0.25), "the drift of blocks is not noise"


def test_an_interaction_is_told_from_its_main_effects() -> None:
    analysis = analyse(measured(2, {("0.1 ms", "0"): 1.1}), FACTORS)
    assert ("slice", "swappiness") in found(analysis)
    best = analysis.cells[0]
    assert best.cell["slice"] == "0.1 ms" and best.cell["swappiness"] == "0" and best.low > 1


def test_where_there_is_no_effect_one_is_found_in_at_most_one_experiment_of_twenty_for_each_family() -> None:
    terms = contrasts = cells = 0
    experiments = 20
    for seed in range(experiments):
        analysis = analyse(measured(1000 + seed, {}, blocks=3), FACTORS)
        terms += any(term.found for term in analysis.terms)
        contrasts += any(one.found for one in analysis.contrasts)
        cells += any(not one.low <= 1 <= one.high for one in analysis.cells)
    # 5 % of 20 are 1; 5 or more come by chance in one test of 400.
    assert max(terms, contrasts, cells) < 5


def test_the_best_of_equal_cells_is_not_called_better() -> None:
    analysis = analyse(measured(3, {}), FACTORS)
    best = analysis.cells[0]
    assert best.ratio > 1.01 and best.low < 1


def test_a_cell_that_is_missing_in_some_blocks_is_compared_within_those_that_have_it() -> None:
    """A slow cell lifts the mean of the one block that it is in: taken from all cells there, it looks faster."""
    seen = measured(4, {("25 ms",): 10.0}, noise=0.005)
    kept = [one for one in seen if one.block == 0 or one.cell["slice"] != "25 ms"]
    slow = [one for one in analyse(kept, FACTORS).cells if one.cell["slice"] == "25 ms"]
    assert len(slow) == 9
    assert all(one.low < 10 < one.high and one.ratio == pytest.approx(10, rel=0.05) for one in slow)
    whole = [one for one in analyse(seen, FACTORS).cells if one.cell["slice"] == "25 ms"]
    wider = [
        (one.high / one.low, other.high / other.low) for one in slow for other in whole if one.cell == other.cell
    ]
    assert all(missing > there for missing, there in wider)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (measured(1, {}, blocks=1), "two blocks"),
        ([Observation(usual(FACTORS), number, 0.0) for number in (1, 2)], "above 0"),
        ([Observation(usual(FACTORS), number, 1.0) for number in (1, 2)], "only one level"),
    ],
)
def test_what_cannot_be_analysed_is_refused(seen: list[Observation], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        analyse(seen, FACTORS)
