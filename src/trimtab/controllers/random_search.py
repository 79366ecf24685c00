"""Random search: every trial is drawn from the whole space. A peer for the lab; it promises nothing.

Equations: x ~ U(0, 1) in each coordinate of `trimtab.search.space`, independently; the best mean is the incumbent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.search.ask_and_tell import AskAndTell, AskState
from trimtab.search.evidence import Told
from trimtab.search.space import Point


@dataclass(frozen=True)
class RandomSearch(AskAndTell):
    """The search; its options are those of its base."""

    method: ClassVar[str] = "random_search"

    def next_point(self, state: AskState, told: Sequence[Told]) -> Point:
        """A point of the cube; the same for the same seed and number of trials."""
        return tuple(np.random.default_rng((state.seed, len(state.told))).random(len(state.knobs)).tolist())


CONTROLLER = RandomSearch
