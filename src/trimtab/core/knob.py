"""A knob: one tunable parameter of a plant, described without its current value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trimtab.errors import UsageError

PROCESS_BUDGET = "process_budget"
"""What a class of clients may hold of the workers is the knob of this name, an `@` and the class."""
KEEP_ALIVE = "keep_alive_ms"
"""After how long an idle connection is ended."""


class How(StrEnum):
    """How a new value comes into force."""

    LIVE = "live"
    RELOAD = "reload"
    RESTART = "restart"


@dataclass(frozen=True)
class Domain:
    """The values a knob may take: `minimum`, `minimum + step`, ... up to `maximum`.

    Args:
        minimum: smallest value, in the knob's unit.
        maximum: largest value, in the knob's unit.
        step: distance of neighbouring values, in the knob's unit.
        limited_by: what sets the maximum and what a larger one would need, for the user.
    """

    minimum: int
    maximum: int
    step: int = 1
    limited_by: str = ""

    def __post_init__(self) -> None:
        if self.step < 1 or self.minimum > self.maximum:
            raise ValueError(f"no values in {self.minimum}..{self.maximum} by {self.step}")

    def clip(self, value: float) -> int:
        """The member of the domain that is nearest to `value` (which must be finite)."""
        steps = round((value - self.minimum) / self.step)
        last = (self.maximum - self.minimum) // self.step
        return self.minimum + self.step * max(0, min(last, steps))

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and self.clip(value) == value


@dataclass(frozen=True)
class Knob:
    """One tunable parameter.

    Args:
        name: the name used everywhere in trimtab, such as `max_request_workers`.
        native_name: the name its own server gives it, such as `MaxRequestWorkers`.
        unit: unit of its value.
        domain: the values it may take on this plant.
        default: the value its server ships with.
        how: how a change comes into force.
        cost: what a change costs, in words.
        description: what it does, in one sentence.
    """

    name: str
    native_name: str
    unit: str
    domain: Domain
    default: int
    how: How
    cost: str
    description: str

    def validated(self, value: float) -> int:
        """`value` as a member of the domain.

        Raises:
            UsageError: it is not one.
        """
        if value != int(value) or int(value) not in self.domain:
            d = self.domain
            by = f" in steps of {d.step}" if d.step != 1 else ""
            why = f" ({d.limited_by})" if d.limited_by else ""
            raise UsageError(f"{self.name} {value:g} is outside {d.minimum}..{d.maximum}{by}{why}")
        return int(value)
