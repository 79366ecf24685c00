"""One search on one bed, trial by trial, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from trimtab import discovery, metrics
from trimtab.core import Configuration, Fate, Knob, MoveState, Objective, Trial
from trimtab.core.rules import within_rules
from trimtab.lab import _simulated_shop, _surfaces
from trimtab.search.evidence import Told, best_of, y_of
from trimtab.search.matter import Matter, which_matter
from trimtab.search.space import Values, in_force, named

Bed = _surfaces.Surface | _simulated_shop.SimulatedShop
"""Trials are windows, counted from 0."""
SURFACES = {name: said for name, (_, said) in _surfaces.KINDS.items()}
SHOPS = {name: said for name, (_, said) in _simulated_shop.KINDS.items()}
SAID = {**SURFACES, **SHOPS}
"""Name of a kind of bed to what it shows."""
ROOM = "trimtab.controllers"
STATIC = "static"
"""Controller that never moves: no search, but what one has to beat."""


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


@dataclass(frozen=True)
class Contested:
    """A run.

    Args:
        method: registered name.
        kind: the bed's.
        seed: it was drawn from.
        regrets: of each trial, the logarithm of its true cost to the best there was.
        harmed: share of the trials that truly cost more than the start by a tenth.
        gain: logarithm of how many times less than the start the winner truly costs at the end.
        moved: whether the winner is another than the start.
        ended: trial since which it has only held what it found; None where it still searches.
        placebos: placebos that were reported to matter.
        active: knobs with an effect that were.
    """

    method: str
    kind: str
    seed: int
    regrets: tuple[float, ...]
    harmed: float
    gain: float
    moved: bool
    ended: int | None
    placebos: int
    active: int

    @property
    def regret(self) -> float:
        """The mean over trials."""
        return math.fsum(self.regrets) / len(self.regrets)


def searches() -> tuple[str, ...]:
    """All controllers that search over many knobs, by name: those that say so by `searches`."""
    rooms = ((name, discovery.load(ROOM, name).CONTROLLER) for name in discovery.names(ROOM))
    return tuple(name for name, kind in rooms if getattr(kind, "searches", False))


@dataclass(frozen=True)
class Contest:
    """A method on a bed.

    Args:
        method: registered name.
        kind: the bed's.
        seed: of the bed, and of the method's randomness.
        trials: how many it is given.
    """

    method: str
    kind: str
    seed: int
    trials: int

    def compute(self) -> Contested:
        """Runs it."""
        drawn = bed(self.kind, self.seed, self.trials)
        return run(built(self.method, drawn.objective), self.method, self.kind, drawn, self.seed, self.trials)


def run(controller: Any, method: str, kind: str, bed: Bed, seed: int, trials: int) -> Contested:
    """Runs a controller on a bed.

    Args:
        controller: it, for the bed's objective.
        method: what it is called.
        kind: what the bed is called.
        bed: it.
        seed: of the method's randomness.
        trials: how many it is given.
    """
    knobs, values = bed.knobs, bed.start
    state, told, regrets, harmed = controller.start(knobs, seed), list[Told](), [], 0
    fate, ended, incumbent = None, None, None
    for index in range(trials):
        window = bed.window(index, values)
        trial = Trial(window, fate, asked=metrics.asked(window.readings))
        truth = bed.truth(index, values)
        regrets.append(truth - bed.best(index))
        harmed += truth > bed.truth(index, bed.start) + math.log(1.1)
        told.append(Told(values, y_of(controller.objective, trial)))
        state, move = controller.step(state, trial)
        incumbent = move.recommended or move.incumbent
        ended = (ended or index + 1) if move.finished or move.phase == "hold" else None
        wanted = {**named(knobs, values), **((move.incumbent or {}) if move.finished else move.changes)}
        now = named(knobs, values)
        apart = {name: value for name, value in wanted.items() if value != now[name]}
        if not apart:
            continue
        reached = within_rules(apart, now, knobs, lambda configuration: bed.objection(_of(knobs, configuration)))
        values = _of(knobs, {**now, **reached})
        refused = Fate(MoveState.REFUSED, apart, "a rule among the knobs")
        fate = Fate(MoveState.APPLIED, reached) if reached else refused
    named_one: Values | None = None if incumbent is None else in_force(knobs, incumbent)
    winner = named_one or best_of(told) or bed.start
    last = trials - 1
    found: list[Matter] = [] if method == STATIC else [one for one in which_matter(knobs, told) if one.matters]
    return Contested(
        method,
        kind,
        seed,
        tuple(regrets),
        harmed / trials,
        bed.truth(last, bed.start) - bed.truth(last, winner),
        winner != bed.start,
        ended,
        sum(one.knob not in bed.active for one in found),
        sum(one.knob in bed.active for one in found),
    )


def _of(knobs: Sequence[Knob], configuration: Configuration) -> Values:
    """The values of the knobs."""
    return tuple(configuration[knob.name] for knob in knobs)


def built(method: str, objective: Objective) -> Any:
    """A controller as the contest runs it; one that can watch the load goes on watching."""
    kind = discovery.load(ROOM, method).CONTROLLER
    known = {field.name for field in fields(kind)}
    return kind(objective, **({"watch": True} if "watch" in known else {}))
