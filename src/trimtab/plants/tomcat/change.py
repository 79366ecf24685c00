"""One change of a Tomcat: written down, set value by value, read back, seen in effect, and put back on any failure.

Reading back lies in two places. A number of threads that breaks the rule least <= most is kept and said, while the
pool goes on with the one before: such a change is refused (`knobs.objection`), and several knobs are set in an order
that keeps the rule on the way. And a pool of JDBC connections that is told to be smaller lends the ones that it has.
They are told to be closed as they come back, but for each that is closed while a request waits for one the pool makes
another, whatever its limit; so under load it stays as large as it was. Then requests are held back until none is in
service, and all connections are closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.core import Clock, give_up
from trimtab.errors import ApplyFailed, PlantGone, TrimtabError, UsageError
from trimtab.plants.tomcat import knobs, restart
from trimtab.plants.tomcat.attached import ACTIVE, Attached, Spot
from trimtab.plants.tomcat.journal import Journal
from trimtab.plants.tomcat.knobs import Dial

EFFECT_S = 1.0
_POLL_S = 0.02


@dataclass(frozen=True)
class Change:
    """Change of attributes of MBeans.

    Args:
        tomcat: the running Tomcat.
        journal: journal of the values from before.
        clock: for the waits.
        now: present values.
        then: values to set; the others stay.
    """

    tomcat: Attached
    journal: Journal
    clock: Clock
    now: Mapping[Spot, int]
    then: Mapping[Spot, int]

    def bring(self) -> tuple[str, ...]:
        """Brings it into force.

        Returns:
            What the user should know, one line each.

        Raises:
            ApplyFailed: it did not take; what was before is in force again, or the message says what is not.
            PlantGone: the server has ended.
        """
        changes = {spot: (self.now[spot], value) for spot, value in self.then.items() if value != self.now[spot]}
        try:
            if changes:
                self.journal.about_to(changes)
        except UsageError as error:
            raise ApplyFailed(f"{error}; nothing was changed") from None
        try:
            notes = self._set(changes)
        except PlantGone:
            raise
        except BaseException as error:
            try:
                there = self.tomcat.values(list(changes))  # what has gone since keeps nothing else from going back
                self._set({spot: (then, now) for spot, (now, then) in changes.items() if there[spot] is not None})
            except PlantGone:
                raise
            except (TrimtabError, OSError) as second:
                give_up(error, str(error), [f"{second}; 'trimtab runs undo' puts it back"])
            settle(self.tomcat, self.journal)
            raise
        return (*notes, *settle(self.tomcat, self.journal))

    def _set(self, changes: Mapping[Spot, tuple[int, int]]) -> tuple[str, ...]:
        """Sets values, and sees to it that they are in effect.

        Args:
            changes: present value and new value of each attribute.

        Raises:
            ApplyFailed: one did not take.
            PlantGone: the server has ended.
        """
        dials = {spot: self.tomcat.dial(spot) for spot in changes}
        for spot in sorted(changes, key=lambda one: knobs.turn(dials[one], changes[one][1] > changes[one][0])):
            self.tomcat.set(spot, changes[spot][1])
        notes, lasting = [], []
        for spot, dial in dials.items():
            value = changes[spot][1]
            if dial is None:
                continue
            lasting.append(f'until Tomcat restarts; to keep it: {dial.knob.native_name}="{value}" in {dial.location}')
            if dial.kind == knobs.MAX_THREADS:
                notes += self._threads(dial, value)
            elif spot[1] == ACTIVE:
                notes += self._lent(dial, value)
            elif dial.kind == knobs.ACCEPT:
                notes += restart.restart(self.tomcat, dial.part, self.clock)
        return (*notes, *lasting)

    def _threads(self, dial: Dial, most: int) -> list[str]:
        """Waits a moment until there are no more threads than there may be."""
        spot = dial.bean, "poolSize" if "type=Executor" in dial.bean else "currentThreadCount"
        number = self._falls(spot, most)
        return (
            [f"{number - most} threads beyond {dial.knob.name} {most} finish their requests"] if number > most else []
        )

    def _lent(self, dial: Dial, most: int) -> list[str]:
        """Has a pool close connections beyond its limit."""
        if (self.tomcat.values([(dial.bean, "Size")])[dial.bean, "Size"] or 0) <= most:
            return []
        pool = next(one for one in self.tomcat.layout.pools if one.bean == dial.bean)
        self.tomcat.empty(pool)
        if self._falls((dial.bean, "Size"), most) <= most:
            return []
        notes: list[str] = []
        with restart.held(self.tomcat, self.clock, notes, [pool], restart.HELD_S):
            pass
        number = self._falls((dial.bean, "Size"), most)
        left = f"{number - most} JDBC connections beyond {most} are closed as they come back"
        return [*notes, left] if number > most else notes

    def _falls(self, spot: Spot, most: int) -> int:
        """A number, as soon as it is low enough or the patience ends."""
        deadline_s = self.clock.now_s() + EFFECT_S
        while (number := self.tomcat.values([spot])[spot] or 0) > most and self.clock.now_s() < deadline_s:
            self.clock.sleep(_POLL_S)
        return number


def settle(tomcat: Attached, journal: Journal) -> tuple[str, ...]:
    """Journals the values in force.

    Returns:
        Why it could not be written, for the user: the journal then says more than is, and an undo is still right.
    """
    try:
        spots = [(one.bean, one.attribute) for one in journal.entries()]
        journal.settled(tomcat.values(spots))
    except UsageError as error:
        return (str(error),)
    return ()
