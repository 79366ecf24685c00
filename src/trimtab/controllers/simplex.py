"""Active Harmony's simplex as chung2004 used it: what its code of 2003 did, faults included. It promises nothing.

Equations, with the vertices in order of cost, x_n the worst and c the centroid:

    reflect r = c + (c - x_n);  expand c + 2 (c - x_n);  contract c + (x_n - c) / 2;  shrink x_0 + (x_i - x_0) / 2

| symbol | here | unit | shape |
|---|---|---|---|
| x | a configuration | each knob's own | one for each knob |
| f | the cost of its trial, less is better | - | scalar |

Its departures from Nelder and Mead, which are why the paper's first trials are bad ones:

1. Vertex 0 is the running configuration; vertex k sets knob k to its maximum and leaves those before it there, so the
   last vertex has every knob at its maximum.
2. The centroid is that of all n + 1 vertices, the worst included.
3. Values go to the nearest member of the domain, so what is outside is flattened against the bound.
4. A point that is a vertex already is moved one coordinate after the other, a step up, then a step down, until it is
   new.
5. A reflection between best and second worst is accepted; an expansion is kept if it is better than the best; a
   contraction, toward the worst, if it is at most the lesser of worst and reflected; else all shrink half way to the
   best, which is run again itself.
6. The value of a reflection between second worst and worst, but not its point, replaces that of the worst.
7. It never ends and measures no vertex again but in a shrink.

Departures from the paper: a refused or failed trial costs infinitely much; where rules among the knobs or a guard let
a proposal go part of its way only, the vertex is what was measured; once a knob is left to the operator, a simplex of
one dimension less begins at the best vertex so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from trimtab.core import Knob, Move, Objective, Trial
from trimtab.search.evidence import refused, unmeasured, y_of
from trimtab.search.space import Values, dropped, in_force, index_of, named, of_many, restart

Vertex = tuple[float, Values]


@dataclass(frozen=True)
class SimplexState:
    """State of the search.

    Args:
        knobs: those it moves.
        simplex: costs and vertices measured so far, best first once all are.
        pending: vertices to be measured after the one that is asked for.
        asked: the last configuration proposed; None before the first.
        doing: why it was proposed: a vertex, a reflection, an expansion or a contraction.
        reflected: the reflection that an expansion or a contraction follows.
        silent: windows in a row in which nothing was measured.
        first: the configuration from which it starts again, where a knob was left to the operator; else None.
    """

    knobs: tuple[Knob, ...]
    simplex: tuple[Vertex, ...] = ()
    pending: tuple[Values, ...] = ()
    asked: Values | None = None
    doing: str = "vertex"
    reflected: Vertex | None = None
    silent: int = 0
    first: Values | None = None


@dataclass(frozen=True)
class Simplex:
    """The search.

    Args:
        objective: the objective to minimise.
        patience: windows without a measurement after which a trial costs infinitely much.
    """

    objective: Objective
    patience: int = 6
    peer: ClassVar[bool] = True
    searches: ClassVar[bool] = True
    restarts: ClassVar[str] = "the search starts again from the best that it knows, with the others"

    def start(self, knobs: tuple[Knob, ...], seed: int) -> SimplexState:
        """The state before the first window; the seed is not used."""
        return SimplexState(of_many(knobs, "simplex"))

    def withdraw(self, state: SimplexState, knob: str) -> SimplexState:
        """The state without a knob: a simplex of one dimension less, begun at the best vertex so far.

        Raises:
            UsageError: there is no other knob.
        """
        index = index_of(state.knobs, knob)
        rest = of_many([one for one in state.knobs if one.name != knob], "simplex")
        best = min(state.simplex)[1] if state.simplex else state.asked or state.first
        first = None if best is None else dropped(best, index)
        return SimplexState(rest, first=first)

    def step(self, state: SimplexState, trial: Trial) -> tuple[SimplexState, Move]:
        """The next configuration to be measured."""
        missing = unmeasured(self.objective, state.knobs, trial)
        now = in_force(state.knobs, trial.window.configuration)
        if missing and (now is None or state.silent + 1 < self.patience):
            return replace(state, silent=state.silent + 1), Move.hold(f"simplex: {missing}")
        assert now is not None
        if state.asked is None and state.first is not None and state.first != now:
            return replace(state, first=None, silent=0), restart(state.knobs, state.first, "simplex")
        if state.asked is None:
            state = replace(state, asked=now, pending=first_vertices(state.knobs, now))
        assert state.asked is not None
        denied = refused(trial, named(state.knobs, state.asked))
        y = None if missing or denied else y_of(self.objective, trial)
        state = replace(state, silent=0, asked=state.asked if denied else now)
        state = told(state, math.inf if y is None else y)
        assert state.asked is not None
        best = min((one for one in state.simplex if one[0] < math.inf), default=None)
        incumbent = None if best is None else named(state.knobs, best[1])
        changes = named(state.knobs, state.asked)
        return state, Move(changes, f"simplex: {state.doing}", phase="trial", incumbent=incumbent)


def first_vertices(knobs: tuple[Knob, ...], start: Values) -> tuple[Values, ...]:
    """Vertices 1 to n: each sets one more knob to its maximum (departure 1)."""
    most = tuple(knob.domain.clip(knob.domain.maximum) for knob in knobs)
    return tuple((*most[: k + 1], *start[k + 1 :]) for k in range(len(knobs)))


def told(state: SimplexState, y: float) -> SimplexState:
    """The state once the cost of the proposal is known, with the next one in `asked`.

    Args:
        state: before.
        y: the cost; infinite where the trial failed.
    """
    assert state.asked is not None
    here = (y, state.asked)
    if state.doing in ("vertex", "shrink"):
        state = replace(state, simplex=(*state.simplex, here))
        if state.pending:
            return replace(state, asked=state.pending[0], pending=state.pending[1:])
        return _reflect(state, state.simplex)
    *others, worst = state.simplex
    if state.doing == "reflection":
        if y < others[0][0]:
            return _ask(replace(state, reflected=here), 2.0, "expansion")
        if y < others[-1][0]:
            return _reflect(state, (*others, here))
        if y < worst[0]:
            worst = (y, worst[1])  # departure 6
        return _ask(replace(state, simplex=(*others, worst), reflected=here), -0.5, "contraction")
    assert state.reflected is not None
    if state.doing == "expansion":
        return _reflect(state, (*others, here if y < others[0][0] else state.reflected))
    if y <= min(worst[0], state.reflected[0]):
        return _reflect(state, (*others, here))
    best = state.simplex[0][1]
    halved = tuple(
        _member(state.knobs, [b + (x - b) / 2 for b, x in zip(best, v, strict=True)]) for _, v in state.simplex
    )
    return replace(state, simplex=(), asked=halved[0], pending=halved[1:], doing="shrink", reflected=None)


def _reflect(state: SimplexState, simplex: tuple[Vertex, ...]) -> SimplexState:
    """A whole simplex, and the reflection of its worst vertex."""
    return _ask(replace(state, simplex=tuple(sorted(simplex)), reflected=None), 1.0, "reflection")


def _ask(state: SimplexState, factor: float, doing: str) -> SimplexState:
    """Asks for the point at a factor of the way from the worst vertex to the centroid, seen from the centroid."""
    vertices = [values for _, values in state.simplex]
    centre = [sum(column) / len(vertices) for column in zip(*vertices, strict=True)]  # departure 2
    wanted = [c + factor * (c - w) for c, w in zip(centre, vertices[-1], strict=True)]
    return replace(state, asked=_new(state, _member(state.knobs, wanted)), doing=doing)


def _member(knobs: tuple[Knob, ...], wanted: list[float]) -> Values:
    """The nearest members of the domains (departure 3)."""
    return tuple(knob.domain.clip(value) for knob, value in zip(knobs, wanted, strict=True))


def _new(state: SimplexState, point: Values) -> Values:
    """The point, moved by a step of one coordinate where it is a vertex already (departure 4)."""
    there = {values for _, values in state.simplex}
    if point not in there:
        return point
    for k, knob in enumerate(state.knobs):
        for step in (knob.domain.step, -knob.domain.step):
            moved = (*point[:k], point[k] + step, *point[k + 1 :])
            if moved[k] in knob.domain and moved not in there:
                return moved
    return point


CONTROLLER = Simplex
