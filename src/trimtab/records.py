"""Records of a run that the store keeps, as types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trimtab import codec
from trimtab.core import Configuration, Knob, Move, MoveState, Subject
from trimtab.errors import StoreError
from trimtab.events import Status
from trimtab.guarantee import DelayGuarantee
from trimtab.processes import Process
from trimtab.settings import Settings
from trimtab.trials import EXTRA as SEARCH
from trimtab.trials import Search

T = TypeVar("T")
GUARANTEE = "guarantee"
CHOICES = "choices"
"""Under which a plan keeps the knobs beside those that may be moved whose values have names."""


@dataclass(frozen=True)
class Plan:
    """All that is known of a run before its first window: enough to repeat and replay it.

    What undoes it is not stored: text that is executed later would have to be believed. The plant makes it anew.

    Args:
        command: the command line without the program, from which its plant can be attached to again; empty when
            it was not started from the command line.
        directory: the working directory of the command, from which its relative paths start.
        subjects: the plants that it is about.
        knobs: those the controller may move, in its order.
        controller: the controller's registered name.
        controller_options: its options, without the objective.
        settings: how the run goes.
        initial: the configuration in force before the run.
        host: facts of the machine and the versions of the programs.
        label: name of the run in its group, such as "baseline" or "trim"; may be empty.
        group: the comparison it belongs to, such as "2026-11-21-dynamic"; may be empty.
        workload: the traffic, where it is known; may be empty.
        extras: entries that only some runs have, by name, as `codec.builtins` gives it; read by `extra`.
    """

    command: tuple[str, ...]
    directory: str
    subjects: tuple[Subject, ...]
    knobs: tuple[Knob, ...]
    controller: str
    controller_options: Mapping[str, Any]
    settings: Settings
    initial: Configuration
    host: Mapping[str, str | int | float] = field(default_factory=dict)
    label: str = ""
    group: str = ""
    workload: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def plant(self) -> str:
        """The plants' registered names in one."""
        return "+".join(subject.plant for subject in self.subjects)

    @property
    def known(self) -> tuple[Knob, ...]:
        """The knobs by which a configuration is put into words: those that may be moved, and other choices."""
        return (*self.knobs, *(self.extra(CHOICES, tuple[Knob, ...]) or ()))

    @property
    def guarantee(self) -> DelayGuarantee | None:
        """The run's guarantee to classes of clients; None when it tunes."""
        return self.extra(GUARANTEE, DelayGuarantee)

    @property
    def search(self) -> Search | None:
        """How it searches by trials; None when it does not."""
        return self.extra(SEARCH, Search)

    def extra(self, name: str, kind: type[T]) -> T | None:
        """One of the extras; None where this run has none of that name.

        Raises:
            StoreError: it is of another kind.
        """
        try:
            return codec.convert(self.extras[name], kind) if name in self.extras else None
        except ValueError as error:
            raise StoreError(f"extra {name!r} of the run: {error}") from None


@dataclass(frozen=True)
class Run:
    """A stored run.

    Args:
        id: its number in the store.
        plan: its plan.
        started: Unix time of its start, in seconds.
        finished: Unix time of its end; None while it runs and when it was killed.
        status: its status; `running` also when it was killed.
        detail: why it ended before its time; may be empty.
        restored: True when the configuration from before it was put back.
        process: the process that runs it, or has run it.
    """

    id: int
    plan: Plan
    started: float
    finished: float | None
    status: Status
    detail: str
    restored: bool
    process: Process

    @property
    def alive(self) -> bool:
        """True while the process that runs it exists."""
        return self.process.alive()

    @property
    def unfinished(self) -> bool:
        """True when its process ended without writing how: killed, or the machine went down."""
        return self.status is Status.RUNNING and not self.alive


@dataclass(frozen=True)
class StoredMove:
    """A move as stored.

    Args:
        sequence: its number among the events of its run.
        index: index of the window that it follows from.
        proposed: the controller's move.
        move: the move after the guards.
        state: its outcome; `open` when the process ended while it was applied.
        detail: why it was refused or failed, or what the plant said; may be empty.
        took_s: time until the change was seen to be in effect; None when it was not applied.
        configuration: the configuration in force after it; None when it was not applied.
    """

    sequence: int
    index: int
    proposed: Move
    move: Move
    state: MoveState
    detail: str
    took_s: float | None
    configuration: Configuration | None
