"""The simplex of Active Harmony as chung2004 ran it: the Tcl controller of 2003, with all that sets it apart.

What it promises: nothing of a server. It is here to be compared with; `trust_region` is ours.

Vertices are settings, the knobs' own values, in order of cost; x_n is the worst and c the centroid:

    reflect  r = c + (c - x_n);  expand e = c + 2 (c - x_n);  contract k = c - (c - x_n) / 2

| symbol | here | unit | shape |
|---|---|---|---|
| n | number of knobs | 1 | scalar |
| x_0..x_n | simplex, the best first | the knobs' own | n + 1 settings |
| c | centroid of all vertices | the knobs' own | one for each knob |
| f | logarithm of the window's objective, less is better | 1 | scalar |

Departures of that controller from Nelder and Mead (1965), all kept:

1. The first vertex is what is in force; vertex k sets knob k to its largest value and leaves the earlier ones there,
   so that by trial n every knob is at its largest value.
2. The centroid is over all n + 1 vertices, the worst included.
3. A point is taken to the nearest setting, one beyond the largest value to that.
4. A setting that is a vertex already is moved by one step of one knob after another, up and then down, until it is
   new.
5. A reflection between the best and the second worst is accepted; one better than the best is expanded, and the
   expansion kept where it is better than the best. Else the contraction is kept where it is no worse than the worst
   and the reflection, or the simplex shrinks half way to the best and every vertex is measured again, the best too.
6. Where a reflection is between the second worst and the worst, its cost but not its setting replaces the worst's.
7. It never ends and never measures an old vertex again before it shrinks.

A window in which nothing was measured for `patience` times costs infinitely much; the original waits for ever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from trimtab.controllers._knob import unjudged
from trimtab.core import Knob, Move, Objective, Trial
from trimtab.errors import UsageError
from trimtab.search.evidence import cost_of

Setting = tuple[int, ...]
Vertex = tuple[float, Setting]


@dataclass(frozen=True)
class SimplexState:
    """What is remembered.

    Args:
        knobs: those that are moved.
        simplex: vertices measured so far; all of them, the best first, once the first simplex is whole.
        pending: settings that are still to be measured to make it whole.
        asked: the setting that was asked for last; empty before the first.
        reflected: a reflection that is being improved on.
        silent: windows in a row in which nothing was measured.
    """

    knobs: tuple[Knob, ...]
    simplex: tuple[Vertex, ...] = ()
    pending: tuple[Setting, ...] = ()
    asked: Setting = ()
    reflected: Vertex | None = None
    silent: int = 0


@dataclass(frozen=True)
class Simplex:
    """The controller of 2003.

    Args:
        objective: what is made best.
        patience: windows in which nothing was measured after which a setting costs infinitely much.
    """

    objective: Objective
    patience: int = 2

    def start(self, knobs: tuple[Knob, ...], seed: int) -> SimplexState:
        """The state before the first window; nothing in it is random.

        Raises:
            UsageError: there is no knob.
        """
        if not knobs:
            raise UsageError("a search needs at least one knob")
        return SimplexState(knobs)

    def step(self, state: SimplexState, trial: Trial) -> tuple[SimplexState, Move]:
        """The next setting to be measured."""
        window = trial.window
        if any(knob.name not in window.configuration for knob in state.knobs):
            return state, Move.hold("simplex: the values in force are not known")
        missing = next((m for k in state.knobs if (m := unjudged(self.objective, window, k, 1))), "")
        if missing and state.silent + 1 < self.patience:
            return replace(state, silent=state.silent + 1), Move.hold(f"simplex: {missing}")
        found = None if missing else cost_of(window, self.objective)
        cost = math.inf if found is None else found
        at = state.asked
        if not at:
            at = tuple(window.configuration[knob.name] for knob in state.knobs)
            state = replace(state, pending=_first_corners(state.knobs, at))
        state, said = _told(replace(state, silent=0), (cost, at))
        best = min(state.simplex)[1] if state.simplex else at
        return state, Move(
            _named(state.knobs, state.asked),
            f"simplex: {said}",
            phase="trial",
            incumbent=_named(state.knobs, best),
        )


def _named(knobs: tuple[Knob, ...], setting: Setting) -> dict[str, int]:
    return {knob.name: value for knob, value in zip(knobs, setting, strict=True)}


def _first_corners(knobs: tuple[Knob, ...], at: Setting) -> tuple[Setting, ...]:
    """The other vertices of the first simplex: departure 1."""
    corners, now = [], list(at)
    for k, knob in enumerate(knobs):
        now[k] = knob.domain.clip(knob.domain.maximum)
        corners.append(tuple(now))
    return tuple(corners)


def _told(state: SimplexState, vertex: Vertex) -> tuple[SimplexState, str]:
    """The state once a setting's cost is known, with the next one in `asked`."""
    cost = vertex[0]
    if len(state.simplex) <= len(state.knobs):
        simplex = (*state.simplex, vertex)
        if state.pending:
            after = replace(state, simplex=simplex, asked=state.pending[0], pending=state.pending[1:])
            return after, "a vertex of the simplex"
        return _reflecting(state, simplex)
    *others, worst = state.simplex
    before = state.reflected
    if before is None:
        if cost < others[0][0]:
            return replace(state, reflected=vertex, asked=_away(state, 2.0)), "expanding"
        if cost < others[-1][0]:
            return _reflecting(state, (*others, vertex))
        if cost < worst[0]:
            state = replace(state, simplex=(*others, (cost, worst[1])))  # departure 6
        return replace(state, reflected=vertex, asked=_away(state, -0.5)), "contracting"
    if before[0] < others[0][0]:
        return _reflecting(state, (*others, vertex if cost < others[0][0] else before))
    if cost <= min(worst[0], before[0]):
        return _reflecting(state, (*others, vertex))
    best = others[0][1]
    halved = [
        _nearest(state.knobs, [(b + x) / 2 for b, x in zip(best, one, strict=True)]) for _, one in state.simplex
    ]
    after = replace(state, simplex=(), pending=tuple(halved[1:]), asked=halved[0], reflected=None)
    return after, "shrinking, every vertex is measured again"


def _reflecting(state: SimplexState, simplex: tuple[Vertex, ...]) -> tuple[SimplexState, str]:
    """A whole simplex, and the reflection of its worst vertex."""
    state = replace(state, simplex=tuple(sorted(simplex)), reflected=None)
    return replace(state, asked=_away(state, 1.0)), "reflecting"


def _away(state: SimplexState, factor: float) -> Setting:
    """The setting at a factor of the way from the worst vertex to the centroid, beyond that; new if it can be."""
    size, worst = len(state.simplex), state.simplex[-1][1]
    centre = [sum(one[i] for _, one in state.simplex) / size for i in range(len(worst))]  # departure 2
    wanted = _nearest(state.knobs, [c + factor * (c - w) for c, w in zip(centre, worst, strict=True)])
    taken = {one for _, one in state.simplex}
    if wanted not in taken:
        return wanted
    for k, knob in enumerate(state.knobs):  # departure 4
        for way in (1, -1):
            moved = (*wanted[:k], knob.domain.clip(wanted[k] + way * knob.domain.step), *wanted[k + 1 :])
            if moved not in taken:
                return moved
    return wanted


def _nearest(knobs: tuple[Knob, ...], point: list[float]) -> Setting:
    """The nearest setting: departure 3."""
    return tuple(knob.domain.clip(x) for knob, x in zip(knobs, point, strict=True))


CONTROLLER = Simplex
