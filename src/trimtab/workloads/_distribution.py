"""Distributions of a real number: the Python side of the wire's `Distribution`."""

from __future__ import annotations

import math
from typing import ClassVar

import msgspec

from trimtab.errors import UsageError
from trimtab.workloads._tagged import Tagged


class _Distribution(Tagged, frozen=True):
    """Base of all distributions: finite parameters."""

    positive: ClassVar[tuple[str, ...]] = ()
    not_negative: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, value in msgspec.structs.asdict(self).items():
            what = f"{name} {value} of a {self.__struct_config__.tag} distribution is not allowed: it must be"
            if not math.isfinite(value):
                raise UsageError(f"{what} finite")
            if name in self.positive and value <= 0:
                raise UsageError(f"{what} more than 0")
            if name in self.not_negative and value < 0:
                raise UsageError(f"{what} at least 0")


class Constant(_Distribution, frozen=True):
    """Always the same value.

    Args:
        value: the value, at least 0.
    """

    value: float
    not_negative = ("value",)


class Exponential(_Distribution, frozen=True):
    """Exponential.

    Args:
        mean: mean, more than 0.
    """

    mean: float
    positive = ("mean",)


class ClippedExponential(_Distribution, frozen=True):
    """Exponential, with every longer value made the longest: min(X, most).

    Args:
        mean: mean before that, more than 0.
        most: longest value, more than 0.
    """

    mean: float
    most: float
    positive = ("mean", "most")


class Lognormal(_Distribution, frozen=True):
    """Lognormal, by the moments of the value itself and not of its logarithm.

    Args:
        mean: mean of the value, more than 0.
        sigma: standard deviation of the value, at least 0.
    """

    mean: float
    sigma: float
    positive = ("mean",)
    not_negative = ("sigma",)


class Gaussian(_Distribution, frozen=True):
    """Normal; who uses the value truncates it.

    Args:
        mean: mean before truncation.
        sigma: standard deviation before truncation, at least 0.
    """

    mean: float
    sigma: float
    not_negative = ("sigma",)


class Pareto(_Distribution, frozen=True):
    """Pareto: P(X > x) = (scale / x) ** shape for x >= scale.

    Args:
        scale: smallest value, more than 0.
        shape: tail index, more than 0; up to 1 the mean is infinite.
    """

    scale: float
    shape: float
    positive = ("scale", "shape")


class BoundedPareto(_Distribution, frozen=True):
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
    positive = ("scale", "shape", "most")
    not_negative = ("offset",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.most <= self.scale:
            what = f"most {self.most} of a {self.__struct_config__.tag} distribution"
            raise UsageError(f"{what} is not allowed: it must be more than scale {self.scale}")


class Weibull(_Distribution, frozen=True):
    """Weibull: P(X > x) = exp(-(x / scale) ** shape).

    Args:
        scale: scale, more than 0.
        shape: shape, more than 0.
    """

    scale: float
    shape: float
    positive = ("scale", "shape")


class BoundedWeibull(_Distribution, frozen=True):
    """Weibull cut off at its largest value: X given that X <= most.

    Args:
        scale: scale, more than 0.
        shape: shape, more than 0.
        most: largest value, more than 0.
    """

    scale: float
    shape: float
    most: float
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
