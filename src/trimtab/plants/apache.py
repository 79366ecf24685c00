"""Apache httpd 2.4 as a plant: prefork, worker and event, the user's own or a private one.

It is steered by one small file of trimtab's own in a directory that the configuration includes, and by graceful
reloads, which let the requests in progress finish (what is known to escape that is in `notes`). A change is read back
from the running server: the parent has opened a new generation of children, that generation keeps the limit, and the
scoreboard on the status page is as long as the limit.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

from trimtab.core import Clock, Finding, Habits, Readings, Role
from trimtab.gate.server import shared_of
from trimtab.plants import _apache_edits, _apache_limits, _apache_process, _apache_snippet, _apache_testbed
from trimtab.plants._apache_attached import Attached
from trimtab.plants._apache_change import Change
from trimtab.plants._apache_findings import findings, permitted
from trimtab.plants._apache_place import place
from trimtab.plants._apache_reload import Patience
from trimtab.plants._apache_undo import script
from trimtab.plants._own_file_plant import OwnFilePlant
from trimtab.sensors import _eq1
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.connections import Connections, Worker
from trimtab.sensors.pages import Pages
from trimtab.sensors.resources import Resources
from trimtab.sensors.server_status import ServerStatus
from trimtab.sensors.shim import Shim

HABITS = Habits(minimize="request_time_s", roles=(Role.WORKER_LIMIT, Role.KEEP_ALIVE))
"""A time that a client would recognise, and the lever that the evidence points at."""


class Apache(OwnFilePlant):
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
    metrics = _eq1.METRICS

    def __init__(
        self,
        clock: Clock,
        attached: Attached,
        snippet_directory: Path | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.clock = clock
        self.pid: int = attached.parent.pid
        self.status_url = attached.status_url
        self.listeners = attached.listeners
        self._apache = attached
        self._directory = snippet_directory
        self._patience = patience or Patience()
        self._file: Path | None = None
        super().__init__(attached, _apache_limits.knobs(attached.limits))
        status = ServerStatus(attached.status_url, clock)
        shared = shared_of(self.pid)
        self._sensors = (
            AcceptQueue(attached.listeners, clock, self.pid, status),
            Resources(self.pid, clock, attached.limits.threads_per_child),
            Connections(attached.listeners, clock, self.pid, Worker.of(attached.limits.mpm), shared),
            status,
            # Last, so that its exact terms of Eq. (1) stand in place of those seen from outside.
            *(() if shared is None else (Shim(shared, clock), Pages(shared, clock))),
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

    def derive(self, readings: Readings) -> Readings:
        """Burst length and response time, Eq. (1) of liu2003."""
        return _eq1.eq1(readings)

    def place(self) -> Path:
        """Where our file is, or is to be.

        Raises:
            UsageError: there is no place where it would take effect.
        """
        if self._file is None:
            values = {knob: self._apache.in_force[knob] for knob in self._knobs}
            self._file = place(self._apache.origin, self._apache.config, self._directory, values)
        return self._file

    def permitted(self) -> None:
        """Makes sure that Apache may be signalled.

        Raises:
            UsageError: not by us.
            PlantGone: it has ended.
        """
        permitted(self._apache)

    def composed(self, values: Mapping[str, int], before: str | None) -> str:
        """The text of our file."""
        return _apache_snippet.compose(values, before, self._start_servers(values))

    def change(self, path: Path, text: str | None) -> Change:
        """What brings a text for our file into force."""
        return Change(self._apache, self.clock, self._patience, path, text)

    def edits(self, knobs: Iterable[str]) -> Mapping[str, str]:
        """The knobs that somebody else has set outside of our file."""
        return _apache_edits.edits(self._apache.config, self._settings, knobs, self.set_to)

    def script(self, path: Path, before: str | None) -> str:
        """A shell script that puts a text back in our file's place."""
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
