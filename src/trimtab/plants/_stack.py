"""Several plants as one: they change as one, or not at all.

A change is prepared on every plant before it is committed on any, so that what one of them refuses touches none.
If a commit fails, or what is in force then cannot be read, all of them are rolled back, the last first. What cannot
be rolled back is said by name; nothing is passed over in silence.

The knob of a tier is called by it: `web.keep_alive`. In a stack without tiers a knob has the name that its part gives
it, and where several parts have one of that name, each is called by its identity: `nginx.keep_alive`,
`web2:nginx.keep_alive`. Parts hear only their own names.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from trimtab.core import Applied, Configuration, Knob, Plant, Prepared, Sensor, Subject, give_up, take_back
from trimtab.core.knob import Identity
from trimtab.core.memory import Need
from trimtab.errors import ApplyFailed, ApplyRefused, OperatorEdit, PlantGone, UsageError
from trimtab.plants._edits import StoodDown
from trimtab.plants._returning_plant import ReturningPlant

_PAUSE_S = 1.0
"""Until parts that did not answer are asked again."""


class Stack(ReturningPlant):
    """Plants that change as one.

    Args:
        parts: the plants, in the order in which they change; they live by the first one's clock.
        extra: more sensors, such as those of the clients' side.

    Raises:
        UsageError: two parts of one name on one node have a knob of the same name.
    """

    def __init__(self, *parts: Plant, extra: Iterable[Sensor] = ()) -> None:
        self.parts = parts
        self.name = "+".join(part.name for part in parts)
        self.clock = parts[0].clock
        self.lasting = any(part.lasting for part in parts)
        self.node = parts[0].node
        self.metrics = tuple(dict.fromkeys(one for part in parts for one in part.metrics))
        self._names = _named(parts)
        self._of = {name: (part, own) for part, names in self._names.items() for own, name in names.items()}
        if len(self._of) < sum(map(len, self._names.values())):
            raise UsageError(f"{self.name}: two parts of one name have a knob of the same name")
        self._extra = tuple(extra)
        self._down = StoodDown()  # the parts know them
        for index, part in enumerate(parts):
            part.in_front = parts[:index][::-1]

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The subjects of all parts, in their order."""
        return tuple(replace(subject, tier=part.tier) for part in self.parts for subject in part.subjects)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on each part."""
        return tuple(note for part in self.parts for note in part.notes)

    def knobs(self) -> tuple[Knob, ...]:
        """The knobs of all parts, in their order."""
        return tuple(
            replace(
                knob,
                name=self._names[part].get(knob.name, knob.name),
                shares=self._names[part].get(knob.shares, knob.shares),
                tier=part.tier,
            )
            for part in self.parts
            for knob in part.knobs()
        )

    def new_sensors(self) -> tuple[Sensor, ...]:
        """Those of the parts, each called by its part where that is a tier or one of several, then the others."""
        for part in self.parts:
            for sensor in part.sensors() if part.tier or len(self.parts) > 1 else ():
                sensor.plant = sensor.plant or _called(part)
        return (*(one for part in self.parts for one in part.sensors()), *self._extra)

    def decisive(self, metric: str, sensors: Sequence[Sensor]) -> Sensor | None:
        """The sensor of the first part that has one, as that part decides: clients meet the first."""
        for part in self.parts:
            own = [one for one in sensors if one in part.sensors()]
            if own:
                return own[0] if len(own) == 1 else part.decisive(metric, own)
        return None

    def configuration(self) -> Configuration:
        """The configuration in force in all parts.

        Raises:
            OperatorEdit: somebody else has set a knob of ours.
            PlantGone: one of them has ended.
        """
        found: dict[str, int] = {}
        for part in self.parts:
            with self._telling_of(part):
                found |= self._outer(part, part.configuration())
        self._chosen = self._chosen or found
        return found

    def breach(self, configuration: Configuration) -> str:
        """The first objection of a part, which sees nothing of the others."""
        return next((why for part in self.parts if (why := part.objection(self._inner(part, configuration)))), "")

    def began_with(self, configuration: Configuration) -> None:
        """Takes what was in force before a killed run for what the operator has chosen, in all parts."""
        super().began_with(configuration)
        for part in self.parts:
            part.began_with(self._inner(part, configuration))

    def needs(self, configuration: Configuration) -> tuple[Need, ...]:
        """Memory that the parts need, each called by its part."""
        return tuple(
            replace(one, what=f"{_called(part)}: {one.what}", where=f"{part.node} {one.where}".strip())
            for part in self.parts
            for one in part.needs(self._inner(part, configuration))
        )

    def check_permissions(self) -> None:
        """Makes sure that every part could be changed.

        Raises:
            UsageError: one could not.
        """
        for part in self.parts:
            part.check_permissions()

    def undo_killed(self) -> None:
        """Undoes what killed trimtabs have left, the last part first.

        Raises:
            ApplyFailed: in one it could not be undone; in the others it is.
        """
        self._in_all(lambda part: part.undo_killed())

    def warm_up(self) -> float:
        """Starts what accompanies a run in every part; returns the seconds until measuring begins."""
        return max(part.warm_up() for part in self.parts)

    def lease(self, timeout_s: float) -> None:
        """Takes a lease in every part."""
        for part in self.parts:
            part.lease(timeout_s)

    def end_lease(self) -> None:
        """Gives it back in every part."""
        for part in self.parts:
            part.end_lease()

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Prepares every part that is to change; a refusal by one changes none.

        Raises:
            ApplyRefused: one of them refused, or what they need does not fit into the memory that they share.
            OperatorEdit: a knob was edited from outside.
            PlantGone: one of them has ended.
        """
        wanted = self.validated(changes)
        then = {**self.configuration(), **wanted}
        if not self.goes_back(then) and (why := self.overfull(then)):
            raise ApplyRefused(why)
        prepared: list[tuple[Plant, Prepared]] = []
        try:
            for part in self.parts:
                if own := self._inner(part, wanted):
                    with self._telling_of(part):
                        prepared.append((part, part.prepare(own)))
        except BaseException:
            take_back(prepared)
            raise
        before = {name: value for part, one in prepared for name, value in self._outer(part, one.before).items()}
        return Prepared(wanted, before, tuple(prepared))

    def commit(self, prepared: Prepared) -> Applied:
        """Commits every part, or none.

        Raises:
            ApplyRefused: the first refused.
            ApplyFailed: one did not take; what was before is restored in all of them, or the message says where not.
            OperatorEdit: a knob was edited from outside; what was before is restored in all of them.
            PlantGone: one has ended; the others are as they were.
        """
        began_s, notes, in_force = self.clock.now_s(), list[str](), dict[str, int]()
        pairs: list[tuple[Plant, Prepared]] = list(prepared.detail)
        at, committed = self.parts[0], 0
        try:
            for at, one in pairs:
                notes += at.commit(one).notes
                committed += 1
            for at in self.parts:
                in_force |= self._outer(at, at.configuration())
        except BaseException as error:
            said, left = f"{_called(at)}: {error}", take_back(pairs)
            if isinstance(error, OperatorEdit):
                give_up(OperatorEdit(self._names[at].get(error.knob, error.knob), said), said, left)
            if isinstance(error, ApplyRefused) and committed:
                give_up(ApplyFailed(said), said, left)
            give_up(error, said, left)
        self.went({**in_force, **prepared.before}, in_force)
        return Applied(in_force, self.clock.now_s() - began_s, tuple(notes))

    def rollback(self, prepared: Prepared) -> None:
        """Takes the change back in all parts, the last first.

        Raises:
            ApplyFailed: in one of them it could not be taken back.
        """
        if left := take_back(list(prepared.detail)):
            raise ApplyFailed("; ".join(left))

    def restore(self) -> None:
        """Puts back all parts, the last first, but those that do not answer after all others.

        One that falls silent while it is put back keeps no other waiting: it is asked again when all have had a turn.

        Raises:
            ApplyFailed: one could not be put back; the others are.
        """
        steps = {part: part.restoring() for part in self.parts}
        self._in_all(lambda part: next(steps[part], True) is None)

    def leftover(self) -> str:
        """Settings left by earlier runs in the parts."""
        return "; ".join(left for part in self.parts if (left := part.leftover()))

    def undo_leftover(self) -> None:
        """Undoes earlier runs, the last part first, but those that do not answer after all others.

        Raises:
            ApplyFailed: in one it could not be undone; in the others it is.
        """
        self._in_all(lambda part: part.undo_leftover())

    def close(self) -> None:
        """Closes the sensors that are of no part, and the parts."""
        for sensor in self._extra:
            sensor.close()
        for part in self.parts:
            part.close()

    def undo_script(self) -> str:
        """The scripts of the parts, the last first, each in a shell of its own; it fails where one of them does."""
        scripts = [part.undo_script().partition("\n")[2] for part in reversed(self.parts)]
        each = "".join(f"(\n{script}\n)\n[ $? -eq 0 ] || failed=1\n" for script in scripts)
        return f"#!/bin/sh\nfailed=0\n{each}exit $failed\n"

    def _in_all(self, put_back: Callable[[Plant], bool | None]) -> None:
        """Puts back something in every part, the last first, also where one of them cannot.

        One that does not answer may be asked again for minutes, in which the others are not to be kept as they are.

        Args:
            put_back: puts it back in a part; true where that is to be asked again.

        Raises:
            ApplyFailed: one could not.
        """
        left, parts = list[str](), sorted(reversed(self.parts), key=_silent)
        while parts:
            again = []
            for part in parts:
                try:
                    if put_back(part):
                        again.append(part)
                except Exception as error:  # a defect too: the other parts are put back all the same
                    left.append(f"{_called(part)}: {error}")
            if parts := again:
                self.clock.sleep(_PAUSE_S)
        if left:
            raise ApplyFailed("; ".join(left))

    def _inner(self, part: Plant, values: Mapping[str, int]) -> dict[str, int]:
        """Values of one part, by its own names; a name that is no knob of any part stays as it is."""
        found = ((*self._of.get(name, (part, name)), value) for name, value in values.items())
        return {own: value for whose, own, value in found if whose is part}

    def _outer(self, part: Plant, values: Mapping[str, int]) -> dict[str, int]:
        """The values of a part by their names in the stack; a name that is no knob of it stays as it is."""
        return {self._names[part].get(name, name): value for name, value in values.items()}

    @contextlib.contextmanager
    def _telling_of(self, part: Plant) -> Iterator[None]:
        """Says which knob of this stack the operator has edited, or which part has ended."""
        try:
            yield
        except OperatorEdit as error:
            raise OperatorEdit(self._names[part].get(error.knob, error.knob), str(error)) from error
        except PlantGone as error:
            raise PlantGone(f"{_called(part)}: {error}") from error


def _silent(part: Plant) -> bool:
    """Whether a part does not answer; a defect in asking keeps no other from being put back."""
    try:
        return part.silent()
    except Exception:
        return True


def _called(part: Plant) -> str:
    """Name of a part: its tier, else its plant."""
    return part.tier or part.name


def _named(parts: Sequence[Plant]) -> dict[Plant, dict[str, str]]:
    """For each part the name that each of its knobs has in the stack, by its own name."""
    own = {part: [knob.name for knob in part.knobs()] for part in parts}
    shared = Counter(name for names in own.values() for name in names)
    return {
        part: {
            name: str(Identity(part.node, _called(part), name)) if part.tier or shared[name] > 1 else name
            for name in names
        }
        for part, names in own.items()
    }
