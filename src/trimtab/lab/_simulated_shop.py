"""The simulated shop as a bed of the contest: a formula is replaced by three tiers, caches, pools and a queue.

The start is what Debian ships; a trial is ten virtual seconds of a hundred browsers, whose noise depends on seed and
trial; what a setting is truly worth is measured over three minutes of other seeds, the same for all. What is best is
not known: the best that a long search has found (`_shop_best`) stands for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from trimtab.core import Knob, Objective, Reading, Window
from trimtab.lab import _shop_knobs as shop
from trimtab.lab._shop_model import MIXES, RATE, constants, run, true_cost
from trimtab.search.space import Values, named

KINDS = {
    **{f"shop-{mix}": ((mix, mix), f"the simulated shop under the {mix} mix") for mix in MIXES},
    "shop-change": (("ordering", "browsing"), "the simulated shop, whose mix changes in the middle"),
}
"""Name to the mixes of both halves and what it shows."""


@dataclass(frozen=True, eq=False)
class SimulatedShop:
    """A bed: the shop with one seed.

    Args:
        mixes: what its browsers do in each half of the run.
        seed: source of the trials' noise.
        trials: how many there will be.
    """

    mixes: tuple[str, str]
    seed: int
    trials: int
    knobs: ClassVar[tuple[Knob, ...]] = shop.KNOBS
    start: ClassVar[Values] = shop.START
    active: ClassVar[frozenset[str]] = frozenset(knob.name for knob in shop.KNOBS) - shop.PLACEBOS
    objective: ClassVar[Objective] = Objective(RATE, minimize=False)

    def window(self, index: int, values: Values) -> Window:
        """A trial; methods that ask for the same in the same trial meet the same."""
        configuration = named(self.knobs, values)
        length_s = float(constants()["load"]["trial_s"])
        seed = self.seed * 1000 + index
        readings = run(constants(), configuration, self._mix(index), seed, length_s)
        samples = round(readings[RATE] * length_s)
        tiers = (name.rpartition("@") for name in readings)
        measured = tuple(Reading(name, readings[f"{name}@{tier}"], tier) for name, _, tier in tiers if name)
        return Window(index, index * length_s, length_s, configuration, readings, samples, measured=measured)

    def truth(self, index: int, values: Values) -> float:
        """The logarithm of the seconds for a page, of seeds that no trial has."""
        return true_cost(constants(), named(self.knobs, values), self._mix(index))

    def best(self, index: int) -> float:
        """The least of it that is known."""
        found, start = best_known(self._mix(index)), self.truth(index, self.start)
        return start if found is None else min(start, true_cost(constants(), found, self._mix(index)))

    def objection(self, values: Values) -> str:
        """Which rule of the plants these values break; empty when they break none."""
        return shop.objection(named(self.knobs, values))

    def _mix(self, index: int) -> str:
        return self.mixes[2 * index >= self.trials]


def best_known(mix: str) -> Mapping[str, int] | None:
    """The best setting of a mix that a long search has found, where it is not the start; None where none was made."""
    found: Mapping[str, int] | None = constants().get("best", {}).get(mix)
    return found


def simulated_shop(kind: str, seed: int, trials: int) -> SimulatedShop:
    """The bed of a kind.

    Args:
        kind: one of `KINDS`.
        seed: source of the trials' noise.
        trials: how many there will be.
    """
    return SimulatedShop(KINDS[kind][0], seed, trials)
