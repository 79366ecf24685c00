"""The simplex of Nelder and Mead (1965), a window an evaluation. A peer for the lab; it promises nothing.

Equations, with the vertices in order of cost, x_n the worst and c the centroid of the others:

    reflect  r = c + (c - x_n);  expand c + 2 (c - x_n) where f(r) < f(x_0);  r where f(r) < f(x_n-1)
    contract c + (x_n - c) / 2 where f(r) >= f(x_n-1);  shrink x_i = x_0 + (x_i - x_0) / 2 where that is no better

| symbol | here | unit | shape |
|---|---|---|---|
| x | a point of the unit cube, equal steps being equal factors of a setting | 1 | one for each knob |
| f | the objective of the window, less is better | its own | scalar |

Departures: the contraction is always inside; a setting that cannot be measured for `patience` windows costs
infinitely much; where rules among the knobs or a guard let a proposal go part of its way only, the vertex is what was
measured; once a knob is left to the operator, a simplex of one dimension less begins at the best vertex so far. It
never ends: users stop it by hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from trimtab.core import Knob, Move, Objective, Trial
from trimtab.search.evidence import refused, unmeasured
from trimtab.search.space import Values, dropped, in_force, index_of, named, of_many, point_of, restart, values_at

Point = tuple[float, ...]
EDGE = 0.15
"""Side of the first simplex: about twice or half a worker limit."""


@dataclass(frozen=True)
class NelderMeadState:
    """State of the search.

    Args:
        knobs: those it moves, the worker limit first.
        simplex: costs and vertices, best first once all are measured.
        pending: points still to be measured to complete the simplex.
        asked: the point measured by the current window; None before the first.
        reflected: cost and point of the reflection that an expansion or contraction follows.
        silent: windows in a row in which nothing was measured.
        first: the configuration from which it starts again, where a knob was left to the operator; else None.
    """

    knobs: tuple[Knob, ...]
    simplex: tuple[tuple[float, Point], ...] = ()
    pending: tuple[Point, ...] = ()
    asked: Point | None = None
    reflected: tuple[float, Point] | None = None
    silent: int = 0
    first: Values | None = None


@dataclass(frozen=True)
class NelderMead:
    """The search.

    Args:
        objective: the objective to minimise.
        patience: windows in which nothing was measured after which a point costs infinitely much.
    """

    objective: Objective
    patience: int = 6
    peer: ClassVar[bool] = True
    searches: ClassVar[bool] = True
    restarts: ClassVar[str] = "the search starts again from the best that it knows, with the others"

    def start(self, knobs: tuple[Knob, ...], seed: int) -> NelderMeadState:
        """The state before the first window; the seed is not used."""
        return NelderMeadState(of_many(knobs, "nelder_mead"))

    def withdraw(self, state: NelderMeadState, knob: str) -> NelderMeadState:
        """The state without a knob: a simplex of one dimension less, begun at the best vertex so far.

        Raises:
            UsageError: there is no other knob.
        """
        index = index_of(state.knobs, knob)
        rest = of_many([one for one in state.knobs if one.name != knob], "nelder_mead")
        best = min(state.simplex)[1] if state.simplex else state.asked
        known = state.first if best is None else values_at(state.knobs, best)
        first = None if known is None else dropped(known, index)
        return NelderMeadState(rest, first=first)

    def step(self, state: NelderMeadState, trial: Trial) -> tuple[NelderMeadState, Move]:
        """The next point to be measured."""
        missing = unmeasured(self.objective, state.knobs, trial)
        now = in_force(state.knobs, trial.window.configuration)
        if missing and (now is None or state.silent + 1 < self.patience):
            return replace(state, silent=state.silent + 1), Move.hold(f"nelder_mead: {missing}")
        assert now is not None
        if state.asked is None and state.first is not None and state.first != now:
            return replace(state, first=None, silent=0), restart(state.knobs, state.first, "nelder_mead")
        at = state.asked or point_of(state.knobs, now)
        if state.asked is None:
            state = replace(state, pending=_corners(at))
        denied = refused(trial, named(state.knobs, values_at(state.knobs, at)))
        if not denied and now != values_at(state.knobs, at):
            at = point_of(state.knobs, now)
        found = None if missing or denied else self.objective.cost(trial.window)
        state, said = _told(replace(state, silent=0), math.inf if found is None else found, at)
        assert state.asked is not None
        best = min((one for one in state.simplex if one[0] < math.inf), default=None)
        incumbent = None if best is None else named(state.knobs, values_at(state.knobs, best[1]))
        changes = named(state.knobs, values_at(state.knobs, state.asked))
        return state, Move(changes, f"nelder_mead: {said}", phase="trial", incumbent=incumbent)


def _corners(at: Point) -> tuple[Point, ...]:
    """The other vertices of the first simplex: one step along each axis, inwards."""
    return tuple(
        tuple(x + (EDGE if x < 0.5 else -EDGE) if i == k else x for i, x in enumerate(at)) for k in range(len(at))
    )


def _told(state: NelderMeadState, cost: float, at: Point) -> tuple[NelderMeadState, str]:
    """The state once the cost at a point is known, with the next point in `asked`."""
    if len(state.simplex) <= len(state.knobs):
        simplex = tuple(sorted((*state.simplex, (cost, at))))
        if state.pending:
            state = replace(state, simplex=simplex, asked=state.pending[0], pending=state.pending[1:])
            return state, "a vertex of the simplex"
        return _reflected(state, simplex)
    *others, worst = state.simplex
    before = state.reflected
    if before is None:
        if cost < others[0][0]:
            return replace(state, reflected=(cost, at), asked=_beyond(others, worst[1], 2.0)), "expanding"
        if cost < others[-1][0]:
            return _reflected(state, (*others, (cost, at)))
        return replace(state, reflected=(cost, at), asked=_beyond(others, worst[1], -0.5)), "contracting"
    if before[0] < others[0][0]:
        return _reflected(state, (*others, min(before, (cost, at))))
    if cost < min(worst[0], before[0]):
        return _reflected(state, (*others, (cost, at)))
    best = state.simplex[0]
    halved = [tuple(b + (x - b) / 2 for b, x in zip(best[1], p, strict=True)) for _, p in state.simplex[1:]]
    state = replace(state, simplex=(best,), pending=tuple(halved[1:]), asked=halved[0], reflected=None)
    return state, "shrinking"


def _reflected(state: NelderMeadState, simplex: tuple[tuple[float, Point], ...]) -> tuple[NelderMeadState, str]:
    """A whole simplex, and the reflection of its worst vertex."""
    *others, worst = sorted(simplex)
    asked = _beyond(others, worst[1], 1.0)
    return replace(state, simplex=(*others, worst), reflected=None, asked=asked), "reflecting"


def _beyond(others: list[tuple[float, Point]], worst: Point, factor: float) -> Point:
    """The point at a factor of the way from the worst vertex to the centroid, seen from the centroid."""
    centre = [sum(p[i] for _, p in others) / len(others) for i in range(len(worst))]
    return tuple(min(1.0, max(0.0, c + factor * (c - w))) for c, w in zip(centre, worst, strict=True))


CONTROLLER = NelderMead
