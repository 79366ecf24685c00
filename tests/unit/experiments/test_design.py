"""Factorials, screening designs and blocks."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from trimtab.experiments.design import Factor, block, full, repeats, screening, usual

THREE = tuple(Factor(name, ("usual", "low", "high")) for name in "abc")


def test_a_full_factorial_has_every_combination_once_and_begins_with_the_control() -> None:
    cells = full(THREE)
    assert len({tuple(cell.values()) for cell in cells}) == len(cells) == 27
    assert cells[0] == usual(THREE)


def test_a_block_measures_every_cell_once_and_the_control_once_more_in_an_order_of_its_own() -> None:
    cells = full(THREE)
    first, again, other = (block(cells, number, usual(THREE)) for number in (1, 1, 2))
    assert first == again != other
    counts = Counter(tuple(cell.values()) for cell in first)
    assert counts.pop(tuple(usual(THREE).values())) == 2
    assert set(counts.values()) == {1} and len(counts) == 26


@pytest.mark.parametrize("count", [2, 3, 5, 7, 9])
def test_a_screening_design_is_balanced_and_confounds_no_main_effect_with_an_interaction_of_two(count: int) -> None:
    factors = [Factor(f"f{index}", ("off", "on")) for index in range(count)]
    cells = screening(factors)
    signs = {f.name: [1 if cell[f.name] == "on" else -1 for cell in cells] for f in factors}
    assert all(sum(column) == 0 for column in signs.values())
    for one, other in combinations(signs, 2):
        both = [a * b for a, b in zip(signs[one], signs[other], strict=True)]
        assert sum(both) == 0
        assert all(sum(x * y for x, y in zip(both, column, strict=True)) == 0 for column in signs.values())
    assert len(cells) < 2**count or count <= 4


def test_repeats_follow_from_noise_effect_and_how_many_cells_share_a_level() -> None:
    assert repeats(0.02, 0.02) == 16
    assert repeats(0.02, 0.02, cells_per_level=9) == 2
    assert repeats(0.01, 0.02) > repeats(0.02, 0.02)


def test_a_factor_needs_two_different_levels() -> None:
    with pytest.raises(ValueError, match="two levels"):
        Factor("a", ("on", "on"))
