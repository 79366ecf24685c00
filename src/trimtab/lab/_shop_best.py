"""The long search for the best setting of the simulated shop, which the contest measures regret from.

    python -m trimtab.lab._shop_best shopping

It sees the truth, of which no method in the contest sees anything: each knob with an effect is moved by itself, up
and down, by steps that are halved when a round of all of them has found nothing. This is done from the shipped values
and from a setting drawn at random. In the end every knob is put back whose move is worth nothing. What it prints
belongs into simulated_shop.toml.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product
from random import Random

from trimtab.lab import _shop_knobs as shop
from trimtab.lab._shop_model import MIXES, constants, true_cost
from trimtab.search.space import Values, named, point_of, value_at

_STEPS = (0.25, 0.12, 0.06, 0.03)
_WORTH = 1e-3
"""A gain below a tenth of a percent may be the truth's own noise."""


def search(cost: Callable[[Values], float], start: Values) -> tuple[float, Values]:
    """The setting at which no step of any knob is better, with every knob as shipped that need not be moved.

    Args:
        cost: of a setting.
        start: where to begin.
    """
    best, values = _descended(cost, start, _STEPS)
    while True:
        plain = _as_shipped(cost, best, values)
        found, moved = _descended(cost, plain, _STEPS[-2:])
        if found >= best - _WORTH:
            return cost(plain), plain
        best, values = found, moved


def _descended(cost: Callable[[Values], float], values: Values, steps: tuple[float, ...]) -> tuple[float, Values]:
    best = cost(values)
    for step in steps:
        better = True
        while better:
            better = False
            for index, way in product(range(len(shop.KNOBS)), (step, -step)):
                other = _moved(values, index, way)
                if other is not None and (found := cost(other)) < best - _WORTH:
                    best, values, better = found, other, True
    return best, values


def _as_shipped(cost: Callable[[Values], float], best: float, values: Values) -> Values:
    """The setting with every knob put back whose move is worth nothing by itself."""
    # The last first: of two that a rule binds, the greater one.
    for index, knob in reversed(list(enumerate(shop.KNOBS))):
        back = (*values[:index], knob.default, *values[index + 1 :])
        if back != values and not shop.objection(named(shop.KNOBS, back)) and cost(back) < best + _WORTH:
            values = back
    return values


def _moved(values: Values, index: int, way: float) -> Values | None:
    """The setting of which one knob is some way off; None where it has no effect, does not move, or breaks a rule."""
    knob = shop.KNOBS[index]
    value = value_at(knob.domain, point_of([knob], values[index : index + 1])[0] + way)
    moved = (*values[:index], value, *values[index + 1 :])
    refused = knob.name in shop.PLACEBOS or moved == values or shop.objection(named(shop.KNOBS, moved))
    return None if refused else moved


def best_of(mix: str) -> tuple[float, float, Values]:
    """Cost of the start, cost of the best setting found, and that setting.

    Args:
        mix: what the browsers do.
    """

    def cost(values: Values) -> float:
        return true_cost(constants(), named(shop.KNOBS, values), mix)

    found, values = min(search(cost, start) for start in (_unbound(), _drawn(Random(1))))
    return cost(shop.START), found, values


def _unbound() -> Values:
    """The shipped values, but the lesser knob of each rule at its least, so that the greater one is free to move."""
    lesser = {low for low, _ in shop.RULES}
    return tuple(k.domain.minimum if k.name in lesser else k.default for k in shop.KNOBS)


def _drawn(chance: Random) -> Values:
    """A setting within a third of each range around the start, which breaks no rule."""
    point = point_of(shop.KNOBS, shop.START)
    while True:
        drawn = (value_at(k.domain, x + chance.uniform(-0.3, 0.3)) for k, x in zip(shop.KNOBS, point, strict=True))
        moved = tuple(drawn)
        if not shop.objection(named(shop.KNOBS, moved)):
            return moved


def main(mixes: list[str]) -> None:
    """Searches for some mixes and prints what belongs into the file."""
    for mix in mixes or MIXES:
        start, best, values = best_of(mix)
        moved = {k.name: v for k, v in zip(shop.KNOBS, values, strict=True) if v != k.default}
        print(f"[best.{mix}]  # {best - start:+.4f} to the start, as a logarithm")
        for name, value in moved.items():
            print(f'"{name}" = {value}')
        print(flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
