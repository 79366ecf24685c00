"""A plant: a system under control, its sensors and its clock."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

from trimtab.core.knob import Knob, Role
from trimtab.core.memory import Need
from trimtab.core.metric import Metric
from trimtab.core.sensor import Clock, Sensor
from trimtab.core.window import Configuration, Readings, Window
from trimtab.errors import ApplyFailed, ApplyRefused, OperatorEdit, PlantGone, TrimtabError, UsageError

Drawing = Callable[[Window], list[str]]
"""Lines of a plant's own view below a window."""


@dataclass(frozen=True)
class Subject:
    """A plant as the subject of a run.

    Args:
        plant: the plant's registered name.
        pid: process id of its server; None where it has none.
        node: the machine it is on; empty for the one that trimtab runs on.
        tier: its name in a user's stack; empty elsewhere.
    """

    plant: str
    pid: int | None = None
    node: str = ""
    tier: str = ""


@dataclass(frozen=True)
class Applied:
    """Result of a change.

    Args:
        configuration: the configuration in force, read back from the running system.
        took_s: time until the change was seen to be in effect.
        notes: notes for the user, one line each.
    """

    configuration: Configuration
    took_s: float = 0.0
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class PlantDefaults:
    """Defaults for tuning a plant; a plant's module names its own in `DEFAULTS`.

    Args:
        controller: the controller's registered name.
        minimize: the metric to make least.
        window: length of a window, as a user writes it.
        roles: the knobs that are moved, by role; the plant's first where it has none of them.
        on_exit: configuration to leave in force at the end of a run, "keep" or "restore".
        maximize: the metric to make greatest, in place of `minimize`; empty for none.
        subject_to: limits that come first, as a user writes them.
        knobs: patterns of the knobs that are moved, in place of `roles`; none where roles say it.
        searched: True where knobs are many, so that it is tuned by trials whose winner is measured again.
    """

    controller: str = "trim"
    minimize: str = "response_time_s"
    window: str = "10s"
    roles: tuple[Role, ...] = (Role.WORKER_LIMIT,)
    on_exit: str = "keep"
    maximize: str = ""
    subject_to: tuple[str, ...] = ()
    knobs: tuple[str, ...] = ()
    searched: bool = False


@dataclass(frozen=True)
class Prepared:
    """A change that has passed every check that can be made before anything in force is touched.

    Args:
        changes: knob name to the value that is to come into force.
        before: the values of these knobs in force now.
        detail: the plant's own data to commit it or to roll it back.
    """

    changes: Mapping[str, int]
    before: Configuration
    detail: Any = None


class Plant(ABC):
    """A system under control: the base of every plant. Its module names the class in `PLANT`.

    A change is made in two phases, so that several plants can change as one: `prepare` refuses whatever can be
    refused, `commit` brings the change into force or puts back what was there, and `rollback` takes back what was
    prepared or committed. `apply` is both phases of one plant, and takes back what failed in a way that `commit` does
    not know, such as a server that stops answering while the values in force are read.

    Attributes:
        name: its registered name.
        clock: the clock that it lives by: the machine's, or a simulator's.
        lasting: True when what it changes stays in force after this process.
        simulated: True where there is no real server.
        undoes_all: True where `undo_killed` undoes also what is moved with options that this one was not given.
        metrics: the metrics that `derive` may give.
        own_sensors: classes of sensors that only this plant has, declared here and not in the room of the sensors.
        parts: the plants that it is made of; none where it is one by itself.
        in_front: the plants of a stack that pass requests on to this one, the nearest first.
        pid: process id of its server; None where it has none.
        known_by: what tells its server from others where a change may start it anew; empty where its process does.
        node: the machine it is on; empty for the one that trimtab runs on.
        tier: its name in a user's stack; empty elsewhere.
        extras: entries of a run's plan, by which `from_arguments` finds it again as `args.extras`.
    """

    name: str = ""
    tier: str = ""
    extras: Mapping[str, Any] = MappingProxyType({})
    parts: tuple[Plant, ...] = ()
    in_front: Sequence[Plant] = ()
    lasting: bool = True
    simulated: ClassVar[bool] = False
    undoes_all: ClassVar[bool] = False
    metrics: tuple[Metric, ...] = ()
    own_sensors: ClassVar[tuple[type[Sensor], ...]] = ()
    clock: Clock
    pid: int | None = None
    known_by: str = ""
    _knobs: Mapping[str, Knob] = MappingProxyType({})
    _sensors: tuple[Sensor, ...] | None = None
    node: str = ""

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Its subject in a run; one for each part where it is made of parts."""
        return (Subject(self.name, self.pid, self.node),)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user before anything is changed, one line each."""
        return ()

    def knobs(self) -> tuple[Knob, ...]:
        """The knobs that can be moved here, with the domains that hold for this installation."""
        return tuple(self._knobs.values())

    def sensors(self) -> tuple[Sensor, ...]:
        """The sensors that work here, made when they are first asked for: a plant by itself needs none."""
        if self._sensors is None:
            self._sensors = self.new_sensors()
        return self._sensors

    def new_sensors(self) -> tuple[Sensor, ...]:
        """Makes the sensors that work here; `sensors` does so once."""
        return ()

    def decisive(self, metric: str, sensors: Sequence[Sensor]) -> Sensor | None:
        """The sensor, of several of the same precedence, by which decisions go; None where the plant names none.

        Args:
            metric: name of what all of them measure.
            sensors: two of this plant's own, or more.
        """
        return None

    def drawing(self) -> Drawing | None:
        """A view of its own below each window that is observed, begun anew; None where the readings say it all."""
        return None

    @abstractmethod
    def configuration(self) -> Configuration:
        """The configuration in force, read from the running system.

        Raises:
            OperatorEdit: a knob that trimtab has set now has another value.
            PlantGone: the server has ended.
        """

    def derive(self, readings: Readings) -> Readings:
        """Readings that follow from those of several sensors, such as Eq. (1) of liu2003; a pure function."""
        return {}

    def objection(self, configuration: Configuration) -> str:
        """Why this configuration breaks a rule among the knobs, such as least <= most; empty when it breaks none."""
        return ""

    def began_with(self, configuration: Configuration) -> None:
        """Takes what was in force before a killed run for what the operator has chosen: no rule refuses that.

        Args:
            configuration: it; what is in force now may be a trial of that run.
        """
        return

    def needs(self, configuration: Configuration) -> tuple[Need, ...]:
        """Memory that this configuration can fill, as far as the plant knows without a measurement."""
        return ()

    def check_permissions(self) -> None:
        """Makes sure, before anything is changed, that a change could be made.

        Raises:
            UsageError: it could not; the message says what is needed.
        """
        return

    def undo_killed(self) -> None:
        """Undoes what killed trimtabs have left, where no store may tell of it, before a run changes anything."""
        return

    def warm_up(self) -> float:
        """Starts parts of a run such as clients of its own; returns the seconds until measuring begins."""
        return 0.0

    def lease(self, timeout_s: float) -> None:
        """Takes a lease for that many seconds; only some plants need one."""
        return

    def end_lease(self) -> None:
        """Gives it back: what is in force stays so."""
        return

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Checks a change; nothing in force is touched.

        Raises:
            ApplyRefused: not valid, or against a rule among the knobs.
            OperatorEdit: a knob was edited from outside.
            PlantGone: the server has ended.
        """
        wanted, now = self.validated(changes), self.configuration()
        if why := self.objection({**now, **wanted}):
            raise ApplyRefused(why)
        return Prepared(wanted, {name: now[name] for name in wanted})

    @abstractmethod
    def commit(self, prepared: Prepared) -> Applied:
        """Brings a prepared change into force, and reads it back.

        Raises:
            ApplyFailed: did not take; what was before is restored.
            PlantGone: the server has ended.
        """

    def rollback(self, prepared: Prepared) -> None:
        """Takes back a change that was prepared, or committed; what somebody else has set since is left alone.

        Raises:
            ApplyFailed: it could not be taken back.
            PlantGone: the server has ended.
        """
        now, ours = self._past_edits(), prepared.changes
        back = {name: value for name, value in prepared.before.items() if value != now.get(name) == ours[name]}
        if back:
            self.commit(Prepared(back, {name: now[name] for name in back}))

    def apply(self, changes: Mapping[str, int]) -> Applied:
        """Brings the changes into force: all of them or none, whatever fails.

        Raises:
            ApplyRefused: not valid; nothing changed.
            ApplyFailed: did not take, or the server could not be asked; what was before is restored.
            OperatorEdit: a knob was edited from outside; what was before is restored.
            PlantGone: the server ended.
        """
        pairs: list[tuple[Plant, Prepared]] = []
        try:
            pairs.append((self, self.prepare(changes)))
            return self.commit(pairs[0][1])
        except (ApplyRefused, ApplyFailed):
            raise  # the plant has put back what was before, or says what it could not
        except BaseException as error:
            give_up(error, str(error), take_back(pairs))

    def held(self, notes: list[str]) -> contextlib.AbstractContextManager[None]:
        """While it lasts nothing is asked of the servers behind this one, as far as it can hold requests back.

        Args:
            notes: to which it adds what the user should know.

        Raises:
            ApplyFailed: it cannot now.
            PlantGone: the server has ended.
        """
        return contextlib.nullcontext()

    def others_held(self, notes: list[str]) -> contextlib.ExitStack:
        """The plants in front, held from now until the end of the context: for a restart of this one.

        Args:
            notes: as in `held`.

        Raises:
            ApplyFailed: one cannot hold requests back now; none does.
            PlantGone: one has ended; none holds any.
        """
        with contextlib.ExitStack() as stack:
            for plant in self.in_front:
                stack.enter_context(plant.held(notes))
            return stack.pop_all()

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools of connections to servers behind this one that `renew` can empty, by name."""
        return ()

    def renew(self, notes: list[str]) -> None:
        """Has its `pools` make their connections anew: then what is copied at a connection's begin is in force.

        No request is lost: a connection that is lent is closed when it comes back.

        Args:
            notes: to which it adds what the user should know, also where a pool cannot.

        Raises:
            ApplyFailed: requests could not be held back for it, or are not served again.
        """
        return

    @abstractmethod
    def restore(self) -> None:
        """Puts back the configuration that was in force before the first `apply`; may be called twice."""

    def restoring(self) -> Iterator[None]:
        """`restore` in steps: where it would wait to ask again, the others of a stack have their turn."""
        self.restore()
        yield from ()

    def silent(self) -> bool:
        """Whether the server answers nothing within a moment: the others of a stack are put back before it."""
        return False

    def leftover(self) -> str:
        """Settings left by an earlier run, in one line; empty for none."""
        return ""

    def not_loaded(self) -> str:
        """What a kill on a way back has left open, as files that are not loaded, in one line; empty for nothing.

        Raises:
            UsageError: it cannot be known.
        """
        return ""

    def undo_leftover(self) -> None:
        """Undoes settings left by earlier runs."""
        return

    def out_of_reach(self) -> Mapping[str, str]:
        """What an undo by this one leaves in force, for want of a leave that an earlier run had, as to restart.

        Returns:
            Knob to what the user can do about it; that is empty where an undo of that run does it.
        """
        return {}

    def close(self) -> None:
        """Closes the sensors, without changing the server; may be called twice."""
        for sensor in self._sensors or ():
            sensor.close()

    @abstractmethod
    def undo_script(self) -> str:
        """A POSIX shell script that undoes `apply`, for a user without trimtab."""

    def validated(self, changes: Mapping[str, int]) -> dict[str, int]:
        """The changes, if each is a value of a knob.

        Raises:
            ApplyRefused: one is not.
        """
        there = {knob.name: knob for knob in self.knobs()}
        if unknown := next((name for name in changes if name not in there), None):
            raise ApplyRefused(f"unknown knob {unknown!r}; choose from: {', '.join(there)}")
        try:
            return {name: there[name].validated(value) for name, value in changes.items()}
        except UsageError as error:
            raise ApplyRefused(str(error)) from None

    def _past_edits(self) -> Configuration:
        """The configuration in force, past edits of the operator's, which are said once for each knob."""
        for _ in self.knobs():
            with contextlib.suppress(OperatorEdit):
                return self.configuration()
        return self.configuration()


def notes_of(plant: Plant) -> tuple[str, ...]:
    """A plant's notes, or why they cannot be told: no run and no undo is to fail for want of them."""
    try:
        return plant.notes
    except (TrimtabError, OSError) as error:
        return (f"what there is to know of a change here cannot be told: {error}",)


def take_back(prepared: Sequence[tuple[Plant, Prepared]]) -> list[str]:
    """Takes changes back, the last first; returns a line for each that could not be, so that the others still are."""
    left = []
    for part, one in reversed(prepared):
        try:
            part.rollback(one)
        except PlantGone:
            continue  # nothing of it is in force any more
        except Exception as error:  # a defect too: it must not keep the others from being taken back
            left.append(f"{part.tier or part.name} could not be put back: {error}")
    return left


def give_up(error: BaseException, said: str, left: Sequence[str]) -> NoReturn:
    """Ends a change that was taken back, with the error that tells what became of it.

    Args:
        error: why it did not take.
        said: the same in words.
        left: a line for each part that could not be taken back.

    Raises:
        ApplyRefused: it was refused; ApplyLater where it may be made later.
        ApplyFailed: it failed in any other way that is expected of a system under control.
        OperatorEdit: a knob was edited from outside.
        PlantGone: the server has ended.
    """
    if not isinstance(error, TrimtabError | OSError):
        for line in left:
            error.add_note(line)
        raise error  # an interrupt, or a defect, which is not hidden
    said = "; ".join((said, *left))
    if isinstance(error, PlantGone):
        raise PlantGone(said) from error
    if isinstance(error, OperatorEdit):
        raise OperatorEdit(error.knob, said) from error
    if isinstance(error, ApplyRefused) and not left:
        raise type(error)(said) from error
    raise ApplyFailed(said if left else f"{said}; nothing is changed") from error
