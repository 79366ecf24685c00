"""The keep-alive time of an unmodified server under `trimtab run`, moved live.

A change is one word in the mapped file that every process of the server reads: no reload, no system call, in force
for the next idle connection, and within a second for a worker that waits already. What is set stays when trimtab
ends; `trimtab keep-alive set server` gives control back.

While `trimtab run` itself keeps a controller going (`--keep-alive auto`), nobody else moves the time: two controllers
would take each other's moves for the operator's edits.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from trimtab.core import Applied, Clock, Configuration, Drawing, Knob, Plant, Prepared, Readings, Sensor
from trimtab.errors import ApplyFailed, ApplyRefused, OperatorEdit, PlantGone, UsageError
from trimtab.gate.keep_alive import DOMAIN, OF_SERVER, InCharge, KeepAliveTime, Setting
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.server import processes_of
from trimtab.plants.keep_alive.idle_periods import IdlePeriods
from trimtab.plants.keep_alive.knobs import KEEP_ALIVE, KNOB, USUAL_MS
from trimtab.processes import Process
from trimtab.sensors import _eq1
from trimtab.sensors._shared_file import SETTINGS, SETTINGS_AT
from trimtab.sensors.keep_alive import KeepAlive as KeepAliveSensor
from trimtab.sensors.shim import Shim


class KeepAlive(Plant):
    """The keep-alive time of one run.

    Args:
        clock: for the windows.
        run_dir: the run directory.
        appointed: True for the controller that `trimtab run` keeps going.

    Attributes:
        clock: as given.
        run_dir: as given.
        time: the time in force.

    Raises:
        UsageError: its mapped file cannot be used from here.
    """

    name = "keep-alive"
    metrics = _eq1.METRICS

    def __init__(self, clock: Clock, run_dir: RunDirectory, appointed: bool = False) -> None:
        self.clock = clock
        self.run_dir = run_dir
        self.time = KeepAliveTime(run_dir.shared)
        self._appointed = appointed
        self._original: Setting | None = None
        self._set: Setting | None = None
        self._down = False
        self._server = _server(run_dir)
        self.pid = None if self._server is None else self._server.pid

    def knobs(self) -> tuple[Knob, ...]:
        """The keep-alive time."""
        return (KNOB,)

    def new_sensors(self) -> tuple[Sensor, ...]:
        """Those of the mapped file."""
        return KeepAliveSensor(self.run_dir.shared, self.clock), Shim(self.run_dir.shared, self.clock)

    def drawing(self) -> Drawing:
        """The idle periods of the last windows, with the time in force among them."""
        return IdlePeriods(self).lines

    def derive(self, readings: Readings) -> Readings:
        """Burst length and response time, Eq. (1) of liu2003."""
        return _eq1.eq1(readings)

    def configuration(self) -> Configuration:
        """The time in force; of the server's own where that was not seen, the usual one.

        Raises:
            OperatorEdit: somebody else has set the time or taken charge; said once.
            PlantGone: the server has ended.
        """
        self._require_present()
        setting = self.time.setting()
        if self._set is not None and not self._down and setting != self._set:
            raise self._edited(setting)
        return {KEEP_ALIVE: self._ms(setting)}

    def own_ms(self) -> int:
        """The server's own time in ms; the usual one where it was not seen."""
        return DOMAIN.clip(self.time.server_ms() or USUAL_MS)

    def check_permissions(self) -> None:
        """Makes sure, before anything is changed, that the time may be moved from here.

        Raises:
            UsageError: `trimtab run` keeps a controller going that moves it.
        """
        if self.time.setting().in_charge is InCharge.AUTO and not self._appointed:
            raise UsageError(
                f"the keep-alive time of {self.run_dir.name!r} is learned already: "
                f"take charge first with {self._taking}"
            )

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Checks a time.

        Raises:
            ApplyRefused: not valid, or somebody else is in charge.
            OperatorEdit: somebody else has set the time.
            PlantGone: the server has ended.
        """
        wanted = self.validated(changes)
        self._require_present()
        before = self._ours()
        return Prepared(wanted, {name: self._ms(before) for name in wanted})

    def commit(self, prepared: Prepared) -> Applied:
        """Brings a prepared time into force, unless somebody has set it or taken charge since.

        Raises:
            ApplyRefused: somebody else has taken charge; nothing changed.
            ApplyFailed: did not take; what was before is restored.
            OperatorEdit: somebody else has set the time; nothing changed.
        """
        wanted, began_s = prepared.changes, self.clock.now_s()
        with self.time.alone():
            before = self._ours()
            if not wanted:
                return Applied({KEEP_ALIVE: self._ms(before)})
            target = Setting(InCharge.AUTO if self._appointed else InCharge.FIXED, wanted[KEEP_ALIVE])
            read = self.time.write(target)
            if read != target:
                self.time.write(before)
                raise ApplyFailed(f"{KEEP_ALIVE} is {read}, not {target}; what was before is restored")
        self._original = self._original or before
        self._set = target
        return Applied({KEEP_ALIVE: self._ms(target)}, self.clock.now_s() - began_s, self._notes(before))

    def restore(self) -> None:
        """Puts back what was in force before the first `apply`; may be called twice."""
        with self.time.alone():
            if self._set is not None and self._original is not None and self.time.setting() == self._set:
                self.time.write(self._original)
        self._set = None

    def leftover(self) -> str:
        """Setting left by an earlier run, in one line; empty for none."""
        now = self.time.setting()
        fixed = now.in_charge is InCharge.FIXED and self._set is None
        return f"the keep-alive time is {now}; {self._taking} gives it back" if fixed else ""

    @property
    def _taking(self) -> str:
        """What takes the time from whoever is in charge of it."""
        return f"'trimtab keep-alive set server --name {self.run_dir.name}'"

    def undo_leftover(self) -> None:
        """Gives the time back to the server."""
        with self.time.alone():
            self.time.write(OF_SERVER)
        self._set = self._original = None

    def close(self) -> None:
        """Gives back the sensors and the mapping, without changing the server; may be called twice."""
        super().close()
        self.time.close()

    def undo_script(self) -> str:
        """A POSIX shell script that gives the time back to the server, for a user without trimtab."""
        shared = shlex.quote(os.fspath(self.run_dir.shared))
        where = f"bs=8 seek={SETTINGS_AT // 8} count={SETTINGS.size // 8}"
        return f"""#!/bin/sh
# Gives the keep-alive time back to the server. A server that has been started anew knows nothing of it any more.
shared={shared}
[ -f "$shared" ] || {{ echo "no server runs with $shared: there is nothing to undo"; exit 0; }}
dd if=/dev/zero of="$shared" {where} conv=notrunc 2>/dev/null && echo "undone"
"""

    def _ours(self) -> Setting:
        """The setting in force, if it may be moved from here.

        Raises:
            ApplyRefused: somebody else has taken charge.
            OperatorEdit: somebody else has set the time.
        """
        now = self.time.setting()
        if self._down or now != (self._set or now):
            raise self._edited(now)
        if now.in_charge is InCharge.AUTO and not self._appointed:
            raise ApplyRefused("the controller of 'trimtab run' has taken charge of the keep-alive time")
        if self._appointed and now.in_charge is not InCharge.AUTO:
            raise ApplyRefused(f"the keep-alive time is no longer learned: it is {now}")
        return now

    def _ms(self, setting: Setting) -> int:
        """The time in force in ms."""
        return setting.time_ms or self.own_ms()

    def _notes(self, before: Setting) -> tuple[str, ...]:
        if before.time_ms is not None or self.time.server_ms() is not None:
            return ()
        return (f"the server's own time was not seen; {USUAL_MS} ms were taken for it",)

    def _require_present(self) -> None:
        """Makes sure that there is still a server.

        Raises:
            PlantGone: there is none.
        """
        if not self.time.present():
            raise PlantGone(f"the run {self.run_dir.name!r} has ended")
        if self._server is not None and not self._server.alive():
            # Its first process may have gone to the background.
            self._server = _server(self.run_dir)
            if self._server is None:
                raise PlantGone(f"the server of {self.run_dir.name!r} has ended")

    def _edited(self, now: Setting) -> OperatorEdit:
        """Stands the knob down."""
        self._down = True
        return OperatorEdit(KEEP_ALIVE, f"the keep-alive time is {now}, where trimtab had set {self._set}")


def _server(run_dir: RunDirectory) -> Process | None:
    """The first process of the server; None when it cannot be found."""
    return next(iter(processes_of(run_dir)), None)
