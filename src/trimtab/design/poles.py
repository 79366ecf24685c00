"""The closed loop of a model and a PI controller in the z-domain: lu2001, Section 5.3.

    G(z)  = (b_1 z^(n-1) + ... + b_n) / (z^n - a_1 z^(n-1) - ... - a_n)                       Eq. (7)
    D(z)  = g (z - r) / (z - 1)                                                              Eq. (8)
    Gc(z) = D(z) G(z) / (1 + D(z) G(z))                                                      Eq. (9)

| paper    | here        | unit             | shape  |
|----------|-------------|------------------|--------|
| g        | gain        | input per output | scalar |
| r        | zero        | -                | scalar |
| p_0, ... | poles       | -                | n + 1  |

The stability margin is the least distance of the Nyquist curve of D(z) G(z) from -1: 1 for no feedback, 0 at the
limit of stability. In whatever way gain and phase are wrong together, the loop stays stable while the relative error
of D(z) G(z) + 1 is less. The gain margin is the factor by which the gain alone may be wrong.

Departures from the paper: MATLAB there is python-control here. It and scipy are imported where they are used:
together they take a second, which a help text and a controller that may never need them should not cost.
"""

from __future__ import annotations

import importlib
import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trimtab.identification.model import Model

SHOWN_SAMPLES = 20
"""A step response is drawn for at least this many samples."""

INSIDE = 1 - 1e-9
"""A pole as near to the unit circle as this is on it: with a zero of 1, which takes the integral part away, that at 1
stays, and rounding moves it to either side."""

_LONGEST = 2000
_NEGLIGIBLE = 1e-3


@dataclass(frozen=True)
class Loop:
    """A closed loop.

    Args:
        model: model of the plant.
        gain: g.
        zero: r.
    """

    model: Model
    gain: float
    zero: float

    def open(self) -> Any:
        """D(z) G(z), a transfer function of python-control."""
        control = _control()
        plant = control.tf(list(self.model.b), [1.0, *(-a for a in self.model.a)], 1)  # Eq. (7)
        controller = control.tf([self.gain, -self.gain * self.zero], [1.0, -1.0], 1)  # Eq. (8)
        return controller * plant

    def closed(self) -> Any:
        """Gc(z), a transfer function of python-control."""
        return _control().feedback(self.open(), 1)  # Eq. (9)

    def poles(self) -> tuple[complex, ...]:
        """The poles of Gc(z): the real ones first, the slowest of each kind first, then the pairs."""
        found = [complex(pole) for pole in self.closed().poles()]
        return tuple(sorted(found, key=lambda p: (abs(p.imag) > 1e-9, -round(abs(p), 9), -p.imag)))

    def radius(self) -> float:
        """The distance of the slowest pole from the origin; below 1 for a stable loop."""
        return max(abs(pole) for pole in self.poles())

    def step_response(self, samples: int | None = None) -> tuple[float, ...]:
        """The output at the samples 0, 1, ... after a unit step of the reference at 0.

        Args:
            samples: how many; until the slowest pole has died away when None.
        """
        control = _control()
        last = (samples or horizon(self.radius()) + 1) - 1
        with np.errstate(over="ignore", invalid="ignore"):  # a loop that is not stable may leave all bounds
            _, response = control.step_response(self.closed(), np.arange(last + 1))
        return tuple(float(value) for value in np.ravel(response))

    def steady_state(self) -> float:
        """Gc(1), the output in the end for a reference of 1; by the final value theorem, for a stable loop."""
        closed = self.closed()
        return float(np.polyval(closed.num[0][0], 1.0) / np.polyval(closed.den[0][0], 1.0))

    def stability_margin(self) -> float:
        """The least distance of the Nyquist curve from -1; 0 for a loop that is not stable."""
        if self.radius() >= INSIDE:
            return 0.0
        return float(nyquist_distance(self.model, np.array([self.gain]), np.array([self.zero]))[0])

    def gain_margin(self) -> float:
        """The factor of the gain at which the loop becomes unstable; infinite when none does, 0 when it is."""
        if self.radius() >= INSIDE:
            return 0.0
        from scipy.optimize import brentq

        def beyond(factor: float) -> float:
            return radius(self.model, self.gain * factor, self.zero) - 1.0

        for stable, unstable in itertools.pairwise(np.geomspace(1.0, 1e3, 400)):
            if beyond(unstable) >= 0:
                return float(brentq(beyond, stable, unstable, rtol=1e-9))
        return math.inf


def characteristic(model: Model, gain: float, zero: float) -> np.ndarray:
    """The coefficients of (z - 1) A(z) + g (z - r) B(z), whose roots are the closed-loop poles, the highest first."""
    own = np.convolve([1.0, -1.0], [1.0, *(-a for a in model.a)])
    own[-model.order - 1 :] += gain * np.convolve([1.0, -zero], model.b)
    return own


def horizon(slowest: float) -> int:
    """Samples until a pole has died away to a thousandth, and half as many again.

    Args:
        slowest: distance of the slowest pole from the origin.

    Returns:
        20 to 2000.
    """
    if slowest >= 1:
        return SHOWN_SAMPLES
    decay = math.log(_NEGLIGIBLE) / math.log(max(slowest, _NEGLIGIBLE))
    return max(SHOWN_SAMPLES, min(_LONGEST, math.ceil(1.5 * decay)))


def radius(model: Model, gain: float, zero: float) -> float:
    """The distance of the slowest closed-loop pole from the origin."""
    return float(np.max(np.abs(np.roots(characteristic(model, gain, zero)))))


def radii(model: Model, gains: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    """`radius` of many loops at once, which is faster: the eigenvalues of their companion matrices.

    Args:
        model: model of the plant.
        gains: g of each loop.
        zeros: r of each loop, as many.
    """
    size = model.order + 1
    own = np.tile(np.convolve([1.0, -1.0], [1.0, *(-a for a in model.a)]), (len(gains), 1))
    own[:, 1:] += gains[:, None] * (np.array([*model.b, 0.0]) - zeros[:, None] * np.array([0.0, *model.b]))
    companions = np.zeros((len(gains), size, size))
    companions[:, 0] = -own[:, 1:]
    companions[:, np.arange(1, size), np.arange(size - 1)] = 1.0
    found: np.ndarray = np.abs(np.linalg.eigvals(companions)).max(axis=1)
    return found


def stepped(model: Model, gain: float, zero: float, samples: int) -> np.ndarray:
    """The step response by the closed loop's own difference equation: fast enough for a search.

    Args:
        model: model of the plant.
        gain: g.
        zero: r.
        samples: how many, from 0 on.
    """
    from scipy.signal import lfilter

    denominator = characteristic(model, gain, zero)
    numerator = np.zeros_like(denominator)
    numerator[-model.order - 1 :] = gain * np.convolve([1.0, -zero], model.b)
    response: np.ndarray = lfilter(numerator, denominator, np.ones(samples))
    return response


def nyquist_distance(model: Model, gains: np.ndarray, zeros: np.ndarray, points: int = 512) -> np.ndarray:
    """The least distance of each loop's Nyquist curve from -1; says nothing of a loop that is not stable.

    Args:
        model: model of the plant.
        gains: g of each loop.
        zeros: r of each loop, as many.
        points: frequencies, evenly spaced up to the Nyquist frequency.
    """
    z = np.exp(1j * np.linspace(np.pi / points, np.pi, points))
    plant = np.polyval([0.0, *model.b], z) / np.polyval([1.0, *(-a for a in model.a)], z)
    controller = gains[:, None] * (z[None, :] - zeros[:, None]) / (z[None, :] - 1.0)
    distance: np.ndarray = np.abs(1.0 + controller * plant[None, :]).min(axis=1)
    return distance


def _control() -> Any:
    """python-control; it loads matplotlib, which is loaded our way first."""
    importlib.import_module("trimtab.drawing")
    return importlib.import_module("control")


def root_locus(model: Model, zero: float, gains: Sequence[float]) -> tuple[tuple[complex, ...], ...]:
    """The closed-loop poles at each gain, so ordered that each position follows one pole: Fig. 3.

    Args:
        model: model of the plant.
        zero: r.
        gains: g, in order.
    """
    control = _control()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a negative gain is meant: the model's own is negative too
        found = control.root_locus_map(Loop(model, 1.0, zero).open(), gains=np.asarray(gains))
    return tuple(tuple(complex(pole) for pole in row) for row in found.loci)
