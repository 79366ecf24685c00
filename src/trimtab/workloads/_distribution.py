"""Distributions of a real number: the Python side of the wire's `Distribution`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import ClassVar

from trimtab.errors import UsageError


class _Distribution:
    """Base of all distributions: a kind and finite parameters."""

    kind: ClassVar[str]
    positive: ClassVar[tuple[str, ...]] = ()
    not_negative: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():  # type: ignore[call-overload]
            what = f"{name} {value} of a {self.kind} distribution is not allowed: it must be"
            if not math.isfinite(value):
                raise UsageError(f"{what} finite")
            if name in self.positive and value <= 0:
                raise UsageError(f"{what} more than 0")
            if name in self.not_negative and value < 0:
                raise UsageError(f"{what} at least 0")


@dataclass(frozen=True)
class Constant(_Distribution):
    """Always the same value.

    Args:
        value: the value, at least 0.
    """

    value: float
    kind = "constant"
    not_negative = ("value",)


@dataclass(frozen=True)
class Exponential(_Distribution):
    """Exponential.

    Args:
        mean: mean, more than 0.
    """

    mean: float
    kind = "exponential"
    positive = ("mean",)


@dataclass(frozen=True)
class ClippedExponential(_Distribution):
    """Exponential, with every longer value made the longest: min(X, most).

    Args:
        mean: mean before that, more than 0.
        most: longest value, more than 0.
    """

    mean: float
    most: float
    kind = "clipped_exponential"
    positive = ("mean", "most")


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


@dataclass(frozen=True)
class BoundedPareto(_Distribution):
    """Pareto cut off at its largest value, moved by an offset: offset + X, given that X <= most.

    Args:
        scale: smallest value before the offset, more than 0.
        shape: tail index, more than 0.
        most: largest value before the offset, more than `scale`.
        offset: added to every value, at least 0.
    """

    scale: float
    shape: float
    most: float
    offset: float = 0.0
    kind = "bounded_pareto"
    positive = ("scale", "shape", "most")
    not_negative = ("offset",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.most <= self.scale:
            what = f"most {self.most} of a {self.kind} distribution"
            raise UsageError(f"{what} is not allowed: it must be more than scale {self.scale}")


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


@dataclass(frozen=True)
class BoundedWeibull(_Distribution):
    """Weibull cut off at its largest value: X given that X <= most.

    Args:
        scale: scale, more than 0.
        shape: shape, more than 0.
        most: largest value, more than 0.
    """

    scale: float
    shape: float
    most: float
    kind = "bounded_weibull"
    positive = ("scale", "shape", "most")


Distribution = (
    Constant
    | Exponential
    | ClippedExponential
    | Lognormal
    | Gaussian
    | Pareto
    | BoundedPareto
    | Weibull
    | BoundedWeibull
)
