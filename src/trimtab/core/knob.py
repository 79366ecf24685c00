"""A knob: one tunable parameter of a plant, described without its current value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from trimtab.errors import UsageError


class How(StrEnum):
    """How a new value comes into force."""

    LIVE = "live"
    CONNECTIONS = "new connections"
    RELOAD = "reload"
    RESTART = "restart"


class Role(StrEnum):
    """Role of a knob; guards, controllers and reports know a knob by its role, never by its name."""

    WORKER_LIMIT = "limit of workers"
    SPARE_WORKERS = "spare workers"
    POOL_GROWTH = "growth of the pool"
    KEEP_ALIVE = "keep-alive time"
    PROCESS_BUDGET = "process budget"
    CONNECTION_LIMIT = "limit of connections"
    SLICE = "scheduling slice"
    SCHEDULING_POLICY = "scheduling policy"
    PRIORITY = "priority"
    SWAPPINESS = "swappiness"
    POOL_LIMIT = "limit of pooled connections"
    CACHE = "size of a cache"
    LEAST_KEPT = "least that a cache keeps"
    MOST_KEPT = "most that a cache keeps"
    ANSWERS = "whether answers are kept"
    OTHER = "other"


@dataclass(frozen=True)
class Domain:
    """The values a knob may take: `minimum`, `minimum + step`, ... up to `maximum`.

    Args:
        minimum: smallest value, in the knob's unit.
        maximum: largest value, in the knob's unit.
        step: distance of neighbouring values, in the knob's unit.
        limited_by: what sets the maximum and what a larger one would need, for the user.
        choices: names of the values 0, 1, ... where the knob is a choice; empty where it is a number.
        logarithmic: True where a step means a factor, so that a search walks by ratios.
    """

    minimum: int
    maximum: int
    step: int = 1
    limited_by: str = ""
    choices: tuple[str, ...] = ()
    logarithmic: bool = False

    def __post_init__(self) -> None:
        if self.step < 1 or self.minimum > self.maximum:
            raise ValueError(f"no values in {self.minimum}..{self.maximum} by {self.step}")
        if self.choices and (self.minimum, self.maximum, self.step) != (0, len(self.choices) - 1, 1):
            raise ValueError(f"{len(self.choices)} choices are the values 0..{len(self.choices) - 1}")

    @staticmethod
    def choice(*names: str, limited_by: str = "") -> Domain:
        """The domain of a choice among these names; its values are their indices, from 0."""
        return Domain(0, len(names) - 1, 1, limited_by, names)

    @staticmethod
    def switch() -> Domain:
        """The domain of a knob that is off (0) or on (1)."""
        return Domain.choice("off", "on")

    def shown(self, value: int) -> str:
        """A value as the operator reads it: its name where the knob is a choice."""
        return self.choices[value] if 0 <= value < len(self.choices) else str(value)

    def clip(self, value: float) -> int:
        """The member of the domain that is nearest to `value` (which must be finite)."""
        steps = round((value - self.minimum) / self.step)
        last = (self.maximum - self.minimum) // self.step
        return self.minimum + self.step * max(0, min(last, steps))

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int):
            return False
        return self.minimum <= value <= self.maximum and (value - self.minimum) % self.step == 0


@dataclass(frozen=True)
class Identity:
    """Which knob it is, among those of several plants and machines.

    Args:
        node: the machine; empty for the one that trimtab runs on.
        plant: the plant's registered name, or the tier that it is.
        name: the knob's name within that plant.
    """

    node: str
    plant: str
    name: str

    def __str__(self) -> str:
        """The name of the knob where several plants are one, such as `web2:nginx.workers`."""
        return f"{self.node + ':' if self.node else ''}{self.plant}.{self.name}"


@dataclass(frozen=True)
class Knob:
    """One tunable parameter.

    Args:
        name: the name used everywhere in trimtab, such as the worker limit's.
        native_name: the name its own server gives it, such as `MaxRequestWorkers`.
        unit: unit of its value.
        domain: the values it may take on this plant.
        default: the value its server ships with.
        how: how a change comes into force.
        cost: cost of a change, in words; what it took is measured with every change (`Applied.took_s`).
        description: its effect, in one sentence.
        role: its role.
        label: which of several knobs of one role: the class of clients or the pool it is of; may be empty.
        shares: name of the knob that the values of all knobs of this role together stay below; empty when none does.
        tier: the tier of a stack that it is of; empty where there are none.
    """

    name: str
    native_name: str
    unit: str
    domain: Domain
    default: int
    how: How
    cost: str
    description: str
    role: Role = Role.OTHER
    label: str = ""
    shares: str = ""
    tier: str = ""

    def validated(self, value: float) -> int:
        """`value` as a member of the domain.

        Raises:
            UsageError: it is not one.
        """
        if value != int(value) or int(value) not in self.domain:
            d = self.domain
            by = f" in steps of {d.step}" if d.step != 1 else ""
            why = f" ({d.limited_by})" if d.limited_by else ""
            allowed = " or ".join(d.choices) if d.choices else f"{d.minimum}..{d.maximum}{by}"
            shown = str(value)[:40] if isinstance(value, int) else f"{value:g}"
            raise UsageError(f"{self.name} {shown} is outside {allowed}{why}")
        return int(value)


def in_words(values: Mapping[str, int], knobs: Iterable[Knob]) -> str:
    """Values of knobs as the operator reads them, a choice by its name.

    Args:
        values: knob name to value.
        knobs: the knobs whose domains are known; the value of another is shown as a number.
    """
    domains = {knob.name: knob.domain for knob in knobs}
    return ", ".join(f"{name} {domains[name].shown(v) if name in domains else v}" for name, v in values.items())


def of_role(knobs: Iterable[Knob], role: Role) -> Knob | None:
    """The first knob of that role; None where there is none."""
    return next((knob for knob in knobs if knob.role is role), None)


def by_label(knobs: Iterable[Knob], role: Role) -> dict[str, Knob]:
    """The knobs of that role by their labels, in their order."""
    return {knob.label: knob for knob in knobs if knob.role is role}
