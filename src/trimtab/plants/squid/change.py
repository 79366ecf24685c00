"""One change of a Squid: its files' texts, its reload, and how it is verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.errors import ApplyFailed, NotMeasured
from trimtab.plants import _unloaded
from trimtab.plants._included_server import IncludedChange
from trimtab.plants.squid.attached import Attached
from trimtab.plants.squid.manager import CacheMemory
from trimtab.plants.squid.reload import Patience, reload, restart
from trimtab.sensors._polled_page import ask


@dataclass(frozen=True)
class Change(IncludedChange[Attached]):
    """A new text for our file.

    Args:
        patience: how long a reload may take.
        may_restart: whether the worker may be replaced.
    """

    patience: Patience
    may_restart: bool = False

    def reloaded(self, expected: Mapping[str, int]) -> tuple[str, ...]:
        """Reloads, and makes sure that the intended values are in force.

        Raises:
            ApplyLater: somebody else's reload is under way and does not end.
            ApplyFailed: it is not, or Squid did not reload in time.
            PlantGone: it has ended.
        """
        notes = reload(self.server.master, self.clock, self.patience)
        self.server.reloaded()
        stale = self.server.stale
        if stale and self.may_restart:
            began_s = self.clock.now_s()
            try:
                notes += restart(self.server.master, self.clock, self.patience)
            finally:
                self.server.held_s += self.clock.now_s() - began_s
            self.server.reloaded()
        elif stale:
            notes += (f"{' and '.join(stale)} come into force when Squid is restarted",)
        self.require(expected)
        return (*notes, *self._page())

    def mark(self) -> None:
        """Marks Squid, before its files say something else than its worker runs with."""
        self.server.mark(self.server.in_force)

    def loaded(self) -> None:
        """Takes Squid's mark away, once its worker has what only a start reads too."""
        if not self.server.stale:
            super().loaded()
        elif _unloaded.marked(self.server.master) is not None:
            self.server.mark({name: self.server.in_force[name] for name in self.server.stale})

    def _page(self) -> tuple[str, ...]:
        """Makes sure of the memory's limit, by Squid's share of it in use.

        It is asked again for a while: a reload that was asked for just before, by a change that was interrupted, may
        come first.

        Raises:
            ApplyFailed: it has another limit than was meant, or does not say.
            PlantGone: it has ended.
        """
        wrong = ""

        def asked() -> tuple[str, ...] | None:
            nonlocal wrong
            try:
                memory = ask(CacheMemory(squid.manager_url, self.clock, patience_s=self.patience.page_s))
            except NotMeasured as error:
                wrong = f"the manager's page after the reload: {error}"
                return None
            if memory is None:
                return ("the manager's page has not answered since the reload: Squid is busy with what waited",)
            wrong = (
                f"{memory.used_bytes >> 10} KiB are {memory.used_percent:g} % of the memory cache after the reload, "
                f"which are not those of cache_mem {wanted} MiB"
            )
            return ("",) if memory.agrees(wanted << 20) else None

        squid, wanted = self.server, self.server.in_force["cache_mem"]
        notes = squid.master.awaited(self.clock, self.patience.page_s, asked)
        if notes is None:
            raise ApplyFailed(wrong)
        return tuple(note for note in notes if note)
