"""Factorial designs in randomised blocks.

A factor has levels, a cell is one level of each factor. A block is one measurement of every cell and of the control,
in an order of its own: what changes slowly, such as the machine's temperature, is then the same for all cells of a
block, and the difference of blocks is taken out of the noise.

Source: Box, Hunter and Hunter, "Statistics for Experimenters", chapters 4 to 6 (blocks, factorials).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

Cell = Mapping[str, str]
"""Factor name to the name of one of its levels."""


@dataclass(frozen=True)
class Factor:
    """Something that is set on purpose.

    Args:
        name: as it stands in tables.
        levels: names of its settings, the usual one first: effects are told against that.
        placebo: True where nothing is known by which it could act; it is kept as a control of the whole experiment.
    """

    name: str
    levels: tuple[str, ...]
    placebo: bool = False

    def __post_init__(self) -> None:
        if len(set(self.levels)) < 2 or len(set(self.levels)) < len(self.levels):
            raise ValueError(f"factor {self.name!r} needs two levels or more, all different: {self.levels}")


def usual(factors: Sequence[Factor]) -> Cell:
    """The control: every factor as it usually is."""
    return {factor.name: factor.levels[0] for factor in factors}


def full(factors: Sequence[Factor]) -> tuple[Cell, ...]:
    """The full factorial: every combination of levels, the control first."""
    names = [factor.name for factor in factors]
    return tuple(dict(zip(names, levels, strict=True)) for levels in itertools.product(*(f.levels for f in factors)))


def block(cells: Sequence[Cell], number: int, control: Cell | None = None) -> list[Cell]:
    """The cells of a block in its own order, with one more measurement of the control among them.

    Args:
        cells: the design.
        number: of the block; the same number gives the same order.
        control: the cell that is measured once more; None for none.
    """
    order = [*cells, *([] if control is None else [control])]
    Random(f"block/{number}").shuffle(order)
    return order


def repeats(effect_ratio: float, noise_ratio: float, cells_per_level: int = 1) -> int:
    """How many blocks show an effect of that size between two levels in four experiments out of five.

    One that is not there is found in one of twenty.

    The normal approximation: each level is averaged over `cells_per_level` cells in each block.

    Args:
        effect_ratio: smallest effect of interest, as a share of the mean.
        noise_ratio: standard deviation of one measurement, as a share of the mean.
        cells_per_level: cells of the design at each level of a factor.
    """
    from scipy.stats import norm

    z = float(norm.isf(0.05 / 2) + norm.isf(0.2))
    return max(2, math.ceil(2 * (z * noise_ratio / effect_ratio) ** 2 / cells_per_level))
