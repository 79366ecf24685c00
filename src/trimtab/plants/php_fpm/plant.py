"""PHP-FPM as a plant: one pool of a running FPM, the user's own or a private one.

It is steered by one small file of trimtab's own, a second section of the pool that FPM reads last, and by reloads
(SIGUSR2). A change is read back: the master has executed itself anew, the files that it read say what was meant, the
pool has as many workers as they ask for, and its status page names the process manager. A reload ends requests
in progress unless process_control_timeout gives them time (`reload`), so without that time nothing is changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from trimtab.core import Clock, Configuration, Readings, Sensor
from trimtab.plants._change import Texts
from trimtab.plants._included_server import IncludedPlant
from trimtab.plants.php_fpm import drain, knobs, response, snippet
from trimtab.plants.php_fpm.attached import Attached
from trimtab.plants.php_fpm.change import Change
from trimtab.plants.php_fpm.process import FpmMaster
from trimtab.plants.php_fpm.reload import Patience
from trimtab.plants.php_fpm.status import PoolStatus, endpoint
from trimtab.sensors._metrics import REGROWTH, STANDSTILL, STANDSTILL_WAIT
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.held_back import HeldBack
from trimtab.sensors.resources import Resources
from trimtab.sensors.unix_queue import UnixQueue
from trimtab.sensors.written import Written


class PhpFpm(IncludedPlant):
    """One pool of a running FPM.

    Args:
        clock: for the waits of a reload.
        attached: the running FPM and the pool.
        snippet_directory: where our file shall go; None to look for one.
        patience: how long a reload may take.
        accept_lost: whether requests may be lost in a reload because process_control_timeout is 0 or short.

    Attributes:
        pool: the pool's name.
        listen: where the pool listens.
        status_page: where its status page is.
    """

    name = "php-fpm"
    _server: Attached
    metrics = (*response.METRICS, STANDSTILL, STANDSTILL_WAIT, REGROWTH)
    settings = knobs.KEYS
    reloaded_by = "USR2"
    own_sensors = (PoolStatus,)

    def __init__(
        self,
        clock: Clock,
        attached: Attached,
        snippet_directory: Path | None = None,
        patience: Patience | None = None,
        accept_lost: bool = False,
    ) -> None:
        self.pool = attached.pool
        self.listen = attached.listen
        self.status_page = attached.status_page
        self._patience = patience or Patience()
        self._accept_lost = accept_lost
        self._slowest_s = 0.0
        there = knobs.knobs(attached.loaded, attached.pool, attached.room())
        super().__init__(clock, attached, there, snippet_directory)

    @staticmethod
    def attach(
        clock: Clock,
        pid: int | None = None,
        pool: str | None = None,
        snippet_directory: Path | None = None,
        options: Iterable[str] = (),
        accept_lost: bool = False,
        undoes: bool = False,
    ) -> PhpFpm:
        """Finds a running FPM and attaches to it.

        Args:
            clock: for the waits of a reload.
            pid: its master; None when only one FPM runs.
            pool: the pool; None when it has only one.
            snippet_directory: an included directory for trimtab's own file; None to look for one.
            options: what FPM was started with beside its configuration, such as "-c", "/etc/own.ini".
            accept_lost: whether requests may be lost in a reload because process_control_timeout is 0 or short.
            undoes: whether only an undo is to follow, which waits for no idle worker.

        Raises:
            UsageError: none or several run, or it cannot be read from here; the message says what is needed.
            PlantGone: it ended.
        """
        attached = Attached(FpmMaster.find(pid), clock, pool, tuple(options), undoes)
        return PhpFpm(clock, attached, snippet_directory, None, accept_lost)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on this FPM for the user, one line each."""
        return self._server.notes()

    def new_sensors(self) -> tuple[Sensor, ...]:
        """Those of the kernel and of the pool's status page; of bytes where there is no other pool."""
        status = PoolStatus(self.status_page, self.clock, lambda: queue.length())
        queue = _queue_of(self._server, self.clock, status)
        found = queue, Resources(self.pid, self.clock), HeldBack(self._server), status
        # Which pool a worker is of only its own title says, which it can change.
        alone = len(self._server.loaded.pools()) == 1
        return (*found, Written(self.pid, self.clock, lambda: status.received_bytes)) if alone else found

    def derive(self, readings: Readings) -> Readings:
        """Waits and response time, by Little's law, and what a change costs the pool."""
        regrowth_s = knobs.regrowth_s(self._server.in_force, readings.get("busy_workers", 0.0))
        found = response.derived(readings)
        self._slowest_s = _slowest_s({**readings, **found})
        return {**found, **self.stood_still({**readings, **found}), REGROWTH.name: regrowth_s}

    def expected_stop(self) -> tuple[float, float, float]:
        """The master executes itself anew once all workers have ended, one after the other."""
        return self._server.reading_s if self._server.reads_long else 0.05, 0.005, 0.02

    def held_up_s(self, readings: Readings) -> float:
        """The slowest request under way, at most process_control_timeout; those of other pools are not seen.

        Where connections wait nothing is added: the time of a request is what the overload makes it, and most of the
        workers are ended before, while the others serve.
        """
        waits = readings.get("accept_queue_length", 0.0) >= 1
        return 0.0 if waits else min(float(self._server.timeout_s), _slowest_s(readings))

    def ended_at_once(self, workers: float, busy: float) -> float:
        """Most of a large pool is ended before, while the others serve."""
        return drain.left(workers, busy) if self._server.drainable else workers

    def objection(self, configuration: Configuration) -> str:
        """Why FPM would refuse this configuration; empty when it would not."""
        return knobs.objection(configuration)

    def find_location(self, directory: Path | None) -> Path:
        """Path of our file.

        Raises:
            UsageError: there is no place where it would take effect.
        """
        fpm = self._server
        return snippet.location(fpm.program, fpm.read(), fpm.pool, fpm.in_force, directory)

    def check_reload(self, accept_lost: bool) -> None:
        """Makes sure that FPM may be reloaded, that no request is lost by it, and that our file can be written."""
        # Also where our own file was not loaded yet, as an earlier run was killed; once it was put back it is to be.
        self._server.permitted(accept_lost, self.location() if self.not_loaded() else None)
        super().check_reload(accept_lost)
        self._server.learn_start()

    def permitted(self, accept_lost: bool) -> None:
        """Makes sure that FPM may be reloaded, and that no request is lost by it."""
        self._server.permitted(accept_lost, self.location())

    def check_moment(self, values: Mapping[str, int]) -> None:
        """Makes sure that a reload brings no edit into force, and that no request holds it up for long."""
        super().check_moment(values)
        self._server.require_no_long_request(self._slowest_s)

    def text(self, values: Mapping[str, int], before: str | None) -> str:
        """The text of our file."""
        return snippet.compose(self.pool, values, before)

    def change(self, texts: Texts) -> Change:
        """The change that brings a text for our file into force."""
        return Change(self._server, self.clock, texts, self._patience)


def _slowest_s(readings: Readings) -> float:
    """How long the slowest of the requests under way is expected to take; 0 where that is not known."""
    if "service_time_s" not in readings or "busy_workers" not in readings:
        return 0.0
    # The greatest of n exponential times of mean s is s (1 + 1/2 + ... + 1/n) in the mean, at most s (1 + ln n);
    # what is left of such a time is distributed as all of it (Feller, An Introduction to Probability, II, I.6).
    return readings["service_time_s"] * (1 + math.log(max(1.0, readings["busy_workers"])))


def _queue_of(fpm: Attached, clock: Clock, visitor: PoolStatus) -> UnixQueue | AcceptQueue:
    """The sensor of the pool's listen queue."""
    _, address = endpoint(fpm.listen)
    if isinstance(address, str):
        return UnixQueue(address, clock, fpm.master.pid, visitor.ours)
    return AcceptQueue([address], clock, fpm.master.pid, visitor)
