"""One change of a Squid: what its files must say, its reload, and how it is verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.errors import ApplyFailed, ApplyRefused, NotMeasured
from trimtab.plants import _change
from trimtab.plants.squid import knobs
from trimtab.plants.squid.attached import Attached
from trimtab.plants.squid.manager import CacheMemory
from trimtab.plants.squid.reload import Patience, reload
from trimtab.sensors._polled_page import ask


@dataclass(frozen=True)
class Change(_change.Change[Attached]):
    """A new text for our file.

    Args:
        patience: how long a reload may take.
    """

    patience: Patience

    def test(self, expected: Mapping[str, int]) -> None:
        """Makes sure that Squid would accept what is on disk, and that it is what was meant.

        Raises:
            ApplyRefused: it would not, or it is not.
            UsageError: it cannot be asked.
            PlantGone: it has ended.
        """
        super().test(expected)
        found = knobs.values(self.server.read())
        for name, value in expected.items():
            if found[name] != value:
                raise ApplyRefused(f"{name} would be {found[name]}, not {value}")

    def reloaded(self, expected: Mapping[str, int]) -> tuple[str, ...]:
        """Reloads, and makes sure that what is in force is what was meant.

        Raises:
            ApplyFailed: it is not, or Squid did not reload in time.
            PlantGone: it has ended.
        """
        notes = reload(self.server.master, self.clock, self.patience)
        self.server.reloaded()
        self.require(expected)
        return (*notes, *self._page())

    def _page(self) -> tuple[str, ...]:
        """Has Squid say what share of its memory is used, from which its limit follows.

        Raises:
            ApplyFailed: it has another limit than was meant.
        """
        squid = self.server
        try:
            memory = ask(CacheMemory(squid.manager_url, self.clock, patience_s=self.patience.page_s))
        except NotMeasured as error:
            raise ApplyFailed(f"the manager's page after the reload: {error}") from None
        if memory is None:
            return ("the manager's page has not answered since the reload: Squid is busy with what waited",)
        wanted = squid.in_force["cache_mem"]
        if not memory.agrees(wanted << 20):
            raise ApplyFailed(
                f"{memory.used_bytes >> 10} KiB are {memory.used_percent:g} % of the memory cache after the reload, "
                f"which are not those of cache_mem {wanted} MiB"
            )
        return ()
