"""What a guarantee to classes of clients looks like while it goes: a line per class and window, then what and why."""

from __future__ import annotations

from typing import TextIO

from trimtab.cli._progress import Lines, shown
from trimtab.core.metric import of_class
from trimtab.core.window import Window
from trimtab.guarantee import ABSOLUTE, HYBRID, DelayGuarantee
from trimtab.plants._names import PROCESS_BUDGET
from trimtab.units import format_duration

_COLUMNS = (("delay", 9), ("desired", 12), ("of desired", 10), ("budget", 6), ("queue", 7), ("in service", 10))


def desired_text(guarantee: DelayGuarantee, k: int) -> str:
    """What class k is promised, short enough for a column."""
    if guarantee.kind == ABSOLUTE:
        return format_duration(guarantee.desired[k])
    if k == 0:
        return f"at most {format_duration(guarantee.desired[0])}" if guarantee.kind == HYBRID else "-"
    return f"{guarantee.desired_ratio(k):.3g} x {guarantee.classes[k - 1]}"


class ClassLines(Lines):
    """Prints for every window a line per class, and below them what was done and why.

    Args:
        guarantee: what is guaranteed to whom.
        decides: True when a move follows each window.
        out: where to.
    """

    def __init__(self, guarantee: DelayGuarantee, decides: bool, out: TextIO | None = None) -> None:
        super().__init__((), guarantee.delays[0], decides, out)
        self._guarantee = guarantee
        names = (*guarantee.classes, "class")
        self._name_width = max(len(name) for name in names)
        widest = max(len(desired_text(guarantee, k)) for k in range(len(guarantee.classes)))
        self._columns = tuple((t, max(w, widest) if t == "desired" else w) for t, w in _COLUMNS)

    def header(self) -> None:
        """Prints the titles of the columns."""
        titles = " ".join(f"{title:>{width}}" for title, width in self._columns)
        self._print(f"{'window':>6} {'time':>8} {'class':<{self._name_width}} {titles}")

    def _window(self, window: Window, what: str) -> None:
        end_s = window.start_s + window.duration_s
        for k, name in enumerate(self._guarantee.classes):
            first = f"{window.index:>6} {end_s:>7.1f}s" if k == 0 else f"{'':>15}"
            cells = zip(self._cells(window, k), self._columns, strict=True)
            row = " ".join(f"{cell:>{width}}" for cell, (_, width) in cells)
            self._print(f"{first} {name:<{self._name_width}} {row}")
        cut = f"cut short: {window.aborted}; " if window.aborted else ""
        if cut or what:
            self._print(f"{'':>15} {cut}{what}")

    def _cells(self, window: Window, k: int) -> tuple[str, ...]:
        """What was desired of a class and what was measured; what was not is a dash."""
        guarantee, name = self._guarantee, self._guarantee.classes[k]
        quotient = guarantee.quotient(window, k)
        budget = window.configuration.get(of_class(PROCESS_BUDGET, name))
        readings = [of_class(reading, name) for reading in ("queue_length", "in_service")]
        return (
            shown(guarantee.delays[k], window.readings.get(guarantee.delays[k])),
            desired_text(guarantee, k),
            "-" if quotient is None else f"{quotient:.0%}",
            "-" if budget is None else str(budget),
            *(shown(reading, window.readings.get(reading)) for reading in readings),
        )
