"""Several plants as one: they change as one, or not at all.

A change is prepared on every plant before it is committed on any, so that what one of them refuses touches none.
If a commit fails, the plant that failed has put itself back, and those before it are rolled back, the last first.
What cannot be rolled back is said by name; nothing is passed over in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trimtab.core import Applied, Configuration, Knob, Plant, Prepared, Readings, Sensor, Subject
from trimtab.errors import ApplyFailed, ApplyRefused, OperatorEdit, PlantGone, TrimtabError, UsageError


class Stack(Plant):
    """Plants that change as one.

    Args:
        parts: the plants, in the order in which they change; they live by the first one's clock.
        before: sensors whose readings the parts' own replace where both measure something.
        after: sensors whose readings replace the parts'.

    Raises:
        UsageError: two parts have a knob of the same name.
    """

    def __init__(self, *parts: Plant, before: Iterable[Sensor] = (), after: Iterable[Sensor] = ()) -> None:
        self.parts = parts
        self.name = "+".join(part.name for part in parts)
        self.clock = parts[0].clock
        self.lasting = any(part.lasting for part in parts)
        self._of: dict[str, Plant] = {}
        for part in parts:
            for knob in part.knobs():
                if knob.name in self._of:
                    raise UsageError(f"{self._of[knob.name].name} and {part.name} both have a knob {knob.name}")
                self._of[knob.name] = part
        self._sensors = (*before, *(one for part in parts for one in part.sensors()), *after)

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Those of all parts, in their order."""
        return tuple(subject for part in self.parts for subject in part.subjects)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of each part."""
        return tuple(note for part in self.parts for note in part.notes)

    def knobs(self) -> tuple[Knob, ...]:
        """The knobs of all parts, in their order."""
        return tuple(knob for part in self.parts for knob in part.knobs())

    def sensors(self) -> tuple[Sensor, ...]:
        """All sensors, in the order in which their readings replace one another's."""
        return self._sensors

    def configuration(self) -> Configuration:
        """What is in force in all parts.

        Raises:
            OperatorEdit: somebody else has set a knob of ours.
            PlantGone: one of them has ended.
        """
        return {name: value for part in self.parts for name, value in part.configuration().items()}

    def derive(self, readings: Readings) -> Readings:
        """What follows from the readings in each part, by its own rules."""
        derived: dict[str, float] = {}
        for part in self.parts:
            derived |= part.derive({**readings, **derived})
        return derived

    def objection(self, configuration: Configuration) -> str:
        """The first rule of a part that this configuration breaks."""
        return next((why for part in self.parts if (why := part.objection(configuration))), "")

    def check_permissions(self) -> None:
        """Makes sure that every part could be changed.

        Raises:
            UsageError: one could not.
        """
        for part in self.parts:
            part.check_permissions()

    def lease(self, timeout_s: float) -> None:
        """Says to every part that a controller is in charge."""
        for part in self.parts:
            part.lease(timeout_s)

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Prepares every part that is to change; what one refuses touches none.

        Raises:
            ApplyRefused: one of them refused.
            OperatorEdit: a knob was edited from outside.
            PlantGone: one of them has ended.
        """
        wanted = self.validated(changes)
        prepared: list[tuple[Plant, Prepared]] = []
        try:
            for part in self.parts:
                own = {name: value for name, value in wanted.items() if self._of[name] is part}
                if own:
                    prepared.append((part, part.prepare(own)))
        except BaseException:
            _take_back(prepared)
            raise
        before = {name: value for _, one in prepared for name, value in one.before.items()}
        return Prepared(wanted, before, tuple(prepared))

    def commit(self, prepared: Prepared) -> Applied:
        """Commits every part, or none.

        Raises:
            ApplyFailed: one did not take; what was before is restored in all of them, or the message says where not.
            PlantGone: one has ended; the others are as they were.
        """
        began_s, notes = self.clock.now_s(), list[str]()
        pairs: list[tuple[Plant, Prepared]] = list(prepared.detail)
        for index, (part, one) in enumerate(pairs):
            try:
                notes += part.commit(one).notes
            except (ApplyRefused, ApplyFailed, OperatorEdit, PlantGone) as error:
                left = _take_back(pairs)
                said = "; ".join([f"{part.name}: {error}", *left])
                if isinstance(error, PlantGone):
                    raise PlantGone(said) from error
                if isinstance(error, OperatorEdit):
                    raise OperatorEdit(error.knob, said) from error
                if index == 0 and isinstance(error, ApplyRefused):
                    raise ApplyRefused(said) from error
                raise ApplyFailed(f"{said}; no part is changed" if not left else said) from error
        return Applied(self.configuration(), self.clock.now_s() - began_s, tuple(notes))

    def rollback(self, prepared: Prepared) -> None:
        """Takes the change back in all parts, the last first.

        Raises:
            ApplyFailed: in one of them it could not be taken back.
        """
        if left := _take_back(list(prepared.detail)):
            raise ApplyFailed("; ".join(left))

    def restore(self) -> None:
        """Puts back all parts, the last first.

        Raises:
            ApplyFailed: one could not be put back; the others are.
        """
        left = []
        for part in reversed(self.parts):
            try:
                part.restore()
            except TrimtabError as error:
                left.append(f"{part.name}: {error}")
        if left:
            raise ApplyFailed("; ".join(left))

    def leftover(self) -> str:
        """What earlier runs left behind in the parts."""
        return "; ".join(left for part in self.parts if (left := part.leftover()))

    def undo_leftover(self) -> None:
        """Takes away what earlier runs left behind, the last part first."""
        for part in reversed(self.parts):
            part.undo_leftover()

    def close(self) -> None:
        """Gives back what the parts hold."""
        for part in self.parts:
            part.close()

    def undo_script(self) -> str:
        """The scripts of the parts, the last first, each in a shell of its own."""
        scripts = [part.undo_script().partition("\n")[2] for part in reversed(self.parts)]
        return "#!/bin/sh\n" + "".join(f"(\n{script}\n)\n" for script in scripts)


def _take_back(prepared: list[tuple[Plant, Prepared]]) -> list[str]:
    """Rolls back, the last first; one line for each that could not be, so that the others still are."""
    left = []
    for part, one in reversed(prepared):
        try:
            part.rollback(one)
        except PlantGone:
            continue  # nothing of it is in force any more
        except TrimtabError as error:
            left.append(f"{part.name} could not be put back: {error}")
    return left
