"""The difference equation that a server is modelled with: lu2001, Eq. (2).

    V(m) = sum over j = 1..n of a_j V(m-j) + b_j U(m-j)                                      Eq. (2)

| paper | here    | unit                                                  | shape  |
|-------|---------|-------------------------------------------------------|--------|
| a_j   | Model.a | -                                                     | n      |
| b_j   | Model.b | output per input                                      | n      |
| V     | output  | relative: ratio of delays; absolute: s                | scalar |
| U     | input   | relative: ratio of budgets; absolute: processes       | scalar |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.errors import UsageError
from trimtab.identification.signals import Kind

LEAST_GAIN = 1e-9
"""A steady-state gain nearer to 0 than this is none."""


@dataclass(frozen=True)
class Model:
    """An n-th order model.

    Args:
        a: weights of the n previous outputs, the latest first.
        b: weights of the n previous inputs, the latest first.

    Raises:
        UsageError: not as many of the one as of the other, none, or one that is not finite.
    """

    a: tuple[float, ...]
    b: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.a or len(self.a) != len(self.b):
            raise UsageError(f"a model needs as many a as b, at least one of each: it has {self.a} and {self.b}")
        if not all(math.isfinite(value) for value in (*self.a, *self.b)):
            raise UsageError(f"a model needs finite parameters: it has {self}")

    @staticmethod
    def of(theta: Sequence[float]) -> Model:
        """The model with these parameters, those of the outputs before those of the inputs."""
        half = len(theta) // 2
        return Model(tuple(theta[:half]), tuple(theta[half:]))

    @property
    def order(self) -> int:
        """n."""
        return len(self.a)

    @property
    def theta(self) -> tuple[float, ...]:
        """The parameters, those of the outputs before those of the inputs."""
        return (*self.a, *self.b)

    @property
    def gain(self) -> float:
        """How much the output changes in the end per unit of input; infinite when it never ends."""
        rest = 1.0 - sum(self.a)
        return sum(self.b) / rest if rest else math.inf

    def predicted(self, regressor: Sequence[float]) -> float:
        """The next output, from the n latest outputs and the n latest inputs."""
        return math.fsum(p * q for p, q in zip(self.theta, regressor, strict=True))  # Eq. (2)

    def poles(self) -> tuple[complex, ...]:
        """The roots of z^n - a_1 z^(n-1) - ... - a_n, the slowest first."""
        roots = np.roots([1.0, *(-value for value in self.a)])
        return tuple(sorted((complex(root) for root in roots), key=abs, reverse=True))

    def usable(self) -> Model:
        """This model, once it is known that a controller can be designed from it.

        Raises:
            UsageError: it is unstable, or its input has no lasting effect on its output.
        """
        slowest = abs(self.poles()[0]) if any(self.a) else 0.0
        if slowest >= 1.0:
            raise UsageError(
                f"the model {self} is unstable (a pole at radius {slowest:.3f}, allowed is below 1): identify again, "
                "longer or under a steadier load"
            )
        if abs(self.gain) < LEAST_GAIN:
            raise UsageError(f"the model {self} cannot be controlled: its input has no lasting effect on its output")
        return self

    def __str__(self) -> str:
        return ",".join(f"{value:.4g}" for value in self.theta)


def parse_model(text: str) -> Model:
    """The model in a text such as `0.74,-0.37,0.95,-0.12`: a1,..,an,b1,..,bn.

    Raises:
        UsageError: it is not one.
    """
    try:
        theta = [float(part) for part in text.split(",")]
    except ValueError:
        theta = []
    if not theta or len(theta) % 2:
        raise UsageError(f"--model {text!r} is no model: write a1,..,an,b1,..,bn, such as 0.74,-0.37,0.95,-0.12")
    return Model.of(theta)


PAPER = {
    Kind.RELATIVE: Model((0.74, -0.37), (0.95, -0.12)),
    Kind.ABSOLUTE: Model((-0.08, -0.2), (-0.2, -0.05)),
}
"""The models of lu2001, Eq. (6b) and (6c), for its own server."""
