"""A plant: a system under control, its sensors and its clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from trimtab.core.knob import Knob
from trimtab.core.window import Configuration, Readings


class Clock(Protocol):
    """Time as the loop sees it: the machine's, or a simulator's."""

    def now_s(self) -> float:
        """Seconds since an arbitrary origin; never runs backwards."""
        ...

    def sleep(self, duration_s: float) -> None:
        """Returns when that much time has passed on this clock."""
        ...


class Sensor(Protocol):
    """Turns a running thing into named readings.

    The loop calls `begin`, then `sample` every `sampling_period_s` (never, when that is 0), then `read`, which
    may be called in mid-window too: it gives the readings since `begin` and does not end anything.
    """

    name: str
    sampling_period_s: float
    cheap: bool
    """True when `read` costs so little, and touches the server so little, that it may be called in mid-window."""

    def begin(self) -> None:
        """Marks the start of a window.

        Raises:
            NotMeasured: the source cannot be read; the window goes on without this sensor.
        """
        ...

    def sample(self) -> None:
        """Takes one sample of a quantity that has to be averaged over time."""
        ...

    def read(self) -> Readings:
        """The readings since `begin`, by metric name.

        Raises:
            NotMeasured: the source cannot be read, with the reason in one line.
        """
        ...

    def close(self) -> None:
        """Gives back descriptors; may be called twice."""
        ...


@dataclass(frozen=True)
class Applied:
    """What came of a change.

    Args:
        configuration: what is in force now, read back from the running system.
        took_s: time until the change was seen to be in effect.
        notes: what the user should know, one line each.
    """

    configuration: Configuration
    took_s: float = 0.0
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Habits:
    """How a plant is tuned where the user does not say otherwise; a plant's module names its own in `HABITS`.

    Args:
        controller: the controller's registered name.
        minimize: the metric to make least.
        window: length of a window, as a user writes it.
    """

    controller: str = "trim"
    minimize: str = "response_time_s"
    window: str = "10s"


class Plant(Protocol):
    """A system under control. Its module names the class in `PLANT`."""

    name: str

    @property
    def clock(self) -> Clock:
        """The clock that this plant lives by: the machine's, or a simulator's."""
        ...

    def knobs(self) -> tuple[Knob, ...]:
        """The knobs that can be moved here, with the domains that hold for this installation."""
        ...

    def sensors(self) -> tuple[Sensor, ...]:
        """The sensors that work here."""
        ...

    def configuration(self) -> Configuration:
        """What is in force now, read from the running system.

        Raises:
            OperatorEdit: a knob that trimtab has set now has another value.
            PlantGone: the server has ended.
        """
        ...

    def derive(self, readings: Readings) -> Readings:
        """Readings that follow from those of several sensors, such as Eq. (1) of liu2003; a pure function."""
        ...

    def apply(self, changes: Mapping[str, int]) -> Applied:
        """Brings the changes into force: all of them or none.

        Raises:
            ApplyRefused: not valid; nothing changed.
            ApplyFailed: did not take; what was before is restored.
            OperatorEdit: a knob was edited from outside.
            PlantGone: the server ended.
        """
        ...

    def restore(self) -> None:
        """Puts back the configuration that was in force before the first `apply`; may be called twice."""
        ...

    def close(self) -> None:
        """Gives back what the plant holds, without changing the server; may be called twice."""
        ...

    def undo_script(self) -> str:
        """A POSIX shell script that undoes what `apply` has done, for a user without trimtab."""
        ...
