"""What somebody else has edited: knobs of ours stand down, and each is told of once; other files wait for him."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable
from pathlib import Path

from trimtab.errors import ApplyLater, OperatorEdit

Said = tuple[Path, object]
"""A file, and what a line of it says."""


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


def edited(was: Iterable[Said], now: Iterable[Said]) -> Path | None:
    """A file that says something else now than it did; None where none does.

    Args:
        was: what the files said, in order.
        now: what they say now.
    """
    before, after = defaultdict[Path, list[object]](list), defaultdict[Path, list[object]](list)
    for found, said in ((before, was), (after, now)):
        for path, line in said:
            found[path].append(line)
    return next((path for path in (*after, *before) if before.get(path) != after.get(path)), None)


def require_unedited(was: Iterable[Said], now: Iterable[Said], server: str, by_hand: str) -> None:
    """Makes sure that a reload would bring nothing of somebody else's into force.

    Args:
        was: what the files of others said when the server read them, line by line.
        now: what they say now.
        server: the server's name.
        by_hand: how an operator reloads it.

    Raises:
        ApplyLater: it would.
    """
    if (path := edited(was, now)) is not None:
        raise ApplyLater(
            f"{path} was edited after {server} read it, and a change would bring that into force: reload {server} "
            f"yourself ({by_hand}), and trimtab goes on"
        )
