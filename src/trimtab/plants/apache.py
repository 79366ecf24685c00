"""Apache httpd 2.4 as a plant: prefork, worker and event, the user's own or a private one.

It is steered by one small file of trimtab's own in a directory that the configuration includes, and by graceful
reloads, which let the requests in progress finish (what is known to escape that is in `notes`). A change is read back
from the running server: the parent has opened a new generation of children, that generation keeps the limit, and the
scoreboard on the status page is as long as the limit.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab.core import Applied, Clock, Finding, Habits, Knob, Plant, Prepared, Readings, Role, Sensor
from trimtab.core.window import Configuration
from trimtab.errors import ApplyRefused, OperatorEdit, UsageError
from trimtab.gate.server import shared_of
from trimtab.plants import _apache_edits, _apache_limits, _apache_process, _apache_snippet, _apache_testbed, _own_file
from trimtab.plants._apache_attached import Attached
from trimtab.plants._apache_change import Change
from trimtab.plants._apache_findings import findings, permitted
from trimtab.plants._apache_place import place
from trimtab.plants._apache_reload import Patience
from trimtab.plants._apache_undo import script
from trimtab.sensors._eq1 import eq1
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.resources import Resources
from trimtab.sensors.server_status import ServerStatus
from trimtab.sensors.shim import Shim
from trimtab.trust import printable

HABITS = Habits(minimize="request_time_s", roles=(Role.WORKER_LIMIT, Role.KEEP_ALIVE))
"""A time that a client would recognise, and the lever that the evidence points at."""


@dataclass(frozen=True)
class _Standing:
    """Where we stood before a change: the operator's text, ours with its values, and what the file really held."""

    original: str | None
    written: str | None
    values: dict[str, int]
    found: str | None


@dataclass(frozen=True)
class _Texts:
    """What our file is to hold, the values it sets, and where we stood before."""

    path: Path
    text: str
    values: dict[str, int]
    standing: _Standing


class Apache(Plant):
    """A running Apache.

    Args:
        clock: for the waits of a reload.
        attached: the running Apache.
        snippet_directory: where our file shall go; None to look for a place.
        patience: how long a reload may take.

    Attributes:
        clock: as given.
        pid: process id of the parent.
        status_url: its status page.
        listeners: addresses and ports on which it listens.
    """

    name = "apache"

    def __init__(
        self,
        clock: Clock,
        attached: Attached,
        snippet_directory: Path | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.clock = clock
        self.pid = attached.parent.pid
        self.status_url = attached.status_url
        self.listeners = attached.listeners
        self._apache = attached
        self._directory = snippet_directory
        self._patience = patience or Patience()
        self._knobs = {knob.name: knob for knob in _apache_limits.knobs(attached.limits)}
        self._file: Path | None = None
        self._original: str | None = None
        self._written: str | None = None
        self._set: dict[str, int] = {}
        self._down: dict[str, str] = {}
        self._told: set[str] = set()
        status = ServerStatus(attached.status_url, clock)
        shared = shared_of(self.pid)
        self._sensors: tuple[Sensor, ...] = (
            AcceptQueue(attached.listeners, clock, self.pid, status),
            Resources(self.pid, clock, attached.limits.threads_per_child),
            status,
            # Last, so that its exact terms of Eq. (1) stand in place of those seen from outside.
            *(() if shared is None else (Shim(shared, clock),)),
        )
        self._settings = _apache_edits.settings(attached.config)

    @staticmethod
    def attach(
        clock: Clock,
        pid: int | None = None,
        status_url: str | None = None,
        snippet_directory: Path | str | None = None,
    ) -> Apache:
        """Finds a running Apache and reads what it is.

        Args:
            clock: for the waits of a reload.
            pid: its parent process; None when only one Apache runs.
            status_url: its status page; None to look for it.
            snippet_directory: an included directory for trimtab's own file; None to look for one.

        Raises:
            UsageError: none or several run, or it cannot be read from here; the message says what is needed.
        """
        if status_url is not None:
            ServerStatus(status_url, clock)  # refuses a page outside this machine before it is asked
        chosen = None if snippet_directory is None else Path(snippet_directory).absolute()
        return Apache(clock, Attached(_apache_process.find(pid), status_url), chosen)

    @property
    def server(self) -> str:
        """What it is, such as "Apache 2.4.66 prefork"."""
        return f"Apache {'.'.join(map(str, self._apache.origin.version))} {self._apache.limits.mpm}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of this Apache, one line each."""
        return tuple(self._apache.notes)

    def knobs(self) -> tuple[Knob, ...]:
        """The knobs that can be moved here, with the domains that hold for this installation."""
        return tuple(self._knobs.values())

    def sensors(self) -> tuple[Sensor, ...]:
        """The accept queues, the processes, the status page and, under `trimtab run`, the shim."""
        return self._sensors

    def derive(self, readings: Readings) -> Readings:
        """Burst length and response time, Eq. (1) of liu2003."""
        return eq1(readings)

    def configuration(self) -> Configuration:
        """What is in force now.

        Raises:
            OperatorEdit: somebody else has set a knob of ours; said once for each.
            PlantGone: Apache has ended.
        """
        self._apache.refresh()
        self._look_for_edits(self._set)
        for knob, message in self._down.items():
            if knob in self._set and knob not in self._told:
                self._told.add(knob)
                raise OperatorEdit(knob, message)
        return {knob: self._apache.in_force[knob] for knob in self._knobs}

    def check_permissions(self) -> None:
        """Makes sure, before anything is changed, that a change could be made.

        Raises:
            UsageError: it could not; the message says what is needed.
            PlantGone: Apache has ended.
        """
        permitted(self._apache)
        _own_file.writable(self._place(), self._written)

    def prepare(self, changes: Mapping[str, int]) -> Prepared:
        """Checks a change, and writes what our file is to hold; nothing is touched.

        Raises:
            ApplyRefused: not valid.
            OperatorEdit: somebody else has set one of the knobs.
            PlantGone: Apache has ended.
        """
        wanted = self.validated(changes)
        try:
            self._apache.refresh()
            self._look_for_edits({*wanted, *self._set})
            for knob in wanted:
                if knob in self._down:
                    self._told.add(knob)
                    raise OperatorEdit(knob, self._down[knob])
            now = {knob: self._apache.in_force[knob] for knob in wanted}
            if now == wanted:
                return Prepared(wanted, now)
            self.check_permissions()
            path = self._place()
            before = _own_file.read(path) if self._written is None else self._original
        except UsageError as error:
            raise ApplyRefused(str(error)) from None
        values = {knob: value for knob, value in {**self._set, **wanted}.items() if knob not in self._down}
        text = _apache_snippet.compose(values, before, self._start_servers(values))
        return Prepared(
            wanted, now, _Texts(path, text, values, _Standing(self._original, self._written, self._set, before))
        )

    def commit(self, prepared: Prepared) -> Applied:
        """Brings a prepared change into force by one graceful reload.

        Raises:
            ApplyRefused: Apache does not accept it; nothing changed.
            ApplyFailed: did not take; what was before is restored.
            PlantGone: Apache has ended.
        """
        texts: _Texts | None = prepared.detail
        if texts is None:
            return Applied(self.configuration(), 0.0, ("already in force; not reloaded",))
        started_s = self.clock.now_s()
        notes = self._change(texts.path, texts.text).bring(texts.values)
        self._original, self._written, self._set = texts.standing.found, texts.text, texts.values
        return Applied(self.configuration(), self.clock.now_s() - started_s, notes)

    def rollback(self, prepared: Prepared) -> None:
        """Takes back a change that was committed, by one more reload; one that was only prepared touched nothing.

        Raises:
            ApplyFailed: the file is as it was, but the reload to it did not take.
        """
        texts: _Texts | None = prepared.detail
        if texts is None or self._written != texts.text:
            return
        before = texts.standing
        self._change(texts.path, before.found if before.written is None else before.written).undo()
        self._original, self._written, self._set = before.original, before.written, before.values

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
            ApplyFailed: the file is as it was, but the reload to it did not take.
        """
        path = self._place()
        text = _own_file.read(path)
        before = _own_file.before_all(text)
        if before != text and self._written is None:
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
        return script(self._apache.parent, self._apache.program, path, before)

    def _start_servers(self, values: Mapping[str, int]) -> int:
        """Processes that the reload shall start at once: as many as run now, if the limit allows them.

        Apache starts StartServers processes after a reload (5 on a shipped prefork), then for ten seconds one each
        (server/mpm/prefork/prefork.c, hold_off_on_exponential_spawning): a loaded server would be short of workers
        after every change.
        """
        threads = self._apache.limits.threads_per_child
        running = len(_apache_process.generations(self._apache.parent, frozenset()).workers)
        allowed = self._apache.in_force["max_request_workers"] // threads
        wanted = values.get("max_request_workers", allowed * threads) // threads
        return max(1, min(running, wanted))

    def _place(self) -> Path:
        """Where our file is, or is to be."""
        if self._file is None:
            values = {knob: self._apache.in_force[knob] for knob in self._knobs}
            self._file = place(self._apache.origin, self._apache.config, self._directory, values)
        return self._file

    def _change(self, path: Path, text: str | None) -> Change:
        return Change(self._apache, self.clock, self._patience, path, text)

    def _edit(self, path: Path, *ours: str | None) -> str:
        """What somebody else has done to our file; empty when it holds one of our texts."""
        try:
            text = _own_file.read(path)
        except UsageError as error:
            return f"{error}; trimtab leaves it alone now"
        return "" if text in ours else _own_file.taken_over(path, text)

    def _look_for_edits(self, knobs: Iterable[str]) -> None:
        """Stands down the knobs that somebody else has set."""
        if self._written is not None and (edit := self._edit(self._place(), self._written)):
            self._down |= dict.fromkeys(self._knobs, edit)
            return
        self._down |= _apache_edits.edits(self._apache.config, self._settings, knobs, self._set)


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds what the command line can say of an Apache."""
    parser.add_argument("--pid", type=int, help="process id of Apache's parent process, when several run")
    parser.add_argument("--status-url", metavar="URL", help="its status page (default: looked for)")
    parser.add_argument(
        "--snippet-directory",
        type=Path,
        metavar="DIR",
        help="included directory for trimtab's own file (default: the last that its configuration includes)",
    )


def from_arguments(args: argparse.Namespace, clock: Clock) -> Apache:
    """The Apache that the command line names.

    Raises:
        UsageError: none or several run, or it cannot be read from here; the message says what is needed.
    """
    return Apache.attach(clock, args.pid, args.status_url, args.snippet_directory)


def probe() -> tuple[Finding, ...]:
    """What can be done with each Apache that runs here."""
    running = _apache_process.parents()
    if not running:
        return (Finding("apache", False, "none runs here", "start Apache (apache2 or httpd)"),)
    return tuple(finding for parent in running for finding in findings(parent))


PLANT = Apache
testbed = _apache_testbed.testbed
