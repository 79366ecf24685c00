"""One change of a pool: its files' texts, its reload, and how it is verified."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from trimtab.errors import ApplyFailed, NotMeasured
from trimtab.plants._included_server import IncludedChange
from trimtab.plants._standstill import Standstill
from trimtab.plants.php_fpm import knobs, status
from trimtab.plants.php_fpm.attached import Attached
from trimtab.plants.php_fpm.drain import CROWD
from trimtab.plants.php_fpm.reload import Patience, reload
from trimtab.sensors.accept_queue import Queues
from trimtab.sensors.unix_queue import UnixQueue


@dataclass(frozen=True)
class Change(IncludedChange[Attached]):
    """A new text for our file.

    Args:
        patience: how long a reload may take.
    """

    patience: Patience

    def reloaded(self, expected: Mapping[str, int]) -> tuple[str, ...]:
        """Reloads, and makes sure that the intended values are in force.

        Raises:
            ApplyFailed: it is not, or FPM did not reload in time.
            PlantGone: it has ended.
        """
        fpm = self.server
        least = knobs.at_start(fpm.read())[fpm.pool]
        busy = self._busy()
        patience = replace(self.patience, reload_s=self.patience.reload_s + 2 * fpm.reading_s)
        standstill = Standstill(self.clock, self._queue)
        with standstill.counted(fpm):
            running = reload(
                fpm.master,
                fpm.pool,
                busy,
                least,
                fpm.timeout_s,
                self.clock,
                patience,
                standstill,
            )
        fpm.standstill = standstill
        fpm.reloaded()
        self.require(expected)
        most = fpm.in_force["max_children"]
        if running > most:
            raise ApplyFailed(f"{running} workers of pool {fpm.pool} run after the reload, more than {most}")
        return self._page()

    def _queue(self) -> UnixQueue | Queues:
        """The pool's listen queue.

        Raises:
            NotMeasured: it cannot be seen.
        """
        _, address = status.endpoint(self.server.listen)
        pid = self.server.master.pid
        return UnixQueue(address, self.clock, pid) if isinstance(address, str) else Queues([address], pid)

    def _busy(self) -> int:
        """Busy workers of a large pool by its status page; all that there are where none is to be ended before."""
        workers = len(self.server.master.workers(self.server.pool))
        with contextlib.suppress(NotMeasured):
            if workers > CROWD and self.server.drainable:
                page = status.ask(self.server.status_page, self.clock, self.patience.page_s)
                return workers if page is None else page.numbers["active processes"]
        return workers

    def _page(self) -> tuple[str, ...]:
        """Makes sure by the status page that the new generation has the intended process manager.

        Raises:
            ApplyFailed: otherwise than was meant.
        """
        try:
            page = status.ask(self.server.status_page, self.clock, self.patience.page_s)
        except NotMeasured as error:
            raise ApplyFailed(f"the status page after the reload: {error}") from None
        if page is None:
            return ("the status page has not answered since the reload: the pool is busy with what waited",)
        wanted = knobs.PM[self.server.in_force["pm"]]
        if page.pm != wanted:
            raise ApplyFailed(f"pm is {page.pm} after the reload, not {wanted}")
        return ()
