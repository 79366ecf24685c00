"""Distributions of a real number: the Python side of the wire's `Distribution`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from trimtab.errors import UsageError


class _Distribution:
    """What all have in common: a kind, finite parameters, a mean."""

    kind: ClassVar[str]
    positive: ClassVar[tuple[str, ...]] = ()
    not_negative: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, value in self._parameters().items():
            what = f"{name} {value} of a {self.kind} distribution is not allowed: it must be"
            if not math.isfinite(value):
                raise UsageError(f"{what} finite")
            if name in self.positive and value <= 0:
                raise UsageError(f"{what} more than 0")
            if name in self.not_negative and value < 0:
                raise UsageError(f"{what} at least 0")

    def _parameters(self) -> dict[str, float]:
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    def to_wire(self) -> dict[str, Any]:
        """This distribution as the native programs read it."""
        return {"kind": self.kind, **self._parameters()}


@dataclass(frozen=True)
class Constant(_Distribution):
    """Always the same value.

    Args:
        value: it, at least 0.
    """

    value: float
    kind = "constant"
    not_negative = ("value",)

    @property
    def mean_value(self) -> float:
        """The mean."""
        return self.value


@dataclass(frozen=True)
class Exponential(_Distribution):
    """Exponential.

    Args:
        mean: mean, more than 0.
    """

    mean: float
    kind = "exponential"
    positive = ("mean",)

    @property
    def mean_value(self) -> float:
        """The mean."""
        return self.mean


@dataclass(frozen=True)
class Lognormal(_Distribution):
    """Lognormal, by the moments of the value itself and not of its logarithm.

    Args:
        mean: mean of the value, more than 0.
        sigma: standard deviation of the value, at least 0.
    """

    mean: float
    sigma: float
    kind = "lognormal"
    positive = ("mean",)
    not_negative = ("sigma",)

    @property
    def mean_value(self) -> float:
        """The mean."""
        return self.mean


@dataclass(frozen=True)
class Gaussian(_Distribution):
    """Normal; who uses the value truncates it.

    Args:
        mean: mean before truncation.
        sigma: standard deviation before truncation, at least 0.
    """

    mean: float
    sigma: float
    kind = "gaussian"
    not_negative = ("sigma",)

    @property
    def mean_value(self) -> float:
        """The mean before truncation."""
        return self.mean


@dataclass(frozen=True)
class Pareto(_Distribution):
    """Pareto: P(X > x) = (scale / x) ** shape for x >= scale.

    Args:
        scale: smallest value, more than 0.
        shape: tail index, more than 0; up to 1 the mean is infinite.
    """

    scale: float
    shape: float
    kind = "pareto"
    positive = ("scale", "shape")

    @property
    def mean_value(self) -> float:
        """The mean; infinite for a shape up to 1."""
        return math.inf if self.shape <= 1 else self.shape * self.scale / (self.shape - 1)


@dataclass(frozen=True)
class Weibull(_Distribution):
    """Weibull: P(X > x) = exp(-(x / scale) ** shape).

    Args:
        scale: scale, more than 0.
        shape: shape, more than 0.
    """

    scale: float
    shape: float
    kind = "weibull"
    positive = ("scale", "shape")

    @property
    def mean_value(self) -> float:
        """The mean."""
        return self.scale * math.gamma(1 + 1 / self.shape)


Distribution = Constant | Exponential | Lognormal | Gaussian | Pareto | Weibull
