"""One change of a Tomcat: written down, set value by value, read back, seen in effect, and put back on any failure.

Reading back lies in two places. A number of threads that breaks the rule least <= most is kept and said, while the
pool goes on with the one before: such a change is refused (`knobs.objection`), and several knobs are set in an order
that keeps the rule on the way. And a pool of JDBC connections that is told to be smaller lends the ones that it has:
they are told to be closed as they come back, and made anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.core import Clock
from trimtab.errors import ApplyFailed, PlantGone, UsageError
from trimtab.plants.tomcat import knobs, restart
from trimtab.plants.tomcat.attached import Attached, Spot
from trimtab.plants.tomcat.journal import Journal
from trimtab.plants.tomcat.knobs import Dial

EFFECT_S = 1.0
_POLL_S = 0.02


@dataclass(frozen=True)
class Change:
    """What is to be set.

    Args:
        tomcat: the running Tomcat.
        journal: where it is written down before.
        clock: for the waits.
        now: knob to the value in force, of all knobs.
        then: knob to the value that is to be, of those that change.
    """

    tomcat: Attached
    journal: Journal
    clock: Clock
    now: Mapping[str, int]
    then: Mapping[str, int]

    def bring(self) -> tuple[str, ...]:
        """Brings it into force.

        Returns:
            What the user should know, one line each.

        Raises:
            ApplyFailed: it did not take; what was before is in force again, or the message says what is not.
            PlantGone: the server has ended.
        """
        dials = knobs.ordered(self.tomcat.dials, self.now, self.then)
        spots = {(d.bean, d.attribute): (self.now[d.knob.name], self.then[d.knob.name]) for d in dials}
        try:
            self.journal.about_to(spots)
        except UsageError as error:
            raise ApplyFailed(f"{error}; nothing was changed") from None
        try:
            for dial in dials:
                self.tomcat.set((dial.bean, dial.attribute), self.then[dial.knob.name])
            notes = self._effects(dials)
        except PlantGone:
            raise
        except BaseException as error:
            self._put_back(spots, dials, error)
            raise
        settle(self.tomcat, self.journal)
        return notes

    def _put_back(self, spots: Mapping[Spot, tuple[int, int]], dials: Sequence[Dial], why: BaseException) -> None:
        """Sets what was before, the last one first.

        Raises:
            ApplyFailed: that failed too.
        """
        try:
            for dial in reversed(dials):
                self.tomcat.set((dial.bean, dial.attribute), spots[dial.bean, dial.attribute][0])
            self._effects(dials, self.now)
        except ApplyFailed as error:
            raise ApplyFailed(f"{why}; {error}; 'trimtab runs undo' puts it back") from why
        settle(self.tomcat, self.journal)

    def _effects(self, dials: Sequence[Dial], wanted: Mapping[str, int] | None = None) -> tuple[str, ...]:
        """Sees to it that what was set is in effect.

        Args:
            dials: those that were set.
            wanted: knob to value; None for what is to be.

        Raises:
            ApplyFailed: it is not.
        """
        values, notes = self.then if wanted is None else wanted, []
        for dial in dials:
            value = values[dial.knob.name]
            if dial.kind == knobs.MAX_THREADS:
                notes += self._threads(dial, value)
            elif dial.kind == knobs.MAX_ACTIVE and dial.attribute == "MaxActive":
                notes += self._lent(dial, value)
            elif dial.kind == knobs.ACCEPT:
                notes += restart.restart(self.tomcat, dial.part, self.clock)
        return (
            *notes,
            *(
                f'until Tomcat restarts; to keep it: {d.knob.native_name}="{values[d.knob.name]}" in {d.place}'
                for d in dials
            ),
        )

    def _threads(self, dial: Dial, most: int) -> list[str]:
        """Waits a moment until there are no more threads than there may be."""
        spot = dial.bean, "poolSize" if "type=Executor" in dial.bean else "currentThreadCount"
        number = self._falls(spot, most)
        return (
            [f"{number - most} threads beyond {dial.knob.name} {most} finish their requests"] if number > most else []
        )

    def _lent(self, dial: Dial, most: int) -> list[str]:
        """Has a pool close what it has too much."""
        if (self.tomcat.values([(dial.bean, "Size")])[dial.bean, "Size"] or 0) <= most:
            return []
        self.tomcat.call(dial.bean, "purgeOnReturn")
        number = self._falls((dial.bean, "Size"), most)
        return (
            [f"{number - most} JDBC connections beyond {most} are closed as they come back"] if number > most else []
        )

    def _falls(self, spot: Spot, most: int) -> int:
        """A number, as soon as it is low enough or the patience ends."""
        deadline_s = self.clock.now_s() + EFFECT_S
        while (number := self.tomcat.values([spot])[spot] or 0) > most and self.clock.now_s() < deadline_s:
            self.clock.sleep(_POLL_S)
        return number


def settle(tomcat: Attached, journal: Journal) -> None:
    """Writes down what is in force now.

    Raises:
        ApplyFailed: it cannot be written; the journal then says more than is.
    """
    try:
        spots = [(one.bean, one.attribute) for one in journal.entries()]
        journal.settled(tomcat.values(spots))
    except UsageError as error:
        raise ApplyFailed(str(error)) from None
