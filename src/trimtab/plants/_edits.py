"""Knobs that somebody else has set: they stand down, and each is told of once."""

from __future__ import annotations

from collections.abc import Container, Iterable

from trimtab.errors import OperatorEdit


class StoodDown(dict[str, str]):
    """The knobs that stand down, each with a message."""

    def __init__(self) -> None:
        super().__init__()
        self._told: set[str] = set()

    def tell(self, ours: Container[str]) -> None:
        """Tells of a knob of ours of which nobody was told yet.

        Raises:
            OperatorEdit: there is one.
        """
        self.refuse(knob for knob in self if knob in ours and knob not in self._told)

    def refuse(self, wanted: Iterable[str]) -> None:
        """Refuses to move a knob that stands down.

        Raises:
            OperatorEdit: one of these does.
        """
        for knob in wanted:
            if knob in self:
                self._told.add(knob)
                raise OperatorEdit(knob, self[knob])
