"""PHP-FPM as a plant: one pool of a running FPM, the user's own or a private one.

It is steered by one small file of trimtab's own, a second section of the pool that FPM reads last, and by reloads
(SIGUSR2). A change is read back: the master has executed itself anew, the files that it read say what was meant, the
pool has as many workers as they ask for, and its status page names the process manager. A reload ends requests
in progress unless process_control_timeout gives them time (`reload`), so without that time nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from trimtab.core import Applied, Clock, Configuration, Knob, Plant, Prepared, Readings, Sensor
from trimtab.errors import ApplyRefused, OperatorEdit, UsageError
from trimtab.plants import _own_file
from trimtab.plants.php_fpm import knobs, process, snippet
from trimtab.plants.php_fpm.attached import Attached
from trimtab.plants.php_fpm.change import Change
from trimtab.plants.php_fpm.findings import notes, permitted, queue_of
from trimtab.plants.php_fpm.reload import Patience
from trimtab.plants.php_fpm.response import derived
from trimtab.plants.php_fpm.status import PoolStatus
from trimtab.plants.php_fpm.undo import script
from trimtab.sensors.resources import Resources
from trimtab.trust import printable


class PhpFpm(Plant):
    """One pool of a running FPM.

    Args:
        clock: for the waits of a reload.
        attached: the running FPM and the pool.
        snippet_directory: where our file shall go; None to look for a place.
        patience: how long a reload may take.
        accept_lost: whether requests may be lost in a reload for want of process_control_timeout.

    Attributes:
        clock: as given.
        pid: process id of the master.
        pool: the pool's name.
        listen: where the pool listens.
    """

    name = "php-fpm"

    def __init__(
        self,
        clock: Clock,
        attached: Attached,
        snippet_directory: Path | None = None,
        patience: Patience | None = None,
        accept_lost: bool = False,
    ) -> None:
        self.clock = clock
        self.pid = attached.master.pid
        self.pool = attached.pool
        self.listen = attached.listen
        self._fpm = attached
        self._directory = snippet_directory
        self._patience = patience or Patience()
        self._accept_lost = accept_lost
        self._knobs = {knob.name: knob for knob in knobs.knobs(attached.loaded, self.pool)}
        self._file: Path | None = None
        self._original: str | None = None
        self._written: str | None = None
        self._set: dict[str, int] = {}
        self._down: dict[str, str] = {}
        self._told: set[str] = set()
        self._first = attached.loaded
        status = PoolStatus(attached.place, clock, lambda: queue.length())
        queue = queue_of(attached, clock, status)
        self._sensors: tuple[Sensor, ...] = (queue, Resources(self.pid, clock), status)

    @staticmethod
    def attach(
        clock: Clock,
        pid: int | None = None,
        pool: str | None = None,
        snippet_directory: Path | None = None,
        options: Iterable[str] = (),
        accept_lost: bool = False,
    ) -> PhpFpm:
        """Finds a running FPM and reads what it is.

        Args:
            clock: for the waits of a reload.
            pid: its master; None when only one FPM runs.
            pool: the pool; None when it has only one.
            snippet_directory: an included directory for trimtab's own file; None to look for one.
            options: what FPM was started with beside its configuration, such as "-c", "/etc/own.ini".
            accept_lost: whether requests may be lost in a reload for want of process_control_timeout.

        Raises:
            UsageError: none or several run, or it cannot be read from here; the message says what is needed.
            PlantGone: it ended.
        """
        attached = Attached(process.find(pid), clock, pool, tuple(options))
        return PhpFpm(clock, attached, snippet_directory, None, accept_lost)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of this FPM, one line each."""
        return notes(self._fpm)

    def knobs(self) -> tuple[Knob, ...]:
        """The knobs of the pool, max_children first."""
        return tuple(self._knobs.values())

    def sensors(self) -> tuple[Sensor, ...]:
        """The listen queue, the processes, and the pool's status page."""
        return self._sensors

    def derive(self, readings: Readings) -> Readings:
        """Waits and response time, by Little's law."""
        return derived(readings)

    def objection(self, configuration: Configuration) -> str:
        """Why FPM would refuse this configuration; empty when it would not."""
        return knobs.objection(configuration)

    def configuration(self) -> Configuration:
        """What is in force now.

        Raises:
            OperatorEdit: somebody else has set a knob of ours; said once for each.
            PlantGone: FPM has ended.
        """
        self._fpm.refresh()
        self._look_for_edits(self._set)
        for knob, message in self._down.items():
            if knob in self._set and knob not in self._told:
                self._told.add(knob)
                raise OperatorEdit(knob, message)
        return dict(self._fpm.in_force)

    def check_permissions(self) -> None:
        """Makes sure, before anything is changed, that a change could be made and that no request is lost by it.

        Raises:
            UsageError: it could not; the message says what is needed.
            PlantGone: FPM has ended.
        """
        permitted(self._fpm, self._accept_lost)
        _own_file.writable(self._place(), self._written)

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Checks a change; nothing is touched.

        Raises:
            ApplyRefused: not valid, against a rule among the knobs, or not permitted.
            OperatorEdit: somebody else has set one of the knobs.
            PlantGone: FPM has ended.
        """
        wanted = self.validated(changes)
        try:
            self._fpm.refresh()
            self._look_for_edits({*wanted, *self._set})
            for knob in wanted:
                if knob in self._down:
                    self._told.add(knob)
                    raise OperatorEdit(knob, self._down[knob])
            if not self._in_force(wanted):
                self.check_permissions()
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        if why := knobs.objection({**self._fpm.in_force, **wanted}):
            raise ApplyRefused(why)
        return Prepared(wanted, {name: self._fpm.in_force[name] for name in wanted})

    def commit(self, prepared: Prepared) -> Applied:
        """Brings the changes into force by one reload: all of them or none.

        Raises:
            ApplyRefused: FPM does not accept them; nothing changed.
            ApplyFailed: they did not take; what was before is restored.
            OperatorEdit: somebody else has set a knob of ours.
            PlantGone: FPM has ended.
        """
        wanted = prepared.changes
        if self._in_force(wanted):
            return Applied(self.configuration(), 0.0, ("already in force; not reloaded",))
        try:
            path = self._place()
            before = _own_file.read(path) if self._written is None else self._original
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        values = {knob: value for knob, value in {**self._set, **wanted}.items() if knob not in self._down}
        text = snippet.compose(self.pool, values, before)
        started_s = self.clock.now_s()
        said = self._change(path, text).bring(values)
        self._original, self._written, self._set = before, text, values
        return Applied(self.configuration(), self.clock.now_s() - started_s, said)

    def restore(self) -> None:
        """Puts back what was in force before the first `apply`; may be called twice.

        Raises:
            OperatorEdit: our file was edited by somebody else, and was left as it is.
            ApplyFailed: the file is as it was, but the reload to it did not take.
        """
        if self._written is None:
            return
        path = self._place()
        if edit := self._edit(path, self._written, self._original):
            raise OperatorEdit(min(self._set), edit)
        self._change(path, self._original).undo()
        self._written, self._original, self._set = None, None, {}

    def leftover(self) -> str:
        """What an earlier trimtab left behind, in one line; empty when nothing."""
        try:
            path = self._place()
            found = _own_file.leftover(_own_file.read(path) or "")
        except UsageError:
            return ""
        return f"{path} is left from an earlier run" if found and self._written is None else ""

    def undo_leftover(self) -> None:
        """Takes away what earlier runs left behind, back to what was there before the first of them.

        Raises:
            UsageError: it may not be done from here, or requests would be lost; the message says what is needed.
            ApplyFailed: the file is as it was, but the reload to it did not take.
        """
        path = self._place()
        text = _own_file.read(path)
        before = _own_file.before_all(text)
        if before != text and self._written is None:
            permitted(self._fpm, self._accept_lost, path)
            self._change(path, before).undo()

    def close(self) -> None:
        """Gives back the sensors, without changing the server; may be called twice."""
        for sensor in self._sensors:
            sensor.close()

    def undo_script(self) -> str:
        """A POSIX shell script that undoes what `apply`, or an earlier run, has done, for a user without trimtab."""
        try:
            path = self._place()
            now = _own_file.read(path)
        except UsageError as error:
            return f"#!/bin/sh\n# There is nothing that trimtab could undo:\n# {printable(str(error))}\nexit 0\n"
        before = _own_file.before_all(now) if self._written is None else self._original
        return script(self._fpm.master, self._fpm.program, path, before)

    def _in_force(self, wanted: Mapping[str, int]) -> bool:
        return all(self._fpm.in_force[name] == value for name, value in wanted.items())

    def _place(self) -> Path:
        """Where our file is, or is to be."""
        if self._file is None:
            fpm = self._fpm
            self._file = snippet.place(fpm.program, fpm.read(), fpm.pool, fpm.in_force, self._directory)
        return self._file

    def _change(self, path: Path, text: str | None) -> Change:
        return Change(self._fpm, self.clock, self._patience, path, text)

    def _edit(self, path: Path, *ours: str | None) -> str:
        """What somebody else has done to our file; empty when it holds one of our texts."""
        try:
            text = _own_file.read(path)
        except UsageError as error:
            return f"{error}; trimtab leaves it alone now"
        return "" if text in ours else _own_file.taken_over(path, text)

    def _look_for_edits(self, names: Iterable[str]) -> None:
        """Stands down the knobs that somebody else has set."""
        if self._written is not None and (edit := self._edit(self._place(), self._written)):
            self._down |= dict.fromkeys(self._knobs, edit)
            return
        if self._fpm.loaded is not self._first or self._fpm.loaded.changed():
            now = self._fpm.read()
            self._down |= snippet.edits(self._first, now, self.pool, names, self._file)
