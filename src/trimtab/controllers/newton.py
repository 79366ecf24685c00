"""Newton's method on response time as a function of the worker limit (liu2003, section IV.A).

Promises to land on the minimum of a parabola in one step once three of its points are known. Promises nothing under
noise: the second derivative is a difference of differences, so at three points h apart an error of s in each
response time becomes an error of about 2.4 s / h^2 in it, and the step divides by it. The paper reports the same
("different runs of Newton's method can produce very different results") and this file does nothing to hide it.

Equations

    x[k+1] = x[k] - f'(x[k]) / f''(x[k])                                                   Eq. (3)

with both derivatives from the parabola through three measured points a < b < c (divided differences):

    f[a,b] = (f(b) - f(a)) / (b - a)
    f''    = 2 (f[b,c] - f[a,b]) / (c - a)
    f'(x)  = f[a,b] + f'' (2 x - a - b) / 2

which for a = x-h, b = x, c = x+h are the central differences.

    paper   here          unit             shape
    x       x, point      knob's unit      scalar
    f, y    cost          objective's      scalar, the mean of `samples` windows
    grad f  slope         cost per unit    scalar
    hess f  curvature     cost per unit^2  scalar
    k       (a cycle of three measured points)

Departures from the paper
- It does not say where the three samples are taken: here at x, x-h, x+h, in this order, h in proportion to x.
- It says nothing of f'' <= 0, where Eq. (3) would climb: here the next point is h downhill.
- It does not bound the step; where f'' is nearly zero noise makes it arbitrary. Here it is at most `reach` times h,
  because a parabola measured over 2 h says nothing far outside.
- A point that could not be had (the end of the domain, a guard) is replaced by where the server really was; with
  fewer than three different points there is no second derivative, and the next point is h downhill or, on one
  point, h away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trimtab.controllers._knob import integer_knob, require, unjudged
from trimtab.core import Knob, Move, Objective, Trial

Point = tuple[int, float]
"""A value of the knob and the mean cost measured there."""


def derivatives(points: tuple[Point, Point, Point], x: float) -> tuple[float, float]:
    """Slope and curvature at x of the parabola through three points with different abscissae.

    Args:
        points: (knob value, cost), in any order.
        x: where the slope is wanted, in the knob's unit.

    Returns:
        (f'(x), f''), in cost per unit and cost per unit squared.
    """
    (a, fa), (b, fb), (c, fc) = sorted(points)
    left, right = (fb - fa) / (b - a), (fc - fb) / (c - b)
    curvature = 2 * (right - left) / (c - a)
    return left + curvature * (2 * x - a - b) / 2, curvature


@dataclass(frozen=True)
class NewtonState:
    """State of Newton's method.

    Args:
        knob: the knob it moves.
        points: the points of this cycle, the centre first.
        costs: costs of the windows seen so far at the point under way.
        at: the knob's value at which `costs` were measured.
    """

    knob: Knob
    points: tuple[Point, ...] = ()
    costs: tuple[float, ...] = ()
    at: int = 0


@dataclass(frozen=True)
class Newton:
    """Newton's method on one knob.

    Args:
        objective: the objective to minimise.
        probe_ratio: h as a share of x; h is at least one step of the domain.
        reach: longest step of Eq. (3), in multiples of h.
        samples: windows averaged at each point; the paper's method has 1.
        min_samples: requests that a window must have completed to be judged.

    Raises:
        UsageError: an option has a value that cannot be used.
    """

    objective: Objective
    probe_ratio: float = 0.2
    reach: float = 4.0
    samples: int = 1
    min_samples: int = 1

    def __post_init__(self) -> None:
        require(0 < self.probe_ratio < 1, "probe_ratio", self.probe_ratio, "a share between 0 and 1")
        require(self.reach >= 1, "reach", self.reach, "1 or more")
        require(self.samples >= 1, "samples", self.samples, "1 or more")

    def start(self, knobs: tuple[Knob, ...], seed: int) -> NewtonState:
        """The state before the first window; the seed is not used, the method draws nothing."""
        return NewtonState(integer_knob(knobs, "newton"))

    def step(self, state: NewtonState, trial: Trial) -> tuple[NewtonState, Move]:
        """Collects the window; moves to the next of the three points, or by Eq. (3) when there are three."""
        window = trial.window
        missing = unjudged(self.objective, window, state.knob, self.min_samples)
        cost = self.objective.cost(window)
        if missing or cost is None:
            return state, Move.hold(f"newton: {missing}")
        x = window.configuration[state.knob.name]
        costs = (*state.costs, cost) if x == state.at else (cost,)
        state = replace(state, costs=costs, at=x)
        if len(costs) < self.samples:
            return state, Move.hold(f"newton: window {len(costs)} of {self.samples} at {x}", phase="probe")
        points = (*state.points, (x, sum(costs) / len(costs)))
        state = replace(state, points=points, costs=())
        if len(points) < 3:
            return state, self._probe(state.knob, points)
        return replace(state, points=()), self._move(state.knob, points)

    def _h(self, knob: Knob, x: int) -> int:
        """Distance of the probes around x, in the knob's unit."""
        return max(knob.domain.step, round(self.probe_ratio * x))

    def _probe(self, knob: Knob, points: tuple[Point, ...]) -> Move:
        """To the second or third point of a cycle; inwards when the domain ends there."""
        centre = points[0][0]
        h = self._h(knob, centre)
        for offset in (-h, h, 2 * h, -2 * h):
            there = knob.domain.clip(centre + offset)
            if all(there != x for x, _ in points):
                reason = f"newton: probe {len(points) + 1} of 3 around {centre}, h = {h}"
                return Move({knob.name: there}, reason, {"cost": points[-1][1]}, "probe")
        return Move.hold(f"newton: {knob.name} has no third value to probe", cost=points[-1][1])

    def _move(self, knob: Knob, points: tuple[Point, ...]) -> Move:
        """The next centre from three points."""
        x, here = points[0]
        now = points[-1][0]
        h = self._h(knob, x)
        evidence = {"cost": here}
        if len({point[0] for point in points}) == 3:
            slope, curvature = derivatives((points[0], points[1], points[2]), x)
            evidence |= {"slope": slope, "curvature": curvature}
            if curvature > 0:
                raw = -slope / curvature  # Eq. (3)
                by = max(-self.reach * h, min(self.reach * h, raw))
                cut = f", cut to {by:+.1f}" if by != raw else ""
                reason = f"newton: slope {slope:.3g} and curvature {curvature:.3g} at {x} ask for {raw:+.1f}{cut}"
                return _to(knob, now, x + by, reason, evidence, "newton")
            by, why = _downhill(slope, h), f"curvature {curvature:.3g} at {x} is not positive"
        else:
            (a, fa), (b, fb) = min(points), max(points)
            slope = (fb - fa) / (b - a) if b > a else 0.0
            by, why = _downhill(slope, h), "the three points were not at three values"
        return _to(knob, now, x + by, f"newton: {why}, so {by:+d} downhill", evidence, "downhill")


def _to(knob: Knob, now: int, target: float, reason: str, evidence: dict[str, float], phase: str) -> Move:
    """The move to the member of the domain nearest to the target; none when the server is there already."""
    there = knob.domain.clip(target)
    return Move({} if there == now else {knob.name: there}, reason, evidence, phase)


def _downhill(slope: float, h: int) -> int:
    """h against the slope; down on level ground, which frees resources."""
    return h if slope < 0 else -h


CONTROLLER = Newton
