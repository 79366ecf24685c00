"""Base of plants that know a way back: a change that brings back what was in force before.

Memory is asked of a trial, as others have it now. What had room before is back in force whatever they have taken
since: else a trial that does harm would stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trimtab.core import Configuration, Plant
from trimtab.core.memory import overfull
from trimtab.errors import ApplyRefused
from trimtab.plants._edits import StoodDown


class ReturningPlant(Plant):
    """The base of such plants."""

    _chosen: Configuration = MappingProxyType({})
    """What the operator has chosen: what was in force at the start, or before a run that was killed."""
    _previous: Configuration = MappingProxyType({})
    """What was in force before the last change; after a way back, what the operator has chosen."""
    _down: StoodDown
    """Knobs that stand down."""

    def began_with(self, configuration: Configuration) -> None:
        """Takes what was in force before a killed run for what the operator has chosen; its trial is no way back."""
        self._chosen = self._previous = {**self._chosen, **configuration}

    def breach(self, configuration: Configuration) -> str:
        """Which rule this breaks that a way back keeps too, where no test of the server's does; empty for none."""
        return ""

    def overfull(self, configuration: Configuration) -> str:
        """What does not fit into memory; empty where all does. What the operator has chosen is no reason."""
        return overfull(self.needs(configuration), self.needs(self._chosen))

    def objection(self, configuration: Configuration) -> str:
        """Which rule this breaks, or what of it does not fit into memory; empty for neither."""
        return self.breach(configuration) or self.overfull(configuration)

    def goes_back(self, values: Mapping[str, int]) -> bool:
        """Whether a change brings back what was in force before the one before it, or at the start.

        Once it is back, the same trial again is no way back.

        Args:
            values: knob to value then, of all knobs that are ours; those that stand down do not count.
        """
        ours = {knob: value for knob, value in values.items() if knob not in self._down}
        return any(all(one.get(k) == v for k, v in ours.items()) for one in (self._chosen, self._previous))

    def require_fit(self, configuration: Configuration) -> None:
        """Makes sure that nothing speaks against a configuration; memory does not against a way back.

        Raises:
            ApplyRefused: something does.
        """
        back = self.goes_back(configuration)
        if why := self.breach(configuration) if back else self.objection(configuration):
            raise ApplyRefused(why)

    def went(self, before: Configuration, now: Configuration) -> None:
        """Called after a change: remembers the way back from it.

        Args:
            before: knob to value before it.
            now: knob to value after it.
        """
        self._previous = self._chosen if self.goes_back(now) else before
