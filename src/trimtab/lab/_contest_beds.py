"""Beds of the contest: synthetic surfaces, and the simulated shop."""

from __future__ import annotations

from typing import Protocol

from trimtab.core import Knob, Objective, Window
from trimtab.lab import _simulated_shop, _surfaces
from trimtab.search.space import Values


class Bed(Protocol):
    """Trials are windows, counted from 0."""

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """The knobs that may be moved."""
        ...

    @property
    def start(self) -> Values:
        """The configuration in force at first."""
        ...

    @property
    def active(self) -> frozenset[str]:
        """Names of the knobs with an effect."""
        ...

    @property
    def objective(self) -> Objective:
        """The objective."""
        ...

    def window(self, index: int, values: Values) -> Window:
        """The window of a trial of a configuration."""
        ...

    def truth(self, index: int, values: Values) -> float:
        """The logarithm of the cost without noise."""
        ...

    def best(self, index: int) -> float:
        """The least of it that is known."""
        ...

    def objection(self, values: Values) -> str:
        """Why a configuration is refused; empty where it is not."""
        ...


SURFACES = {name: said for name, (_, said) in _surfaces.KINDS.items()}
SHOPS = {name: said for name, (_, said) in _simulated_shop.KINDS.items()}
SAID = {**SURFACES, **SHOPS}
"""Name of a kind of bed to what it shows."""


def bed(kind: str, seed: int, trials: int) -> Bed:
    """A bed drawn from a seed.

    Args:
        kind: one of `SAID`.
        seed: source of all randomness.
        trials: how many there will be.
    """
    if kind in SHOPS:
        return _simulated_shop.simulated_shop(kind, seed, trials)
    return _surfaces.surface(_surfaces.KINDS[kind][0], seed, trials)
