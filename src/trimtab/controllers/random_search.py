"""Random search: every trial at a point drawn evenly. What any other search has to beat.

| symbol | here | unit | shape |
|---|---|---|---|
| x ~ U(0, 1)^d | a point of the unit cube (`trimtab.search.space`) | 1 | one for each knob |
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from trimtab.controllers._ask import AskAndTell, AskState
from trimtab.search.space import values_at


@dataclass(frozen=True)
class RandomSearch(AskAndTell):
    """Draws settings; see `AskAndTell` for the options."""

    def asked(self, state: AskState) -> dict[str, int]:
        """A setting that nothing before has a say in."""
        chance = Random(f"{state.seed}/{len(state.told)}")
        return values_at(state.knobs, [chance.random() for _ in state.knobs])


CONTROLLER = RandomSearch
