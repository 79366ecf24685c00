"""Figures of lamp2016's factorials."""

from __future__ import annotations

from typing import Any

from trimtab.drawing import Figure
from trimtab.experiments.analysis import Analysis
from trimtab.report.style import BLUE, GREY, ORANGE, svg

_LONGEST = 40
"""Cells that still fit; of more the middle ones are left out."""


def cells(found: Analysis, axis: str) -> str:
    """Every cell against the control, sorted, with the interval for all cells together.

    Args:
        found: the analysis.
        axis: what is compared.
    """
    rows = found.cells
    if len(rows) > _LONGEST:
        rows = (*rows[: _LONGEST // 2], *rows[-_LONGEST // 2 :])

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        for y, row in enumerate(reversed(rows)):
            told = not row.low <= 1 <= row.high
            colour = ORANGE if told else BLUE
            axes.plot([100 * (row.low - 1), 100 * (row.high - 1)], [y, y], color=colour, linewidth=1.6)
            axes.plot([100 * (row.ratio - 1)], [y], "o", color=colour, markersize=3.5)
        axes.axvline(0, color=GREY, linewidth=0.9, linestyle=":")
        axes.set_yticks(range(len(rows)))
        axes.set_yticklabels([", ".join(row.cell.values()) for row in reversed(rows)], fontsize=7)
        axes.set_ylabel(", ".join(rows[0].cell))
        axes.set_xlabel(f"{axis} [%], 95 % for all cells together")

    return svg(draw, 6.8, 1.2 + 0.17 * len(rows))
