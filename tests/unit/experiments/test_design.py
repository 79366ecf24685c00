"""Factorials and blocks."""

from __future__ import annotations

from collections import Counter

import pytest

from trimtab.experiments.design import Factor, block, full, repeats, usual

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


def test_repeats_follow_from_noise_effect_and_how_many_cells_share_a_level() -> None:
    assert repeats(0.02, 0.02) == 16
    assert repeats(0.02, 0.02, cells_per_level=9) == 2
    assert repeats(0.01, 0.02) > repeats(0.02, 0.02)


def test_a_factor_needs_two_different_levels() -> None:
    with pytest.raises(ValueError, match="two levels"):
        Factor("a", ("on", "on"))
