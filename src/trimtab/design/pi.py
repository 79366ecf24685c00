"""Searches the gain and the zero of a PI controller that meets a specification with the largest stability margin.

Promises a stable closed loop that meets every part of the specification, the one with the largest stability margin
of all that the search has seen; or the reason why there is none, with the best that there is. It is a pure function
of the model and the specification.

    maximise  min over w of |1 + D(e^jw) G(e^jw)|   over g, r
    subject to  |p_j| < 1,   T_s,   E_s and overshoot within the specification

| paper    | here                 | unit             | shape  |
|----------|----------------------|------------------|--------|
| g        | Design.gain          | input per output | scalar |
| r        | Design.zero          | -                | scalar |
| p_j      | Design.poles         | -                | n + 1  |
| T_s      | Design.settling_s    | s                | scalar |
| E_s      | Design.steady_state_error_ratio | of the reference | scalar |

The gain has the sign of the model's own gain. The zero is between 0 and 1, so that the controller has a
proportional part of the same sign. A grid over both is refined three times around its best point; the margin has
many maxima at the edge of a settling time that is counted in whole samples, so a gradient would find one of them.

Departures from the paper: it places poles by eye on the root locus and gives no rule. Any of its designs may be
judged by `judged`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from trimtab.design.poles import INSIDE, Loop, horizon, nyquist_distance, radii, radius, stepped
from trimtab.design.specification import Specification, overshoot_ratio, settling_samples
from trimtab.errors import UsageError
from trimtab.identification.model import Model

_GAINS, _ZEROS, _ROUNDS = 48, 25, 3
_GAIN_RANGE = (1e-2, 1e2)
"""The gains that are tried, times the model's own gain."""
_LARGEST_ZERO = 0.98
_MOST = 1e60
"""A gain or a zero above it, also by the model's, is a slip of the keyboard, and leaves the poles no digits."""
_TRIED_POINTS = 64
"""Frequencies at which the margin of a candidate is looked at; that of the result is exact."""


@dataclass(frozen=True)
class Design:
    """A PI controller for a model, with the properties of the closed loop.

    Args:
        model: the model it is designed for.
        gain: g.
        zero: r.
        poles: poles of the closed loop.
        settling_s: settling time, in seconds; None when the response does not settle.
        overshoot_ratio: overshoot, of the reference.
        steady_state_error_ratio: steady-state error, of the reference; None for a loop that is not stable.
        margin: stability margin, from 0 to 1.
        gain_margin: the factor by which the gain may be wrong.
        response: output at the samples 0, 1, ... after a unit step of the reference.
        period_s: sampling period, in seconds.
    """

    model: Model
    gain: float
    zero: float
    poles: tuple[complex, ...]
    settling_s: float | None
    overshoot_ratio: float
    steady_state_error_ratio: float | None
    margin: float
    gain_margin: float
    response: tuple[float, ...]
    period_s: float

    @property
    def stable(self) -> bool:
        """Whether every pole is inside the unit circle."""
        return all(abs(pole) < INSIDE for pole in self.poles)

    def body(self) -> dict[str, Any]:
        """This design as JSON has it: complex numbers as [real, imaginary], an infinite margin as null."""
        return {
            "model": {"a": list(self.model.a), "b": list(self.model.b)},
            "gain": self.gain,
            "zero": self.zero,
            "stable": self.stable,
            "poles": [[pole.real, pole.imag] for pole in self.poles],
            "settling_s": self.settling_s,
            "overshoot_ratio": self.overshoot_ratio,
            "steady_state_error_ratio": self.steady_state_error_ratio,
            "stability_margin": self.margin,
            "gain_margin": self.gain_margin if math.isfinite(self.gain_margin) else None,
            "period_s": self.period_s,
            "step_response": list(self.response),
        }


def judged(model: Model, gain: float, zero: float, specification: Specification) -> Design:
    """Closed loop of a PI controller and a model, as a design.

    Args:
        model: the plant's model.
        gain: g.
        zero: r.
        specification: gives the sampling period and the vicinity of the reference.

    Raises:
        UsageError: the gain is 0, or it or the zero is not finite or too large to compute with.
    """
    largest = gain * (1.0 + abs(zero)) * sum(map(abs, model.b))
    if not 0.0 < abs(largest) < math.inf:
        raise UsageError(f"gain {gain:g}, zero {zero:g}: both must be finite, and the gain not 0")
    if abs(largest) > _MOST or abs(gain) > _MOST or abs(zero) > _MOST:
        raise UsageError(f"gain {gain:g}, zero {zero:g}, model {model}: too large to compute with")
    loop = Loop(model, gain, zero)
    response = loop.step_response()
    stable = loop.radius() < INSIDE
    settled = settling_samples(response, specification.band_ratio) if stable else None
    return Design(
        model=model,
        gain=gain,
        zero=zero,
        poles=loop.poles(),
        settling_s=None if settled is None else settled * specification.period_s,
        overshoot_ratio=overshoot_ratio(response),
        steady_state_error_ratio=abs(1.0 - loop.steady_state()) if stable else None,
        margin=loop.stability_margin(),
        gain_margin=loop.gain_margin(),
        response=response,
        period_s=specification.period_s,
    )


def failing(design: Design, specification: Specification) -> str:
    """Which parts of a specification a design does not meet, in words; empty when it meets all."""
    if not design.stable:
        return "the closed loop is not stable"
    faults = []
    if design.settling_s is None or design.settling_s > specification.settling_s + 1e-9:
        found = "never" if design.settling_s is None else f"in {design.settling_s:g} s"
        faults.append(f"it settles {found}, wanted is {specification.settling_s:g} s")
    error = design.steady_state_error_ratio
    if error is not None and error > specification.steady_state_error_ratio:
        faults.append(f"its steady-state error is {error:.3f}, wanted is {specification.steady_state_error_ratio:g}")
    most = specification.overshoot_ratio
    if most is not None and design.overshoot_ratio > most + 1e-9:
        faults.append(f"it overshoots by {design.overshoot_ratio:.3f}, wanted is {most:g}")
    return "; ".join(faults)


def designed(model: Model, specification: Specification) -> Design:
    """The controller that meets a specification with the largest stability margin.

    Args:
        model: model of the plant.
        specification: specification of the closed loop.

    Raises:
        UsageError: the model cannot be controlled, or no controller meets the specification; with the reason.
    """
    search = _Search(model.usable(), specification)
    own = abs(model.gain)
    low, high = (math.log(factor / own) for factor in _GAIN_RANGE)
    left, right = 0.0, _LARGEST_ZERO
    best: _Tried | None = None
    for _ in range(_ROUNDS):
        best = search.best(_grid(low, high, _GAINS), _zeros(model, left, right, _ZEROS), best)
        if best is None:  # only a finer grid has the right to say that there is none
            best = search.best(_grid(low, high, 3 * _GAINS), _zeros(model, left, right, 3 * _ZEROS), None)
        if best is None:
            raise UsageError(search.refusal())
        step, slip = (high - low) / _GAINS, (right - left) / _ZEROS
        low, high = math.log(abs(best.gain)) - 2 * step, math.log(abs(best.gain)) + 2 * step
        left, right = max(0.0, best.zero - 2 * slip), min(_LARGEST_ZERO, best.zero + 2 * slip)
    assert best is not None
    return judged(model, *_rounded(best, search), specification)


def _grid(low: float, high: float, points: int) -> np.ndarray:
    """Gains between two logarithms, evenly spaced in them."""
    gains: np.ndarray = np.exp(np.linspace(low, high, points))
    return gains


def _zeros(model: Model, left: float, right: float, points: int) -> np.ndarray:
    """Zeros between two, and those that cancel a pole of the model."""
    own = [pole.real for pole in model.poles() if abs(pole.imag) < 1e-9 and left <= pole.real <= right]
    return np.array([*np.linspace(left, right, points), *own])


@dataclass(frozen=True)
class _Tried:
    """One point of the search."""

    gain: float
    zero: float
    margin: float
    radius: float


class _Search:
    """The points that were tried, and the fastest of them for the refusal."""

    def __init__(self, model: Model, specification: Specification) -> None:
        self.model, self.specification = model, specification
        self.horizon = max(20, 3 * specification.samples)
        self.fastest: tuple[int, _Tried] | None = None
        self.calmest = math.inf

    def best(self, gains: np.ndarray, zeros: np.ndarray, best: _Tried | None) -> _Tried | None:
        """The point of a grid with the largest margin that meets the specification, or the one from before."""
        grid_gains, grid_zeros = (axis.ravel() for axis in np.meshgrid(np.sign(self.model.gain) * gains, zeros))
        margins = nyquist_distance(self.model, grid_gains, grid_zeros, _TRIED_POINTS)
        columns = grid_gains, grid_zeros, margins, radii(self.model, grid_gains, grid_zeros)
        for index in np.argsort(-margins, kind="stable"):
            point = _Tried(*(float(column[index]) for column in columns))
            if best is not None and point.margin <= best.margin:
                break
            if self.meets(point):
                return point
        return best

    def meets(self, point: _Tried) -> bool:
        """Whether a point meets the specification; with integral control the steady-state error is then 0."""
        if point.radius >= INSIDE:
            return False
        length = max(self.horizon, horizon(point.radius)) + 1
        response = stepped(self.model, point.gain, point.zero, length)
        settled, over = settling_samples(response, self.specification.band_ratio), overshoot_ratio(response)
        most = self.specification.overshoot_ratio
        self.calmest = min(self.calmest, over)
        if most is not None and over > most + 1e-9:
            return False
        if settled is not None and (self.fastest is None or settled < self.fastest[0]):
            self.fastest = (settled, point)
        return settled is not None and settled <= self.specification.samples

    def refusal(self) -> str:
        """Why there is no controller, in one line."""
        wanted = f"no gain and zero meet the specification ({self.specification}) with the model {self.model}"
        if self.fastest is None:
            if self.calmest < math.inf:
                return (
                    f"{wanted}: none settles within {self.horizon} samples, the least overshoot is {self.calmest:.3f}"
                )
            return f"{wanted}: none makes the closed loop stable"
        settled, point = self.fastest
        allowed = settled * self.specification.period_s
        return f"{wanted}: the fastest takes {allowed:g} s, with gain {point.gain:.3g} and zero {point.zero:.3g}"


def _rounded(best: _Tried, search: _Search) -> tuple[float, float]:
    """Gain and zero in as few digits as still meet the specification, as a person would write them."""
    for digits in (2, 3, 4):
        gain, zero = float(f"{best.gain:.{digits}g}"), round(best.zero, digits)
        if search.meets(_Tried(gain, zero, best.margin, radius(search.model, gain, zero))):
            return gain, zero
    return best.gain, best.zero
