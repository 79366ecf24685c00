"""Analysis of a factorial in blocks: effects with their intervals, corrected for how many were looked at.

Values are compared as logarithms, so an effect is a ratio and a noisy cell of large values does not outweigh others:

    ln y = mean + block + sum of factors + sum of interactions of two + error

| here      | meaning                                                                                     |
|-----------|---------------------------------------------------------------------------------------------|
| Term      | a factor or an interaction: its F test (type II sums of squares), Holm's correction          |
| Contrast  | a level against the usual one of its factor, over all cells: ratio, Bonferroni interval      |
| Versus    | a cell against the control: ratio, interval for all cells at once (Sidak 1967)               |

The best of many cells looks better than it is: of 27 equal cells with a noise of 2 % the best of five repeats each
shows some 2 %. So a cell counts as better only where its interval leaves 1 out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pandas
from scipy.stats import t as student
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.multitest import multipletests

from trimtab.experiments.design import Cell, Factor, usual

FALSE = 0.05
"""How often anything at all may be found where there is nothing, for each family of comparisons."""


@dataclass(frozen=True)
class Observation:
    """One measurement.

    Args:
        cell: the levels that were in force.
        block: its number.
        value: the measured value, greater than 0.
    """

    cell: Cell
    block: int
    value: float


@dataclass(frozen=True)
class Term:
    """A factor, or an interaction of two, as the analysis of variance has it.

    Args:
        factors: names; one for a main effect.
        share: share of the sum of squares left by the blocks.
        f: the F statistic.
        p: how often chance alone does as much, corrected for the number of terms.
    """

    factors: tuple[str, ...]
    share: float
    f: float
    p: float

    @property
    def found(self) -> bool:
        """Whether it is told apart from chance."""
        return self.p < FALSE


@dataclass(frozen=True)
class Contrast:
    """A level against the usual one of its factor, over all that the other factors are.

    Args:
        factor: its name.
        level: the level.
        ratio: ratio of the value, this level to the usual one.
        low: lower end of the interval.
        high: upper end.
    """

    factor: str
    level: str
    ratio: float
    low: float
    high: float

    @property
    def found(self) -> bool:
        """Whether the interval leaves 1 out."""
        return not self.low <= 1 <= self.high


@dataclass(frozen=True)
class Versus:
    """A cell against the control.

    Args:
        cell: the cell.
        ratio: ratio of the value, this cell to the control.
        low: lower end of the interval.
        high: upper end.
    """

    cell: Cell
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Analysis:
    """Effects found in the measurements.

    Args:
        terms: main effects, then interactions of two.
        contrasts: levels against the usual ones.
        cells: every other cell against the control, the greatest ratio first.
        noise_ratio: standard deviation of one measurement within a block, as a share.
    """

    terms: tuple[Term, ...]
    contrasts: tuple[Contrast, ...]
    cells: tuple[Versus, ...]
    noise_ratio: float


def analyse(seen: Sequence[Observation], factors: Sequence[Factor]) -> Analysis:
    """Analyses a factorial in blocks.

    Args:
        seen: the measurements; cells that are missing in a block make the intervals wider.
        factors: the factors varied.

    Raises:
        ValueError: fewer than two blocks, a value that is not above 0, or a factor of which one level was measured.
    """
    if len({one.block for one in seen}) < 2:
        raise ValueError("an analysis needs two blocks or more: the noise is not known from one")
    if any(not one.value > 0 for one in seen):
        raise ValueError("a ratio needs values above 0")
    table = _table(seen, factors)
    for index, factor in enumerate(factors):
        if table[f"f{index}"].nunique() < 2:
            raise ValueError(f"only one level of {factor.name} was measured")
    whole = ols("y ~ C(block) + " + " + ".join(_terms(len(factors))), table).fit()
    noise = math.sqrt(whole.mse_resid)
    against = _versus(table, seen, factors, whole)
    return Analysis(_variance(whole, factors), _contrasts(table, factors), against, math.expm1(noise))


def by_cell(seen: Sequence[Observation]) -> dict[tuple[tuple[str, str], ...], list[float]]:
    """The values of each cell, in the order in which they were measured."""
    found: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for one in seen:
        found.setdefault(tuple(sorted(one.cell.items())), []).append(one.value)
    return found


def _table(seen: Sequence[Observation], factors: Sequence[Factor]) -> pandas.DataFrame:
    """A row for each measurement; levels by their number, so that no name can be read as part of a formula."""
    return pandas.DataFrame(
        [
            {"y": math.log(one.value), "block": one.block}
            | {f"f{index}": factor.levels.index(one.cell[factor.name]) for index, factor in enumerate(factors)}
            for one in seen
        ]
    )


def _terms(count: int) -> list[str]:
    """Main effects and interactions of two, as a formula has them."""
    single = [f"C(f{index})" for index in range(count)]
    return [*single, *(f"{one}:{other}" for one, other in combinations(single, 2))]


def _variance(whole: Any, factors: Sequence[Factor]) -> tuple[Term, ...]:
    """The analysis of variance, corrected for its number of terms (Holm 1979)."""
    table = anova_lm(whole, typ=2)
    names = _terms(len(factors))
    p = multipletests([table.loc[name, "PR(>F)"] for name in names], FALSE, "holm")[1]
    left = table["sum_sq"].sum() - table.loc["C(block)", "sum_sq"]
    of = [(f,) for f in factors] + list(combinations(factors, 2))
    return tuple(
        Term(
            tuple(factor.name for factor in group),
            float(table.loc[name, "sum_sq"] / left),
            float(table.loc[name, "F"]),
            float(corrected),
        )
        for name, group, corrected in zip(names, of, p, strict=True)
    )


def _contrasts(table: pandas.DataFrame, factors: Sequence[Factor]) -> tuple[Contrast, ...]:
    """Levels against the usual ones: coefficients of the model without interactions, which average over the rest."""
    model = ols("y ~ C(block) + " + " + ".join(f"C(f{i})" for i in range(len(factors))), table).fit()
    count = sum(len(factor.levels) - 1 for factor in factors)
    intervals = model.conf_int(FALSE / count)
    found = []
    for index, factor in enumerate(factors):
        for number, level in enumerate(factor.levels[1:], 1):
            name = f"C(f{index})[T.{number}]"
            if name in model.params:
                low, high = intervals.loc[name]
                found.append(
                    Contrast(factor.name, level, math.exp(model.params[name]), math.exp(low), math.exp(high))
                )
    return tuple(found)


def _versus(
    table: pandas.DataFrame, seen: Sequence[Observation], factors: Sequence[Factor], whole: Any
) -> tuple[Versus, ...]:
    """Every cell against the control, with the blocks taken out and one interval for all (Sidak).

    By least squares of cells and blocks together: a block without one of its cells has another mean for that alone.
    """
    control = tuple(sorted(usual(factors).items()))
    keys = [control, *(key for key in by_cell(seen) if key != control)]
    cells = [tuple(sorted(one.cell.items())) for one in seen]
    if control not in cells or len(keys) < 2:
        return ()
    model = ols("y ~ C(block) + C(cell)", table.assign(cell=[keys.index(key) for key in cells])).fit()
    quantile = student.isf((1 - (1 - FALSE) ** (1 / (len(keys) - 1))) / 2, whole.df_resid)
    rows = []
    for number, key in enumerate(keys[1:], 1):
        name = f"C(cell)[T.{number}]"
        size = model.params[name]
        half = quantile * math.sqrt(whole.mse_resid * model.normalized_cov_params.loc[name, name])
        rows.append(Versus(dict(key), math.exp(size), math.exp(size - half), math.exp(size + half)))
    return tuple(sorted(rows, key=lambda row: -row.ratio))
